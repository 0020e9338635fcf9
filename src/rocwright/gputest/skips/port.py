"""Carrying entries over to another version of torch: only those whose tests still fail there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Literal

import msgspec

from rocwright.gputest.skips.audit import Audited
from rocwright.gputest.skips.hold import FamilyMembers, Place, state_of, where_fits
from rocwright.model.skips import SkipEntry

# `copy`: a new entry for the new version. `holds`: it holds there already, rightly. `drop`: its tests pass,
# or are gone. `ask`: nothing could be seen, somebody has to decide.
Fate = Literal["copy", "holds", "drop", "ask"]


class Ported(msgspec.Struct, frozen=True):
    """One entry of the old version: what becomes of it and why; `new` is the entry to add."""

    entry: str
    fate: Fate
    why: str
    new: SkipEntry | None = None


def entries_of_version(
    entries: Sequence[SkipEntry], torch: str, place: Place, families: FamilyMembers, today: date
) -> tuple[SkipEntry, ...]:
    """Those that hold for a version, on the place's target and platform where these are given."""
    there = Place(place.targets, place.platform, torch, place.python, place.rocm)
    return tuple(entry for entry in entries if state_of(entry, there, families, today) == "holds")


def carried_over(
    entries: Sequence[SkipEntry],
    audited: Sequence[Audited],
    torch: str,
    families: FamilyMembers,
    today: date,
) -> tuple[Ported, ...]:
    """What becomes of each entry for `torch` (`2.10`), after its tests ran there; pure.

    A copied entry names exactly the tests that still fail, was added today, and expires as the old one does.
    """
    judged = {one.entry: one for one in audited}
    place = Place(torch=torch)
    taken = {entry.id for entry in entries}
    found = []
    for entry in entries:
        one = judged.get(entry.id)
        holds = where_fits(entry.where, place, families)
        if one is None or one.advice == "unknown":
            why = one.why if one is not None else "is flaky; whether it still is takes many runs"
            found.append(Ported(entry.id, "ask", why))
        elif one.advice == "remove":
            end = f"; it still holds there: bound its torch below {torch}" if holds else ""
            found.append(Ported(entry.id, "drop", one.why + end))
        elif holds:
            found.append(Ported(entry.id, "holds", one.why))
        else:
            found.append(Ported(entry.id, "copy", one.why, _copy(entry, one, torch, today, taken)))
    return tuple(found)


def _copy(entry: SkipEntry, one: Audited, torch: str, today: date, taken: set[str]) -> SkipEntry:
    name = f"{entry.id}-torch{torch}"
    number = 2
    while name in taken:
        name, number = f"{entry.id}-torch{torch}-{number}", number + 1
    taken.add(name)
    return msgspec.structs.replace(
        entry,
        id=name,
        tests=(*one.failed, *one.harmful),
        matches=None,
        added=today,
        where=msgspec.structs.replace(entry.where, torch=torch),
    )
