"""What is told of the results in records: the fields that are read, whether all went well, outputs of a step.

Whatever else a step says is not looked at. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from rocwright.errors import NotReady, RocwrightError, SuiteFailed
from rocwright.model.plan import Cell, Plan
from rocwright.model.testing import on_device
from rocwright.pipeline.define.kinds import BUILD_EXTENSION
from rocwright.pipeline.records import Record

V = TypeVar("V", bound=msgspec.Struct)
_TESTS = "test-"
_BUILDS = "build-"
_FEW = 3
_BAD = ("failed", "blocked", "missing")
_UPLOADS = {"upload-rocm": "rocm", "upload-pytorch": "pytorch"}
_PAGE = "package_find_links_url"


class Packages(msgspec.Struct, frozen=True):
    """ROCm as Python packages; `mode` is kpack where device code lies in packages of its own."""

    version: str = ""
    mode: str = ""
    targets: tuple[str, ...] = ()


class Uploaded(msgspec.Struct, frozen=True):
    """Packages in the store: the page of this upload, and digests by file name.

    `rocm` is the prefix of the ROCm packages that they were built against.
    """

    prefix: str = ""
    find_links: str = ""
    files: dict[str, str] = {}
    rocm: str = ""


class Cached(msgspec.Struct, frozen=True):
    """What a compiler cache (empty: none) did while a wheel was built; `note` says what was in its way."""

    cache: str = ""
    hits: int = 0
    misses: int = 0
    uncached: int = 0
    errors: int = 0
    note: str = ""


class Wheel(msgspec.Struct, frozen=True):
    """A built wheel."""

    project: str = ""
    version: str = ""
    cache: Cached | None = None


class Checks(msgspec.Struct, frozen=True):
    """What the wheel contract found."""

    files: int = 0
    rules: int = 0
    errors: int = 0
    warnings: int = 0
    findings: tuple[str, ...] = ()


class Counts(msgspec.Struct, frozen=True):
    """One run of tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()


class Suite(msgspec.Struct, frozen=True):
    """One suite on one target (empty: on the host); not `complete` where it gave no report.

    `none` says why it has nothing to run.
    """

    suite: str = ""
    target: str = ""
    verdicts: Counts = Counts()
    complete: bool = True
    none: str = ""
    emulated: bool = False

    @property
    def where(self) -> str:
        """The target for people; empty on the host."""
        return on_device(self.target, emulated=self.emulated)


class Tests(msgspec.Struct, frozen=True):
    """Tests of installed wheels: on a host by `rocm_sdk` and `smoke`, on GPUs by `suites`."""

    installed: dict[str, str] = {}
    find_links: str = ""
    rocm: str = ""
    gpus: tuple[str, ...] = ()
    rocm_sdk: Counts | None = None
    smoke: Counts | None = None
    suites: tuple[Suite, ...] = ()

    def every(self) -> tuple[Suite, ...]:
        """All suites, whichever way they are told."""
        host = (("rocm-sdk", self.rocm_sdk), ("smoke", self.smoke))
        return (*(Suite(name, "", found) for name, found in host if found), *self.suites)


class Ruled(msgspec.Struct, frozen=True):
    """What one rule of the gate says."""

    rule: str = ""
    passed: bool = False
    reason: str = ""


class Gate(msgspec.Struct, frozen=True):
    """The gate's decision."""

    promote: bool = False
    rule: str = ""
    reason: str = ""
    rulings: tuple[Ruled, ...] = ()


class Staged(msgspec.Struct, frozen=True):
    """A set in the staging channel."""

    set_id: str = ""
    index_url: str = ""
    why: str = ""


class Promoted(msgspec.Struct, frozen=True):
    """A set in the channel that it was promoted to."""

    set_id: str = ""
    index_url: str = ""
    pip_line: str = ""
    decision: Gate | None = None
    why: str = ""


class End(msgspec.Struct, frozen=True):
    """How one of the last cells ended."""

    state: str = ""
    summary: str = ""
    why: str = ""


class Ends(msgspec.Struct, frozen=True):
    """How a run ended: its last cells and those that did not end well, by id; counts over all by state."""

    good: bool = True
    cells: dict[str, End] = {}
    counts: dict[str, int] = {}
    caches: str = ""


class Caches(msgspec.Struct, frozen=True):
    """What compiler caches did in all `builds` of a run; `without` say why some had none."""

    hits: int = 0
    misses: int = 0
    uncached: int = 0
    errors: int = 0
    builds: int = 0
    without: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """For people; empty where nothing was built."""
        if not self.builds:
            return ""
        counts = f"{self.hits:,} found, {self.misses:,} compiled, {self.uncached:,} not kept"
        counts += f", {self.errors:,} errors" if self.errors else ""
        return "; ".join((*([counts] if self.hits or self.misses or not self.without else []), *self.without))


class _Judged(msgspec.Struct, frozen=True):
    decision: Gate | None = None


def read(record: Record, type_: type[V]) -> V:
    """What is told of a record's result; the defaults where it is another's or not there."""
    try:
        return msgspec.json.decode(record.value, type=type_)
    except msgspec.DecodeError:
        return type_()


def caches_of(records: Iterable[Record]) -> Caches:
    """The figures of every build added up; a build that was reused compiled nothing in this run."""
    wheels = [
        read(record, Wheel).cache or Cached()
        for record in records
        if record.state == "done" and record.cell.startswith(_BUILDS)
    ]
    used = [one for one in wheels if one.cache]
    notes = Counter(f"{one.cache} {one.note}" for one in used if one.note)
    notes["none"] += len(wheels) - len(used)
    return Caches(
        hits=sum(one.hits for one in used),
        misses=sum(one.misses for one in used),
        uncached=sum(one.uncached for one in used),
        errors=sum(one.errors for one in used),
        builds=len(wheels),
        without=tuple(
            f"{note} ({count:,} build{'' if count == 1 else 's'})"
            for note, count in notes.most_common(_FEW)
            if count
        ),
    )


