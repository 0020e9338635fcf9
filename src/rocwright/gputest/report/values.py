"""Values of a report: what was found, which runs were expected, and what it comes to.

Runs are expected by a plan, a matrix, counts of shards, or by what the reports say of themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.errors import InvalidData, UsageError
from rocwright.model.emulated import Emulated
from rocwright.model.testing import CaseResult, DeviceKind, Ran, on_device

SCHEMA = "rocwright.test-report/1"

State = Literal["passed", "failed", "no report"]
# NEW: it did not fail like this before; KNOWN: it did, or an entry says so; INFRA: the machine's fault;
# FLAKY: it passed when it was run again.
Finding = Literal["NEW", "KNOWN", "INFRA", "FLAKY"]
FINDINGS: tuple[Finding, ...] = ("NEW", "KNOWN", "INFRA", "FLAKY")


class Report(msgspec.Struct, frozen=True):
    """One run as its files tell of it.

    `names` are those by which it may be expected. `problems` are files that could not be read, each with why;
    `empty` says that there was no file at all. `emulation` is what played an emulated GPU.
    """

    name: str
    ran: Ran
    results: tuple[CaseResult, ...] = ()
    seconds: float = 0.0
    complete: bool = True
    empty: bool = False
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    emulation: Emulated | None = None


class Expected(msgspec.Struct, frozen=True, order=True):
    """A run that has to report: its id, and what is known of it; `shard` 0 is any, the target `cpu` none."""

    id: str
    suite: str = ""
    config: str = ""
    target: str = ""
    shard: int = 0
    shards: int = 0


class ShardState(msgspec.Struct, frozen=True):
    """What a run came to, and why in a few words; `counts` are tests by verdict. Of a run that is missing
    only `suite`, `target` and `device` are known, if those."""

    name: str
    state: State
    why: str = ""
    target: str = ""
    ran: Ran | None = None
    counts: Mapping[str, int] = {}
    reruns: int = 0
    seconds: float = 0.0
    expected: bool = True
    notes: tuple[str, ...] = ()
    suite: str = ""
    device: DeviceKind = "gpu"
    emulation: Emulated | None = None

    @property
    def emulated(self) -> bool:
        """Whether it ran, or should have run, on an emulated GPU."""
        return self.device == "emulated"

    @property
    def where(self) -> str:
        """The target for people; empty for none."""
        return on_device(self.target, emulated=self.emulated)


class FailedCase(msgspec.Struct, frozen=True, order=True):
    """A failure: in which run, which test, how it ended, and what that is."""

    shard: str
    test: str
    verdict: str
    finding: Finding
    message: str = ""
    entry: str = ""


class FailureGroup(msgspec.Struct, frozen=True):
    """Failures of one signature; `detail` is that of the first of them."""

    id: str
    signature: str
    finding: Finding
    infra: str
    cases: tuple[FailedCase, ...]
    issues: tuple[str, ...] = ()
    detail: str = ""

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests, each once, sorted."""
        return tuple(sorted({one.test for one in self.cases}))

    @property
    def shards(self) -> tuple[str, ...]:
        """The runs, each once, sorted."""
        return tuple(sorted({one.shard for one in self.cases}))


class FixedTest(msgspec.Struct, frozen=True, order=True):
    """A test that failed before and passes now, and where."""

    test: str
    where: str
    message: str = ""


class FileTime(msgspec.Struct, frozen=True):
    """Seconds that a test file took over all runs."""

    file: str
    seconds: float
    tests: int


class SkipReason(msgspec.Struct, frozen=True):
    """Why `count` results are skipped: what the tests themselves say, or the entry of a skip list.

    Reasons that differ in numbers alone are one. `tests` are how many tests that is, `example` is the first.
    """

    reason: str
    count: int
    tests: int
    targets: tuple[str, ...]
    example: str
    entry: str = ""
    issue: str = ""


class Judged(msgspec.Struct, frozen=True):
    """The whole report; `compared` says with what, empty where there was nothing to compare with."""

    shards: tuple[ShardState, ...]
    groups: tuple[FailureGroup, ...]
    fixed: tuple[FixedTest, ...]
    files: tuple[FileTime, ...]
    compared: str = ""
    schema: str = SCHEMA
    skips: tuple[SkipReason, ...] = ()

    @property
    def state(self) -> State:
        """Passed where there are runs and all passed; failed where a run failed."""
        states = {one.state for one in self.shards}
        if "failed" in states:
            return "failed"
        return "passed" if states == {"passed"} else "no report"

    @property
    def counts(self) -> dict[str, int]:
        """Tests by verdict, over all runs, in the order of their names."""
        total: dict[str, int] = {}
        for shard in self.shards:
            for verdict, count in shard.counts.items():
                total[verdict] = total.get(verdict, 0) + count
        return dict(sorted(total.items()))

    def of(self, finding: Finding) -> int:
        """How many failures are of this kind."""
        return sum(case.finding == finding for group in self.groups for case in group.cases)


class SetPoint(msgspec.Struct, frozen=True):
    """What a set came to, for the plots: `label` is its version or day, `ran` how many tests were not
    skipped."""

    set_id: str
    label: str
    ran: int
    passed: int
    seconds: float
    state: State = "passed"


