"""How long each test took, by GPU and torch: merged from the records of runs, kept as one JSON file.

The runs are records and JUnit files, in directories or by name. Of each test the newest few times are kept,
and their median counts: one run on a busy machine moves nothing. Times of runs that were cut short, and of
attempts after the first, are not taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import msgspec

from rocwright.errors import InvalidData, InvalidInput, UsageError
from rocwright.gputest.record import RECORD_NAME, read_record
from rocwright.gputest.report.junit import read_junit
from rocwright.gputest.shards.place import TimingPlace, minor_of, place_of, target_name
from rocwright.model.platforms import Platform
from rocwright.model.sets import canonical_json
from rocwright.model.testing import CaseResult
from rocwright.system.files import atomic_write, walk_files

# What a run was that stopped a test says nothing of how long it takes.
_CUT_SHORT = ("crashed", "hung", "memory", "error")
# No test takes years: what says so was written by something else.
_LONGEST_S = 1e8
_SECONDS = Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_S)]
_TIMES = Annotated[tuple[_SECONDS, ...], msgspec.Meta(min_length=1)]


class Timed(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The times of a place: seconds by node id, seconds to collect each file behind another, and seconds
    before the first test of a run; the newest last."""

    place: TimingPlace
    tests: dict[str, _TIMES]
    collect: dict[str, _TIMES] = {}
    start: tuple[_SECONDS, ...] = ()

    def seconds(self) -> dict[str, float]:
        """The median of each test, by node id in order."""
        return {test: median(times) for test, times in sorted(self.tests.items())}

    def collect_s(self) -> dict[str, float]:
        """The median of each file, by name in order."""
        return {file: median(times) for file, times in sorted(self.collect.items())}

    def start_s(self) -> float:
        """The median of what comes before the first test."""
        return median(self.start or (0.0,))


