"""The door to Python environments: create one, install into it with pip or uv, ask what is there.

Two kinds of install are kept apart. *Closed* ones take packages only from given places (an index, pages with
links, directories) and ignore the user's pip configuration, so that nothing of the same name can come from
elsewhere. *Tool* installs (setuptools, pytest) use whatever index the user has configured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from rocwright.errors import MissingTool, UsageError
from rocwright.system import process
from rocwright.system.files import remove_tree
from rocwright.system.installers import LEAKS, misplaced_settings

# Variables that would let another environment leak into this one.
_LEAKS = (*LEAKS, "PYTEST_ADDOPTS")

# On Linux and on Windows.
_PACKAGES = ("lib/python3*/site-packages", "Lib/site-packages")


@dataclass(frozen=True)
class Environment:
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


@dataclass(frozen=True)
class Closed:
    """The only places a closed install takes packages from."""

    index_url: str | None = None
    find_links: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """As pip and uv spell them; without an index, none is asked."""
        index = ["--index-url", self.index_url] if self.index_url else ["--no-index"]
        return index + [word for page in self.find_links for word in ("--find-links", page)]


def links_page(text: str) -> str:
    """A page with links as installers take it: an address as it is, a directory or file made absolute.

    Raises `UsageError` for one that is not there: pip would only say that it found no package.
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
    """The directory or file of this machine that a place is; None for one that is reached by network."""
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
        [interpreter, "-m", "venv", *([] if pip else ["--without-pip"]), str(root)],
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
) -> process.Completed:
    """Install with pip; `closed` None means a tool install from the user's own index.

    No pip cache in closed installs: it keeps wheels built from the `rocm` sdist, and with them the GPU
    choice of an earlier install.
    """
    places = [] if closed is None else [*closed.arguments(), "--no-cache-dir", "--pre"]
    isolation = TOOL_PIP_ENV if closed is None else _closed_pip_env()
    return process.run(
        [*pip_command(), "--python", str(environment.python), "install", "--no-input", *places, *options]
        + list(requirements),
        log=log,
        env={"PIP_DISABLE_PIP_VERSION_CHECK": "1", **isolation, **(env or {})},
        drop_env=[*_LEAKS, *_pip_variables(closed)],
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
) -> process.Completed:
    """Install with uv from the closed places only, with a cache of its own at `cache`."""
    return process.run(
        [uv_command(), "pip", "install", "--no-config", "--python", str(environment.python)]
        + [*closed.arguments(), "--prerelease", "allow", "--cache-dir", str(cache), *requirements],
        log=log,
        env={"UV_NO_PROGRESS": "1", **(env or {})},
        drop_env=[*_LEAKS, *(name for name in os.environ if name.startswith("UV_"))],
    )


def installed(environment: Environment) -> dict[str, str]:
    """Normalised project name to version of everything installed, read by its own interpreter."""
    script = (
        "import json, re, importlib.metadata as m; print(json.dumps({re.sub(r'[-_.]+', '-', "
        "d.metadata['Name']).lower(): d.version for d in m.distributions()}))"
    )
    done = environment.run([str(environment.python), "-I", "-c", script])
    return msgspec.json.decode(done.stdout, type=dict[str, str])
