"""Options that name an emulated GPU, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Group, Parameter

from rocwright.cli.options import Place, Repeated, Text
from rocwright.emulator.find import find_emulator, find_runtime
from rocwright.emulator.values import Emulator, HipRuntime
from rocwright.errors import UsageError
from rocwright.system import console


# Before the numbered groups of a command, whichever module was imported first.
@Parameter(name="*", group=Group("Emulated GPU", sort_key=(0, -1)))
@dataclass(frozen=True)
class Emulate:
    """A GPU that an emulator plays, in place of one of this machine."""

    emulate: Text = ""
    """Use an emulated GPU of this target, such as gfx942. What is shown there never stands for a GPU."""

    emulator: Repeated = ()
    """The emulator: its prefix, its library, or a program that speaks the protocol (default: the one of the
    environment's ROCm, of ROCM_PATH or /opt/rocm). Several are compared, where that makes sense."""

    rocm: Place = None
    """The ROCm whose HIP runtime is used (default: that of the environment, of ROCM_PATH, or /opt/rocm)."""


EMULATE = Emulate()


def require_asked(emulate: Emulate) -> None:
    """Raise `UsageError` for options of an emulator without the target that it is to play."""
    if not emulate.emulate and emulate != EMULATE:
        raise UsageError("--emulator and --rocm belong to --emulate", next_step="add --emulate TARGET")


def chosen(emulate: Emulate, python: Path) -> tuple[Sequence[Emulator], HipRuntime]:
    """The emulators and the HIP runtime that the options mean, said aloud.

    Raises `MissingTool` where there is none, `UsageError` for a target that one has no configuration for.
    """
    emulators = [find_emulator(choice, os.environ, python) for choice in emulate.emulator or (None,)]
    runtime = find_runtime(emulate.rocm, os.environ, python)
    for one in emulators:
        one.require(emulate.emulate)
        console.say(
            f"emulated {emulate.emulate}: {one.name} {one.version or one.digest[:12]} ({one.found}), "
            f"HIP {runtime.version or 'of unknown version'}"
        )
    return emulators, runtime
