"""Whether this process would take the GPU of an emulator for one of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from rocwright.emulator.find import emulator_table
from rocwright.errors import UsageError


def require_no_preload(environ: Mapping[str, str]) -> None:
    """Raise `UsageError` in a shell that preloads an emulator: its GPU would be taken for one."""
    if name := preloaded(environ):
        raise UsageError(
            f"LD_PRELOAD names {name}, an emulator: the GPU that it plays would be taken for one",
            next_step="unset LD_PRELOAD; for an emulated GPU: rocwright test smoke --emulate TARGET",
        )


def preloaded(environ: Mapping[str, str]) -> str:
    """The emulator that an environment preloads; empty for none."""
    words = environ.get("LD_PRELOAD", "").replace(":", " ").split()
    if not words:
        return ""
    names = [PurePosixPath(word).name for word in words]
    rows = emulator_table().emulator
    return next((row.name for row in rows if any(name.startswith(row.library) for name in names)), "")
