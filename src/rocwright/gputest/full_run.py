"""Run PyTorch's own run_test.py, and judge by its reports, by what it printed and by how it ended.

It is watched: it may never end by itself, with all its tests over (https://github.com/ROCm/TheRock/issues/999).
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, Interrupted, MissingTool, UsageError
from rocwright.gputest.environment import write_entries
from rocwright.gputest.full import Call, FullRun
from rocwright.gputest.report.cases import later_counts, worst
from rocwright.gputest.report.junit import salvage_junit
from rocwright.gputest.setting import TESTS
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import CaseResult, RunRecord, Verdict
from rocwright.system import files, process

_PACKAGES = """
import importlib.metadata as metadata, sys
for name in sys.argv[1:]:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        print(name)
"""
# How a process ends whose command line was not understood.
_REFUSED = 2
_RUNNING = re.compile(r"Running (?P<module>\S+) (?P<part>[0-9]+/[0-9]+) \.\.\. ")
_FAILED = re.compile(
    r"(?P<module>[\w./-]*(?:test_|_test|doctests)[\w./-]*) (?:[0-9]+/[0-9]+ )?failed!"
    r"(?: Received signal: (?P<signal>SIG[A-Z0-9]+))?"
)
_THRICE = re.compile(r"The following tests failed consistently: (?P<list>\[.*\])")
_AGAIN = re.compile(
    r"The following tests failed and then succeeded when run in a new process(?P<list>\[.*\])"
)


class Ended(msgspec.Struct, frozen=True):
    """How a call ended: its exit code (None: it was ended by force, for `reason`)."""

    status: int | None
    seconds: float
    over: bool = False
    reason: str = ""
    interrupted: bool = False


def require_packages(python: Path, table: SuiteTable) -> None:
    """Raise `MissingTool` naming all packages that run_test.py needs to start and `python` lacks."""
    # Not isolated: what the tests inherit is searched, too. The directory is: -c looks there first.
    asked = process.run([python, "-c", _PACKAGES, *table.upstream.packages], cwd=python.parent)
    absent = asked.stdout.split()
    if absent:
        raise MissingTool(
            f"{python} has no {', no '.join(absent)}; run_test.py needs them",
            next_step=f"{python} -m pip install {' '.join(absent)}",
        )


class Done(msgspec.Struct, frozen=True):
    """The record of a run, and whether it was stopped by whoever started it."""

    record: RunRecord
    interrupted: bool = False


def run_full(run: FullRun, table: SuiteTable, *, note: Callable[[str], None] = lambda _: None) -> Done:
    """Run the calls one after the other; a check that fails ends the run.

    Raises `UsageError` when run_test.py refuses its command line: nothing was tested then.
    """
    reports = run.checkout / table.upstream.reports
    write_entries(run.entries, run.given, run.checkout / TESTS)
    rounds: list[CaseResult] = []
    notes = list(run.notes)
    complete, interrupted = True, False
    seconds = 0.0
    for number, call in enumerate(run.calls):
        note(f"{call.name}: log in {run.log(number)}")
        before = snapshot(reports)
        ended = _run_call(run, call, run.log(number), reports, table, note)
        seconds += ended.seconds
        if call.words[0] != table.upstream.script and not ended.interrupted:
            if ended.status == 0:
                continue
            rounds.append(_check_failed(call, ended))
            complete = False
            break
        found, said = judge_call(call, ended, read_reports(reports, before), _told(run.log(number)))
        rounds += found
        notes += said
        complete = complete and (ended.status is not None or ended.over)
        interrupted = ended.interrupted
        if interrupted:
            break
    by_test: dict[str, list[CaseResult]] = {}
    for one in rounds:
        by_test.setdefault(one.id, []).append(one)
    results = tuple(worst(found) for found in by_test.values())
    record = RunRecord(run.ran, results, seconds=round(seconds, 3), complete=complete, notes=tuple(notes))
    return Done(record, interrupted)


def _run_call(
    run: FullRun, call: Call, log: Path, reports: Path, table: SuiteTable, note: Callable[[str], None]
) -> Ended:
    files.make_directory(log.parent)
    files.write_text(log, "")
    upstream = table.upstream
    watch = Watch(upstream.done, upstream.end_s, upstream.silent_tests * run.test_s, reports, log, note)
    reasons: list[str] = []

    def until() -> str | None:
        reason = watch.ended()
        reasons.extend([reason] if reason else [])
        return reason

    began = time.monotonic()
    try:
        done = process.run(
            [run.python, *call.words],
            cwd=run.checkout,
            env=run.environment.set,
            drop_env=run.environment.removed,
            log=log,
            watch=watch.line,
            until=until,
        )
    except (KeyboardInterrupt, Interrupted):
        return Ended(None, time.monotonic() - began, interrupted=True)
    except CommandFailed as error:
        seconds = time.monotonic() - began
        if error.status == _REFUSED and "usage:" in log.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(
                f"run_test.py does not understand its arguments: {_last(error.tail)}",
                where=log,
                next_step="see the modules and options that it has: python test/run_test.py --help",
            ) from error
        forced = reasons[0] if reasons else ""
        return Ended(None if forced else error.status, seconds, watch.over, forced)
    return Ended(0, done.wall_s, watch.over)


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no message"


def snapshot(reports: Path) -> dict[Path, tuple[int, int]]:
    """The XML files that are there, with size and time: those of earlier runs do not count."""
    found = {}
    for path in reports.rglob("*.xml"):
        facts = path.stat()
        found[path] = (facts.st_size, facts.st_mtime_ns)
    return found


def read_reports(
    reports: Path, before: Mapping[Path, tuple[int, int]]
) -> tuple[tuple[CaseResult, ...], tuple[str, ...]]:
    """The results of XML files that are new or changed, the oldest file first, and which cannot be read."""
    new = [(facts[1], path) for path, facts in snapshot(reports).items() if before.get(path) != facts]
    rounds = []
    notes = []
    for _, path in sorted(new):
        found = salvage_junit(path)
        rounds.append(found.results)
        if found.problem:
            notes.append(f"{path.relative_to(reports)}: {found.problem}")
    return later_counts(rounds), tuple(notes)


def _told(log: Path) -> RunTestOutcome:
    with log.open(encoding="utf-8", errors="replace") as lines:
        return read_said(lines)


def _check_failed(call: Call, ended: Ended) -> CaseResult:
    how = ended.reason or f"ended with exit code {ended.status}"
    return CaseResult(call.name, "error", round(ended.seconds, 3), message=f"{call.name} {how}")


def judge_call(
    call: Call,
    ended: Ended,
    read: tuple[Sequence[CaseResult], Sequence[str]],
    told: RunTestOutcome,
) -> tuple[tuple[CaseResult, ...], tuple[str, ...]]:
    """What a call showed: its reports, and what they do not hold.

    A process that crashed wrote no report of its tests. A test that failed each time without a failure in any
    report ended its process; a module that failed without a bad result stands for itself; a call
    that failed without either is an error of its own.
    """
    results, problems = read
    by_id = {one.id: one for one in results}
    for test in told.consistent:
        if test not in by_id or not by_id[test].bad:
            message = "its process ended during this test each time, so there is no report of it"
            by_id[test] = CaseResult(test, "crashed", message=message)
    for test in told.again:
        held = by_id.get(test)
        if held is None or held.verdict == "passed":
            message = "failed, and passed in a new process"
            seconds, attempts = (held.seconds, held.attempts + 1) if held else (0.0, 2)
            by_id[test] = CaseResult(test, "flaky", seconds, message=message, attempts=attempts)
    bad_files = {one.file for one in by_id.values() if one.bad}
    for module, signal in told.modules:
        file = f"{module}.py"
        if file not in bad_files:
            verdict: Verdict = "crashed" if signal else "error"
            message = f"run_test.py says that {module} failed{f': {signal}' if signal else ''}"
            by_id[file] = CaseResult(file, verdict, message=message)
    notes = [*problems]
    if ended.reason:
        notes.append(f"{call.name}: ended by force: {ended.reason}")
    # Ended by force after its tests were over it has no exit code to go by; before that, it did not come to
    # its end, which the record says.
    failed = ended.status not in (0, None) or bool(ended.reason and not ended.over)
    if failed and not any(one.bad for one in by_id.values()):
        how = ended.reason or f"ended with exit code {ended.status}, and no report says why"
        final: Verdict = "hung" if ended.reason else "error"
        by_id[call.words[0]] = CaseResult(call.words[0], final, message=f"{call.name}: {how}")
    return tuple(by_id.values()), tuple(notes)


class RunTestOutcome(msgspec.Struct, frozen=True):
    """What run_test.py printed: modules that failed, with the signal that ended them (empty: none), tests
    that failed each time (`consistent`) and tests that passed when they were run again."""

    modules: tuple[tuple[str, str], ...] = ()
    consistent: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


def read_said(lines: Iterable[str]) -> RunTestOutcome:
    """What the lines of a log say of failures; each once, in order."""
    modules: dict[str, str] = {}
    consistent: dict[str, None] = {}
    again: dict[str, None] = {}
    for line in lines:
        if failed := _FAILED.match(line):
            modules[failed["module"]] = failed["signal"] or modules.get(failed["module"], "")
        elif found := _THRICE.search(line):
            consistent.update(dict.fromkeys(_names(found["list"])))
        elif found := _AGAIN.search(line):
            again.update(dict.fromkeys(_names(found["list"])))
    return RunTestOutcome(tuple(modules.items()), tuple(consistent), tuple(again))


def _names(text: str) -> list[str]:
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return []
    # The tests lie below the checkout, node ids below the directory of the tests.
    return [str(name).removeprefix("test/") for name in names]


@dataclass
class Watch:
    """Takes each line of standard error, and says when the process has to be ended.

    `done` is the beginning of the line that says that the tests are over; `end_s` the seconds from there to
    the end, `silent_s` those without a line and without a change below `reports` or of `log`.
    """

    done: str
    end_s: float
    silent_s: float
    reports: Path
    log: Path
    note: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    over: bool = False
    _since: float = field(init=False)
    _seen: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def line(self, text: str) -> None:
        """One line of standard error."""
        if not self.over:
            self._since = self.clock()
        if running := _RUNNING.match(text):
            self.note(f"{running['module']} {running['part']}")
        elif _FAILED.match(text):
            self.note(text)
        elif text.startswith(self.done) and " cost " in text:
            self.over = True
            self._since = self.clock()

    def ended(self) -> str | None:
        """Why the process has to be ended now; None: it has not."""
        now = self.clock()
        if self.over:
            return None if now - self._since < self.end_s else f"its tests ended {self.end_s:g} seconds ago"
        seen = self._look()
        if seen != self._seen:
            self._seen, self._since = seen, now
        if now - self._since < self.silent_s:
            return None
        return f"nothing happened for {self.silent_s:g} seconds"

    def _look(self) -> tuple[int, int]:
        """How many bytes the reports and the log are, and when they last changed."""
        size = latest = 0
        for path in (self.log, *self.reports.rglob("*")):
            try:
                facts = path.stat()
            except OSError:
                continue
            size += facts.st_size
            latest = max(latest, facts.st_mtime_ns)
        return size, latest
