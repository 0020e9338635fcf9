"""Records of cells in the store: where they lie, which one counts.

`_pipeline/<run>/cells/<cell>/<inputs>.json` says that the cell is done, and is written once. Beside it,
`<inputs>.failed.json` and `<inputs>.skipped.json` say so, and are replaced. Of several the newest counts, by
the clock of the store; that a cell failed or was left out does not count where it was done with the same
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from rocwright.errors import IntegrityError
from rocwright.model.manifest import canonical_json
from rocwright.model.plan import Cell
from rocwright.pipeline.define.run_id import require_run_id
from rocwright.pipeline.records.values import SCHEMA, Record
from rocwright.store.channel.lease import PIPELINE
from rocwright.store.objects.protocol import ObjectStore, Stored, read_there

Say = Callable[[str], None]
# Fewer cells than this are asked for one by one.
_FEW = 20
_ENDING = ".json"


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
    """The record at a key; None where none is. One that is damaged or another cell's counts as none."""
    data = read_there(store, key)
    if data is None:
        return None
    try:
        record = msgspec.json.decode(data, type=Record)
    except msgspec.MsgspecError as error:
        say(f"warning: {key} cannot be read ({error}); it counts as not there")
        return None
    named = key.rpartition("/")[2].partition(".")[0]
    if record.schema != SCHEMA or record.cell != cell or record.inputs != named:
        say(f"warning: {key} is the record of something else; it counts as not there")
        return None
    return record


def write_record(store: ObjectStore, run_id: str, record: Record, *, replace: bool = False) -> Record:
    """Write a record and give the one that stands: of two that were done at once, the first.

    `replace`: the one that is there does not hold any more.
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


def all_records(store: ObjectStore, run_id: str, say: Say) -> dict[str, Record]:
    """The records that count of every cell of a run, by id."""
    return _newest(store, run_id, None, say)


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
