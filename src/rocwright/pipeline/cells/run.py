"""All cells of a plan, or some, on this machine: several at once, those of one place one after the other."""

from __future__ import annotations

import queue
import threading
import time
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import count
from operator import attrgetter

import msgspec

from rocwright.errors import Interrupted, UsageError
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.cells.act import TAKEN, act, failed_record
from rocwright.pipeline.cells.claim import AtWork, release_all
from rocwright.pipeline.cells.inputs import StepsOf
from rocwright.pipeline.records import Machine, Record, place_of
from rocwright.system import process
from rocwright.system.parallel import ready_for_threads
from rocwright.system.progress import Progress

# A cell that somebody else does is looked at again after these seconds, and then less and less often.
_FIRST_LOOK_S = 0.3
_LAST_LOOK_S = 10.0
# How long workers are waited for that were told to stop.
_GRACE_S = 5.0


class Ran(msgspec.Struct, frozen=True):
    """How the cells ended, by id and in order, and what went wrong; `wall_s` of the whole in seconds."""

    records: dict[str, Record]
    problems: dict[str, BaseException]
    wall_s: float

    def raise_first(self) -> None:
        """Raise the first error, if any."""
        for problem in self.problems.values():
            raise problem


class _Ended(msgspec.Struct):
    cell: Cell
    record: Record | None = None
    problem: BaseException | None = None


class _Waiting(msgspec.Struct, eq=False):
    """A cell to be done, in its turn: not before a time, where somebody else is at it.

    `needs` says how many of the run's cells have to end before.
    """

    cell: Cell
    turn: int
    needs: int = 0
    after: float = 0.0
    pause: float = _FIRST_LOOK_S


