"""What comes of workers: what they say, how they end, and the results that this means for tests."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

from rocwright.errors import InvalidInput, MissingTool, RocwrightError, UsageError
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.state import ENDING_S, IsolatedRun
from rocwright.gputest.isolate.worker import Running, Worker
from rocwright.model.testing import CaseResult, Verdict

# So often in succession a place may fail to start a worker.
_STARTS = 2
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


def hear(run: IsolatedRun, number: int) -> None:
    """Take all messages of a worker; its end, too."""
    worker = run.workers[number]
    if worker is None:
        return
    for message in worker.messages():
        if run.workers[number] is worker:
            take(run, number, worker, message)
    if worker.closed and run.workers[number] is worker:
        gone(run, number)


def take(run: IsolatedRun, number: int, worker: Worker, message: list[Any]) -> None:
    """Take one message of a worker."""
    what, *rest = message
    if what == "start":
        file, own, at = rest
        worker.running = Running(file, _canonical(worker, file, own), time.monotonic(), at)
    elif what == "done":
        _done(run, number, worker, *rest)
    elif what == "collected":
        _collected(run, number, worker, *rest)
    elif what == "hello":
        _hello(run, number, worker, rest[0])
    elif what == "gpu":
        worker.on_gpu = True
    elif what == "probing":
        worker.enter("probing")
    elif what == "well":
        worker.enter("ready")
    elif what == "sick":
        sick(run, number, worker, rest[0])
    elif what == "late" and worker.ran is not None:
        run.outcomes.late(*worker.ran, run.schedule.ids(worker.ran[0]), *rest)
    elif what == "no pytest":
        run.problem = MissingTool(
            f"pytest cannot be imported by {run.plan.python}: {rest[0]}",
            next_step=f"{run.plan.python} -m pip install pytest",
        )


def _hello(run: IsolatedRun, number: int, worker: Worker, said: dict[str, Any]) -> None:
    if said["extra"]:
        raise UsageError(
            f"{said['extra'][0]} cannot be one of pytest's arguments",
            next_step="name test files before the arguments for pytest, and other tests with -k",
        )
    run.greeted = True
    run.failed_starts[number] = 0
    run.maxfail = int(said["maxfail"] or 0)
    if run.probe_first[number]:
        worker.enter("probing")
        worker.say("probe")
    else:
        worker.enter("ready")


def _collected(
    run: IsolatedRun,
    number: int,
    worker: Worker,
    file: str,
    ids: list[str],
    left_out: int,
    problems: list[list[str]],
    absent: list[str],
) -> None:
    first = not run.schedule.known(file)
    seconds = time.monotonic() - worker.since
    worker.enter("ready")
    worker.collecting = ""
    fresh, worker.warm = not worker.warm, True
    if problems and not first:
        run.not_collected(number, f"{file} could not be collected again: {problems[0][1]}")
        return
    missing = run.schedule.collected(number, tuple(ids), seconds)
    canonical = run.schedule.ids(file)
    if tuple(ids) != canonical:
        own = {name: index for index, name in enumerate(ids)}
        worker.own_index[file] = {index: own[name] for index, name in enumerate(canonical) if name in own}
    for name in missing:
        run.outcomes.add(CaseResult(name, "error", message=f"not among the tests of {file} this time"))
    if not first:
        return
    run.deselected += left_out
    run.count.expect(len(ids))
    if fresh:
        run.start_s = run.start_s or round(time.monotonic() - worker.began, 3)
    elif ids and not problems:
        run.collect_s[file] = round(seconds, 3)
    for verdict, message, detail in problems:
        run.outcomes.of_file(file, _verdict(verdict), message, detail, seconds)
    if absent and not problems:
        some = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
        run.notes.append(f"{file}: {len(absent)} of the tests asked for are not there: {some}")
    elif not ids and not problems and not left_out:
        run.notes.append(f"{file}: no tests")


def _done(
    run: IsolatedRun,
    number: int,
    worker: Worker,
    file: str,
    own: int,
    verdict: str,
    seconds: float,
    message: str,
    detail: str,
    entry: str,
    attempts: int,
) -> None:
    index = _canonical(worker, file, own)
    worker.running = None
    worker.ran = (file, index)
    run.schedule.done(number, index, seconds)
    name = run.schedule.ids(file)[index]
    case = CaseResult(name, _verdict(verdict), seconds, message, detail, attempts, entry)
    run.record(file, index, case)


def _canonical(worker: Worker, file: str, own: int) -> int:
    """The index in the file's first list of what this worker counts its own way."""
    mapping = worker.own_index.get(file)
    if mapping is None:
        return own
    return next(index for index, other in mapping.items() if other == own)


def _verdict(text: str) -> Verdict:
    return text  # type: ignore[return-value]  # the worker writes these only


def sick(run: IsolatedRun, number: int, worker: Worker, message: str) -> None:
    """The GPU does not answer in this process; if it does not in a fresh process either, it is not used."""
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
            next_step="correct what follows --, or PYTEST_ADDOPTS, PYTEST_PLUGINS or pytest's settings",
        )
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    said = errors[-1] if errors else (lines[-1] if lines and message.startswith("ended its") else message)
    return InvalidInput(
        f"no test can be run with {plan.python}: {said}",
        where=worker.log,
        next_step="repair that environment (can it import torch?), or name another with --python",
    )


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
