"""Try the installation of a set: every Python and platform of it that is at hand, with pip and with uv."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from packaging.tags import platform_tags

from rocwright.check.context import Context
from rocwright.check.environments import PythonPlatform
from rocwright.check.facts import Facts
from rocwright.check.install.act import INSTALLERS, Index, install, missing_tool
from rocwright.check.install.facts import Installation
from rocwright.check.install.plan import InstallPlan, StandIn, plan_install
from rocwright.errors import CommandFailed, InvalidInput, MissingTool
from rocwright.system import process
from rocwright.system.files import remove_tree, require_space
from rocwright.system.parallel import ready_for_threads
from rocwright.wheel.metadata import (
    Metadata,
    render_metadata,
    render_wheel_file,
    wheel_filename,
    wheel_stem,
)

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
    bound = any(tag.startswith("cp") for facts in context.files for tag in facts.tags)
    if bound or this_platform() not in {each.platform for each in context.environments}:
        return context.environments
    # Nothing is for one Python only, so the running one is as good as any.
    others = [each for each in context.environments if each.platform != this_platform()]
    return (this_environment(), *others)


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
        yield from left(f"this machine is {this_platform()}", f"check it on {environment.platform}, too")
        return
    python = interpreter_of(environment)
    if python is None:
        yield from left("no such Python is on PATH", "install it, or check where it is")
        return
    plan = plan_install(context, environment)
    if plan.obstacle is not None:
        yield from left(plan.obstacle, "resolve the findings of the other rules first")
        return
    newer = too_new([facts for facts in context.files if environment.takes(facts)])
    if newer:
        yield from left(f"{', '.join(newer)} asks for a newer C library", "check it on a newer system")
        return
    note(f"installing with pip and uv for {environment}")
    try:
        yield from _both(plan, serve, work, python, log)
    except InvalidInput as error:
        yield from left(error.what, error.next_step or "")


def _both(plan: InstallPlan, serve: Serve, work: Path, python: Path, log: Path | None) -> list[Installation]:
    """pip and uv side by side, each with an index of its own, so that their requests are told apart."""
    packed = sum(path.stat().st_size for path in plan.files)
    require_space(work, 2 * (plan.size + packed), purpose="trying the installation with pip and uv")
    folder = work / f"index-{plan.environment.abi}"
    stand_ins = [write_stand_in(folder / "stand-ins", one) for one in plan.stand_ins]
    files = [*plan.files, *stand_ins]

    def try_it(installer: str) -> Installation:
        missing = missing_tool(installer)
        if missing is not None:
            where = str(plan.environment)
            return Installation(installer, where, not_tried="it is not here", next_step=missing)
        own = None if log is None else log.with_name(f"{log.stem}-{installer}{log.suffix}")
        with serve(files, folder / installer) as index:
            return install(plan, installer, index, work, python=python, log=own)

    ready_for_threads()
    try:
        with ThreadPoolExecutor(max_workers=len(INSTALLERS)) as pool:
            return list(pool.map(try_it, INSTALLERS))
    finally:
        remove_tree(folder)


# -- find the interpreters that a set's wheels are for, and what can be installed on this machine


_TELL = (
    "import sys, sysconfig; print('cp%d%d' % sys.version_info[:2] + "
    "('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
)


def this_platform() -> str:
    """The platform of this machine as tags spell it: `linux_x86_64`."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def this_environment() -> PythonPlatform:
    """The Python that runs here."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    unlocked = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return PythonPlatform(python, python + unlocked, this_platform())


def interpreter_of(environment: PythonPlatform) -> Path | None:
    """An interpreter of this kind, the running one or `python3.X` on PATH; None when there is none."""
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


_TAG = "py3-none-any"


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
