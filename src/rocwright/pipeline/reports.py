"""Reports of PyTorch's own tests as statements in the store: what a run saw, and what the next one shards by.

`_pipeline/reports/<run>/<report>.json` is in-toto's form: subjects are the wheels that were tested, by
digest. Each is written once, by the machine that ran the tests. A plan takes the newest runs that have any,
and names them, so that every machine of the run makes the same shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import TypeVar

import msgspec

from rocwright.errors import InvalidData, RocwrightError
from rocwright.gputest.shards.durations import Durations, joined, merge
from rocwright.gputest.shards.level import NOTHING, Recorded
from rocwright.gputest.shards.place import TimingPlace, place_of
from rocwright.gputest.smoke import verdicts_of
from rocwright.model.sets import REPORT, Statement, Subject, canonical_json, parse_statement
from rocwright.model.testing import DeviceKind, Ran, RunRecord
from rocwright.pipeline.records import has_plan, read_plan
from rocwright.store.lease import PIPELINE
from rocwright.store.objects.protocol import ObjectStore, Stored, read_there

REPORTS = f"{PIPELINE}reports/"
Say = Callable[[str], None]
_V = TypeVar("_V", bound=msgspec.Struct)


class TestReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The predicate: which tests ran where at which level, what came of them, how long each took.

    `seconds` are those of the whole, `files` those of each test file. What a run that was stopped took says
    nothing: it has no `durations`.
    """

    __test__ = False  # not a test class, whatever its name says to pytest

    level: str
    device: DeviceKind
    ran: Ran
    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...]
    complete: bool
    seconds: float
    files: dict[str, float]
    durations: Durations


def report_of(record: RunRecord, level: str, wheels: Mapping[str, str], *, kept: int) -> Statement:
    """A record as a statement about the wheels: digests by file name.

    Tests without a torch are ROCm's own, whose times nobody shards by.
    """
    counts = verdicts_of(record.results)
    none = Durations()
    durations = (
        merge(
            none,
            place_of(record.ran),
            record.results,
            kept=kept,
            collect_s=record.collect_s,
            start_s=record.start_s,
        )
        if record.complete and record.ran.torch
        else none
    )
    files: dict[str, float] = {}
    for timed in durations.timed:
        for test, seconds in timed.seconds().items():
            file = test.partition("::")[0]
            files[file] = round(files.get(file, 0.0) + seconds, 3)
    report = TestReport(
        level=level,
        device=record.ran.kind,
        ran=record.ran,
        passed=counts.passed,
        failed=counts.failed,
        skipped=counts.skipped,
        failures=counts.failures,
        complete=record.complete,
        seconds=record.seconds,
        files=files,
        durations=durations,
    )
    subjects = tuple(Subject(name, {"sha256": digest}) for name, digest in sorted(wheels.items()))
    return Statement(subject=subjects, predicate_type=REPORT, predicate=msgspec.to_builtins(report))


def write_report(store: ObjectStore, run_id: str, statement: Statement) -> str:
    """Write the statement of a report; returns its key, which ends with the beginning of its digest."""
    data = canonical_json(statement)
    key = msgspec.convert(statement.predicate, TestReport).ran.key
    key = f"{REPORTS}{run_id}/{key}-{hashlib.sha256(data).hexdigest()[:32]}.json"
    store.put_bytes(key, data)
    return key


class _Head(msgspec.Struct, frozen=True):
    """What a plan reads of a report: not the time of each test."""

    ran: Ran
    files: dict[str, float]


def newest_runs(store: ObjectStore, own: str, most: int) -> tuple[str, ...]:
    """The newest runs that have reports, `own` not among them."""
    newest: dict[str, datetime] = {}
    for one in store.list(REPORTS):
        run = one.key.removeprefix(REPORTS).partition("/")[0]
        newest[run] = max(one.modified, newest.get(run, one.modified))
    newest.pop(own, None)
    return tuple(sorted(newest, key=lambda run: (newest[run], run), reverse=True)[:most])


def recorded(store: ObjectStore, runs: Sequence[str], say: Say) -> Recorded:
    """What these runs took: of each place the seconds of a file are those of its shards together.

    Of several runs the median counts. A report that cannot be read counts as none, and is told.
    """
    if not runs:
        return NOTHING
    by_run: dict[tuple[str, TimingPlace], dict[str, list[float]]] = {}
    for run in runs:
        sums: dict[tuple[str, TimingPlace], dict[str, float]] = {}
        for one in _listed(store, [run]):
            head = _read(store, one.key, _Head, say)
            if head is None or not head.files:
                continue
            held = sums.setdefault((head.ran.suite, place_of(head.ran)), {})
            for file, seconds in head.files.items():
                held[file] = held.get(file, 0.0) + seconds
        for place, files in sums.items():
            for file, seconds in files.items():
                by_run.setdefault(place, {}).setdefault(file, []).append(seconds)
    taken = {place: {file: median(times) for file, times in files.items()} for place, files in by_run.items()}
    return Recorded(tuple(runs), taken)


def recorded_for(store: ObjectStore, run_id: str, kept: int, say: Say) -> Recorded:
    """What a plan of a run goes by: the newest runs; of a run that has a plan already, those that it names.

    A store that cannot be read says nothing, which is told: then each configuration has its usual shards.
    """
    try:
        if has_plan(store, run_id):
            named = (cell.settings.get("durations", "") for cell in read_plan(store, run_id).cells)
            return recorded(store, next(filter(None, named), "").split(), say)
        return recorded(store, newest_runs(store, run_id, kept), say)
    except RocwrightError as error:
        say(f"warning: no times of earlier tests: {error.what}")
        return NOTHING


def durations_of(
    store: ObjectStore, runs: Sequence[str], suite: str, say: Say, *, kept: int
) -> Durations | None:
    """The times of a suite's tests in these runs, the oldest first; None for no runs."""
    if not runs:
        return None
    found = []
    for one in _listed(store, tuple(reversed(runs))):
        report = _read(store, one.key, TestReport, say)
        if report is not None and report.ran.suite == suite:
            found.append(report.durations)
    return joined(found, kept=kept)


def _listed(store: ObjectStore, runs: Iterable[str]) -> Iterable[Stored]:
    return (one for run in runs for one in store.list(f"{REPORTS}{run}/"))


def _read(store: ObjectStore, key: str, type_: type[_V], say: Say) -> _V | None:
    """The predicate of a report; None, and a word, for one that is damaged."""
    data = read_there(store, key)
    if data is None:
        return None
    try:
        if not key.endswith(f"-{hashlib.sha256(data).hexdigest()[:32]}.json"):
            raise InvalidData("its name has another digest")
        statement = parse_statement(data, where=key)
        return msgspec.convert(statement.predicate, type_)
    except (InvalidData, msgspec.ValidationError) as error:
        what = error.what if isinstance(error, InvalidData) else str(error)
        say(f"warning: the report {key} cannot be read ({what}): its times do not count")
        return None
