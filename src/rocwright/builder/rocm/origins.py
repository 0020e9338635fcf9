"""Where ROCm's packages may come from, and which Python environment they go into."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.errors import UsageError
from rocwright.system.venv import Closed, Environment, links_page

_MAKE_ONE = "make one with `python3 -m venv .venv` and name it, or activate it"


def closed_places(index_url: str | None, find_links: Sequence[str] = ()) -> Closed:
    """The places that ROCm is taken from; empty text stands for an option that was not given.

    Directories are made absolute. Raises `UsageError` for no place at all, and for a directory that is not
    there: pip would only say that it found no package.
    """
    index = (index_url or "").strip() or None
    pages = tuple(links_page(text.strip()) for text in find_links if text.strip())
    if index is None and not pages:
        raise UsageError("no place to take ROCm from", next_step="give --index-url or --find-links")
    return Closed(index_url=index, find_links=pages)


@dataclass(frozen=True)
class PlainPython(Environment):
    """A Python that is no virtual environment, such as the system's; its program may have any name."""

    executable: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.executable

    @property
    def bin(self) -> Path:
        """Its directory of programs."""
        return self.executable.parent


def find_environment(given: Path | None, caller: Mapping[str, str]) -> Environment:
    """The Python environment that is meant: `given`, else `$VIRTUAL_ENV`, else the one that runs this.

    `given` is the directory of an environment or its interpreter; `caller` the environment variables this
    tool was started with. Raises `UsageError` for anything else.
    """
    if given is not None:
        return _environment(given.expanduser().absolute(), said=str(given))
    active = caller.get("VIRTUAL_ENV", "").strip()
    if active:
        return _environment(Path(active).absolute(), said=f"VIRTUAL_ENV={active}")
    return _of_interpreter(Path(sys.executable))


def _environment(path: Path, *, said: str) -> Environment:
    if path.is_file() and os.access(path, os.X_OK):
        return _of_interpreter(path)
    if Environment(path).python.exists():
        return Environment(path)
    if not path.exists():
        raise UsageError(f"{said}: there is no such Python environment", where=path, next_step=_MAKE_ONE)
    what = "holds no bin/python, so it is no Python environment" if path.is_dir() else "cannot be executed"
    raise UsageError(f"{said} {what}", where=path, next_step=_MAKE_ONE)


def _of_interpreter(program: Path) -> Environment:
    """The environment around an interpreter; links are not followed, they lead to the one it was made of."""
    root = program.parent.parent
    if program.parent == Environment(root).bin and (root / "pyvenv.cfg").exists():
        return Environment(root)
    return PlainPython(root, program)
