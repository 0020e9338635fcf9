"""What the machines of a run tell each other through its store: its plan, and how its cells ended.

The plan is written once, so that all machines have the same. `_pipeline/<run>/cells/<cell>/<inputs>.json`
says that the cell is done, and is written once. Beside it, `<inputs>.failed.json` and
`<inputs>.skipped.json` say so, and are replaced. Of several the newest counts, by the clock of the store;
that a cell failed or was left out does not count where it was done with the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.data.overlay import Overlay
from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.plan import Cell, Plan, parse_plan
from rocwright.model.sets import canonical_json
from rocwright.pipeline.define.inputs import require_run_id
from rocwright.store.lease import PIPELINE
from rocwright.store.objects.protocol import ObjectStore, Stored, read_there
from rocwright.store.trust.keys import SigningKey
from rocwright.system import console

SCHEMA = 1
# Stands for the directory of the run on whichever machine reads a record.
WORK = "${work}"
State = Literal["done", "skipped", "failed", "dry"]
# What a step that needs it is given besides results: how the cells ended that its own needs (`Ended`).
ENDED = "ended"
Say = Callable[[str], None]
# Fewer cells than this are asked for one by one.
_FEW = 20
_ENDING = ".json"


class CellOutput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a cell left: where it lies below the run's directory, and its object in the store.

    A directory is packed (`tree`): `size` and `sha256` are those of the object.
    """

    path: str
    key: str
    sha256: str
    size: int
    tree: bool = False


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a cell ended. `inputs` is the digest of all that decided its result, `value` its step's result.

    Paths in `value` begin with `WORK`. `wall_s` and `by` are for people; `why` says why nothing was done.
    """

    schema: int
    cell: str
    inputs: str
    state: State
    value: msgspec.Raw
    outputs: tuple[CellOutput, ...]
    summary: str
    wall_s: float
    by: str
    why: str = ""


class NeedEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one cell ended; `missing`: nobody has done it, `blocked`: left out because of another's end.

    `tolerated`: it failed, or was left out because of another, and the run does without it.
    """

    state: Literal["done", "skipped", "failed", "dry", "missing", "blocked", "tolerated"]
    summary: str = ""
    why: str = ""


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the needed cells ended, by id: for what also runs when some of them failed."""

    cells: dict[str, NeedEnd]


class LeftOut(Exception):
    """Raised by a step that has nothing to work on, with the reason: its cell is then left out."""


class Machine(msgspec.Struct, frozen=True):
    """Where cells run: the store between machines, its address, a directory of the run, a cache.

    `jobs` are steps and compilers at once; with `dry_run` nothing is written outside of `work`. `overlay` is
    what a rocwright.toml adds to the tables. With the `signers`, what is stated and listed is signed.
    """

    store: ObjectStore
    address: str
    work: Path
    cache: Path
    jobs: int
    dry_run: bool = False
    overlay: Overlay | None = None
    signers: tuple[SigningKey, ...] = ()


def place_of(cell: Cell) -> str:
    """Where a cell works below `Machine.work`: its id without the kind; cells of one place take turns."""
    return cell.id.partition("/")[2] or "run"


def run_prefix(run_id: str) -> str:
    """Where a run keeps its plan and records, ending with `/`; raises `InvalidInput` for no run id."""
    return f"{PIPELINE}{require_run_id(run_id)}/"


def _folder(run_id: str, cell: str) -> str:
    return f"{run_prefix(run_id)}cells/{cell}/"


def record_key(run_id: str, record: Record) -> str:
    """Where a record lies."""
    state = "" if record.state == "done" else f".{record.state}"
    return f"{_folder(run_id, record.cell)}{record.inputs}{state}{_ENDING}"


def done_key(run_id: str, cell: str, inputs: str) -> str:
    """Where the record of a done cell lies."""
    return f"{_folder(run_id, cell)}{inputs}{_ENDING}"


def read_record(store: ObjectStore, key: str, cell: str, say: Say) -> Record | None:
    """The record at a key; None where none is. A record that is damaged or another cell's counts as none."""
    data = read_there(store, key)
    if data is None:
        return None
    try:
        record = msgspec.json.decode(data, type=Record)
    except msgspec.MsgspecError as error:
        say(f"warning: {key} cannot be read ({error}); it is treated as missing")
        return None
    named = key.rpartition("/")[2].partition(".")[0]
    if record.schema != SCHEMA or record.cell != cell or record.inputs != named:
        say(f"warning: {key} is the record of something else; it is treated as missing")
        return None
    return record


def write_record(store: ObjectStore, run_id: str, record: Record, *, replace: bool = False) -> Record:
    """Write a record and give the record that stands: of two that were done at once, the first.

    `replace`: the record that is there does not hold any more.
    """
    key = record_key(run_id, record)
    data = canonical_json(record)
    try:
        store.put_bytes(key, data, overwrite=replace or record.state != "done")
    except IntegrityError:
        first = read_record(store, key, record.cell, lambda _: None)
        if first is None:
            store.put_bytes(key, data, overwrite=True)
        return first or record
    # A store that ignores conditions has taken whichever came last.
    return read_record(store, key, record.cell, lambda _: None) or record


