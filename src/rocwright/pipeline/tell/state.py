"""How a run stands, by its plan, the records of its cells and what is at work, as its store has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.records import WORK, Record, read_plan, run_prefix, run_records
from rocwright.pipeline.tell.results import Caches, Gate, caches_of, failed_tests, gate_of, outputs_of
from rocwright.store.lease import LEASES, PACE
from rocwright.store.objects.protocol import ObjectStore

# `reused`: the result was there; `blocked`: what it needs failed or was left out; `tolerated`: it failed or
# is blocked, and the run does without it.
State = Literal["done", "reused", "skipped", "failed", "dry", "running", "waiting", "blocked", "tolerated"]
STATES: tuple[State, ...] = (
    "failed",
    "blocked",
    "running",
    "waiting",
    "dry",
    "tolerated",
    "skipped",
    "reused",
    "done",
)
_GOOD = ("done", "reused")


class CellState(msgspec.Struct, frozen=True):
    """One cell: `wall_s` seconds on the machine `by`, `bytes` of files that it left; `why` it is not done."""

    id: str
    kind: str
    job: str
    state: State
    wall_s: float = 0.0
    bytes: int = 0
    by: str = ""
    summary: str = ""
    why: str = ""
    outputs: dict[str, str] = {}


class GateState(msgspec.Struct, frozen=True):
    """What the gate of one cell decided."""

    cell: str
    decision: Gate


class RunState(msgspec.Struct, frozen=True):
    """A whole run: counts by state, seconds of all machines, the chain of cells that took longest.

    `caches` is what compilers were saved.
    """

    profile: str
    run_id: str
    sources: str
    publishing: str
    counts: dict[str, int]
    machine_s: float
    path_s: float
    bytes: int
    critical_path: tuple[str, ...]
    gates: tuple[GateState, ...]
    cells: tuple[CellState, ...]
    notes: tuple[str, ...] = ()
    caches: Caches = Caches()

    @property
    def state(self) -> State:
        """Of the run: the worst that a cell is in; those that were left out do not count."""
        return next((one for one in STATES if self.counts.get(one) and one != "skipped"), "skipped")


def find_run(
    store: ObjectStore, run_id: str, now: datetime | None = None, work: Path | None = None
) -> tuple[Plan, RunState]:
    """The plan of a run and how it stands; `now` by the clock of the store.

    `work` is the directory of the run that the store lies in, where it does. Raises `InvalidInput` where the
    store has no plan of that run.
    """
    plan = read_plan(store, run_id)
    running = _running(store, run_id, now or datetime.now(timezone.utc))
    found = {id_: in_place(record, work) for id_, record in run_records(store, run_id).items()}
    return plan, run_state(plan, found, running)


def in_place(record: Record, work: Path | None) -> Record:
    """The record with addresses below `work` as this machine has them; as it is without `work`."""
    if work is None:
        return record
    text = bytes(record.value).decode()
    for token, place in ((f"file://{WORK}", work.as_uri()), (WORK, str(work))):
        # Inside of JSON's texts.
        text = text.replace(token, msgspec.json.encode(place).decode()[1:-1])
    return msgspec.structs.replace(record, value=msgspec.Raw(text.encode()))


def _running(store: ObjectStore, run_id: str, now: datetime) -> frozenset[str]:
    """Ids of the cells that a machine renews the lease of; a machine that died stops doing so."""
    prefix = LEASES + run_prefix(run_id)
    ttl = PACE.get().ttl
    return frozenset(
        one.key.removeprefix(prefix).rpartition("/")[0].removesuffix("/_cell")
        for one in store.list(prefix)
        if (now - one.modified).total_seconds() < ttl
    )


def run_state(plan: Plan, records: Mapping[str, Record], running: Collection[str] = ()) -> RunState:
    """Judge every cell, pure; `running` are ids of cells that a machine holds a lease of."""
    cells: dict[str, CellState] = {}
    for cell in plan.cells:
        state = _cell_state(cell, records.get(cell.id), cell.id in running, cells)
        if cell.id in plan.spare and state.state in ("failed", "blocked"):
            state = msgspec.structs.replace(state, state="tolerated")
        cells[cell.id] = state
    path, seconds = _longest(plan, cells)
    counted = Counter(cell.state for cell in cells.values())
    gates = [cell for cell in plan.cells if cell.kind == "gate" and cells[cell.id].state in _GOOD]
    return RunState(
        profile=plan.profile,
        run_id=plan.run_id,
        sources=plan.sources,
        publishing=publishing(plan),
        counts={state: counted[state] for state in STATES if counted[state]},
        machine_s=round(sum(cell.wall_s for cell in cells.values()), 2),
        path_s=round(seconds, 2),
        bytes=sum(cell.bytes for cell in cells.values()),
        critical_path=path,
        gates=tuple(GateState(cell.id, gate_of(records[cell.id])) for cell in gates),
        cells=tuple(cells.values()),
        notes=plan.notes,
        caches=caches_of(record for id_, record in records.items() if id_ in cells),
    )


def _cell_state(
    cell: Cell, record: Record | None, running: bool, before: Mapping[str, CellState]
) -> CellState:
    known = CellState(id=cell.id, kind=cell.kind, job=cell.job, state="waiting")
    if record is None:
        if cell.skip:
            return msgspec.structs.replace(known, state="skipped", why=cell.skip)
        if running:
            return msgspec.structs.replace(known, state="running")
        asked = [need for need in cell.needs if need not in cell.spare]
        stopped = [need for need in asked if before[need].state in ("failed", "blocked", "tolerated")]
        if stopped:
            return msgspec.structs.replace(known, state="blocked", why=f"{stopped[0]} did not succeed")
        return known
    # A cell that failed and is tried again holds its lease.
    if running and record.state == "failed":
        return msgspec.structs.replace(known, state="running", why="tried again")
    tests = failed_tests(record)
    blocked = record.state == "skipped" and not cell.skip
    reused = record.state == "done" and bool(record.why)
    ended: State = "failed" if tests else "blocked" if blocked else "reused" if reused else record.state
    return CellState(
        id=cell.id,
        kind=cell.kind,
        job=cell.job,
        state=ended,
        wall_s=record.wall_s,
        bytes=sum(output.size for output in record.outputs),
        by=record.by,
        summary=record.summary,
        why=tests or record.why or (cell.skip if record.state == "skipped" else ""),
        outputs=outputs_of(cell, record),
    )


def _longest(plan: Plan, cells: Mapping[str, CellState]) -> tuple[tuple[str, ...], float]:
    """The chain of needs with the most seconds: more machines would not make the run shorter than it."""
    took: dict[str, float] = {}
    came: dict[str, str] = {}
    for cell in plan.cells:
        slowest = max(cell.needs, key=lambda need: took[need], default="")
        took[cell.id] = cells[cell.id].wall_s + (took[slowest] if slowest else 0.0)
        came[cell.id] = slowest
    at = max(took, key=lambda id_: took[id_], default="")
    seconds = took.get(at, 0.0)
    path: list[str] = []
    while at:
        # What took no time is on no critical path.
        if cells[at].wall_s:
            path.append(at)
        at = came[at]
    return tuple(reversed(path)), seconds


def publishing(plan: Plan) -> str:
    """Where results may go, and why no farther, in a line."""
    publication = plan.publication
    if publication.channels:
        return "results go to the run's folder, and to channels where the gate allows it"
    why = f": {publication.why}" if publication.why else ""
    if publication.upload:
        return f"results go to the run's folder, to no channel{why}"
    return f"dry run, nothing is written to the store{why}"
