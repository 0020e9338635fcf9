"""The small protocol of an emulator that is a program: targets, a command, a result.

`PROGRAM --targets` prints a JSON list of targets. `PROGRAM --target TARGET -- COMMAND …` runs the command
with that GPU, ends with its exit code, and writes `{"dispatches": N, "refused": ["why", …]}` to the file that
ROCWRIGHT_EMULATOR_RESULT names.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocwright.emulator.values import Emulator
from rocwright.errors import CommandFailed, InvalidData, InvalidInput
from rocwright.model.gpu import is_target
from rocwright.system import process
from rocwright.system.files import sha256_file

RESULT = "ROCWRIGHT_EMULATOR_RESULT"
_TARGETS_S = 60.0


class EmulatorResult(msgspec.Struct, frozen=True):
    """What a program says of a command: kernels that were handed to its GPU, and what it refused."""

    dispatches: int
    refused: tuple[str, ...] = ()


def program_emulator(path: Path, how: str) -> Emulator:
    """The program at `path` as an emulator; raises `InvalidInput` where it does not speak the protocol."""
    try:
        said = process.run([path, "--targets"], limit_s=_TARGETS_S).stdout
        targets = msgspec.json.decode(said, type=list[str])
    except (CommandFailed, msgspec.DecodeError) as error:
        raise InvalidInput(
            f"{path} does not speak the protocol of emulators: {str(error).splitlines()[0]}",
            where=path,
            next_step=f"`{path.name} --targets` has to print a JSON list of GPU targets",
        ) from error
    if wrong := [one for one in targets if not is_target(one)]:
        raise InvalidInput(
            f"{path} lists {wrong[0]!r}, which is no GPU target",
            where=path,
            next_step=f"`{path.name} --targets` has to print a JSON list of GPU targets",
        )
    return Emulator(path.stem, "", path, dict.fromkeys(targets), how, sha256_file(path))


def read_result(path: Path) -> EmulatorResult | None:
    """What a program wrote; None where it wrote nothing; raises `InvalidData` for something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=EmulatorResult)
    except OSError:
        return None
    except msgspec.DecodeError as error:
        raise InvalidData(
            f"{path} is no result of an emulator: {error}",
            where=path,
            next_step='the program has to write {"dispatches": N, "refused": []}',
        ) from error
