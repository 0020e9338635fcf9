"""The door to Python interpreters: find one by its version, and ask it once what it is."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, MissingTool, UsageError
from rocwright.system import process

_WANTED = re.compile(r"(\d)\.(\d+)(t?)")
# Every interpreter that this tool meets understands it, however old.
_QUESTION = (
    "import json, os, sys, sysconfig as s\n"
    "i = s.get_path('include')\n"
    "print(json.dumps({'path': sys.executable, 'version': '%d.%d' % sys.version_info[:2],"
    " 'full': '%d.%d.%d' % sys.version_info[:3], 'include': i,"
    " 'has_headers': os.path.exists(os.path.join(i, 'Python.h')),"
    " 'free_threaded': bool(s.get_config_var('Py_GIL_DISABLED')),"
    " 'implementation': sys.implementation.name}))"
)
_GIVE = "give an environment, or its python program: --python .venv"
_LEAKS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")


class Interpreter(msgspec.Struct, frozen=True):
    """A Python that wheels can be built for.

    `version` is `3.12`, `full` `3.12.1`; `include` is where its `Python.h` is looked for, and is there when
    `has_headers`. A `free_threaded` interpreter is asked for as `3.13t`.
    """

    path: str
    version: str
    full: str
    include: str
    has_headers: bool
    free_threaded: bool = False
    implementation: str = "cpython"

    @property
    def name(self) -> str:
        """As a user asks for it: `3.12`, `3.13t`."""
        return f"{self.version}t" if self.free_threaded else self.version

    @property
    def tag(self) -> str:
        """As wheels name it: `cp312`, `cp313t`."""
        return "cp" + self.name.replace(".", "")


def ask_interpreter(path: Path) -> Interpreter:
    """What the interpreter at `path` says of itself; raises `MissingTool` when it does not answer."""
    try:
        done = process.run([path, "-I", "-c", _QUESTION], drop_env=_LEAKS)
        found = msgspec.json.decode(done.stdout, type=Interpreter)
    except (CommandFailed, msgspec.DecodeError) as error:
        raise MissingTool(
            f"{path} does not answer as a Python interpreter",
            where=path,
            next_step="give the path of a python3 program, or a version such as 3.12",
        ) from error
    if found.implementation != "cpython":
        raise MissingTool(
            f"{path} is {found.implementation}; wheels are built for CPython",
            where=path,
            next_step="give another, or a version such as 3.12",
        )
    return found


def running_interpreter() -> Interpreter:
    """The interpreter that runs this tool."""
    return ask_interpreter(Path(sys.executable))


def find_interpreter(text: str = "") -> Interpreter:
    """The interpreter that `text` means: a version (`3.12`, `3.13t`), a path, nothing for this Python.

    Looked for, in this order: this Python, PATH, pyenv, /opt/python (manylinux), uv. With headers goes
    before without, because extensions need them. Raises `UsageError` for text that means nothing,
    `MissingTool` naming the places when there is none.
    """
    if not text:
        return running_interpreter()
    if "/" in text or os.sep in text:
        path = Path(text).expanduser().absolute()
        if not path.exists():
            raise MissingTool(
                f"there is no Python {path}",
                next_step="give the path of a python3 program, or a version such as 3.12",
            )
        return ask_interpreter(path)
    wanted = _WANTED.fullmatch(text)
    if wanted is None:
        raise UsageError(
            f"{text!r} is not a version of Python",
            next_step="write 3.12, 3.13t, or the path of an interpreter",
        )
    bare = None
    for candidate in _candidates(wanted[1], wanted[2], wanted[3]):
        try:
            found = ask_interpreter(candidate)
        except MissingTool:
            # A shim of a version that is not installed, or a broken link: the next place may have it.
            continue
        if found.name != text:
            continue
        if found.has_headers:
            return found
        bare = bare or found
    if bare is not None:
        return bare
    raise MissingTool(
        f"Python {text} was not found on PATH, with pyenv, in /opt/python or with uv",
        next_step=f"install it (`uv python install {text}`, `pyenv install {text}`), or give its path",
    )


def find_python(text: Path | None, running: str) -> Path:
    """The interpreter that is meant: a program, or an environment's directory; `running` for none.

    Its path is not resolved: a link in an environment is what makes it that environment's.
    """
    if text is None:
        return Path(running)
    path = Path(os.path.abspath(text.expanduser()))  # noqa: PTH100 - resolve() would leave the environment
    if path.is_dir():
        for name in ("bin/python", "Scripts/python.exe"):
            if (path / name).exists():
                return path / name
        raise MissingTool(
            f"{path} is a directory without a Python interpreter",
            next_step=_GIVE,
        )
    require_program(path)
    return path


def require_program(path: Path) -> None:
    """Raise `MissingTool` for what cannot be an interpreter: nothing is there, or it cannot be executed."""
    if not path.is_file():
        raise MissingTool(f"there is no Python {path}", next_step=_GIVE)
    if not os.access(path, os.X_OK):
        raise MissingTool(f"{path} is not a Python interpreter: it cannot be executed", next_step=_GIVE)


def _candidates(major: str, minor: str, threads: str) -> Iterator[Path]:
    program = f"python{major}.{minor}{threads}"
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == f"{major}.{minor}":
        yield Path(sys.executable)
    on_path = shutil.which(program)
    if on_path is not None:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from _newest(pyenv, f"{major}.{minor}*", "bin/python")
    cp = f"cp{major}{minor}"
    yield from _newest(Path("/opt/python"), f"{cp}-{cp}{threads}", "bin/python")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    yield from _newest(uv, f"cpython-{major}.{minor}*", f"bin/{program}")


def _newest(directory: Path, pattern: str, program: str) -> list[Path]:
    """Programs in the directories of that name, the latest version first (`3.12.10` after `3.12.9`)."""
    found = [path for path in directory.glob(pattern) if (path / program).exists()]

    def order(path: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", path.name)]

    return [path / program for path in sorted(found, key=order, reverse=True)]
