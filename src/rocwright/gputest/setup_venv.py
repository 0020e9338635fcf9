"""Make the Python environment in which wheels are tested, or use what is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.errors import MissingTool, UsageError
from rocwright.gputest.install import Install, Note, install
from rocwright.system import venv
from rocwright.system.files import remove_tree
from rocwright.system.interpreters import ask_interpreter, find_interpreter
from rocwright.system.venv import Environment
from rocwright.system.workflow import tell_workflow

# What stands at the top of an environment: made by venv, virtualenv or uv, or put there by packages.
_OF_VENVS = {"bin", "etc", "include", "lib", "lib64", "libexec", "man", "sbin", "share", "src", "var"}
_OF_VENVS |= {"pyvenv.cfg", ".gitignore", ".lock", "CACHEDIR.TAG"}
_CONFIG = "pyvenv.cfg"


class Made(msgspec.Struct, frozen=True):
    """An environment for tests: its `python`, and what is installed (normalised names, versions).

    `created` is false for an environment that was there; `tries` is how often the installer was called.
    """

    environment: str
    python: str
    version: str
    created: bool
    tries: int
    installed: dict[str, str]
    log: str


class VenvRequest(msgspec.Struct, frozen=True):
    """An environment at `root`; `python` as `find_interpreter` takes it, `clean` replaces what is there."""

    root: Path
    install: Install
    python: str = ""
    clean: bool = False


def setup_venv(wanted: VenvRequest, *, log: Path, note: Note) -> Made:
    """Make the environment, or use it, and install into it.

    Raises `UsageError` for a directory that is no environment: nothing of it is touched.
    """
    if wanted.install.uv and wanted.install.packages:
        # Missed before anything is made, or removed.
        venv.uv_command()
    environment, created = _environment(wanted, log=log, note=note)
    tries = install(environment, wanted.install, log=log, note=note) if wanted.install.packages else 0
    python = ask_interpreter(environment.python)
    return Made(
        str(environment.root),
        str(environment.python),
        python.full,
        created,
        tries,
        dict(sorted(venv.installed(environment).items())),
        str(log),
    )


def _environment(wanted: VenvRequest, *, log: Path, note: Note) -> tuple[Environment, bool]:
    root = wanted.root
    _require_name(root)
    there = root.exists() or root.is_symlink()
    if there and not (root.is_dir() and not any(root.iterdir())):
        require_environment(root)
        if not wanted.clean:
            return _reused(wanted), False
        require_removable(root)
    # Looked for before anything is removed.
    interpreter = find_interpreter(wanted.python)
    note(f"making an environment of Python {interpreter.full} at {root}")
    try:
        return venv.create(root, python=Path(interpreter.path), log=log, pip=not wanted.install.uv), True
    except BaseException:
        # Half of an environment would be taken for the whole.
        remove_tree(root)
        raise


def _require_name(root: Path) -> None:
    if os.pathsep in str(root) or not str(root).isprintable():
        raise UsageError(
            f"{str(root)!r} cannot be on a PATH",
            next_step=f"give one without {os.pathsep!r} and line breaks",
        )


def require_environment(root: Path) -> None:
    """Raise `UsageError` for something that is no virtual environment."""
    if not (root / _CONFIG).is_file():
        what = "is a directory, but not a virtual environment" if root.is_dir() else "is not a directory"
        raise UsageError(
            f"{root} {what}; nothing was touched",
            where=root,
            next_step="name another directory, or remove it",
        )


def require_removable(root: Path) -> None:
    """Raise `UsageError` for an environment that must stay: this tool's own, or with other files."""
    real, own = root.resolve(), Path(sys.prefix).resolve()
    if own == real or real in own.parents:
        raise UsageError(
            f"--clean would remove {root}, which this tool runs in",
            where=root,
            next_step="name another directory for the tests",
        )
    if real in (here := Path.cwd().resolve(), *here.parents):
        raise UsageError(
            f"--clean would remove {root}, which is the directory you are in",
            where=root,
            next_step="go to another directory first",
        )
    strange = sorted(path.name for path in root.iterdir() if path.name not in _OF_VENVS)
    if strange:
        shown = ", ".join(strange[:5]) + (" …" if len(strange) > 5 else "")
        raise UsageError(
            f"--clean would remove what is not part of an environment: {shown}; nothing was touched",
            where=root,
            next_step="move it away, or name another directory",
        )


def _reused(wanted: VenvRequest) -> Environment:
    environment = Environment(wanted.root)
    try:
        there = ask_interpreter(environment.python)
    except MissingTool as error:
        raise UsageError(
            f"the environment {wanted.root} does not work: {error.what}",
            where=wanted.root,
            next_step="recreate it with --clean",
        ) from error
    if wanted.python:
        asked = find_interpreter(wanted.python)
        if (asked.version, asked.free_threaded) != (there.version, there.free_threaded):
            raise UsageError(
                f"the environment {wanted.root} has Python {there.name}, not {asked.name}",
                where=wanted.root,
                next_step="recreate it with --clean, or leave --python out",
            )
    return environment


def activate_in_steps(root: Path, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Let the later steps of a job of GitHub Actions run in it; returns the variables that are not set."""
    told = {
        "GITHUB_PATH": tell_workflow([str(Environment(root).bin)], "GITHUB_PATH", environment),
        "GITHUB_ENV": tell_workflow([f"VIRTUAL_ENV={root}"], "GITHUB_ENV", environment),
    }
    return tuple(name for name, done in told.items() if not done)
