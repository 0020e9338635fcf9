"""What decides a cell's result, as one digest that two machines agree on; and what its steps are given.

Results are portable: directories of this machine are written as `${work}` and `${cache}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from rocwright.engine.changes import room_digest
from rocwright.engine.graph import Step
from rocwright.engine.record import digest
from rocwright.errors import InvalidData
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.records import ENDED, WORK, Ended, Machine, NeedEnd, Record
from rocwright.pipeline.steps.of_cell import input_names

CACHE = "${cache}"
StepsOf = Callable[[Cell, Plan, Machine], list[Step]]


def inputs_digest(
    cell: Cell, plan: Plan, steps: Sequence[Step], needs: Mapping[str, Record], machine: Machine
) -> str:
    """sha256 over code, facts, settings, and the results of the needed cells.

    How needed cells ended counts for cells that run whatever became of those.
    """
    names = input_names(cell, plan)
    facts = {
        "kind": cell.kind,
        "settings": cell.settings,
        "axes": [cell.platform, cell.python, cell.ref, cell.part, cell.family],
        "steps": {
            step.id: {
                "needs": step.needs,
                "code": {room: room_digest(room) for room in step.rooms},
                "facts": step.facts(),
            }
            for step in steps
        },
        "needs": {name: _identity(needs[id_]) for name, id_ in names.items() if _is_done(needs, id_)},
        "ended": {name: _state(needs, id_) for name, id_ in names.items()} if cell.last else None,
    }
    return digest(portable(facts, machine))


def _is_done(needs: Mapping[str, Record], id_: str) -> bool:
    return id_ in needs and needs[id_].state == "done"


def _state(needs: Mapping[str, Record], id_: str) -> list[str]:
    if id_ not in needs:
        return ["missing", ""]
    # Whether it was done just now or before does not matter.
    return [needs[id_].state, "" if needs[id_].state == "done" else needs[id_].why]


def _identity(record: Record) -> object:
    return [msgspec.json.decode(record.value), [[output.path, output.sha256] for output in record.outputs]]


def given(
    cell: Cell, plan: Plan, needs: Mapping[str, Record], machine: Machine, steps_of: StepsOf
) -> dict[str, msgspec.Struct]:
    """The results of the needed cells by the names that the steps know, and how all of them ended.

    Raises `InvalidData` for a record whose result is no such thing.
    """
    values: dict[str, msgspec.Struct] = {ENDED: _ended(cell, needs)}
    for name, id_ in input_names(cell, plan).items():
        if _is_done(needs, id_):
            values[name] = result_of(plan.cell(id_), plan, needs[id_], machine, steps_of)
    return values


def result_of(cell: Cell, plan: Plan, record: Record, machine: Machine, steps_of: StepsOf) -> msgspec.Struct:
    """A cell's result as its step gave it, with the directories of this machine."""
    kind = steps_of(cell, plan, machine)[-1].result
    try:
        return msgspec.convert(local_form(msgspec.json.decode(record.value), machine), type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidData(
            f"the record of {cell.id} has a result in another format than this rocwright uses: {error}",
            next_step=f"run it again with this version: rocwright pipeline step {cell.id}",
        ) from error


def _ended(cell: Cell, needs: Mapping[str, Record]) -> Ended:
    found: dict[str, NeedEnd] = {}
    for id_ in cell.needs:
        record = needs.get(id_)
        if record is None:
            found[id_] = NeedEnd("missing")
        else:
            why = "" if record.state == "done" else record.why
            found[id_] = NeedEnd(record.state, record.summary, why)
    return Ended(found)


# -- results as another machine reads them


def portable(value: object, machine: Machine) -> object:
    """The value in JSON's types, without directories of this machine."""
    patterns = _patterns(machine.work, machine.cache)

    def write(text: str) -> str:
        for pattern, token in patterns:
            text = pattern.sub(token, text)
        return text

    return _each(msgspec.to_builtins(value), write)


def local_form(value: object, machine: Machine) -> object:
    """What `portable` wrote, with the directories of this machine."""
    places = [
        place
        for token, path in ((WORK, machine.work), (CACHE, machine.cache))
        for place in ((f"file://{token}", path.as_uri()), (token, str(path)))
    ]

    def read(text: str) -> str:
        for token, place in places:
            text = text.replace(token, place)
        return text

    return _each(value, read)


@lru_cache(maxsize=8)
def _patterns(work: Path, cache: Path) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Places and what is written for them; the inner of two first."""
    found = []
    for path, token in sorted(((work, WORK), (cache, CACHE)), key=lambda one: -len(str(one[0]))):
        # A sibling of the same beginning is another directory.
        found.append((re.compile(re.escape(path.as_uri()) + r"(?![\w+-])(?!\.\w)"), f"file://{token}"))
        found.append((re.compile(r"(?<![\w./-])" + re.escape(str(path)) + r"(?![\w+-])(?!\.\w)"), token))
    return tuple(found)


def _each(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change(key) if isinstance(key, str) else key: _each(item, change) for key, item in value.items()
        }
    return [_each(item, change) for item in value] if isinstance(value, (list, tuple)) else value