def ran_of(counts: Mapping[str, int]) -> int:
    """How many tests ran, by their counts."""
    return sum(count for verdict, count in counts.items() if verdict != "skipped")


def passed_of(counts: Mapping[str, int]) -> int:
    """How many tests did what they should, be it in a second attempt."""
    return sum(counts.get(verdict, 0) for verdict in ("passed", "flaky", "xfailed"))


# Nothing has more shards: a larger number is a date, or nonsense.
MOST_SHARDS = 9999
_COUNT = re.compile(r"(?P<config>[A-Za-z0-9][\w.-]*)=(?P<count>[0-9]{1,4})")
_ID = re.compile(r"[A-Za-z0-9][\w.:+-]*")
_FORMS = "give the JSON file of `rocwright test plan --json`, the id of a run, or CONFIG=SHARDS"


def parse_expected(texts: Sequence[str]) -> tuple[Expected, ...]:
    """Runs from the command line: JSON files of a plan or matrix, ids, or counts such as `default=6`.

    Raises `UsageError` for text of no such form, and `InvalidData` for a file that names no run.
    """
    found: list[Expected] = []
    for text in texts:
        count = _COUNT.fullmatch(text)
        if Path(text).is_file():
            found += _from_file(Path(text))
        elif count is not None:
            if int(count["count"]) < 1:
                raise UsageError(f"--expect {text} expects nothing", next_step="shards count from 1")
            found += _shards(count["config"], int(count["count"]))
        elif _ID.fullmatch(text) and not text.endswith(".json"):
            found.append(Expected(text))
        else:
            raise UsageError(f"--expect {text}: there is no such file, and it is not an id", next_step=_FORMS)
    return tuple(dict.fromkeys(found))


def _shards(config: str, count: int) -> list[Expected]:
    return [
        Expected(f"{config}-{number}of{count}", config=config, shard=number, shards=count)
        for number in range(1, count + 1)
    ]


def _from_file(path: Path) -> list[Expected]:
    try:
        text = path.read_text(encoding="utf-8").strip()
        value = json.loads(text.removeprefix("matrix="))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidData(f"{path} cannot be read: {error}", where=path, next_step=_FORMS) from error
    rows = value
    if isinstance(value, dict):
        rows = next((value[key] for key in ("jobs", "include", "shards") if key in value), None)
    if not isinstance(rows, list) or not rows:
        raise InvalidData(f"{path} names no run: it has no list of jobs", where=path, next_step=_FORMS)
    return list(_rows(rows, path))


def _rows(rows: list[Any], path: Path) -> Iterator[Expected]:
    for number, row in enumerate(rows):
        if isinstance(row, str) and row:
            yield Expected(row)
            continue
        try:
            yield _row(row)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidData(
                f"{path}: job {number + 1} is not a run: it has neither an id nor a configuration and shard",
                where=path,
                next_step=_FORMS,
            ) from error


def _row(row: dict[str, Any]) -> Expected:
    config = str(row.get("config") or row.get("test_config") or "")
    shard, shards = int(row.get("shard") or 0), int(row.get("shards") or row.get("num_shards") or 0)
    given = row.get("id")
    if not given and not (config and shard):
        raise ValueError
    return Expected(
        id=str(given or f"{config}-{shard}of{shards}"),
        suite=str(row.get("suite") or ""),
        config=config,
        target=str(row.get("target") or ("cpu" if "target" in row else "")),
        shard=shard,
        shards=shards,
    )


def matches(expected: Expected, report: Report) -> bool:
    """Whether the report is that of the expected run: by a name, or by all that is known of it."""
    if expected.id in report.names:
        return True
    ran = report.ran
    if ran.emulated:
        # By a name alone: else it would stand for the run on a GPU that is missing.
        return False
    # Smoke tests are planned as one job and run as two suites.
    suite = expected.suite if ran.suite.startswith(f"{expected.suite}-") else ran.suite
    pairs = (
        (expected.suite, suite),
        (expected.config, ran.config),
        (expected.target, ran.target or "cpu"),
        (expected.shard, ran.shard),
        (expected.shards, ran.shards),
    )
    told = [(wanted, is_) for wanted, is_ in pairs if wanted]
    return bool(expected.config and expected.shard) and all(wanted == is_ for wanted, is_ in told)


def missing(expected: Sequence[Expected], found: Sequence[Report]) -> tuple[Expected, ...]:
    """The expected runs that no report is of."""
    return tuple(one for one in expected if not any(matches(one, report) for report in found))


def implied(found: Sequence[Report]) -> tuple[Expected, ...]:
    """Shards that are missing by what reports say of themselves: 2 of 6 is one of six."""
    kinds: dict[Ran, dict[int, Report]] = {}
    for report in found:
        kind = msgspec.structs.replace(report.ran, shard=1, attempt=1)
        kinds.setdefault(kind, {})[report.ran.shard] = report
    wanted: list[Expected] = []
    for kind, held in kinds.items():
        name = next(iter(held.values())).name
        for number in range(1, min(kind.shards, MOST_SHARDS) + 1):
            if number not in held:
                own = re.sub(r"\d+of\d+", f"{number}of{kind.shards}", name)
                wanted.append(Expected(own, kind.suite, kind.config, kind.target, number, kind.shards))
    return tuple(dict.fromkeys(wanted))