@dataclass
class _Run:
    plan: Plan
    machine: Machine
    display: Progress
    steps_of: StepsOf | None
    cells: InitVar[Sequence[Cell]]
    # How many have not ended, those of them that need no other, by turn, and who needs a cell.
    left: int = field(init=False)
    turns: Iterator[int] = field(init=False)
    free: list[_Waiting] = field(default_factory=list)
    needing: defaultdict[str, list[_Waiting]] = field(default_factory=lambda: defaultdict(list))
    records: dict[str, Record] = field(default_factory=dict)
    problems: dict[str, BaseException] = field(default_factory=dict)
    running: dict[str, _Waiting] = field(default_factory=dict)
    ended: queue.Queue[_Ended] = field(default_factory=queue.Queue)

    def __post_init__(self, cells: Sequence[Cell]) -> None:
        """Find who waits for whom, once: a plan may have a hundred thousand cells."""
        self.left, self.turns = len(cells), count(len(cells))
        ids = {cell.id for cell in cells}
        for turn, cell in enumerate(cells):
            needs = ids.intersection(cell.needs)
            one = _Waiting(cell, turn, len(needs))
            for id_ in needs:
                self.needing[id_].append(one)
            if not needs:
                self.free.append(one)

    def start_all(self) -> None:
        """Start what can start; each gets its share of the compilers."""
        while len(self.running) < self.machine.jobs:
            ready = self.ready()
            if not ready:
                return
            at_once = min(self.machine.jobs, len(self.running) + len(ready))
            machine = msgspec.structs.replace(self.machine, jobs=max(1, self.machine.jobs // at_once))
            one = ready[0]
            self.free.remove(one)
            self.running[one.cell.id] = one
            if one.pause == _FIRST_LOOK_S:
                self.display.start(one.cell.id)
            needed = {id_: self.records[id_] for id_ in one.cell.needs if id_ in self.records}
            # Daemon threads: an interrupted run must not wait for a step to end by itself.
            threading.Thread(target=self.work, args=(one.cell, machine, needed), daemon=True).start()

    def ready(self) -> list[_Waiting]:
        """Cells that can start now, in order, no more than may run at once; of one place only one."""
        places = {place_of(one.cell) for one in self.running.values()}
        found: list[_Waiting] = []
        now = time.monotonic()
        for one in self.free:
            place = place_of(one.cell)
            if place in places or one.after > now:
                continue
            places.add(place)
            found.append(one)
            if len(found) == self.machine.jobs:
                break
        return found

    def work(self, cell: Cell, machine: Machine, needed: dict[str, Record]) -> None:
        def note(text: str) -> None:
            self.display.note(cell.id, text)

        try:
            record = act(self.plan, cell, machine, note, steps_of=self.steps_of, known=needed, patient=False)
            self.ended.put(_Ended(cell, record))
        except BaseException as error:  # handed to the main thread
            self.ended.put(_Ended(cell, problem=error))

    def take(self, done: _Ended) -> None:
        """What one cell ended with; a cell that somebody else does comes back later."""
        one = self.running.pop(done.cell.id)
        if isinstance(done.problem, AtWork):
            one.after, one.pause = time.monotonic() + one.pause, min(1.5 * one.pause, _LAST_LOOK_S)
            one.turn = next(self.turns)
            insort(self.free, one, key=attrgetter("turn"))
            return
        self.left -= 1
        for other in self.needing.pop(done.cell.id, ()):
            other.needs -= 1
            if not other.needs:
                insort(self.free, other, key=attrgetter("turn"))
        if done.problem is not None:
            self.problems[done.cell.id] = done.problem
            self.records[done.cell.id] = failed_record(done.cell, done.problem)
            self.display.end(done.cell.id, "failed", str(done.problem).partition("\n")[0])
        elif done.record is not None:
            self.records[done.cell.id] = done.record
            self.display.end(done.cell.id, *_shown(done.record))


def run_plan(
    plan: Plan,
    machine: Machine,
    *,
    only: Collection[str] | None = None,
    progress: Progress | None = None,
    steps_of: StepsOf | None = None,
) -> Ran:
    """Do every cell of a plan, or `only` some of them by id, at most `machine.jobs` at once.

    What is done already is not done again; what another machine does is left to it. A cell that fails stops
    those that need it, not the others; what went wrong stands in the result. Ctrl-C ends the commands of
    running steps and raises `Interrupted`; a new run resumes.
    """
    if machine.jobs < 1:
        raise UsageError(f"{machine.jobs} steps at once would never end", next_step="give --jobs 1 or more")
    cells: Sequence[Cell] = [cell for cell in plan.cells if only is None or cell.id in only]
    began = time.monotonic()
    ready_for_threads()
    display = progress or Progress(total=len(cells), quiet=True)
    run = _Run(plan, machine, display, steps_of, cells)
    with display.shown():
        try:
            while run.left:
                run.start_all()
                try:
                    run.take(run.ended.get(timeout=_FIRST_LOOK_S))
                except queue.Empty:
                    continue
        except KeyboardInterrupt:
            process.stop_all()
            deadline = time.monotonic() + _GRACE_S
            while run.running and time.monotonic() < deadline:
                try:
                    run.running.pop(run.ended.get(timeout=0.1).cell.id)
                except queue.Empty:
                    continue
            release_all()
            raise Interrupted(
                "interrupted", next_step="run the same command again; finished steps are kept"
            ) from None
    order = [cell.id for cell in cells]
    return Ran(
        {id_: run.records[id_] for id_ in order},
        {id_: run.problems[id_] for id_ in order if id_ in run.problems},
        round(time.monotonic() - began, 2),
    )


def run_job(
    plan: Plan,
    cells: Sequence[Cell],
    machine: Machine,
    say: Callable[[str], None],
    *,
    steps_of: StepsOf | None = None,
) -> Iterator[tuple[Cell, Record, BaseException | None]]:
    """Do cells one after the other, waiting for those that another machine is at; yields how each ended.

    A cell that fails stops those of them that need it.
    """
    records: dict[str, Record] = {}
    for cell in cells:
        problem: BaseException | None = None
        try:
            record = act(plan, cell, machine, say, steps_of=steps_of, known=records)
        except Interrupted:
            raise
        except Exception as error:
            record, problem = failed_record(cell, error), error
        records[cell.id] = record
        yield cell, record, problem


def _shown(record: Record) -> tuple[str, str]:
    if record.state == "done":
        return ("cached" if record.why == TAKEN else "done", record.summary)
    return record.state, record.summary if record.state == "dry" else record.why
