"""Values of a report: what was found, what was expected, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from rocwright.model.testing import CaseResult, Ran

SCHEMA = "rocwright.test-report/1"

State = Literal["passed", "failed", "no report"]
# NEW: it did not fail like this before; KNOWN: it did, or an entry says so; INFRA: the machine's fault;
# FLAKY: it passed when it was run again.
Finding = Literal["NEW", "KNOWN", "INFRA", "FLAKY"]
FINDINGS: tuple[Finding, ...] = ("NEW", "KNOWN", "INFRA", "FLAKY")


class Report(msgspec.Struct, frozen=True):
    """One run as its files tell of it.

    `names` are those by which it may be expected. `problems` are files that could not be read, each with why;
    `empty` says that there was no file at all.
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
    only `suite` and `target` are known, if those."""

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


class Judged(msgspec.Struct, frozen=True):
    """The whole report; `compared` says with what, empty where there was nothing to compare with."""

    shards: tuple[ShardState, ...]
    groups: tuple[FailureGroup, ...]
    fixed: tuple[FixedTest, ...]
    files: tuple[FileTime, ...]
    compared: str = ""
    schema: str = SCHEMA

    @property
    def state(self) -> State:
        """Passed where every run passed and there is one; failed where one failed."""
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
