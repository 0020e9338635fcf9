"""The pip and uv that prove an installation, and the surroundings in which nothing of the user decides."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from rocwright.errors import CommandFailed, MissingTool, NoSpace
from rocwright.system import process, venv

INSTALLERS = ("pip", "uv")
# The first pip that installs into another environment (--python).
_FIRST_PIP = Version("22.3")
_SAID = re.compile(r"(?:pip|uv) (\S+)")
_ANSWERS_S = 60.0
# Settings of interpreters and installers, proxies, and where programs look for files of the user.
_USERS = re.compile(
    r"PYTHON\w*|PIP_\w+|UV_\w+|_PIP_\w+|(HTTP|HTTPS|ALL|NO|FTP)_PROXY|XDG_\w+|VIRTUAL_ENV\w*|CONDA_\w+"
    r"|LD_(LIBRARY_PATH|PRELOAD|AUDIT)|(REQUESTS|CURL)_CA_BUNDLE|SSL_CERT_(FILE|DIR)|SSLKEYLOGFILE|NETRC",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Surroundings:
    """Where an installer or a module runs: an empty home, and nothing that the user has set.

    `home` holds its temporary files, too; it is on the disk of the set, where big wheels find room.
    """

    home: Path

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that are set."""
        home = str(self.home)
        return {"HOME": home, "USERPROFILE": home, "TMPDIR": home, "NO_PROXY": "*", "no_proxy": "*"}

    @property
    def dropped(self) -> tuple[str, ...]:
        """Variables of the user that do not count."""
        return tuple(name for name in os.environ if _USERS.fullmatch(name) and name not in self.env)


@dataclass(frozen=True)
class Tool:
    """An installer that runs: how to call it, and its version."""

    argv: tuple[str, ...]
    version: str


def missing_tool(installer: str) -> str | None:
    """What to do to have an installer that is not here; None when it is."""
    try:
        _ = venv.pip_command() if installer == "pip" else venv.uv_command()
    except MissingTool as error:
        return error.next_step or f"install {installer}"
    return None


def tool(installer: str, around: Surroundings, python: Path, log: Path | None = None) -> Tool | str:
    """An installer that runs in these surroundings, or why there is none.

    pip may be broken, too old, or not there at all: then it is the copy that came with the interpreter, in an
    environment of its own. It needs no network.
    """
    around.home.mkdir(parents=True, exist_ok=True)
    why = "it is not installed"
    if missing_tool(installer) is None:
        argv = venv.pip_command() if installer == "pip" else [venv.uv_command()]
        version = _version(argv, around)
        if version is not None and (installer == "uv" or _is_enough(version)):
            return Tool(tuple(argv), version)
        why = "it does not run" if version is None else f"its version {version} is too old"
    if installer == "uv":
        return why
    try:
        own = venv.create(around.home / "pip", python=python, log=log, pip=True)
    except CommandFailed as error:
        require_room(error, around.home)
        return f"{why}, and this Python brings none"
    argv = [str(own.python), "-m", "pip"]
    version = _version(argv, around)
    return Tool(tuple(argv), version) if version is not None and _is_enough(version) else why


def require_room(error: CommandFailed, where: Path) -> None:
    """Raise `NoSpace` where a command failed because the disk is full: that is no fault of the set."""
    if venv.is_out_of_space(error.tail):
        raise NoSpace("no space left while trying the installation", where=where)


def _version(argv: list[str], around: Surroundings) -> str | None:
    """What a program says of itself; None where it does not run."""
    try:
        done = process.run(
            [*argv, "--version"],
            cwd=around.home,
            env=around.env,
            drop_env=around.dropped,
            limit_s=_ANSWERS_S,
        )
    except (CommandFailed, MissingTool):
        return None
    found = _SAID.match(done.stdout)
    return found[1] if found else None


def _is_enough(version: str) -> bool:
    try:
        return Version(version) >= _FIRST_PIP
    except InvalidVersion:
        return False
