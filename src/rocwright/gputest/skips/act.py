"""Auditing and carrying over, acted out: collect, run again, judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Literal

import msgspec

from rocwright.errors import UsageError
from rocwright.gputest.skips.audit import Audit, Audited, judge_entries, to_rerun
from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.hold import FamilyMembers, Place, entries_that_hold, state_of, where_fits
from rocwright.gputest.skips.rerun import Bench
from rocwright.gputest.skips.versions import version_fits
from rocwright.model.skips import SkipEntry
from rocwright.model.testing import CaseResult


def audit(bench: Bench, entries: Sequence[SkipEntry], today: date, *, tell: Callable[[str], None]) -> Audit:
    """Run the tests of the entries that hold at the bench, and judge the entries."""
    here = bench.setting.here(bench.target)
    chosen = entries_that_hold(entries, here, bench.families, today)
    collected, tests = _collected(bench, chosen)
    results = _results(bench, chosen, tests, tell)
    return Audit(
        target=here.target,
        torch=here.torch,
        python=here.python,
        platform=here.platform,
        entries=judge_entries(chosen, tests, results, collected, gpu=bool(bench.target)),
    )


def port_plan(
    bench: Bench, entries: Sequence[SkipEntry], old: str, new: str, today: date
) -> dict[str, tuple[str, ...]]:
    """By entry the tests that `port` would run. Raises `UsageError` for a torch that is not `new`."""
    return _collected(bench, _of_old(bench, entries, old, new, today))[1]


def port(
    bench: Bench,
    entries: Sequence[SkipEntry],
    old: str,
    new: str,
    today: date,
    *,
    tell: Callable[[str], None],
) -> tuple[Ported, ...]:
    """Run the tests of the entries for `old` with `new`, and say what becomes of each.

    Raises `UsageError` for a torch that is not `new`.
    """
    chosen = _of_old(bench, entries, old, new, today)
    collected, tests = _collected(bench, chosen)
    results = _results(bench, chosen, tests, tell)
    judged = judge_entries(chosen, tests, results, collected, gpu=bool(bench.target))
    return carried_over(chosen, judged, new, bench.families, today)


def _of_old(
    bench: Bench, entries: Sequence[SkipEntry], old: str, new: str, today: date
) -> tuple[SkipEntry, ...]:
    here = bench.setting.here(bench.target)
    for text in (old, new):
        if not text.replace(".", "").isdigit():
            raise UsageError(f"{text} is no release of torch", next_step="write it like 2.10")
    if not version_fits(new, here.torch):
        raise UsageError(
            f"torch is {here.torch} here, so nothing can be said for {new}",
            next_step="give the environment of that version: --python",
        )
    place = Place((here.target,) if here.target else (), here.platform)
    return entries_of_version(entries, old, place, bench.families, today)


def _collected(bench: Bench, entries: Sequence[SkipEntry]) -> tuple[Collected, dict[str, tuple[str, ...]]]:
    collected = bench.collected([entry for entry in entries if entry.kind != "flaky"])
    return collected, to_rerun(entries, collected)


def _results(
    bench: Bench,
    entries: Sequence[SkipEntry],
    tests: Mapping[str, tuple[str, ...]],
    tell: Callable[[str], None],
) -> dict[str, CaseResult]:
    slow = {entry.id for entry in entries if entry.kind == "hang"}
    hanging = dict.fromkeys(test for name in tests if name in slow for test in tests[name])
    others = dict.fromkeys(test for name in tests for test in tests[name] if test not in hanging)
    tell(f"tests to run: {len(hanging) + len(others)}, of entries: {len(tests)}")
    return bench.rerun(
        tuple(others), tuple(hanging), tell=lambda result: tell(f"{result.verdict:8}{result.id}")
    )


# -- carrying entries over to another version of torch: only those whose tests still fail there


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
