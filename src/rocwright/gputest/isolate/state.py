"""What an isolated run knows and holds: its workers, its schedule and what came of the tests so far."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rocwright.errors import RocwrightError
from rocwright.gputest.isolate.plan import Isolation, grouped, memory_limit
from rocwright.gputest.isolate.schedule import Schedule
from rocwright.gputest.isolate.worker import Worker
from rocwright.gputest.report.cases import of_attempts, worse_of
from rocwright.model.testing import CaseResult, Verdict
from rocwright.system.child import Child, Guard, processes_below, shared_out
from rocwright.system.files import atomic_write
from rocwright.system.limits import available_memory, find_groups, read_table
from rocwright.system.progress import Count
from rocwright.system.redact import hidden, secrets_in

# A worker that ended may need a moment until the system gives its exit code.
ENDING_S = 1.0


class IsolatedRun:
    """A run; lists have one element for each place of a worker, whichever process is there just now.

    `problem` is why workers do not start, raised when none ever did (`greeted`). `stopped`: nothing more
    is begun, as -x asks.
    """

    def __init__(self, plan: Isolation, tell: Callable[[CaseResult], None] | None, count: Count) -> None:
        self.plan, self.count = plan, count
        self.began = time.monotonic()
        self.specs = grouped(plan.files)
        self.only = _by_file(plan.only)
        self.leave = _by_file(plan.leave) or {}
        files = [name for name in self.specs if self.only is None or name in self.only]
        self.schedule = Schedule(files, len(plan.workers))
        self.workers: list[Worker | None] = [None for _ in plan.workers]
        self.retired: list[bool] = [False for _ in plan.workers]
        self.probe_first: list[bool] = [False for _ in plan.workers]
        self.failed_starts = [0 for _ in plan.workers]
        self.selector = selectors.DefaultSelector()
        environment = {**os.environ, **plan.env}
        secrets = [value for one in (environment, *plan.workers) for value in secrets_in(one)]

        def told(case: CaseResult) -> None:
            count.add(1)
            if tell is not None:
                tell(case)

        self.outcomes = Outcomes(plan, files, told, secrets)
        limit = memory_limit(plan.memory, available_memory().available, len(plan.workers))
        self.watch = MemoryWatch(limit)
        self.plugins, self.env = _with_entries(plan)
        self.starts = self.deselected = self.maxfail = 0
        self.start_s = 0.0
        self.collect_s: dict[str, float] = {}
        self.greeted = self.stopped = False
        self.problem: RocwrightError | None = None
        self.notes: list[str] = []
        self.guard = Guard()

    def start(self, number: int) -> None:
        """Put a new worker at a place."""
        env = {**self.env, **self.plan.workers[number]}
        # A program in front of the interpreter may hand no open file on.
        worker = Worker(self.plan, number, self.plugins, env, port=bool(self.plan.before))
        self.starts += 1
        self.workers[number] = worker
        self.guard.watch(worker.child)
        self.selector.register(worker.socket, selectors.EVENT_READ, number)

    def dismiss(self, number: int) -> int | None:
        """End a worker by force; its exit code."""
        worker = self.workers[number]
        if worker is None:
            return None
        self.workers[number] = None
        self.selector.unregister(worker.socket)
        if self.plan.before and worker.closed:
            # The program that ran it has to tell what it saw before it goes.
            worker.child.ended(self.plan.end_s)
        code = worker.child.end(ENDING_S)
        worker.close()
        if code is None:
            self.notes.append(f"{self.place(number)}: process {worker.child.pid} is stuck in the system")
        return code

    def place(self, number: int) -> str:
        """What a place is called: by its device."""
        shown = [f"{name}={value}" for name, value in sorted(self.plan.workers[number].items())]
        return " ".join(shown) or f"worker {number + 1}"

    def retire(self, number: int, note: str) -> None:
        """Use a place no more, and say why."""
        self.dismiss(number)
        self.schedule.lost(number, None)
        self.retired[number] = True
        self.outcomes.reason = note
        self.notes.append(note)

    def record(self, file: str, index: int, case: CaseResult) -> None:
        """Note what an attempt at a test gave: it runs again, is done, or ends the run."""
        if self.outcomes.attempt(file, index, case) and not self.stopped:
            self.schedule.again(file, index)
        if self.maxfail and self.outcomes.bad >= self.maxfail and not self.stopped:
            self.stopped = True
            failures = "1 failure" if self.outcomes.bad == 1 else f"{self.outcomes.bad} failures"
            self.notes.append(f"stopped after {failures}, as pytest's options ask")
            self.schedule.stop()
            for worker in self.workers:
                if worker is not None:
                    worker.say("end")

    def not_collected(self, number: int, message: str) -> None:
        """Call the tests that a worker was to run errors: it does not find them."""
        for name in self.schedule.not_collected(number):
            self.outcomes.add(CaseResult(name, "error", message=message))


def _by_file(names: tuple[str, ...] | None) -> dict[str, list[str]] | None:
    if names is None:
        return None
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition("::")[0], []).append(name)
    return found


def _with_entries(plan: Isolation) -> tuple[tuple[str, ...], dict[str, str]]:
    """The plugin of skip entries with its file, where there are any."""
    if not plan.entries:
        return (), dict(plan.env)
    from rocwright.gputest.environment import write_entries

    path = plan.log_dir.resolve() / "entries.json"
    write_entries(plan.entries, path, plan.root)
    return ("rocwright_skips",), {**plan.env, "ROCWRIGHT_SKIPS": str(path)}


# -- keeps what tests showed: attempts become one result, secrets are left out, the order is the files'


class Outcomes:
    """The results of a run, one for each test and for each file that gave none.

    `bad` counts those that are settled and speak against the wheels; `reason` is why tests were not run.
    """

    def __init__(
        self,
        plan: Isolation,
        files: Sequence[str],
        tell: Callable[[CaseResult], None] | None,
        secrets: Sequence[str],
    ) -> None:
        self._reruns = plan.reruns
        # A test that is known to vary has at least one more attempt.
        self._flaky = {entry.id for entry in plan.entries if entry.kind == "flaky"}
        self._files = {name: number for number, name in enumerate(files)}
        self._tell = tell
        self._secrets = secrets
        self._attempts: dict[tuple[str, int], list[CaseResult]] = {}
        self._results: dict[str, CaseResult] = {}
        self.bad = 0
        self.reason = ""

    def attempt(self, file: str, index: int, case: CaseResult) -> bool:
        """Note an attempt; whether the test is to be run again."""
        earlier = self._attempts.setdefault((file, index), [])
        earlier.append(case)
        entry = next((one.entry for one in earlier if one.entry), "")
        allowed = max(self._reruns, 1 if entry in self._flaky else 0)
        if case.bad and len(earlier) <= allowed:
            return True
        self.add(of_attempts(earlier))
        del self._attempts[file, index]
        return False

    def settle(self) -> None:
        """What was to run again and was not, counts as it is."""
        for attempts in self._attempts.values():
            self.add(of_attempts(attempts))
        self._attempts.clear()

    def of_file(self, file: str, verdict: Verdict, message: str, detail: str, seconds: float) -> None:
        """A file that could not be collected, or not whole."""
        self.add(CaseResult(file, verdict, round(seconds, 3), message, detail))

    def late(self, file: str, index: int, ids: Sequence[str], message: str, detail: str) -> None:
        """What belongs to the session failed to end: an error of the last test."""
        del file
        self.add(CaseResult(ids[index], "error", message=f"teardown: {message}", detail=detail))

    def add(self, case: CaseResult) -> None:
        """Note a result; of several for an id the worst counts."""
        case = msgspec.structs.replace(
            case, message=self._clean(case.message), detail=self._clean(case.detail)
        )
        before = self._results.get(case.id)
        if before is not None:
            case = worse_of(before, case)
        self.bad += case.bad - (before is not None and before.bad)
        self._results[case.id] = case
        if self._tell is not None:
            self._tell(case)

    def _clean(self, text: str) -> str:
        return hidden(text, self._secrets)

    def sorted(self, schedule: Schedule) -> tuple[CaseResult, ...]:
        """In the order of the files, a file's own result first, then its tests as they were collected."""
        order: dict[str, tuple[int, int]] = {}
        for file, number in self._files.items():
            order[file] = (number, -1)
            order |= {name: (number, index) for index, name in enumerate(schedule.ids(file))}
        behind = len(order)
        return tuple(
            sorted(
                self._results.values(),
                key=lambda case: (order.get(case.id, (self._files.get(case.file, behind), behind)), case.id),
            )
        )

    def hide_secrets(self, logs: Path) -> None:
        """Leave secrets out of the workers' logs, which nobody else reads."""
        for log in sorted(logs.glob("worker-*.log")):
            with contextlib.suppress(OSError):
                before = log.read_bytes()
                shown = hidden(before.decode("utf-8", "surrogateescape"), self._secrets)
                data = shown.encode("utf-8", "surrogateescape")
                if data != before:
                    with atomic_write(log) as stream:
                        stream.write(data)


