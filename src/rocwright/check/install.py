"""Try the installation of a set: every Python and platform of it that is at hand, with pip and with uv.

Each planned installation is done from an index of its own. What is there afterwards is looked at, then
imported.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec
from packaging.tags import platform_tags
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
)
from packaging.version import Version

from rocwright.check.context import Context
from rocwright.check.environments import PythonPlatform
from rocwright.check.facts import Facts, ImportTry, Installation
from rocwright.check.imports import try_imports
from rocwright.check.install_plan import InstallPlan, StandIn, plan_install
from rocwright.check.installers import (
    INSTALLERS,
    Surroundings,
    Tool,
    laid_out,
    missing_tool,
    recorded,
    require_room,
    tool,
)
from rocwright.errors import CommandFailed, InvalidInput, MissingTool
from rocwright.system import process, venv
from rocwright.system.files import remove_tree, require_space
from rocwright.system.parallel import ready_for_threads
from rocwright.system.venv import Closed, Environment
from rocwright.wheel.metadata import (
    Metadata,
    render_metadata,
    render_wheel_file,
    wheel_filename,
    wheel_stem,
)
from rocwright.wheel.tags import parse_wheel_name

_MOST_LINES, _MOST_LETTERS = 8, 900
# An sdist that selects by the machine's GPU is told what to select: the set is proved, not this machine.
_FAMILY, _SET_FACTS = "ROCM_SDK_TARGET_FAMILY", "rocm_set.json"
_TELL = (
    "import sys, sysconfig; print('cp%d%d' % sys.version_info[:2] + "
    "('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
)
_TAG = "py3-none-any"
# For one Python alone, unlike what keeps to the limited API.
_BOUND = re.compile(r"cp\d+-(?!abi3)\S+")


class Index(Protocol):
    """A simple repository over HTTP: its address, and the files that were asked of it, in order."""

    url: str

    def asked(self) -> Sequence[str]:
        """Names of files whose content or metadata was asked for."""


class _Trial(msgspec.Struct, frozen=True):
    """Where an installer is tried: an environment, its surroundings, a file that takes what it prints."""

    environment: Environment
    around: Surroundings
    log: Path | None


def _install(plan: InstallPlan, installer: str, index: Index, place: _Trial, python: Path) -> Installation:
    """Install everything of the plan at once into a fresh environment.

    Whatever the installer refuses becomes a problem of the result, in its own words.
    """
    around, where = place.around, str(plan.environment)
    work = around.home.parent.parent
    problems: tuple[str, ...]
    version = ""
    try:
        chosen = tool(installer, around, python, place.log)
        if isinstance(chosen, str):
            return Installation(installer, where, not_tried=chosen, next_step=missing_tool(installer) or "")
        version = chosen.version
        environment = venv.create(place.environment.root, python=python, log=place.log)
        _run(plan, installer, chosen, index, around, environment, place.log)
        problems = tuple(_wrong(environment, plan))
    except CommandFailed as error:
        require_room(error, work)
        problems = (_plain(error.tail, index.url, work),)
    return Installation(
        installer=installer,
        where=where,
        problems=problems,
        asked=_by_project(index.asked()),
        stand_ins=tuple(map(str, plan.stand_ins)),
        version=version,
        projects=tuple(sorted(plan.expected)),
    )


def _run(
    plan: InstallPlan,
    installer: str,
    chosen: Tool,
    index: Index,
    around: Surroundings,
    environment: Environment,
    log: Path | None,
) -> None:
    env = {**around.env, **_selection(plan.files)}
    places = Closed(index_url=index.url)
    if installer == "pip":
        venv.pip_install(
            environment,
            plan.requirements,
            closed=places,
            log=log,
            options=["--no-compile"],
            env=env,
            command=chosen.argv,
            cwd=around.home,
            drop_env=around.dropped,
        )
    else:
        venv.uv_install(
            environment,
            plan.requirements,
            closed=places,
            cache=around.home / "cache",
            log=log,
            env=env,
            command=chosen.argv,
            cwd=around.home,
            drop_env=around.dropped,
        )


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
    """What is not as planned after the installer reported success."""
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
    for info, row in recorded(environment):
        first = owners.setdefault(row[0], info.name)
        if first != info.name:
            yield f"{row[0]} belongs to both {first} and {info.name}"


def _by_project(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for name in names:
        try:
            parsed = parse_wheel_name(name) if name.endswith(".whl") else parse_sdist_filename(name)
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue  # pages
        found.setdefault(str(parsed[0]), {})[name] = None
    return {project: tuple(files) for project, files in sorted(found.items())}


def _plain(tail: str | None, url: str, work: Path) -> str:
    """The last lines an installer printed, the same on every machine."""
    lines = [line.strip() for line in (tail or "").splitlines() if line.strip()]
    # pip marks each such line; uv explains below the first.
    marked = [line for line in lines if line.startswith("ERROR")]
    begins = next((at for at, line in enumerate(lines) if line.startswith(("error", "×"))), 0)
    text = " / ".join((marked or lines[begins:])[-_MOST_LINES:])
    text = text.replace(url, "…/").replace(str(work), "…")
    return text[-_MOST_LETTERS:] or "it failed without a message"


# Files of an index, where to lay it out → the index, for as long as the block runs.
Serve = Callable[[Sequence[Path], Path], AbstractContextManager[Index]]


def prove(
    context: Context, serve: Serve, work: Path, *, note: Callable[[str], None], log: Path | None = None
) -> tuple[Installation, ...]:
    """Install the whole set in each environment that it is for; what cannot be tried says why.

    `serve` makes an index of given files, and nothing else, reachable over HTTP. Everything is done below
    `work`, on a disk with room for what is installed, twice; `log` takes what the installers print.
    """
    return tuple(
        done
        for environment in _environments(context)
        for done in _one(context, environment, serve, work, note, log)
    )


def _environments(context: Context) -> tuple[PythonPlatform, ...]:
    """Those of the set; where its wheels are for every Python here, the running one is as good as any."""
    ours = this_environment()
    here = [each for each in context.environments if each.platform == ours.platform]
    others = tuple(each for each in context.environments if each.platform != ours.platform)
    bound = any(_BOUND.fullmatch(tag) for facts in context.files for tag in facts.tags)
    taken = all(ours.takes(facts) for facts in context.files if any(each.takes(facts) for each in here))
    if bound or not here or not taken:
        return context.environments
    return (ours, *others)


def _one(
    context: Context,
    environment: PythonPlatform,
    serve: Serve,
    work: Path,
    note: Callable[[str], None],
    log: Path | None,
) -> Iterator[Installation]:
    def left(why: str, next_step: str = "") -> list[Installation]:
        return [
            Installation(installer, str(environment), not_tried=why, next_step=next_step)
            for installer in INSTALLERS
        ]

    if environment.platform != this_platform():
        yield from left(f"this machine is {this_platform()}", f"check it on {environment.platform} as well")
        return
    python = interpreter_of(environment)
    if python is None:
        yield from left("no such Python is on PATH", "install it, or check where it is installed")
        return
    plan = plan_install(context, environment)
    if plan.obstacle is not None:
        yield from left(plan.obstacle, "resolve the findings of the other rules first")
        return
    newer = too_new([facts for facts in context.files if environment.takes(facts)])
    if newer:
        yield from left(f"{', '.join(newer)} needs a newer C library", "check it on a newer system")
        return
    note(f"installing with pip and uv for {environment}")
    try:
        yield from _both(plan, serve, work, python, log)
    except InvalidInput as error:
        yield from left(error.what, error.next_step or "")


def _both(plan: InstallPlan, serve: Serve, work: Path, python: Path, log: Path | None) -> list[Installation]:
    """pip and uv side by side, each with an index of its own, so that their requests are told apart."""
    packed = sum(path.stat().st_size for path in plan.files)
    # Each has an index and what is installed; pip keeps a copy of the files until it is done.
    require_space(work, 2 * plan.size + 3 * packed, purpose="trying the installation with pip and uv")
    folder = work / f"index-{plan.environment.abi}"
    stand_ins = [write_stand_in(folder / "stand-ins", one) for one in plan.stand_ins]
    files = [*plan.files, *stand_ins]

    places = {}
    for installer in INSTALLERS:
        root = work / f"{installer}-{plan.environment.abi}"
        own = None if log is None else log.with_name(f"{log.stem}-{installer}{log.suffix}")
        places[installer] = _Trial(Environment(root / "env"), Surroundings(root / "home"), own)

    def try_it(installer: str) -> Installation:
        with serve(files, folder / installer) as index:
            return _install(plan, installer, index, places[installer], python)

    ready_for_threads()
    try:
        with ThreadPoolExecutor(max_workers=len(INSTALLERS)) as pool:
            tried = list(pool.map(try_it, INSTALLERS))
            return _import(plan, tried, places, pool)
    finally:
        remove_tree(folder)
        for place in places.values():
            remove_tree(place.around.home.parent)


def _import(
    plan: InstallPlan, tried: Sequence[Installation], places: Mapping[str, _Trial], pool: ThreadPoolExecutor
) -> list[Installation]:
    """What was installed, with what came of importing it: once, where all put the same files there."""

    def imports(one: Installation) -> tuple[ImportTry, ...]:
        place = places[one.installer]
        return tuple(try_imports(plan.facts, place.environment, place.around, place.log))

    there = [one for one in tried if one.not_tried is None and not one.problems]
    laid = [laid_out(places[one.installer].environment) for one in there]
    if all(each == laid[0] for each in laid):
        came = [imports(one) for one in there[:1]] * len(there)
    else:
        came = list(pool.map(imports, there))
    by_installer = {one.installer: imported for one, imported in zip(there, came, strict=True)}
    return [msgspec.structs.replace(one, imports=by_installer.get(one.installer, ())) for one in tried]


# -- find the interpreters that a set's wheels are for, and what can be installed on this machine


def this_platform() -> str:
    """The platform of this machine as tags spell it: `linux_x86_64`."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def this_environment() -> PythonPlatform:
    """The Python that runs here."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    unlocked = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return PythonPlatform(python, python + unlocked, this_platform())


def interpreter_of(environment: PythonPlatform) -> Path | None:
    """An interpreter of this kind, the running Python or `python3.X` on PATH; None when there is none."""
    if environment.abi == this_environment().abi:
        return Path(sys.executable)
    name = (
        f"python3.{environment.python.removeprefix('cp3')}{environment.abi.removeprefix(environment.python)}"
    )
    found = shutil.which(name)
    if found is None:
        return None
    try:
        # A version manager's name for an interpreter that is not there fails only when it is run.
        said = process.run([found, "-I", "-c", _TELL]).stdout.strip()
    except (CommandFailed, MissingTool):
        return None
    return Path(found) if said == environment.abi else None


def too_new(files: list[Facts]) -> list[str]:
    """Wheels that ask for a newer C library than this machine has."""
    known = {"any", *platform_tags()}
    return [
        facts.name
        for facts in files
        if facts.kind == "wheel" and not any(tag.rpartition("-")[2] in known for tag in facts.tags)
    ]


# -- write empty wheels that stand for packages from elsewhere while a set's installation is tried


def write_stand_in(folder: Path, stand_in: StandIn) -> Path:
    """The wheel of a stand-in: metadata and nothing else."""
    info = f"{wheel_stem(stand_in.project, stand_in.version)}.dist-info"
    metadata = Metadata(
        stand_in.project,
        stand_in.version,
        summary="Stands for the package of this name while an installation is tried.",
        provides_extra=stand_in.extras,
    )
    members = {
        f"{info}/METADATA": render_metadata(metadata),
        f"{info}/WHEEL": render_wheel_file(_TAG, root_is_purelib=True, generator="rocwright"),
    }
    record = "".join(f"{name},,\n" for name in (*members, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / wheel_filename(stand_in.project, stand_in.version, _TAG)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path
