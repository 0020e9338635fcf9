"""Calibrate an emulator: compile a program with known answers, run it there, keep what it is wrong about."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.emulator.drive import Driven, drive
from rocwright.emulator.session import emulated
from rocwright.emulator.values import Emulator, EmulatorTable, HipRuntime
from rocwright.errors import CommandFailed, InvalidInput, MissingTool, UsageError
from rocwright.model.emulated import Emulated
from rocwright.system import process
from rocwright.system.files import atomic_write

SOURCE = Path(__file__).resolve().parent / "calibration.hip"
SCHEMA = 1
# `absent`: the target has no such instructions; `no dispatch`: an answer, and no kernel was executed for it.
State = Literal["right", "wrong", "refused", "absent", "crashed", "hung", "failed", "no dispatch", "not run"]
WRONG: frozenset[State] = frozenset(
    ("wrong", "refused", "crashed", "hung", "failed", "no dispatch", "not run")
)
_COMPILE_S = 1800.0


class OperationAnswer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One operation: how many values were compared, how many were wrong, the largest relative difference."""

    name: str
    state: State
    of: int = 0
    wrong: int = 0
    worst: float = 0.0
    seconds: float = 0.0
    detail: str = ""
    dispatches: int = 0


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an emulator is right about, with the target, configuration and runtime it was asked as.

    `seconds` and `cpu_s` are those of the processes under the emulator, `own_s` processor seconds of the
    runner beside them. `compiler` is the command that built the program.
    """

    schema: int
    emulated: Emulated
    answers: tuple[OperationAnswer, ...]
    problem: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    own_s: float = 0.0
    starts: int = 1
    compiler: str = ""

    def state_of(self, operation: str) -> State:
        """How an operation came out; `not run` where it was not tried."""
        return next((one.state for one in self.answers if one.name == operation), "not run")

    @property
    def wrong(self) -> tuple[str, ...]:
        """Names of the operations that the emulator is not right about."""
        return tuple(one.name for one in self.answers if one.state in WRONG)

    @property
    def usable(self) -> bool:
        """Whether it came to its end, with a kernel executed and something right."""
        right = any(one.state == "right" for one in self.answers)
        return right and not self.problem and self.emulated.dispatches > 0

    @property
    def executed(self) -> bool:
        """Whether any kernel was; without one nothing is shown."""
        return any(one.dispatches for one in self.answers)


def find_compiler(choice: Path | None, runtime: HipRuntime, environ: Mapping[str, str]) -> Path:
    """The hipcc that builds the program: named, of the runtime's prefix, on PATH.

    Raises `MissingTool` where there is none.
    """
    if choice is not None:
        if not choice.is_file():
            raise MissingTool(f"there is no compiler {choice}", next_step="give the path of a hipcc")
        return choice.absolute()
    for prefix in (runtime.library.parent.parent, runtime.library.parent):
        if (found := prefix / "bin" / "hipcc").is_file():
            return found
    for directory in environ.get("PATH", "").split(os.pathsep):
        if directory and (found := Path(directory) / "hipcc").is_file():
            return found
    raise MissingTool(
        "hipcc was not found; it is needed to compile the calibration",
        next_step="install ROCm's compiler, or name it: --compiler",
    )


def compile_calibration(compiler: Path, target: str, dest: Path, *, log: Path | None = None) -> str:
    """Build the program for one target into `dest`; the command as it can be pasted.

    Raises `InvalidInput` where the compiler refuses it.
    """
    words = [
        str(compiler),
        f"--offload-arch={target}",
        "-O2",
        "-std=c++17",
        "-x",
        "hip",
        str(SOURCE),
        "-o",
        str(dest),
    ]
    try:
        return process.run(words, env={"HIP_PLATFORM": "amd"}, log=log, limit_s=_COMPILE_S).command
    except CommandFailed as error:
        said = [line for line in error.tail.splitlines() if line.strip()] or [error.what.partition(": ")[0]]
        first = next((line for line in said if "error" in line), said[-1])
        raise InvalidInput(
            f"{compiler} does not build the calibration for {target}: {first.strip()}",
            where=log,
            next_step=f"see all of it: {error.command}",
        ) from error


def calibrate(
    emulator: Emulator,
    target: str,
    runtime: HipRuntime,
    program: Path,
    table: EmulatorTable,
    *,
    operations: Sequence[str] = (),
    log: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Run the built program under the emulator; each operation is right, wrong, refused, lost or not run.

    `operations` limits it to those (default: all of the table); raises `UsageError` for one that no row of
    the table has, and for a target without a configuration.
    """
    known = [row.name for row in table.operation]
    for name in operations:
        if name not in known:
            raise UsageError(
                f"{name!r} is no operation of the calibration; there are {', '.join(known)}",
                next_step="name some of these, or none for all",
            )
    wanted = [name for name in known if not operations or name in operations]
    with emulated(emulator, target, runtime) as session:
        driven = drive(
            session,
            lambda rest: [program, *rest],
            wanted,
            start_s=table.limits.start_s,
            each_s=table.limits.operation_s,
            most_lost=table.limits.lost_in_a_row,
            log=log,
            note=note,
        )
        record = msgspec.structs.replace(session.record(), dispatches=driven.dispatches)
    answers = tuple(_answer(name, driven) for name in wanted)
    return Calibration(
        SCHEMA, record, answers, driven.problem, driven.wall_s, driven.cpu_s, driven.own_s, driven.starts
    )


class _Line(msgspec.Struct, frozen=True):
    """What the program prints of an operation."""

    state: Literal["right", "wrong", "refused", "absent"]
    of: int = 0
    wrong: int = 0
    worst: float = 0.0
    seconds: float = 0.0
    detail: str = ""


def _answer(name: str, driven: Driven) -> OperationAnswer:
    done = driven.done.get(name)
    if done is None:
        return OperationAnswer(name, "not run", detail=driven.problem)
    if done.lost is not None:
        last = done.said.strip().rpartition("\n")[2]
        return OperationAnswer(name, done.lost, detail=last, dispatches=done.dispatches or 0)
    executed = driven.dispatches if done.dispatches is None else done.dispatches
    try:
        line = msgspec.convert(dict(done.line), _Line)
    except msgspec.ValidationError as error:
        return OperationAnswer(name, "failed", detail=f"its answer cannot be read: {error}")
    state: State = line.state
    if state == "right" and not executed:
        state = "no dispatch"
    return OperationAnswer(name, state, line.of, line.wrong, line.worst, line.seconds, line.detail, executed)


# -- kept, since a calibration holds as long as emulator, configuration, runtime and program are the same


def cache_key(emulator: Emulator, target: str, runtime: HipRuntime, configuration_digest: str) -> str:
    """What a calibration is kept by."""
    parts = (
        str(SCHEMA),
        emulator.digest,
        configuration_digest,
        runtime.version or str(runtime.library),
        target,
        hashlib.sha256(SOURCE.read_bytes()).hexdigest(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def cached(place: Path, key: str) -> Calibration | None:
    """A whole calibration that was kept; None for none, or one that another version wrote."""
    try:
        found = msgspec.json.decode((place / f"{key}.json").read_bytes(), type=Calibration)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.schema == SCHEMA else None


def keep(place: Path, key: str, calibration: Calibration) -> None:
    """Keep a calibration that came to its end; one with a problem, or right about nothing, is not kept."""
    if not calibration.usable:
        return
    with atomic_write(place / f"{key}.json") as stream:
        stream.write(msgspec.json.encode(calibration))
