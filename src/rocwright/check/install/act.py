"""Install a planned set with pip or uv from an index of its own, and look at what is there afterwards."""

from __future__ import annotations

import csv
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from rocwright.check.install.facts import Installation
from rocwright.check.install.plan import InstallPlan
from rocwright.errors import CommandFailed, MissingTool
from rocwright.system import venv
from rocwright.system.files import remove_tree
from rocwright.system.venv import Closed, Environment

INSTALLERS = ("pip", "uv")
_MOST_LINES, _MOST_LETTERS = 8, 900
# An sdist that selects by the machine's GPU is told what to select: the set is proved, not this machine.
_FAMILY, _SET_FACTS = "ROCM_SDK_TARGET_FAMILY", "rocm_set.json"


class Index(Protocol):
    """A simple repository over HTTP: its address, and the files that were asked of it, in order."""

    url: str

    def asked(self) -> Sequence[str]:
        """Names of files whose content or metadata was asked for."""


def missing_tool(installer: str) -> str | None:
    """What to do to have an installer that is not here; None when it is."""
    try:
        _ = venv.pip_command() if installer == "pip" else venv.uv_command()
    except MissingTool as error:
        return error.next_step or f"install {installer}"
    return None


def install(
    plan: InstallPlan, installer: str, index: Index, work: Path, *, python: Path, log: Path | None = None
) -> Installation:
    """Install everything of the plan at once into a fresh environment below `work`, which is removed again.

    Whatever the installer refuses becomes a problem of the result, in its own words.
    """
    root = work / f"{installer}-{plan.environment.abi}"
    problems: tuple[str, ...]
    try:
        environment = venv.create(root / "env", python=python, log=log)
        _run(plan, installer, index, root, environment, log)
        problems = tuple(_wrong(environment, plan))
    except CommandFailed as error:
        problems = (_plain(error.tail, index.url, work),)
    finally:
        remove_tree(root)
    return Installation(
        installer=installer,
        where=str(plan.environment),
        problems=problems,
        asked=_by_project(index.asked()),
        stand_ins=tuple(map(str, plan.stand_ins)),
    )


def _run(
    plan: InstallPlan, installer: str, index: Index, root: Path, environment: Environment, log: Path | None
) -> None:
    scratch = root / "tmp"
    scratch.mkdir(parents=True)
    # No proxy stands between two processes of one machine; big wheels are unpacked on the disk of the set.
    env = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "TMPDIR": str(scratch), **_selection(plan.files)}
    places = Closed(index_url=index.url)
    if installer == "pip":
        venv.pip_install(
            environment, plan.requirements, closed=places, log=log, options=["--no-compile"], env=env
        )
    else:
        venv.uv_install(environment, plan.requirements, closed=places, cache=root / "cache", log=log, env=env)


def _selection(files: Iterable[Path]) -> Mapping[str, str]:
    """What the `rocm` sdist of the set is told to select: its own default."""
    for path in files:
        if not path.name.startswith("rocm-") or not path.name.endswith(".tar.gz"):
            continue
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if PurePosixPath(member.name).name == _SET_FACTS:
                    stream = archive.extractfile(member)
                    family = json.load(stream).get("default_family") if stream is not None else None
                    return {_FAMILY: family} if family else {}
    return {}


def _wrong(environment: Environment, plan: InstallPlan) -> Iterator[str]:
    """What is not as planned after the installer said that all went well."""
    there = venv.installed(environment)
    for project, versions in sorted(plan.expected.items()):
        if project not in there:
            yield f"{project} was not installed, and no error was reported"
        elif Version(there[project]) not in map(Version, versions):
            yield f"{project} {there[project]} was installed, not {' or '.join(versions)}"
    yield from _owned_twice(environment)


def _owned_twice(environment: Environment) -> Iterator[str]:
    """Paths in two packages' RECORD, as installed."""
    owners: dict[str, str] = {}
    sites = venv.package_directories(environment.root)
    for record in sorted(record for site in sites for record in site.glob("*.dist-info/RECORD")):
        with record.open(newline="", encoding="utf-8") as stream:
            for row in csv.reader(stream):
                first = owners.setdefault(row[0], record.parent.name) if row else record.parent.name
                if first != record.parent.name:
                    yield f"{row[0]} belongs to both {first} and {record.parent.name}"


def _by_project(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for name in names:
        try:
            parsed = parse_wheel_filename(name) if name.endswith(".whl") else parse_sdist_filename(name)
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue  # pages
        found.setdefault(str(parsed[0]), {})[name] = None
    return {project: tuple(files) for project, files in sorted(found.items())}


def _plain(tail: str | None, url: str, work: Path) -> str:
    """The last lines an installer printed, the same on every machine."""
    lines = [line.strip() for line in (tail or "").splitlines() if line.strip()]
    # pip marks each such line; uv explains below the first one.
    marked = [line for line in lines if line.startswith("ERROR")]
    begins = next((at for at, line in enumerate(lines) if line.startswith(("error", "×"))), 0)
    text = " / ".join((marked or lines[begins:])[-_MOST_LINES:])
    text = text.replace(url, "…/").replace(str(work), "…")
    return text[-_MOST_LETTERS:] or "it ended with an error and said nothing"
