"""The door to Python environments: create one, install into it with pip or uv, ask what is there.

Two kinds of install are kept apart. *Closed* ones take packages only from given places (an index, pages with
links, directories) and ignore the user's pip configuration, so that nothing of the same name can come from
elsewhere. *Tool* installs (setuptools, pytest) use whatever index the user has configured. At the end: the
user's settings of pip and uv, and what their last words mean: gone for good, or not there yet.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from rocwright.errors import CommandFailed, MissingTool, UsageError
from rocwright.system import process
from rocwright.system.files import remove_tree

# Variables that would let the caller's Python or libraries into an installer and the builds that it starts.
LEAKS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD")
# Variables that would let another environment leak into this.
_LEAKS = (*LEAKS, "PYTEST_ADDOPTS")

# On Linux and on Windows.
_PACKAGES = ("lib/python3*/site-packages", "Lib/site-packages")


class Environment(msgspec.Struct, frozen=True):
    """A virtual environment on disk."""

    root: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.bin / ("python.exe" if self.bin.name == "Scripts" else "python")

    @property
    def bin(self) -> Path:
        """Its directory of console commands, `Scripts` where Windows made it or is going to."""
        scripts = self.root / "Scripts"
        return scripts if os.name == "nt" or (scripts / "python.exe").exists() else self.root / "bin"

    def run(
        self,
        argv: Sequence[str],
        *,
        log: Path | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        next_step: str | None = None,
    ) -> process.Completed:
        """Run a command with the environment's `bin` first on PATH and nothing leaking in."""
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", os.defpath)])
        return process.run(
            argv,
            cwd=cwd,
            env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            drop_env=_LEAKS,
            log=log,
            ok=ok,
            next_step=next_step,
        )


def package_directories(root: Path) -> list[Path]:
    """Where the packages of the environment at `root` lie; none where there is no environment."""
    return sorted(found for pattern in _PACKAGES for found in root.glob(pattern))


class Closed(msgspec.Struct, frozen=True):
    """The only places a closed install takes packages from."""

    index_url: str | None = None
    find_links: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """As pip and uv spell them; without an index, none is asked."""
        index = ["--index-url", self.index_url] if self.index_url else ["--no-index"]
        return index + [word for page in self.find_links for word in ("--find-links", page)]


def links_page(text: str) -> str:
    """A page with links as installers take it: an address as it is, a directory or file made absolute.

    Raises `UsageError` for a place that is not there: pip would only say that it found no package.
    """
    if "://" in text:
        return text
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise UsageError(
            f"--find-links {text}: there is no such directory or page",
            where=path,
            next_step="give the directory that holds the packages, or the address of a page with links",
        )
    return str(path)


def local_path(place: str) -> Path | None:
    """The directory or file of this machine that a place is; None for a place that is reached by network."""
    if place.startswith("file:"):
        return Path(unquote(urlsplit(place).path))
    return None if "://" in place else Path(place)


def remote_places(places: Closed) -> tuple[str, ...]:
    """The places that are reached by network: only they can show a package later than it was uploaded."""
    given = (*filter(None, [places.index_url]), *places.find_links)
    return tuple(place for place in given if local_path(place) is None)


def create(
    root: Path, *, python: Path | None = None, log: Path | None = None, pip: bool = False
) -> Environment:
    """A fresh environment at `root`, without pip in it unless `pip`; whatever is there is replaced."""
    remove_tree(root)
    interpreter = str(python or sys.executable)
    process.run(
        [interpreter, "-I", "-m", "venv", *([] if pip else ["--without-pip"]), str(root)],
        log=log,
        drop_env=_LEAKS,
        next_step="install Python's venv module (Debian: python3-venv)",
    )
    return Environment(root)


