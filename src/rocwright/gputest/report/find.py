"""From directories to a judged report: records (`results.json`) are found, or JUnit files of whatever runner.

Files below a record are its own. Other JUnit files belong to the directory above them that names a shard:
`test-reports-<config>-<shard>-<shards>`, an expected id, or, of combined reports, each directory at the top.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from rocwright.errors import InvalidInput, SuiteFailed
from rocwright.gputest.record import RECORD_NAME, read_record, run_of_broken
from rocwright.gputest.report.cases import later_counts, merged
from rocwright.gputest.report.judge import judge
from rocwright.gputest.report.junit import Salvaged, salvage_junit
from rocwright.gputest.report.markdown import About, completed
from rocwright.gputest.report.values import MOST_SHARDS, Expected, Judged, Report, parse_expected
from rocwright.model.suites import SkipEntry
from rocwright.model.testing import CaseResult, Ran, SignatureTable, run_of_key
from rocwright.system import workflow
from rocwright.system.files import walk_files

# The configuration may hold dashes: only the last two numbers are none of it.
_SHARD = re.compile(r"test-reports-(?P<config>.+)-(?P<shard>[0-9]+)-(?P<shards>[0-9]+)")


class Places(msgspec.Struct, frozen=True):
    """Where reports lie, which runs have to report (`--expect`), and what is known of those that do not say
    it."""

    reports: tuple[Path, ...] = ()
    combined: tuple[Path, ...] = ()
    expect: tuple[str, ...] = ()
    told: Ran = Ran("")

    def read(self) -> tuple[tuple[Report, ...], tuple[Expected, ...] | None]:
        """The reports, and the expected runs; None where none are named.

        Raises `UsageError` and `InvalidData` for an `expect` that cannot be understood.
        """
        expected = parse_expected(self.expect) if self.expect else None
        ids = {one.id for one in expected or ()}
        found = find_reports(self.reports, combined=self.combined, told=self.told, ids=ids)
        return found, expected


def judge_places(
    places: Places,
    about: About,
    table: SignatureTable,
    *,
    previous: Sequence[Report] | None = None,
    compared: str = "",
    entries: Sequence[SkipEntry] = (),
) -> tuple[tuple[Report, ...], Judged, About]:
    """Read, judge, and complete what is known of the whole; raises as `Places.read`."""
    found, expected = places.read()
    issues = {one.id: one.issue for one in entries if one.issue}
    judged = judge(expected, found, previous, table=table, issues=issues, compared=compared)
    return found, judged, completed(about, judged)


def require_passed(judged: Judged, *, next_step: str) -> None:
    """Raise `SuiteFailed` unless every expected run passed."""
    if judged.state == "passed":
        return
    states = [one.state for one in judged.shards]
    bad = [one for one in judged.shards if one.state != "passed"]
    words = {"failed": "failed", "no report": "gave no report"}
    told = ", ".join(f"{states.count(state)} {text}" for state, text in words.items() if state in states)
    raise SuiteFailed(
        f"of {len(states)} runs {told}"
        if len(states) > 1
        else f"the run {bad[0].name} {words.get(bad[0].state, bad[0].state)}: {bad[0].why}",
        next_step=next_step,
    )


def tell_summary(text: str) -> bool:
    """Append Markdown to the workflow step's summary; False outside of a workflow."""
    return workflow.tell_summary(text.splitlines())


def find_reports(
    roots: Sequence[Path],
    *,
    told: Ran,
    combined: Sequence[Path] = (),
    ids: Collection[str] = (),
) -> tuple[Report, ...]:
    """The reports below directories; `told` is what is known of runs whose files do not say it themselves.

    Each of `roots` is a run where nothing in it says otherwise, so is each directory in one of `combined`. A
    directory that is empty or missing is a run that gave no report. Never raises for what files hold.
    """
    found: list[Report] = []
    for root in (*roots, *combined):
        found += _below(root, told, frozenset(ids), each=root in combined)
    return settled(found)


def _below(root: Path, told: Ran, ids: frozenset[str], *, each: bool) -> Iterator[Report]:
    if not root.is_dir():
        if root.is_file():
            yield from _unit(root.parent, [root], told, root, ids)
            return
        note = f"{root} does not exist"
        yield Report(_name(told), told, empty=True, notes=(note,), names=(root.name,))
        return
    files = [path for path in walk_files(root) if path.suffix == ".xml" or path.name == RECORD_NAME]
    records = {path.parent: [path] for path in files if path.name == RECORD_NAME}
    units: dict[Path, list[Path]] = {}
    if each:
        units |= {path: [] for path in sorted(root.iterdir()) if path.is_dir()}
    folders = (path for path in sorted(root.rglob("*")) if path.is_dir() and _is_shard(path, ids))
    units |= {path: [] for path in folders}
    for path in files:
        if path.parent in records:
            # A record lies beside its own JUnit files; what lies deeper is not of it.
            records[path.parent] += [] if path.name == RECORD_NAME else [path]
        else:
            above = (one for one in path.parents if one in units or one == root)
            units.setdefault(next(above), []).append(path)
    # A directory that only holds others, or a record, is no run itself.
    holders = {parent for unit in (*units, *records) for parent in unit.parents} | set(records)
    for folder, own in records.items():
        yield from _unit(folder, own, told, root, ids)
    for folder, own in units.items():
        if own or folder not in holders:
            yield from _unit(folder, own, told, root, ids)
    if not units and not records:
        note = f"there is no report in {root}"
        yield Report(_name(told), told, empty=True, notes=(note,), names=(root.name,))


