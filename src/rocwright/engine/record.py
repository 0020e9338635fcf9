"""What a finished step left behind, so that the next run can tell whether it still holds."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.engine.graph import Step
from rocwright.errors import RocwrightError
from rocwright.system.files import write_text
from rocwright.system.left import CLOCK_TICK_S, Left, leave, room_digest, still_left

SCHEMA = 2


class Stamp(msgspec.Struct, frozen=True):
    """Record of a finished step: digest of all it depended on, its result, its outputs as left."""

    schema: int
    step: str
    inputs: str
    value: msgspec.Raw
    outputs: dict[str, Left]
    wall_s: float


def digest(value: object) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def inputs_digest(step: Step, needed: Mapping[str, msgspec.Struct]) -> str:
    """Digest of everything that decides the step's result: code, facts, the results it builds on."""
    return digest(
        {
            "step": step.id,
            "code": {room: room_digest(room) for room in ("pipeline/steps", *step.rooms)},
            "facts": step.facts(),
            "needs": {need: digest(needed[need]) for need in step.needs},
        }
    )


def load(directory: Path, step: Step, inputs: str) -> msgspec.Struct | None:
    """The step's earlier result, if its inputs are the same and its outputs lie as they were left.

    A damaged or foreign stamp counts as none: the step is done again.
    """
    try:
        stamp = msgspec.json.decode((directory / f"{step.id}.json").read_bytes(), type=Stamp)
        if stamp.schema != SCHEMA or stamp.inputs != inputs:
            return None
        value = msgspec.json.decode(stamp.value, type=step.result)
    except (OSError, msgspec.DecodeError, RocwrightError):
        return None
    outputs: dict[str, Left] = {}
    for path in step.outputs(value):
        left = stamp.outputs.get(str(path))
        still = None if left is None else still_left(path, left)
        if still is None:
            return None
        outputs[str(path)] = still
    if outputs != stamp.outputs:
        _write(directory, msgspec.structs.replace(stamp, outputs=outputs))
    return value


def save(directory: Path, step: Step, inputs: str, value: msgspec.Struct, wall_s: float) -> None:
    """Record a finished step; written last, so an interrupted step has no stamp.

    Raises `TypeError` for a result that JSON does not bring back as it was: the next run would see another.
    """
    encoded = msgspec.json.encode(value)
    # As the next run will read it: from the stamp, which is indented for people.
    read_back = msgspec.json.decode(msgspec.json.format(encoded, indent=1), type=step.result)
    if msgspec.json.encode(read_back) != encoded:
        raise TypeError(f"the result of step {step.id} changes when written as JSON and read back")
    # Past the clock tick of the last write, so that a later one shows in the times.
    time.sleep(CLOCK_TICK_S)
    outputs = {str(path): leave(path) for path in step.outputs(value)}
    _write(
        directory,
        Stamp(SCHEMA, step.id, inputs, msgspec.Raw(encoded), outputs, round(wall_s, 3)),
    )


def _write(directory: Path, stamp: Stamp) -> None:
    write_text(
        directory / f"{stamp.step}.json", msgspec.json.format(msgspec.json.encode(stamp), indent=1).decode()
    )


def forget(directory: Path, step: Step) -> None:
    """Remove a stamp before its step runs again: from here on, what lies there may be half-written."""
    (directory / f"{step.id}.json").unlink(missing_ok=True)