def pip_install(
    environment: Environment,
    requirements: Sequence[str],
    *,
    closed: Closed | None,
    log: Path | None = None,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
    cwd: Path | None = None,
    drop_env: Sequence[str] = (),
) -> process.Completed:
    """Install with pip; `closed` None means a tool install from the user's own index.

    `command` is how to call it, where it is not the one at hand; `cwd` and `drop_env` as for any process.

    No pip cache in closed installs: it keeps wheels built from the `rocm` sdist, and with them the GPU
    choice of an earlier install.
    """
    places = [] if closed is None else [*closed.arguments(), "--no-cache-dir", "--pre"]
    isolation = TOOL_PIP_ENV if closed is None else _closed_pip_env()
    return process.run(
        [*(command or pip_command()), "--python", str(environment.python)]
        + ["install", "--no-input", *places, *options, *requirements],
        cwd=cwd,
        log=log,
        env={"PIP_DISABLE_PIP_VERSION_CHECK": "1", **isolation, **(env or {})},
        drop_env=[*_LEAKS, *_pip_variables(closed), *drop_env],
    )


def pip_uninstall(environment: Environment, projects: Sequence[str], *, log: Path | None = None) -> None:
    """Take projects out of an environment; those that are not there are skipped."""
    process.run(
        [*pip_command(), "--python", str(environment.python), "uninstall", "--yes", *projects],
        log=log,
        env={"PIP_DISABLE_PIP_VERSION_CHECK": "1", **TOOL_PIP_ENV},
        drop_env=[*_LEAKS, *_pip_variables(None)],
    )


# The same settings of a configuration file.
TOOL_PIP_ENV = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}


def _pip_variables(closed: Closed | None) -> list[str]:
    """Names of the caller's pip settings that an install is done without."""
    if closed is None:
        return misplaced_settings("pip")
    return [name for name in os.environ if name.startswith("PIP_")]


def _closed_pip_env() -> dict[str, str]:
    return {"PIP_CONFIG_FILE": os.devnull}


def pip_command() -> list[str]:
    """How to call pip here; raises `MissingTool` when neither this environment nor PATH has it."""
    here = Path(sys.executable).parent / "pip"
    if here.exists():
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise MissingTool("pip was not found", next_step="install pip (Debian: python3-pip) and run again")
    return [found]


def uv_command() -> str:
    """Path of uv; raises `MissingTool` when it is not installed."""
    here = Path(sys.executable).parent / "uv"
    found = str(here) if here.exists() else shutil.which("uv")
    if found is None:
        raise MissingTool("uv was not found", next_step="pip install uv, and run again")
    return found


def uv_install(
    environment: Environment,
    requirements: Sequence[str],
    *,
    closed: Closed,
    cache: Path,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
    cwd: Path | None = None,
    drop_env: Sequence[str] = (),
) -> process.Completed:
    """Install with uv from the closed places only, with a cache of its own at `cache`.

    `command` is how to call it, where it is not the one at hand; `cwd` and `drop_env` as for any process.
    """
    return process.run(
        [*(command or [uv_command()]), "pip", "install", "--no-config", "--python", str(environment.python)]
        + [*closed.arguments(), "--prerelease", "allow", "--cache-dir", str(cache), *requirements],
        cwd=cwd,
        log=log,
        env={"UV_NO_PROGRESS": "1", **(env or {})},
        drop_env=[*_LEAKS, *(name for name in os.environ if name.startswith("UV_")), *drop_env],
    )


def installed(environment: Environment) -> dict[str, str]:
    """Normalised project name to version of everything installed, read by its own interpreter."""
    script = (
        "import json, re, importlib.metadata as m; print(json.dumps({re.sub(r'[-_.]+', '-', "
        "d.metadata['Name']).lower(): d.version for d in m.distributions()}))"
    )
    done = environment.run([str(environment.python), "-I", "-c", script])
    return msgspec.json.decode(done.stdout, type=dict[str, str])


# -- pip and uv: the settings that they find, and what their last words mean


