"""Entries as they are shown: with their state at a place, in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.hold import FamilyMembers, Place, State, state_of
from rocwright.gputest.skips.lint import tests_of
from rocwright.model.skips import SkipEntry, SkipWhere


class Listed(msgspec.Struct, frozen=True):
    """One entry, whether it holds, where in words, and the tests that it matches in a list."""

    entry: SkipEntry
    state: State
    where: str
    matched: tuple[str, ...] = ()


def list_entries(
    entries: Sequence[SkipEntry],
    families: FamilyMembers,
    today: date,
    place: Place,
    collected: Collected | None = None,
) -> tuple[Listed, ...]:
    """Every entry, in order."""
    hits = tests_of(entries, collected) if collected is not None else {}
    return tuple(
        Listed(
            entry,
            state_of(entry, place, families, today),
            in_words(entry.where),
            tuple(dict.fromkeys(test for tests in hits.get(entry.id, {}).values() for test in tests)),
        )
        for entry in entries
    )


def in_words(where: SkipWhere) -> str:
    """`gfx94* linux torch>=2.9`; empty for everywhere."""
    versions = (("torch", where.torch), ("rocm", where.rocm), ("python", where.python))
    return " ".join(
        [
            *where.targets,
            *where.platforms,
            *(f"{name} {text}" if text[0].isdigit() else f"{name}{text}" for name, text in versions if text),
        ]
    )
