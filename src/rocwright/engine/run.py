"""Run a graph on this machine: several steps at once, resuming what an earlier run finished."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from rocwright.engine import record as state
from rocwright.engine.changes import look
from rocwright.engine.graph import Graph, Inputs, Note, Step
from rocwright.engine.hold import held
from rocwright.errors import Interrupted, UsageError
from rocwright.system import console, process
from rocwright.system.files import make_directory
from rocwright.system.limits import used
from rocwright.system.parallel import ready_for_threads
from rocwright.system.progress import Progress

NONE_NEEDED: Mapping[str, msgspec.Struct] = MappingProxyType({})


class StepRecord(msgspec.Struct, frozen=True):
    """How a step of this run ended: `done`, `cached`; its seconds, its line for people, its result."""

    id: str
    state: str
    wall_s: float
    summary: str
    value: msgspec.Raw


class RunReport(msgspec.Struct, frozen=True):
    """A whole run. `peak_rss` is the largest resident set of this process or any one child, in bytes."""

    steps: tuple[StepRecord, ...]
    wall_s: float
    cpu_s: float
    peak_rss: int


class _Done(msgspec.Struct):
    step: Step
    value: msgspec.Struct | None
    state: str
    wall_s: float
    problem: BaseException | None


def run(
    graph: Graph,
    state_dir: Path,
    *,
    jobs: int = 2,
    progress: Progress | None = None,
    given: Mapping[str, msgspec.Struct] | None = None,
) -> RunReport:
    """Run every step whose result is not there yet, at most `jobs` at once.

    `given` are results of steps that are not in the graph, by id.
    A step's error stops new steps from starting; running steps end and keep their results; then the error
    is raised. Ctrl-C ends the commands of running steps; a new run resumes.
    """
    if jobs < 1:
        raise UsageError(f"{jobs} steps at once would never end", next_step="give --jobs 1 or more")
    began = time.monotonic()
    ready_for_threads()
    make_directory(state_dir)
    display = progress or Progress(total=len(graph.steps), quiet=True)
    values: dict[str, msgspec.Struct] = dict(given or {})
    records: dict[str, StepRecord] = {}
    waiting = list(graph.steps)
    ended: queue.Queue[_Done] = queue.Queue()
    running = 0
    problem: BaseException | None = None
    with display.shown(), _held(state_dir):
        try:
            while (waiting and problem is None) or running:
                while problem is None and running < jobs and (step := _ready(waiting, values)) is not None:
                    waiting.remove(step)
                    needed = {need: values[need] for need in step.needs}
                    # Daemon threads: an interrupted run must not wait for a step to end by itself.
                    threading.Thread(
                        target=_run_step, args=(step, needed, state_dir, display, ended), daemon=True
                    ).start()
                    running += 1
                done = ended.get()
                running -= 1
                if done.problem is not None or done.value is None:
                    problem = problem or done.problem
                    continue
                values[done.step.id] = done.value
                line = done.step.summary(done.value)
                display.end(done.step.id, done.state, line)
                records[done.step.id] = StepRecord(
                    done.step.id,
                    done.state,
                    round(done.wall_s, 2),
                    line,
                    msgspec.Raw(msgspec.json.encode(done.value)),
                )
        except KeyboardInterrupt:
            process.stop_all()
            raise Interrupted(
                "interrupted", next_step="run the same command again; finished steps are kept"
            ) from None
    if problem is not None:
        raise problem
    usage = used()
    return RunReport(
        steps=tuple(records[step.id] for step in graph.steps),
        wall_s=round(time.monotonic() - began, 2),
        cpu_s=round(usage.cpu_s, 2),
        peak_rss=usage.peak_rss,
    )


def _held(state_dir: Path) -> AbstractContextManager[None]:
    return held(state_dir.parent, f"{state_dir.name}.lock", f"{state_dir.name}.running", console.say)


def _ready(waiting: list[Step], values: dict[str, msgspec.Struct]) -> Step | None:
    return next((step for step in waiting if all(need in values for need in step.needs)), None)


def _run_step(
    step: Step,
    needed: dict[str, msgspec.Struct],
    state_dir: Path,
    display: Progress,
    ended: queue.Queue[_Done],
) -> None:
    began = time.monotonic()
    try:
        value, cached = once(
            step,
            state_dir / f"{step.id}.json",
            needed,
            begun=lambda: display.start(step.id),
            note=lambda text: display.note(step.id, text),
        )
        ended.put(_Done(step, value, "cached" if cached else "done", time.monotonic() - began, None))
    except BaseException as error:  # handed to the main thread, which raises it
        display.end(step.id, "failed", str(error).partition("\n")[0])
        ended.put(_Done(step, None, "failed", time.monotonic() - began, error))


def once(
    step: Step,
    record: Path,
    needed: Mapping[str, msgspec.Struct] = NONE_NEEDED,
    *,
    begun: Callable[[], None] = lambda: None,
    note: Note = lambda _: None,
) -> tuple[Any, bool]:
    """The result of a step, and whether it was there already; it is done if its `record` does not hold.

    The result is of the type that the step names. `begun` is called where it has to be done: then the record
    is removed first, since from there on what lies there may be half-written.
    """
    began = time.monotonic()
    inputs = state.inputs_digest(step, needed)
    value = state.load(record, step, inputs)
    if value is not None:
        return value, True
    record.unlink(missing_ok=True)
    looked = look(step.reads())
    begun()
    value = step.act(Inputs(needed), note)
    state.save(record, step, inputs, value, wall_s=time.monotonic() - began, looked=looked)
    return value, False
