"""What is finished: per project and Python, with everything that its wheel was made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.build.decide.plan import BuildPlan
from rocwright.build.run.isolation import outcome_environment
from rocwright.build.run.project import BuiltWheel
from rocwright.build.run.prove import Proven
from rocwright.build.run.toolchain import tools
from rocwright.build.run.tree import Content, state_digest
from rocwright.system.files import sha256_file, write_text
from rocwright.system.interpreters import Interpreter

_SCHEMA = 1


class Finished(msgspec.Struct, frozen=True):
    """A finished build: `key` says what it was made from, `digests` are sha256 of its files by path.

    `made` are files that the build left in its source tree; they are no change of the source.
    """

    schema: int
    key: str
    wheel: BuiltWheel
    digests: dict[str, str]
    made: tuple[str, ...] = ()

    def is_whole(self, output: Path) -> bool:
        """Whether its files are in that directory, and still what they were."""
        if any(Path(path).parent != output for path in self.digests):
            return False
        return all(
            Path(path).is_file() and sha256_file(Path(path)) == sha for path, sha in self.digests.items()
        )


class Proof(msgspec.Struct, frozen=True):
    """Wheels that were imported in a fresh environment; `key` says which, and with which ROCm."""

    key: str
    proven: tuple[Proven, ...]


def load_proof(path: Path) -> Proof | None:
    """An earlier proof, where there is one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Proof)
    except (OSError, msgspec.DecodeError):
        return None


def save_proof(path: Path, proof: Proof) -> None:
    """Remember a proof."""
    write_text(path, msgspec.json.format(msgspec.json.encode(proof)).decode() + "\n")


def load(path: Path) -> Finished | None:
    """A record; None when there is none that this version understands."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Finished)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.schema == _SCHEMA else None


def save(path: Path, key: str, wheel: BuiltWheel, made: tuple[str, ...]) -> None:
    """Write the record of a build that has just ended well."""
    digests = {wheel.path: wheel.sha256, **{device: sha256_file(Path(device)) for device in wheel.device}}
    record = Finished(_SCHEMA, key, wheel, digests, made)
    write_text(path, msgspec.json.format(msgspec.json.encode(record)).decode() + "\n")


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
