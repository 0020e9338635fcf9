"""Python's C headers: extensions need them, and many systems ship the interpreter without."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rocwright.errors import MissingTool
from rocwright.system.interpreters import Interpreter, running_interpreter


@cache
def _running() -> Interpreter:
    return running_interpreter()


def has_headers(interpreter: Interpreter | None = None) -> bool:
    """Whether the interpreter's `Python.h` is where compilers will be told to look; None: the running one."""
    return (Path((interpreter or _running()).include) / "Python.h").exists()


def distribution_package(interpreter: Interpreter | None = None) -> str | None:
    """Debian's package with the interpreter's headers; None for an interpreter of one's own."""
    asked = interpreter or _running()
    return f"libpython{asked.version}-dev" if asked.include.startswith("/usr/include/") else None


def include_directories(unpacked: Path, interpreter: Interpreter | None = None) -> tuple[str, ...]:
    """What a compiler needs of that package, unpacked at `unpacked`, to find `Python.h`.

    Two directories: Debian's `pyconfig.h` includes one for the machine by a path below `include`.
    """
    version = f"python{(interpreter or _running()).version}"
    return (str(unpacked / "usr" / "include" / version), str(unpacked / "usr" / "include"))


def require_headers(interpreter: Interpreter | None = None) -> None:
    """Raise `MissingTool` when there is no `Python.h`."""
    if not has_headers(interpreter):
        raise MissingTool(
            f"Python.h was not found in {(interpreter or _running()).include}",
            next_step="install Python's development headers (Debian: python3-dev) and run again",
        )