def gate_of(record: Record) -> Gate:
    """The decision in the record of a gate, whether it is the result or stands in it."""
    return read(record, _Judged).decision or read(record, Gate)


# -- whether a run went well: tests that did not pass, and causes rather than consequences


def failed_tests(record: Record) -> str:
    """What did not pass in a step of tests that came to its end, in a line; empty where all of it did.

    A suite of which nothing passed proves nothing, and a suite without a report has not ended. That there is
    nothing to run is for the gate to judge.
    """
    if record.state != "done" or not record.cell.startswith(_TESTS):
        return ""
    return "; ".join(_told(suite) for suite in read(record, Tests).every() if not _good(suite))


def _good(suite: Suite) -> bool:
    return bool(suite.none) or (suite.complete and suite.verdicts.passed > 0 and suite.verdicts.failed == 0)


def _told(suite: Suite) -> str:
    name = f"{suite.suite} on {suite.where}" if suite.target else suite.suite
    if not suite.complete:
        return f"{name} gave no report"
    if not suite.verdicts.failed:
        return f"{name}: nothing passed"
    first = suite.verdicts.failures[:1]
    return f"{name}: {suite.verdicts.failed} failed{f' ({first[0]})' if first else ''}"


def problems_of(
    plan: Plan, records: Mapping[str, Record], raised: Mapping[str, BaseException]
) -> dict[str, BaseException]:
    """What went wrong, by cell in the order of the plan: errors that were `raised`, and tests.

    A cell that was left out because of another, and a summary that says so, count only where nothing else
    does: they are consequences. What the run does without does not count (`tolerated`).
    """
    causes: dict[str, BaseException] = {}
    others: dict[str, BaseException] = {}
    for cell in plan.cells:
        if cell.id in plan.spare:
            continue
        record = records.get(cell.id)
        if cell.id in raised:
            causes[cell.id] = raised[cell.id]
        elif record is not None and (tests := failed_tests(record)):
            causes[cell.id] = SuiteFailed(
                f"{cell.id}: tests did not pass: {tests}",
                next_step="see the reports and the log of that step",
            )
        elif record is not None and (problem := _consequence(cell, record)) is not None:
            others[cell.id] = problem
    return causes or others


def tolerated(plan: Plan, records: Mapping[str, Record]) -> dict[str, str]:
    """What failed, or was left out because of another, and the run does without: a sentence for each cell."""
    ended = {"failed": "failed", "skipped": "was not done"}
    return {
        id_: f"{id_} {ended[record.state]}, and the run goes on without it"
        + (f": {record.why}" if record.state == "skipped" else "")
        for id_, record in records.items()
        if id_ in plan.spare and record.state in ended and not plan.cell(id_).skip
    }


def _consequence(cell: Cell, record: Record) -> RocwrightError | None:
    if record.state == "skipped" and not cell.skip:
        return NotReady(
            f"{cell.id} was not done: {record.why}", next_step="run that step again, then this one"
        )
    ends = read(record, Ends) if cell.kind == "summary" and record.state == "done" else Ends()
    if ends.good:
        return None
    bad = [f"{id_} ({end.state})" for id_, end in ends.cells.items() if end.state in _BAD]
    more = f" and {len(bad) - _FEW} more" if len(bad) > _FEW else ""
    return RocwrightError(
        f"{len(bad)} steps of the run did not end well: {', '.join(bad[:_FEW])}{more}",
        next_step="rocwright pipeline show says how each of them ended",
    )


# -- what a cell tells the workflow that runs it, for jobs that come after


_NAMES = {
    "rocm-packages": ("rocm_version", "kpack_split"),
    "merge-torch": ("torch_version",),
    "stage": ("package_index_url", "set_id"),
    "gate": ("promote",),
    "promote": ("release_index_url",),
}


def output_names(kind: str) -> tuple[str, ...]:
    """The outputs that a cell of a kind may have; a part of a build has none."""
    if kind in _UPLOADS:
        return (f"{_UPLOADS[kind]}_{_PAGE}", _PAGE)
    if kind in _NAMES:
        return _NAMES[kind]
    project = kind.removeprefix(BUILD_EXTENSION).removeprefix(_BUILDS)
    return (f"{project}_version",) if kind.startswith(_BUILDS) else ()


def outputs_of(cell: Cell, record: Record) -> dict[str, str]:
    """Name and value of each output; none of a cell that was not done. No value holds a line break."""
    if record.state != "done":
        return {}
    values = _values(cell, record)
    named = zip(output_names(cell.kind), values, strict=True) if values else ()
    return {name: " ".join(value.split()) for name, value in named if value.strip()}


def _values(cell: Cell, record: Record) -> tuple[str, ...]:
    """In the order of the names."""
    if cell.kind == "rocm-packages":
        packages = read(record, Packages)
        return (packages.version, str(packages.mode == "kpack").lower())
    if cell.kind in _UPLOADS:
        url = read(record, Uploaded).find_links
        return (url, url)
    if cell.kind == "merge-torch" or (cell.kind.startswith("build-") and not cell.part):
        return (read(record, Wheel).version,)
    if cell.kind == "stage":
        staged = read(record, Staged)
        return (staged.index_url, staged.set_id)
    if cell.kind == "gate":
        return (str(gate_of(record).promote).lower(),)
    return (read(record, Promoted).index_url,) if cell.kind == "promote" else ()
