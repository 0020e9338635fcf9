"""Python's C headers: extensions need them, and many systems ship the interpreter without."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from rocwright.errors import MissingTool


def has_headers() -> bool:
    """Whether this interpreter's `Python.h` is where compilers will be told to look."""
    return (Path(sysconfig.get_path("include")) / "Python.h").exists()


def distribution_package() -> str | None:
    """The distribution's package with this interpreter's headers; None for an interpreter of one's own."""
    if not sysconfig.get_path("include").startswith("/usr/include/"):
        return None
    return f"libpython{sys.version_info.major}.{sys.version_info.minor}-dev"


def include_directories(unpacked: Path) -> tuple[str, ...]:
    """What a compiler needs of that package, unpacked at `unpacked`, to find `Python.h`.

    Two directories: Debian's `pyconfig.h` includes one for the machine by a path below `include`.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return (str(unpacked / "usr" / "include" / version), str(unpacked / "usr" / "include"))


def require_headers() -> None:
    """Raise `MissingTool` when there is no `Python.h`."""
    if not has_headers():
        raise MissingTool(
            f"Python.h was not found in {sysconfig.get_path('include')}",
            next_step="install Python's development headers (Debian: python3-dev) and run again",
        )
