"""Workers that are gone: what each was at, the test that it costs, and whether its place is used again."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from rocwright.errors import InvalidInput, RocwrightError, UsageError
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.state import ENDING_S, IsolatedRun
from rocwright.gputest.isolate.worker import Worker
from rocwright.model.testing import CaseResult, Verdict

# So often in succession a place may fail to start a worker.
_STARTS = 2


def sick(run: IsolatedRun, number: int, worker: Worker, message: str) -> None:
    """The GPU does not answer in this process; if it does not in a fresh one either, it is not used."""
    if run.probe_first[number]:
        run.retire(number, f"GPU fault: {run.place(number)}: {message}")
        return
    run.probe_first[number] = True
    run.dismiss(number)
    run.schedule.lost(number, None)


def gone(run: IsolatedRun, number: int, verdict: Verdict | None = None, message: str = "") -> None:
    """A worker has ended, or is ended now with this verdict: what it was at is its last result."""
    worker = run.workers[number]
    assert worker is not None
    natural = worker.child.ended(ENDING_S) if verdict is None else None
    run.dismiss(number)
    at = worker.running.at if worker.running else worker.started_at
    printed = since(worker.log, at)
    if verdict is None:
        code = LOST if natural is None else natural
        verdict, message = of_exit(code, printed, killed_for_memory=run.watch.killed_by_system(natural))
    elif verdict == "hung" and (phase := phase_of(printed)) in ("setup", "teardown"):
        message += f", in its {phase}"
    run.probe_first[number] = run.probe_first[number] or worker.on_gpu
    now = time.monotonic()
    if worker.running is not None:
        file, index = worker.running.file, worker.running.index
        run.schedule.lost(number, index)
        seconds = round(now - worker.running.since, 3)
        case = CaseResult(run.schedule.ids(file)[index], verdict, seconds, message, printed)
        run.record(file, index, case)
    elif worker.state == "starting":
        _not_started(run, number, worker, message, printed)
    elif worker.state == "collecting":
        file = worker.collecting
        again = run.schedule.known(file)
        run.not_collected(number, f"{file} could not be collected again: {message}")
        run.schedule.lost(number, None)
        if not again:
            run.outcomes.of_file(
                file, verdict, f"while it was collected: {message}", printed, now - worker.since
            )
    elif worker.state == "probing":
        if run.probe_first[number] and worker.ran is None:
            run.retire(number, f"GPU fault: {run.place(number)}: {message}")
        run.probe_first[number] = True
        run.schedule.lost(number, None)
    else:
        run.notes.append(f"{run.place(number)}: {message} between two tests")
        run.schedule.lost(number, None)


def _not_started(run: IsolatedRun, number: int, worker: Worker, message: str, printed: str) -> None:
    run.schedule.lost(number, None)
    run.failed_starts[number] += 1
    problem = run.problem or _start_problem(run.plan, worker, message, printed)
    run.problem = problem
    if not run.greeted or run.failed_starts[number] >= _STARTS:
        run.retired[number] = True
        run.outcomes.reason = problem.what
        if run.greeted or not all(run.retired):
            run.notes.append(f"{run.place(number)}: {problem.what}")


def _start_problem(plan: Isolation, worker: Worker, message: str, printed: str) -> RocwrightError:
    """Why the first worker did not start, in pytest's words or the interpreter's."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    usage = next((line for line in lines if ": error: " in line), "")
    usage = usage or next((line for line in lines if line.startswith("ERROR: ")), "")
    if usage and "ImportError while loading" not in printed:
        said = usage.partition(": error: ")[2] or usage.removeprefix("ERROR: ")
        return UsageError(
            f"pytest refuses its arguments: {said}",
            where=worker.log,
            next_step="mend what stands after --, in PYTEST_ADDOPTS, PYTEST_PLUGINS or pytest's settings",
        )
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    said = errors[-1] if errors else (lines[-1] if lines and message.startswith("ended its") else message)
    return InvalidInput(
        f"no test can be run with {plan.python}: {said}",
        where=worker.log,
        next_step="mend that environment (does it import torch?), or name another with --python",
    )


# -- what the end of a worker says of the test that it was in


# Of what a lost test printed: the beginning, where the first complaint stands, and the end.
_HEAD = 6_000
_TAIL = 24_000
# Lines by which drivers, C++ and Python say what killed them.
_TELLING = re.compile(
    r"Memory access fault by GPU.*|HSA_STATUS_ERROR\w*.*|HIP error:.*|hipError\w+.*|CUDA error:.*|"
    r"terminate called.*|\s*what\(\):.*|Fatal Python error: (?!Segmentation|Aborted|Bus|Illegal|Floating).*|"
    r".*Assertion .* failed.*"
)
# As a worker ends that has lost its connection (`inside/rocwright_worker.py`).
LOST = 70


def of_exit(code: int | None, printed: str, *, killed_for_memory: bool) -> tuple[Verdict, str]:
    """Verdict and message for a process that ended in a test with `code` (a signal: negative)."""
    said = next(
        (match.group(0).strip() for match in map(_TELLING.fullmatch, printed.splitlines()) if match), ""
    )
    if code is None:
        return "crashed", "its process stopped answering, and cannot be ended"
    if code < 0:
        name = _signal_name(-code)
        if killed_for_memory:
            return "memory", f"the system ran out of memory and ended its process ({name})"
        return "crashed", f"ended by {name}" + (f": {said}" if said else "")
    if code == LOST:
        return "crashed", "closed the connection or the log of its worker"
    return "crashed", f"ended its process with exit code {code}" + (f": {said}" if said else "")


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"


def phase_of(dump: str) -> str:
    """Whether a traceback stands in setup, call or teardown; empty where it does not say."""
    for phase in ("setup", "teardown", "call"):
        if re.search(rf"in pytest_runtest_{phase}\b", dump):
            return phase
    # Classes and files are torn down on the way to the next test.
    return "teardown" if "teardown_exact" in dump else ""


def since(log: Path, at: int) -> str:
    """What was written to a log from `at` on, both ends of it."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, 2)
            at = min(at, size)
            stream.seek(at)
            if size - at <= _HEAD + _TAIL:
                return stream.read().decode("utf-8", "replace").strip()
            head = stream.read(_HEAD).decode("utf-8", "replace")
            stream.seek(size - _TAIL)
            tail = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return f"{head}\n[… {size - at - _HEAD - _TAIL} bytes …]\n{tail}".strip()
