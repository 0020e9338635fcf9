"""Entries from elsewhere: imported from the reference's lists, or carried over from another version of torch.

A name in a module of the lists becomes exact tests, or a wide pattern. Carried over is only what still fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Literal

import msgspec

from rocwright.errors import UsageError
from rocwright.gputest.inside.rocwright_patterns import parts
from rocwright.gputest.skips.audit import Audited, Bench, judge_entries, results_of, tests_there
from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.hold import (
    PLATFORMS,
    FamilyMembers,
    Place,
    state_of,
    targets_of,
    version_fits,
    where_fits,
)
from rocwright.gputest.skips.reference import Listed, Read
from rocwright.model.suites import SkipEntry, SkipKind, SkipWhere

_COMMON = "common"
_ISSUE = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/[0-9]+")
_LONGEST_REASON = 300


class ImportedEntries(msgspec.Struct, frozen=True):
    """The entries, the ids of those whose patterns reach further than their names say, and what was odd."""

    entries: tuple[SkipEntry, ...]
    wide: tuple[str, ...]
    notes: tuple[str, ...]


class _Tests(msgspec.Struct, frozen=True):
    """What a name stands for: no tests where there are none."""

    tests: tuple[str, ...]
    wide: bool = False
    note: str = ""


class _Kept(msgspec.Struct, frozen=True):
    """What becomes an entry: the name that was met first, its tests, and everywhere that it holds."""

    listed: Listed
    found: _Tests
    where: SkipWhere

    def joined(self, listed: Listed, targets: tuple[str, ...]) -> _Kept:
        # One of the two holds for every target, or both name some.
        held = self.where.targets
        both = tuple(dict.fromkeys([*held, *targets])) if held and targets else ()
        said = self.listed if self.listed.comment else listed
        return msgspec.structs.replace(
            self, listed=said, where=msgspec.structs.replace(self.where, targets=both)
        )


def imported(
    read: Read,
    families: FamilyMembers,
    *,
    added: date,
    kind: SkipKind = "skip",
    collected: Collected | None = None,
) -> ImportedEntries:
    """Entries for what was read, one for each name and place; names for several targets share an entry.

    With a list of tests they are exact; a name that no test has stands for those that begin with it, else
    for those that hold it. Without that list each is a pattern `test_<module>.py::*::<name>*`.
    """
    notes = list(read.notes)
    unknown: dict[str, int] = {}
    kept: dict[tuple[tuple[str, ...], str, tuple[str, ...]], _Kept] = {}
    for listed in read.listed:
        where = _where(listed, families)
        if where is None:
            unknown[" > ".join(listed.sections)] = unknown.get(" > ".join(listed.sections), 0) + 1
            continue
        found = _tests_for(listed, collected)
        if found.note:
            notes.append(f"{listed.place}: {found.note}")
        if not found.tests:
            continue
        wider = _wider(kept.values(), found.tests, where, families)
        if wider is not None:
            notes.append(f"{listed.place}: {listed.name} is left out: {wider.listed.place} already covers it")
            continue
        key = (found.tests, where.torch, where.platforms)
        if key in kept:
            kept[key] = kept[key].joined(listed, where.targets)
        else:
            kept[key] = _Kept(listed, found, where)
    notes += [
        f"section {name}: no known target, family or platform; its {number} names are left out"
        for name, number in unknown.items()
    ]
    used: set[str] = set()
    entries = tuple(_entry(one, kind, added, used) for one in kept.values())
    wide = tuple(entry.id for entry, one in zip(entries, kept.values(), strict=True) if one.found.wide)
    return ImportedEntries(entries, wide, tuple(notes))


def _entry(one: _Kept, kind: SkipKind, added: date, used: set[str]) -> SkipEntry:
    return SkipEntry(
        id=_id(one.listed, one.where, used),
        tests=one.found.tests,
        kind=kind,
        reason=_reason(one.listed),
        added=added,
        where=one.where,
        issue=_issue(one.listed),
    )


def _where(listed: Listed, families: FamilyMembers) -> SkipWhere | None:
    """Where the sections around a name hold all of them; None for a section that names nothing known."""
    targets: list[str] = []
    platforms: list[str] = []
    for section in listed.sections:
        if section == _COMMON:
            continue
        if section in PLATFORMS:
            platforms.append(section)
        elif targets_of((section,), families):
            targets.append(section)
        elif section and targets_of((f"{section}*",), families):
            targets.append(f"{section}*")
        else:
            return None
    if len(targets) > 1 or len(platforms) > 1:
        return None
    return msgspec.convert({"targets": targets, "platforms": platforms, "torch": listed.torch}, SkipWhere)


def _tests_for(listed: Listed, collected: Collected | None) -> _Tests:
    files = files_of_module(listed.module)
    if collected is None:
        pattern = f"{files[0]}::*::{listed.name}*"
        return _Tests((pattern,), wide=True)
    here = [one for one in collected.ids if parts(one)[0] in files] or [
        # The lists name modules without their directory.
        one
        for one in collected.ids
        if parts(one)[0].rpartition("/")[2] == files[0].rpartition("/")[2]
    ]
    reach = (
        ("", lambda name: name == listed.name),
        ("begin with it", lambda name: name.startswith(listed.name)),
        ("hold it", lambda name: listed.name in name),
    )
    for how, fits in reach:
        tests = tuple(one for one in here if fits(parts(one)[-1].partition("[")[0]))
        if tests:
            note = f"no test is named {listed.name}; {len(tests)} {how}" if how else ""
            return _Tests(tests, wide=bool(how), note=note)
    elsewhere = sorted({parts(one)[0] for one in collected.ids if parts(one)[-1] == listed.name})
    hint = f"; {', '.join(elsewhere[:3])} has it" if elsewhere else ""
    return _Tests((), note=f"{listed.name} is left out: {listed.module} has no such test{hint}")


def files_of_module(module: str) -> tuple[str, ...]:
    """The files that a module of the lists may mean, the likeliest first: `cuda` is `test_cuda.py`."""
    path = module.strip().removesuffix(".py").replace("\\", "/")
    folder, slash, name = path.rpartition("/")
    own = f"{path}.py"
    return (own,) if name.startswith("test_") else (f"{folder}{slash}test_{name}.py", own)


def _wider(
    kept: Iterable[_Kept], tests: tuple[str, ...], where: SkipWhere, families: FamilyMembers
) -> _Kept | None:
    """The first that holds for all of these tests wherever `where` does."""
    for one in kept:
        over = one.where
        if (
            set(tests) <= set(one.found.tests)
            and (not over.targets or _within(where.targets, over.targets, families))
            and (not over.platforms or (where.platforms and set(where.platforms) <= set(over.platforms)))
            and over.torch in ("", where.torch)
        ):
            return one
    return None


def _within(inner: Sequence[str], outer: Sequence[str], families: FamilyMembers) -> bool:
    return bool(inner) and targets_of(inner, families) <= targets_of(outer, families)


def _id(listed: Listed, where: SkipWhere, used: set[str]) -> str:
    words = [listed.name, *(name.rstrip("*") for name in where.targets), *where.platforms, where.torch]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, words))).strip("-._") or "entry"
    module = re.sub(r"[^A-Za-z0-9._-]+", "-", listed.module)
    candidates = [plain, f"{plain}-{module}", *(f"{plain}-{module}-{number}" for number in range(2, 1000))]
    chosen = next(one for one in candidates if one not in used)
    used.add(chosen)
    return chosen


def _reason(listed: Listed) -> str:
    said = " ".join(listed.comment.split())
    if not said:
        return f"listed in {listed.place} without a reason"
    return said if len(said) <= _LONGEST_REASON else f"{said[: _LONGEST_REASON - 1]}…"


def _issue(listed: Listed) -> str:
    match = _ISSUE.search(listed.comment)
    return match[0] if match else ""


# -- carrying entries over to another version of torch


# `copy`: a new entry for the new version. `holds`: it holds there already, rightly. `drop`: its tests pass,
# or are gone. `ask`: nothing could be seen, somebody has to decide.
Fate = Literal["copy", "holds", "drop", "ask"]


class Ported(msgspec.Struct, frozen=True):
    """One entry of the old version: what becomes of it and why; `new` is the entry to add."""

    entry: str
    fate: Fate
    why: str
    new: SkipEntry | None = None


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
    collected, tests = tests_there(bench, chosen)
    results = results_of(bench, chosen, tests, tell)
    judged = judge_entries(chosen, tests, results, collected, gpu=bool(bench.target))
    return carried_over(chosen, judged, new, bench.families, today)


def port_plan(
    bench: Bench, entries: Sequence[SkipEntry], old: str, new: str, today: date
) -> dict[str, tuple[str, ...]]:
    """By entry the tests that `port` would run. Raises `UsageError` for a torch that is not `new`."""
    return tests_there(bench, _of_old(bench, entries, old, new, today))[1]


def _of_old(
    bench: Bench, entries: Sequence[SkipEntry], old: str, new: str, today: date
) -> tuple[SkipEntry, ...]:
    here = bench.setting.here(bench.target)
    for text in (old, new):
        if not text.replace(".", "").isdigit():
            raise UsageError(f"{text} is not a release of torch", next_step="write it like 2.10")
    if not version_fits(new, here.torch):
        raise UsageError(
            f"torch is {here.torch} here, so nothing can be said for {new}",
            next_step="give the environment of that version: --python",
        )
    place = Place((here.target,) if here.target else (), here.platform)
    return entries_of_version(entries, old, place, bench.families, today)


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
            why = one.why if one is not None else "is flaky; only many runs show whether it still is"
            found.append(Ported(entry.id, "ask", why))
        elif one.advice == "remove":
            end = f"; it still applies there: limit its torch to below {torch}" if holds else ""
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
