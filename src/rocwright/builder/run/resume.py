"""What is finished: per project and Python, with everything that its wheel was made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.run.isolation import outcome_environment
from rocwright.builder.run.project import BuiltWheel
from rocwright.builder.run.prove import Proven
from rocwright.builder.run.toolchain import tools
from rocwright.builder.run.tree import Content, state_digest
from rocwright.engine.record import Record, write_record
from rocwright.system.interpreters import Interpreter


class Finished(msgspec.Struct, frozen=True):
    """The result of a finished build; `made` are files that it left in its source tree, no change of that."""

    wheel: BuiltWheel
    made: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The wheel, and those that were split off it."""
        return (Path(self.wheel.path), *map(Path, self.wheel.device))


def result_of(record: Record | None) -> Finished | None:
    """What a record of a build says; None for no such record."""
    try:
        return None if record is None else msgspec.json.decode(record.value, type=Finished)
    except msgspec.DecodeError:
        return None


def proof_of(record: Record) -> tuple[Proven, ...] | None:
    """What was imported in a fresh environment, as a record says; None for no such record."""
    try:
        return msgspec.json.decode(record.value, type=tuple[Proven, ...])
    except msgspec.DecodeError:
        return None


def save(path: Path, key: str, wheel: BuiltWheel, made: tuple[str, ...]) -> None:
    """Write the record of a build that has just ended well."""
    done = Finished(wheel, made)
    known = {Path(wheel.path): wheel.sha256}
    write_record(path, path.stem, key, done, {file: known.get(file) for file in done.files})


def key_of(
    plan: BuildPlan,
    *,
    content: Content,
    rocm: str,
    interpreter: Interpreter,
    earlier: Mapping[str, str],
    caller: Mapping[str, str],
    made: tuple[str, ...] = (),
) -> str:
    """Differs when anything does that the wheel is made from; not with the job count, a cache or PATH alone.

    `rocm` is its identity, `earlier` the sha256 of wheels that it is built against.
    """
    # Of what is removed first, the rest depends on which Python of a run comes first, not on what is wanted.
    removed = ("build",) if "build" in plan.removed else ()
    values = {
        "plan": msgspec.structs.replace(plan, env={}, removed=removed),
        "environment": outcome_environment(caller, plan.env),
        "source": content.digest(without=made),
        "rocm": rocm,
        "python": interpreter,
        "earlier": dict(earlier),
        "tools": tools(plan, caller),
    }
    return state_digest(values)
