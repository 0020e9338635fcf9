"""Runs tests in workers that may be lost: a crash, a hang or a GPU fault costs one test, and is its result.

`run_recorded` also tells of the results as pytest does, and keeps them as a record on the disk.

The coordinator never imports torch or pytest. Each worker holds a pytest session (`inside/`), is handed tests
a few ahead, and is replaced when it is gone; the next worker collects only the file that it needs.

Made for Linux, and run there only. For Windows there is another connection (a port of loopback), which is
tested on Linux. There it would give no traceback of a hang, watch no memory, and leave what a worker has
started.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rocwright.errors import Interrupted
from rocwright.gputest.isolate.events import gone, hear, take
from rocwright.gputest.isolate.plan import Isolated, Isolation, check_plan
from rocwright.gputest.isolate.schedule import Collect, Hand, Last, Renew
from rocwright.gputest.isolate.state import IsolatedRun
from rocwright.gputest.isolate.worker import Worker
from rocwright.gputest.record import write_record, writing_alone
from rocwright.model.emulated import Emulated
from rocwright.model.testing import CaseResult, Ran, RunRecord, Verdict
from rocwright.system.progress import counted

_LOOK_S = 0.1
# Workers that have tests ahead need no answer: what they say is read in one go.
_GATHER_S = 0.004
_PROBE_S = 120.0
_LETTERS: dict[Verdict, str] = {
    "passed": ".",
    "failed": "F",
    "error": "E",
    "crashed": "C",
    "hung": "H",
    "memory": "M",
    "xpassed": "X",
    "flaky": "f",
    "xfailed": "x",
    "skipped": "s",
}
_WIDTH = 72
# What of pytest's own options asks for a line for each test, and for what tests print or log.
_EACH = re.compile(r"-[qvsxl]*v[qvsxl]*|--verbose|--verbosity=[1-9]\d*")
_LIVE = re.compile(r"-[qvsxl]*s[qvsxl]*|--capture=no|--log-cli-level(=.*)?|(-o|--override-ini=)log_cli=.*")
_PRINTED = "\n\nPrinted:\n"


# The results as they count, and what played the GPU.
Weigh = Callable[[tuple[CaseResult, ...]], tuple[tuple[CaseResult, ...], Emulated | None]]


def _as_they_are(results: tuple[CaseResult, ...]) -> tuple[tuple[CaseResult, ...], Emulated | None]:
    return results, None


def run_isolated(plan: Isolation, *, tell: Callable[[CaseResult], None] | None = None) -> Isolated:
    """Run the tests of a plan; `tell` hears of each result as soon as it stands.

    Stopped by Ctrl-C or SIGTERM it ends its workers and returns what there is. Raises `UsageError` for what
    cannot run (before any test), `MissingTool` without an interpreter or pytest, `InvalidInput` when no
    worker starts.
    """
    check_plan(plan)
    interrupted = False
    with counted("testing", unit="tests") as count:
        run = IsolatedRun(plan, tell, count)
        try:
            _loop(run)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            _end_all(run)
    return _isolated(run, interrupted=interrupted)


def run_recorded(
    ran: Ran,
    isolation: Isolation,
    directory: Path,
    teller: Teller,
    *,
    notes: Sequence[str] = (),
    weigh: Weigh = _as_they_are,
) -> RunRecord:
    """Run the tests of a plan and write their record below `directory`; `teller` hears of each result.

    `weigh` says of a run on an emulated GPU how its results count, and what emulated.

    Raises what `run_isolated` raises, `UsageError` when another run writes there, and `Interrupted` once the
    record of a run that was stopped is written.
    """
    with writing_alone(directory):
        done = run_isolated(isolation, tell=teller.take)
        teller.close()
        results, emulation = weigh(done.results)
        record = RunRecord(
            ran=ran,
            results=results,
            seconds=done.seconds,
            complete=done.complete,
            worker_starts=done.worker_starts,
            deselected=done.deselected,
            notes=(*notes, *done.notes),
            start_s=done.start_s,
            collect_s=dict(done.collect_s),
            emulation=emulation,
        )
        write_record(record, directory)
    if done.interrupted:
        raise Interrupted("stopped; what was seen until then is in the record", where=directory)
    return record


class Teller(msgspec.Struct):
    """Progress as pytest shows it: a letter for each test, a line for each that is bad.

    With `each` there is a line for every test, with `live` what each printed or logged, below its line.
    """

    say: Callable[[str], None]
    each: bool = False
    live: bool = False
    count: int = 0
    _letters: dict[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, say: Callable[[str], None], pytest_args: Sequence[str]) -> Teller:
        """A teller that says as much as these options for pytest ask for."""
        words = " ".join(pytest_args).replace("-o log_cli", "-olog_cli").split()
        return cls(say, any(map(_EACH.fullmatch, words)), any(map(_LIVE.fullmatch, words)))

    def take(self, result: CaseResult) -> None:
        """One result."""
        self.count += 1
        printed = result.detail.partition(_PRINTED)[2] if self.live else ""
        if result.bad or result.verdict == "flaky" or self.each or printed:
            message = f": {result.message}" if result.message and result.verdict != "passed" else ""
            self.say(f"{result.verdict.upper()} {result.id}{message}")
        for line in filter(str.strip, printed.splitlines()):
            self.say(f"  {line}")
        if self.each:
            return
        letters = self._letters.get(result.file, "") + _LETTERS[result.verdict]
        self._letters[result.file] = letters
        if len(letters) >= _WIDTH:
            self._flush(result.file)

    def close(self) -> None:
        """Say what is left."""
        for file in tuple(self._letters):
            self._flush(file)

    def _flush(self, file: str) -> None:
        letters = self._letters.pop(file, "")
        if letters:
            self.say(f"{file} {letters} [{self.count}]")


def _loop(run: IsolatedRun) -> None:
    """Until every test has its result, or no worker is left to run it."""
    for number in range(len(run.workers)):
        run.start(number)
    looked = time.monotonic()
    while True:
        for number in range(len(run.workers)):
            _advance(run, number)
        if _finished(run):
            break
        for key, _ in run.selector.select(_LOOK_S / 2):
            hear(run, key.data)
        now = time.monotonic()
        if now - looked >= _LOOK_S:
            looked = now
            _look(run, now)
        elif run.schedule.all_ahead():
            time.sleep(_GATHER_S)
    _end_politely(run)


def _finished(run: IsolatedRun) -> bool:
    if all(run.retired):
        if not run.greeted and run.problem is not None:
            raise run.problem
        return True
    busy = any(
        worker is not None and (worker.state in ("starting", "collecting", "probing") or worker.running)
        for worker in run.workers
    )
    if run.stopped:
        return not any(worker is not None and worker.running for worker in run.workers)
    return not busy and run.schedule.finished()


def _advance(run: IsolatedRun, number: int) -> None:
    """Tell a worker what comes next; start it where there is none and something to do."""
    worker = run.workers[number]
    if worker is None:
        if not run.retired[number] and not run.stopped and run.schedule.has_work(number):
            run.start(number)
        return
    if worker.state != "ready" or run.stopped:
        return
    now = time.monotonic()
    running = {
        other: now - one.running.since
        for other, one in enumerate(run.workers)
        if one is not None and one.running is not None
    }
    order = run.schedule.next(number, running)
    if isinstance(order, Collect):
        worker.collecting = order.file
        worker.enter("collecting")
        only = None if run.only is None else run.only[order.file]
        leave = run.leave.get(order.file, [])
        worker.say("collect", order.file, run.specs[order.file], only, leave)
    elif isinstance(order, Hand):
        own = worker.own_index.get(order.file)
        tests = [index if own is None else own[index] for index in order.tests]
        worker.say("run", order.file, tests, order.last)
    elif isinstance(order, Last):
        worker.say("last")
    elif isinstance(order, Renew):
        run.dismiss(number)
        run.schedule.lost(number, None)


def _look(run: IsolatedRun, now: float) -> None:
    """Time and memory of every worker."""
    over = run.watch.over([(n, w.child) for n, w in enumerate(run.workers) if w is not None], now)
    for number, worker in enumerate(run.workers):
        if worker is None:
            continue
        if worker.child.ended() is not None:
            # A child that it left behind may hold the connection open.
            hear(run, number)
            if run.workers[number] is worker:
                gone(run, number)
            continue
        if number in over:
            hear(run, number)
            if run.workers[number] is worker:
                worker.dump()
                gone(run, number, *over[number])
            continue
        if worker.trim():
            run.notes.append(f"{worker.log.name} was cut: tests printed too much")
        limit, since_, what = _limit(run, worker)
        if limit is None or now - since_ <= limit:
            continue
        hear(run, number)
        if run.workers[number] is not worker or _limit(run, worker)[1] != since_:
            continue
        worker.dump()
        gone(run, number, "hung", f"{what} within {_seconds(limit)}")


def _limit(run: IsolatedRun, worker: Worker) -> tuple[float | None, float, str]:
    """Seconds that a worker may take for what it does, since when, and what it then did not do."""
    if worker.running is not None and worker.state != "probing":
        return run.plan.test_s, worker.running.since, "did not end"
    if worker.state in ("starting", "collecting"):
        return run.plan.collect_s, worker.since, "did not end" if worker.collecting else "did not start"
    if worker.state == "probing":
        return _PROBE_S, worker.since, "did not answer"
    return None, worker.since, ""


def _end_politely(run: IsolatedRun) -> None:
    """Let sessions end by themselves: their fixtures, their plugins; for as long as they may take."""
    for worker in run.workers:
        if worker is not None:
            worker.enter("ending")
            worker.say("end")
    deadline = time.monotonic() + run.plan.end_s
    while any(run.workers) and time.monotonic() < deadline:
        for key, _ in run.selector.select(_LOOK_S):
            worker = run.workers[key.data]
            if worker is None:
                continue
            for message in worker.messages():
                take(run, key.data, worker, message)
            if worker.closed:
                worker.child.ended(max(0.0, deadline - time.monotonic()))
                run.dismiss(key.data)
        for number, worker in enumerate(run.workers):
            if worker is not None and worker.child.ended() is not None:
                run.dismiss(number)
    for number, worker in enumerate(run.workers):
        if worker is not None:
            worker.dump()
            run.notes.append(
                f"{run.place(number)}: its process did not end within {_seconds(run.plan.end_s)}"
                f" after its tests; see {worker.log.name}"
            )


def _end_all(run: IsolatedRun) -> None:
    """Nothing is left running, whatever happened."""
    for number in range(len(run.workers)):
        run.dismiss(number)
    run.selector.close()
    run.guard.close()
    run.outcomes.hide_secrets(run.plan.log_dir)


def _isolated(run: IsolatedRun, *, interrupted: bool) -> Isolated:
    """What the run came to."""
    files, tests, again = run.schedule.left()
    run.outcomes.settle()
    if not interrupted and not run.stopped:
        for name in [*files, *tests]:
            run.outcomes.add(CaseResult(name, "error", message=run.outcomes.reason or "was not run"))
    if interrupted:
        run.notes.append("stopped before its end")
    return Isolated(
        results=run.outcomes.sorted(run.schedule),
        seconds=round(time.monotonic() - run.began, 3),
        worker_starts=run.starts,
        deselected=run.deselected,
        complete=not (interrupted or run.stopped or files or tests or again),
        interrupted=interrupted,
        notes=tuple(dict.fromkeys(run.notes)),
        start_s=run.start_s,
        collect_s=run.collect_s,
    )


def _seconds(seconds: float) -> str:
    """A limit as messages give it."""
    return f"{seconds:g} s"
