"""The pip and uv that prove an installation, and the surroundings in which nothing of the user decides."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from rocwright.errors import CommandFailed, MissingTool, NoSpace
from rocwright.system import process, venv
from rocwright.system.files import sha256_file
from rocwright.system.venv import Environment

INSTALLERS = ("pip", "uv")
# The first pip that installs into another environment (--python).
_FIRST_PIP = Version("22.3")
_SAID = re.compile(r"(?:pip|uv) (\S+)")
_ANSWERS_S = 60.0
# What is not the wheels': at the top of an environment, and what installers note in a dist-info directory.
_OF_ALL = frozenset({"pyvenv.cfg", ".gitignore", ".lock"})
_NOTES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"})
# Settings of interpreters and installers, proxies, and where programs look for files of the user.
_USERS = re.compile(
    r"PYTHON\w*|PIP_\w+|UV_\w+|_PIP_\w+|(HTTP|HTTPS|ALL|NO|FTP)_PROXY|XDG_\w+|VIRTUAL_ENV\w*|CONDA_\w+"
    r"|LD_(LIBRARY_PATH|PRELOAD|AUDIT)|(REQUESTS|CURL)_CA_BUNDLE|SSL_CERT_(FILE|DIR)|SSLKEYLOGFILE|NETRC",
    re.IGNORECASE,
)


class Surroundings(msgspec.Struct, frozen=True):
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


class Tool(msgspec.Struct, frozen=True):
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


# -- what an installer left in an environment


def recorded(environment: Environment) -> Iterator[tuple[Path, list[str]]]:
    """Each row of each RECORD, as installed, and the dist-info directory that it is in."""
    sites = venv.package_directories(environment.root)
    for record in sorted(record for site in sites for record in site.glob("*.dist-info/RECORD")):
        with record.open(newline="", encoding="utf-8", errors="replace") as stream, suppress(csv.Error):
            yield from ((record.parent, row) for row in csv.reader(stream) if row)


def laid_out(environment: Environment) -> dict[str, tuple[int, str]]:
    """Size and digest of each file below an environment but its commands, by the path in it.

    The digests are those of RECORD, which are the wheel's: no installer has changed these files.
    """
    root = environment.root
    told = {
        os.path.normpath(info.parent / row[0]): row[1]
        for info, row in recorded(environment)
        if len(row) > 1 and row[1]
    }
    found = {}
    for folder, inside, names in os.walk(root):
        if folder == str(root):
            inside[:] = [name for name in inside if name != environment.bin.name]
        notes = _OF_ALL if folder == str(root) else _NOTES if folder.endswith(".dist-info") else ()
        for path in (Path(folder, name) for name in names if name not in notes):
            digest = told.get(str(path)) or sha256_file(path)
            found[path.relative_to(root).as_posix()] = (path.stat().st_size, digest)
    return found