def _is_shard(path: Path, ids: frozenset[str]) -> bool:
    return path.name in ids or _SHARD.fullmatch(path.name) is not None


def _unit(unit: Path, files: Sequence[Path], told: Ran, root: Path, ids: frozenset[str]) -> Iterator[Report]:
    """The report of a run whose files lie below `unit`."""
    names = (unit.name,) if unit != root or unit.name else ()
    record = next((path for path in files if path.name == RECORD_NAME), None)
    broken, ran = "", _told_by(unit, told)
    if record is not None:
        try:
            value = read_record(record)
        except InvalidInput as error:
            broken, ran = error.what, run_of_broken(record) or ran
        else:
            ran = value.ran
            # A directory with the name of another run does not stand for that run.
            names = () if run_of_key(unit.name) else names
            yield Report(
                name=ran.key,
                ran=ran,
                results=merged(value.results),
                seconds=value.seconds,
                complete=value.complete,
                notes=value.notes,
                names=(ran.key, *names),
                emulation=value.emulation,
            )
            return
    xml = [path for path in files if path.suffix == ".xml"]
    read = [(path, salvage_junit(path)) for path in xml]
    foreign = tuple(f"{path.name} is not a test report" for path, part in read if part.foreign)
    own = [(path, part) for path, part in read if not part.foreign]
    problems = tuple(f"{_shown(path, root)}: {part.problem}" for path, part in own if part.problem)
    results = _merged(own)
    if any(part.emulated for _, part in own):
        # Whatever else is known of the run: its own files say what played the GPU.
        ran = msgspec.structs.replace(ran, device="emulated")
    yield Report(
        name=unit.name if unit.name in ids else _name(ran),
        ran=ran,
        results=results,
        seconds=round(sum(one.seconds for one in results), 3),
        empty=not own and not broken,
        problems=(broken, *problems) if broken else problems,
        notes=foreign if own or foreign else (f"there is no report in {unit}",),
        names=(_name(ran), *names),
    )


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if root in path.parents else path.name


def _told_by(unit: Path, told: Ran) -> Ran:
    match = _SHARD.fullmatch(unit.name)
    if match is None:
        named = run_of_key(unit.name)
        if named is None:
            return told
        versions = {"torch": told.torch, "rocm": told.rocm, "python": told.python}
        return msgspec.structs.replace(named, platform=told.platform, **versions)
    shard, shards = int(match["shard"]), int(match["shards"])
    # A last number that cannot be a count of shards is something else, such as an attempt.
    shards = shards if shard <= shards <= MOST_SHARDS else 1
    return msgspec.structs.replace(told, config=match["config"], shard=shard, shards=shards)


def _name(ran: Ran) -> str:
    """As `Ran.key`, without what is not known."""
    device = "emulated" if ran.emulated else ""
    return "-".join(filter(None, (ran.suite, ran.config, ran.target, device, f"{ran.shard}of{ran.shards}")))


def _merged(parts: Sequence[tuple[Path, Salvaged]]) -> tuple[CaseResult, ...]:
    """Results of one run. Files of one directory are rounds where each says when it began: what failed in
    one round and passed in a later one is flaky. Else, and between directories, the worst result counts."""
    by_folder: dict[Path, dict[str, list[CaseResult]]] = {}
    for path, part in parts:
        rounds = by_folder.setdefault(path.parent, {})
        rounds.setdefault(part.began, []).extend(part.results)
    found: list[CaseResult] = []
    for rounds in by_folder.values():
        if "" in rounds:
            found += merged(one for results in rounds.values() for one in results)
        else:
            found += later_counts([merged(rounds[began]) for began in sorted(rounds)])
    return merged(found)


def settled(found: Sequence[Report]) -> tuple[Report, ...]:
    """The reports, those of a run that was started again joined, each with a name of its own."""
    return _distinct(_attempts(found))


def _attempts(found: Sequence[Report]) -> list[Report]:
    """Runs that were started again count once: tests that failed and then passed are flaky."""
    same: dict[Ran, list[Report]] = {}
    others: list[Report] = []
    for one in found:
        if one.empty or not one.ran.suite:
            others.append(one)
        else:
            same.setdefault(msgspec.structs.replace(one.ran, attempt=1), []).append(one)
    for reports in same.values():
        numbers = [one.ran.attempt for one in reports]
        if len(set(numbers)) < len(numbers):
            # Of one attempt there is one report; these are of different machines.
            others += reports
            continue
        ordered = sorted(reports, key=lambda one: one.ran.attempt)
        last = ordered[-1]
        results = later_counts([one.results for one in ordered]) if len(ordered) > 1 else last.results
        # What was lost of an earlier attempt, the later attempt found out.
        lost = (f"attempt {one.ran.attempt}: {text}" for one in ordered[:-1] for text in one.problems)
        others.append(msgspec.structs.replace(last, results=results, notes=(*last.notes, *lost)))
    return others


def _distinct(found: Sequence[Report]) -> tuple[Report, ...]:
    """Every report with a name of its own: with the versions where those differ, else with a number."""
    by_name: dict[str, list[Report]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    result: list[Report] = []
    for name, reports in by_name.items():
        if len(reports) == 1:
            result += reports
            continue
        taken: dict[str, int] = {}
        for one in reports:
            ran = one.ran
            parts = [name, f"torch{ran.torch}" if ran.torch else "", f"py{ran.python}" if ran.python else ""]
            full = "-".join(filter(None, parts))
            taken[full] = taken.get(full, 0) + 1
            number = f" ({taken[full]})" if taken[full] > 1 or full == name else ""
            result.append(msgspec.structs.replace(one, name=full + number))
    return tuple(result)
