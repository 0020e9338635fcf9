"""What finished work left behind, so that the next run can tell whether it still holds."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from rocwright.engine.changes import CLOCK_TICK_S, InputLook, Left, leave, room_digest, same_look, still_left
from rocwright.engine.graph import Step
from rocwright.errors import RocwrightError
from rocwright.system.files import write_text

SCHEMA = 3
NOTHING: Mapping[str, InputLook] = MappingProxyType({})


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What finished work left on this machine: the one form in which it is remembered.

    `inputs` is the digest of all that decided its result, `value` the result, `outputs` the files that it
    made by path, as they were left. `looked` is how directories that it read looked, where only that tells
    whether they are the same.
    """

    schema: int
    step: str
    inputs: str
    value: msgspec.Raw
    outputs: dict[str, Left]
    wall_s: float = 0.0
    looked: dict[str, InputLook] = {}


def read_record(path: Path) -> Record | None:
    """A record; if damaged, or of another version of rocwright, it counts as none."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.schema == SCHEMA else None


def write_record(
    path: Path,
    step: str,
    inputs: str,
    value: object,
    outputs: Mapping[Path, str | None],
    *,
    wall_s: float = 0.0,
    looked: Mapping[str, InputLook] = NOTHING,
) -> None:
    """Remember finished work, last of all; `outputs` maps its files to their sha256, None where unknown."""
    # Past the clock tick of the last write, so that a later write shows in the times.
    time.sleep(CLOCK_TICK_S)
    left = {str(file.absolute()): leave(file, sha256=known) for file, known in outputs.items()}
    encoded = msgspec.Raw(msgspec.json.encode(value))
    _write(path, Record(SCHEMA, step, inputs, encoded, left, round(wall_s, 3), dict(looked)))


def still_there(path: Path, record: Record, now: Record | None = None) -> bool:
    """Whether all outputs have the content that they were left with; their times are noted anew.

    `now` is the record with what else was noted anew.
    """
    outputs = {name: still_left(Path(name), left) for name, left in record.outputs.items()}
    same = {name: left for name, left in outputs.items() if left is not None}
    if len(same) < len(outputs):
        return False
    now = msgspec.structs.replace(now or record, outputs=same)
    if now != record:
        _write(path, now)
    return True


def _write(path: Path, record: Record) -> None:
    write_text(path, msgspec.json.format(msgspec.json.encode(record), indent=1).decode() + "\n")


def digest(value: object) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def inputs_digest(step: Step, needed: Mapping[str, msgspec.Struct]) -> str:
    """Digest of everything that decides the step's result: code, facts, the results it builds on."""
    return digest(
        {
            "step": step.id,
            "code": {room: room_digest(room) for room in step.rooms},
            "facts": step.facts(),
            "needs": {need: digest(needed[need]) for need in step.needs},
        }
    )


def load(path: Path, step: Step, inputs: str) -> msgspec.Struct | None:
    """The step's earlier result, if its inputs are the same and its outputs lie as they were left.

    A damaged or foreign record counts as none: the step is done again.
    """
    record = read_record(path)
    if record is None or record.inputs != inputs:
        return None
    looked = same_look(step.reads(), record.looked)
    if looked is None:
        return None
    try:
        value = msgspec.json.decode(record.value, type=step.result)
    except (msgspec.DecodeError, RocwrightError):
        return None
    if not {str(output.absolute()) for output in step.outputs(value)} <= record.outputs.keys():
        return None
    now = msgspec.structs.replace(record, looked=looked)
    return value if still_there(path, record, now) else None


def save(
    path: Path,
    step: Step,
    inputs: str,
    value: msgspec.Struct,
    *,
    wall_s: float,
    looked: Mapping[str, InputLook] = NOTHING,
) -> None:
    """Record a finished step; written last, so an interrupted step has none.

    `looked` is how that which it reads looked before. A step whose inputs changed under way is recorded too,
    but never taken for done. Raises `TypeError` for a result that JSON does not bring back as it was: the
    next run would see another.
    """
    encoded = msgspec.json.encode(value)
    # As the next run will read it: from the record, which is indented for people.
    read_back = msgspec.json.decode(msgspec.json.format(encoded, indent=1), type=step.result)
    if msgspec.json.encode(read_back) != encoded:
        raise TypeError(f"the result of step {step.id} changes when written as JSON and read back")
    outputs = step.outputs(value)
    known = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
    write_record(path, step.id, inputs, value, known, wall_s=wall_s, looked=looked)