class Durations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file; `runs` are digests of what was merged, so that nothing is taken twice."""

    schema: Literal[1] = 1
    timed: tuple[Timed, ...] = ()
    runs: tuple[str, ...] = ()

    def at(self, place: TimingPlace) -> Timed | None:
        """The times of exactly this place."""
        return next((one for one in self.timed if one.place == place), None)


def merge(
    held: Durations,
    place: TimingPlace,
    results: Sequence[CaseResult],
    *,
    kept: int,
    collect_s: Mapping[str, float] | None = None,
    start_s: float = 0.0,
) -> Durations:
    """The durations with those of one run, of each test and file the `kept` newest times.

    A run that is in it already changes nothing.
    """
    digest = hashlib.sha256(canonical_json((place, results))).hexdigest()[:16]
    if digest in held.runs:
        return held
    before = held.at(place)
    tests = dict(before.tests) if before is not None else {}
    for result in results:
        if result.verdict == "skipped" and result.entry:
            # It costs nothing while the entry holds, and is a new test when the entry goes.
            tests.pop(result.id, None)
        elif _counts(result):
            times = (*tests.get(result.id, ()), round(result.seconds / max(result.attempts, 1), 3))
            tests[result.id] = times[-kept:]
    collect = dict(before.collect) if before is not None else {}
    for file, seconds in (collect_s or {}).items():
        if _is_time(seconds):
            collect[file] = (*collect.get(file, ()), round(seconds, 3))[-kept:]
    start = before.start if before is not None else ()
    start = (*start, round(start_s, 3))[-kept:] if start_s and _is_time(start_s) else start
    others = [one for one in held.timed if one.place != place]
    mine = Timed(place, dict(sorted(tests.items())), dict(sorted(collect.items())), start)
    timed = sorted([*others, mine] if tests else others, key=lambda one: one.place)
    return Durations(1, tuple(timed), (*held.runs, digest))


def _counts(result: CaseResult) -> bool:
    return "::" in result.id and result.verdict not in _CUT_SHORT and _is_time(result.seconds)


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= _LONGEST_S


def joined(several: Iterable[Durations], *, kept: int | None = None) -> Durations:
    """Several files joined; where they know the same test, its times are put in their order."""
    found = Durations()
    for each in several:
        if not found.timed:
            found = each
            continue
        if set(each.runs) <= set(found.runs):
            continue
        tables = {one.place: one for one in found.timed}
        for one in each.timed:
            held = tables.get(one.place, Timed(one.place, {}))
            tests, collect = _added(held.tests, one.tests, kept), _added(held.collect, one.collect, kept)
            start = (*held.start, *one.start)[-kept if kept else None :]
            tables[one.place] = Timed(one.place, tests, collect, start)
        timed = tuple(tables[place] for place in sorted(tables))
        found = Durations(1, timed, tuple(dict.fromkeys((*found.runs, *each.runs))))
    return found


def _added(
    held: Mapping[str, tuple[float, ...]], more: Mapping[str, tuple[float, ...]], kept: int | None
) -> dict[str, tuple[float, ...]]:
    found = dict(held)
    for name, times in more.items():
        found[name] = (*found.get(name, ()), *times)[-kept if kept else None :]
    return dict(sorted(found.items()))


def load_durations(paths: Iterable[Path], *, kept: int | None = None) -> Durations:
    """Read durations files and join them.

    Raises `UsageError` for a path that is none, `InvalidData` naming file and field for what is no such file.
    """
    return joined((_read(path) for path in paths), kept=kept)


def _read(path: Path) -> Durations:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the durations file {path} cannot be read: {error.strerror}",
            where=path,
            next_step="name a file that `rocwright test durations --output` wrote",
        ) from error
    return parse_durations(data, where=str(path))


def parse_durations(data: bytes, *, where: str) -> Durations:
    """The content of a durations file."""
    try:
        found = msgspec.json.decode(data, type=Durations)
        places = [one.place for one in found.timed]
        if len(set(places)) < len(places):
            raise msgspec.ValidationError("it has two tables for one place - at `$.timed`")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidData(
            f"{where} is not a durations file: {error}",
            where=where,
            next_step="write it again with `rocwright test durations --output`",
        ) from error
    return found


def write_durations(durations: Durations, path: Path) -> None:
    """Write the file whole or not at all; the same durations give the same bytes."""
    with atomic_write(path) as stream:
        stream.write(canonical_json(durations) + b"\n")


class Summary(msgspec.Struct, frozen=True):
    """The tests of a place: how many, in how many files, what all of them and the longest take (seconds)."""

    place: TimingPlace
    files: int
    tests: int
    seconds: float
    longest: str
    longest_s: float


def summaries(durations: Durations) -> tuple[Summary, ...]:
    """A summary for each place, in order."""
    found = []
    for timed in durations.timed:
        seconds = timed.seconds()
        longest = max(seconds, key=lambda test: seconds[test])
        files = {test.partition("::")[0] for test in seconds}
        total = round(sum(seconds.values()), 3)
        found.append(Summary(timed.place, len(files), len(seconds), total, longest, seconds[longest]))
    return tuple(found)


class PlaceFacts(msgspec.Struct, frozen=True):
    """What JUnit files do not say of the place that they are from; empty where nobody told it."""

    target: str = ""
    torch: str = ""
    config: str = "default"
    platform: Platform = "linux"

    def place(self, path: Path) -> TimingPlace:
        """The place of a report; raises `UsageError` where it is not told."""
        if not self.target or not self.torch:
            raise UsageError(
                f"{path} does not say on which GPU and with which torch its tests ran",
                where=path,
                next_step="give both: --target gfx942 --torch 2.9 (cpu for none), or give results.json",
            )
        return TimingPlace(target_name(self.target), minor_of(self.torch), self.platform, self.config)


class Taken(msgspec.Struct, frozen=True):
    """Durations with those of more runs; `unread` says of each file below a directory why it is not in."""

    durations: Durations
    runs: int
    unread: tuple[str, ...]


def take(held: Durations, paths: Sequence[Path], told: PlaceFacts, *, kept: int) -> Taken:
    """Add the runs that lie at or below the paths, in order; durations files are joined.

    JUnit files beside or below a results.json are those of its run. Raises `UsageError` for a path that is
    not there, `InvalidInput` for a file that is named and cannot be read, and where there is no run at all.
    """
    runs, unread = 0, []
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"{path} does not exist", where=path, next_step="name reports, or a directory of them"
            )
        for file in _reports(path):
            try:
                held = _with(held, file, told, kept)
                runs += 1
            except InvalidInput as error:
                if file == path:
                    raise
                unread.append(error.what)
    if not runs:
        raise InvalidInput(
            f"no run could be read from {', '.join(map(str, paths))}"
            + "".join(f"\n  {line}" for line in unread),
            next_step="name the directory that `--reports-dir` named, with its results.json",
        )
    return Taken(held, runs, tuple(unread))


def _reports(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = list(walk_files(path))
    records = [file for file in files if file.name == RECORD_NAME]
    holders = {record.parent for record in records}
    reports = [
        file for file in files if file.suffix == ".xml" and holders.isdisjoint({file.parent, *file.parents})
    ]
    return sorted([*records, *reports])


def _with(held: Durations, file: Path, told: PlaceFacts, kept: int) -> Durations:
    if file.suffix == ".xml":
        return merge(held, told.place(file), read_junit(file), kept=kept)
    if _is_durations(file):
        return joined((held, load_durations([file])), kept=kept)
    record = read_record(file)
    ran = record.ran
    place = place_of(ran) if ran.torch else told.place(file)
    results = _single(record.results)
    return merge(held, place, results, kept=kept, collect_s=record.collect_s, start_s=record.start_s)


def _is_durations(file: Path) -> bool:
    """Whether the file is no record; what is neither is refused as a record."""
    try:
        fields = msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError):
        return False
    return "ran" not in fields


def _single(results: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    return tuple({result.id: result for result in results}.values())