# Of an installer's own, those that say how to reach a place or what to keep, not where to look.
_REACH = {
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_TIMEOUT",
    "PIP_RETRIES",
    "PIP_CACHE_DIR",
    "PIP_NO_CACHE_DIR",
    "UV_CACHE_DIR",
    "UV_NO_CACHE",
    "UV_HTTP_TIMEOUT",
    "UV_HTTP_RETRIES",
    "UV_INSECURE_HOST",
    "UV_KEYRING_PROVIDER",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_LINK_MODE",
    "UV_CONCURRENT_DOWNLOADS",
    "UV_CONCURRENT_INSTALLS",
}
# What else counts where the user's own indexes are asked: where to look, and what to prefer. Others would put
# it elsewhere (PIP_TARGET, PIP_USER), or refuse (PIP_REQUIRE_VIRTUALENV).
_PLACES = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|NO_INDEX|FIND_LINKS|KEYRING_PROVIDER|RESUME_RETRIES|CONFIG_FILE"
    r"|(BUILD_)?CONSTRAINT|PRE|PREFER_BINARY|ONLY_BINARY|NO_BINARY|USE_FEATURE|USE_DEPRECATED)"
    r"|UV_(DEFAULT_INDEX|INDEX|INDEX_\w+|EXTRA_INDEX_URL|NO_INDEX|FIND_LINKS|CONFIG_FILE|NO_CONFIG"
    r"|(BUILD_)?CONSTRAINT|OVERRIDE|PRERELEASE|EXCLUDE_NEWER|NO_BINARY\w*|NO_BUILD\w*)"
)

SILENT = "the index does not answer yet"
TROUBLED = "the index answers with errors of its own"
BROKEN_OFF = "a download broke off"
NOT_SHOWN = "the index does not show the packages yet"
# How pip and uv say that a package is not to be had; on an index that is catching up, it will be.
_NOT_YET = (
    (re.compile(r"Connection ?refused|tcp connect error|operation timed out", re.IGNORECASE), SILENT),
    (
        re.compile(r"too many 5\d\d error|\b5\d\d Server Error|HTTP error 5\d\d|server error \(5\d\d"),
        TROUBLED,
    ),
    (
        re.compile(
            r"Wheel '[^']*' located at .* is invalid|IncompleteRead|Connection broken|unexpected end of data"
            r"|ended before the end-of-stream|Failed to extract archive|error decoding response body",
        ),
        BROKEN_OFF,
    ),
    (
        re.compile(
            r"No matching distribution found|Could not find a version that satisfies"
            r"|404 Client Error|HTTP error 404|client error \(404|No solution found when resolving",
            re.IGNORECASE,
        ),
        NOT_SHOWN,
    ),
)
# What ends in the same words and is there tomorrow, too.
_NEVER = re.compile(
    r"\b4(?!04|08|29)\d\d (?:Client )?Error|\b40[13] (?:Unauthorized|Forbidden)|certificate"
    r"|require a different python version|requires Python [<>=!~]|no wheels with a matching"
    r"|Name or service not known|name resolution|getaddrinfo|No address associated|dns error",
    re.IGNORECASE,
)
# As the C library says it, Rust adds its number, and Windows words it otherwise.
_FULL = re.compile(
    r"No space left on device|Disk quota exceeded|\(os error (?:28|112|122)\)|not enough space on the disk",
    re.IGNORECASE,
)
_TAKEN_OUT = re.compile(r"No such file or directory: '[^'\n]*/wheels/[^'\n]*\.whl'")
_AGAIN = 3
_T = TypeVar("_T")


def not_yet(tail: str) -> str | None:
    """Why a failure of pip or uv may be over in a moment, by its last lines; None when it will not be."""
    if _NEVER.search(tail):
        return None
    return next((reason for pattern, reason in _NOT_YET if pattern.search(tail)), None)


def is_out_of_space(tail: str) -> bool:
    """Whether a command failed for want of room on the disk, by its last lines."""
    return _FULL.search(tail) is not None


def despite_others(act: Callable[[], _T], note: Callable[[str], None]) -> _T:
    """Do an installation, again where another took a wheel out of pip's cache before it was used.

    pip keeps the wheel that it built of `rocm` in a cache that all share, and whoever chooses for another GPU
    takes it out.
    """
    for _ in range(_AGAIN):
        try:
            return act()
        except CommandFailed as failed:
            if _TAKEN_OUT.search(failed.tail) is None:
                raise
            note("another installation took a wheel out of pip's cache; trying again")
    return act()


def own_settings(installer: str) -> list[str]:
    """Names of the caller's settings of `pip` or `uv` that would change where it looks or what it does."""
    prefix = f"{installer.upper()}_"
    return [name for name in os.environ if name.startswith(prefix) and name not in _REACH]


def misplaced_settings(installer: str) -> list[str]:
    """Of the same those that do not count even where the caller's own indexes are asked."""
    return [name for name in own_settings(installer) if not _PLACES.fullmatch(name)]