# -- watches the memory and the number of the processes of workers


# Looking at every process of the machine takes some milliseconds.
_ALL_S = 0.5
_MOST_PROCESSES = 1000


class MemoryWatch:
    """`limit` in bytes for a worker with its children; None where nobody tells how much there is."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._looked = 0.0
        self._kills = _system_kills()

    def over(self, children: Sequence[tuple[int, Child]], now: float) -> dict[int, tuple[Verdict, str]]:
        """By worker: verdict and message for those that are to be ended."""
        found: dict[int, tuple[Verdict, str]] = {}
        if self._limit is not None:
            for number, child in children:
                if (held := child.memory()) > self._limit:
                    found[number] = "memory", self._message(held)
        if now - self._looked >= _ALL_S:
            self._looked = now
            below = processes_below([child.pid for _, child in children])
            for number, child in children:
                if number not in found and (reason := self._of_all(below[child.pid])) is not None:
                    found[number] = reason
        return found

    def _of_all(self, below: dict[int, int]) -> tuple[Verdict, str] | None:
        if len(below) > _MOST_PROCESSES:
            return "crashed", f"started more than {_MOST_PROCESSES} processes"
        # What forked processes share is counted in each of them: only where that sum is too much, exactly.
        if self._limit is None or sum(below.values()) <= self._limit:
            return None
        held = shared_out(below)
        return ("memory", self._message(held)) if held > self._limit else None

    def _message(self, held: int) -> str:
        assert self._limit is not None
        return f"its processes used {held / 1e9:.2f} GB; the limit is {self._limit / 1e9:.2f} GB"

    def killed_by_system(self, code: int | None) -> bool:
        """Whether a process that ended with this code was ended because memory ran out."""
        kills, self._kills = self._kills, _system_kills()
        return code == -int(getattr(signal, "SIGKILL", 9)) and self._kills > kills


def _system_kills() -> int:
    """How many processes Linux has ended for memory, in this group or on the machine."""
    groups = find_groups("memory")
    tables = [read_table(path / "memory.events") for path in groups.directories] if groups else []
    return sum(table.get("oom_kill", 0) for table in (*tables, read_table(Path("/proc/vmstat"))))
