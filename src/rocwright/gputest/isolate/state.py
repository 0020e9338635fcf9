"""What an isolated run knows and holds: its workers, its schedule and what came of the tests so far."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable

from rocwright.errors import RocwrightError
from rocwright.gputest.isolate.outcome import Outcomes
from rocwright.gputest.isolate.plan import Isolation, grouped, memory_limit
from rocwright.gputest.isolate.schedule import Schedule
from rocwright.gputest.isolate.watch import Watch
from rocwright.gputest.isolate.worker import Worker
from rocwright.model.testing import CaseResult
from rocwright.system.child import Guard
from rocwright.system.memory import available_memory
from rocwright.system.redact import secrets_in

# A worker that ended may need a moment until the system gives its exit code.
ENDING_S = 1.0


class State:
    """A run; lists have one element for each place of a worker, whichever process is there just now.

    `problem` is why workers do not start, raised when none ever did (`greeted`). `stopped`: nothing more
    is begun, as -x asks.
    """

    def __init__(self, plan: Isolation, tell: Callable[[CaseResult], None] | None) -> None:
        self.plan = plan
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
        self.outcomes = Outcomes(plan, files, tell, secrets)
        limit = memory_limit(plan.memory, available_memory().available, len(plan.workers))
        self.watch = Watch(limit)
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
        worker = Worker(self.plan, number, self.plugins, env)
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
    from rocwright.gputest.skips.given import write_entries

    path = plan.log_dir.resolve() / "entries.json"
    write_entries(plan.entries, path, plan.root)
    return ("rocwright_skips",), {**plan.env, "ROCWRIGHT_SKIPS": str(path)}
