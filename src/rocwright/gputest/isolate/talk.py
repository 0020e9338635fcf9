"""What workers say, and what follows from it."""

from __future__ import annotations

import time
from typing import Any

from rocwright.errors import MissingTool, UsageError
from rocwright.gputest.isolate.losses import gone, sick
from rocwright.gputest.isolate.state import IsolatedRun
from rocwright.gputest.isolate.worker import Running, Worker
from rocwright.model.testing import CaseResult, Verdict


def hear(run: IsolatedRun, number: int) -> None:
    """Take all that a worker has said; its end, too."""
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
            f"{said['extra'][0]} cannot stand among pytest's arguments",
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