def make_current(store: ObjectStore, run_id: str, record: Record, say: Say) -> None:
    """Have a done record count, where one of other inputs was written since."""
    found = _newest(store, run_id, [record.cell], say)
    if found.get(record.cell) != record:
        store.put_bytes(record_key(run_id, record), canonical_json(record), overwrite=True)


def newest_records(store: ObjectStore, run_id: str, cells: Iterable[Cell], say: Say) -> dict[str, Record]:
    """The records that count of some cells, by id; those without any are left out."""
    return _newest(store, run_id, [cell.id for cell in cells], say)


def run_records(store: ObjectStore, run_id: str) -> dict[str, Record]:
    """The records that count of every cell of a run, by id; warnings go to the terminal."""
    return _newest(store, run_id, None, console.say)


def _newest(store: ObjectStore, run_id: str, cells: list[str] | None, say: Say) -> dict[str, Record]:
    prefix = f"{run_prefix(run_id)}cells/"
    if cells is not None and len(cells) < _FEW:
        listed = [one for cell in cells for one in store.list(_folder(run_id, cell))]
    else:
        listed = list(store.list(prefix))
    held: dict[str, list[Stored]] = {}
    for one in listed:
        cell, _, name = one.key.removeprefix(prefix).rpartition("/")
        if name.endswith(_ENDING) and (cells is None or cell in cells):
            held.setdefault(cell, []).append(one)
    found = {cell: _choose(store, cell, ones, say) for cell, ones in held.items()}
    return {cell: record for cell, record in found.items() if record is not None}


def _choose(store: ObjectStore, cell: str, listed: list[Stored], say: Say) -> Record | None:
    done = {one.key for one in listed}
    for one in sorted(listed, key=lambda item: (item.modified, item.key), reverse=True):
        inputs = one.key.rpartition("/")[2].partition(".")[0]
        better = f"{one.key.rpartition('/')[0]}/{inputs}{_ENDING}"
        if one.key != better and better in done:
            continue
        record = read_record(store, one.key, cell, say)
        if record is not None:
            return record
    return None


def plan_key(run_id: str) -> str:
    """Where the plan of a run lies."""
    return f"{run_prefix(run_id)}plan.json"


def record_plan(store: ObjectStore, plan: Plan) -> None:
    """Write the plan of a run, or find the same there.

    What may be published is up to each machine, so it may differ. Raises `InvalidInput` naming the
    difference where the run has another plan: results of different plans never mix.
    """
    key = plan_key(plan.run_id)
    if not store.exists(key):
        try:
            store.put_bytes(key, canonical_json(plan))
            return
        except IntegrityError:
            # Another machine was faster.
            pass
    there = read_plan(store, plan.run_id)
    difference = _difference(there, plan)
    if difference:
        raise InvalidInput(
            f"run {plan.run_id} has another plan in this store: {difference}",
            where=store.url(key),
            next_step="give this one another --run-id, or ask for the same as before",
        )


def has_plan(store: ObjectStore, run_id: str) -> bool:
    """Whether a plan of the run is recorded."""
    return store.exists(plan_key(run_id))


def read_plan(store: ObjectStore, run_id: str) -> Plan:
    """The plan of a run; raises `InvalidInput` where none is recorded, `InvalidData` for a damaged plan."""
    key = plan_key(run_id)
    data = read_there(store, key)
    if data is None:
        raise InvalidInput(
            f"the store has no plan of run {run_id}",
            where=store.url(key),
            next_step="give --run-id or --plan; pipeline run and pipeline setup record the plan",
        )
    return parse_plan(data, where=store.url(key))


def _difference(there: Plan, here: Plan) -> str:
    """What differs first, for people; empty where nothing does that decides a result."""
    for name in ("profile", "sources", "rocm", "groups"):
        before, now = getattr(there, name), getattr(here, name)
        if before != now:
            shown = [msgspec.json.encode(value).decode() for value in (before, now)]
            return f"its {name} is {shown[0]}, here {shown[1]}"
    old, new = ({cell.id: cell for cell in plan.cells} for plan in (there, here))
    for words, ids in (("lacks", new.keys() - old.keys()), ("also has", old.keys() - new.keys())):
        if ids:
            first = min(ids)
            return f"it {words} {first}" + (f" and {len(ids) - 1} more steps" if len(ids) > 1 else "")
    for id_, cell in new.items():
        if old[id_].digest != cell.digest or old[id_].needs != cell.needs:
            return f"{id_} has the settings {old[id_].settings}, here {cell.settings}"
    return ""
