"""Everything that stands in the way of a plan on a machine, and what the user should know besides: sources,
directories and space on the disk, from facts alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rocwright.builder.before.host import HostFacts
from rocwright.builder.before.needs import Problem, SpaceRow, needs
from rocwright.builder.before.tools import SHOWN, is_on, some, tool_problems
from rocwright.builder.before.tree import Place, Tree
from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan
from rocwright.device_code.tree.names import packages_of
from rocwright.model.gpu import is_target


def find_problems(plan: FamilyPlan, host: HostFacts) -> tuple[Problem, ...]:
    """All of them, in the order in which they are best put right; empty when the plan can begin.

    What the machine cannot know (the tools of a Windows plan that is looked at on Linux, a ROCm that is still
    to be installed) is not judged.
    """
    table = needs()
    found = [*_sources(plan, host), *_directories(plan, host)]
    if host.platform == plan.platform:
        found += tool_problems(plan, host, table)
    found += [*space_problems(plan, host, table.space), *_stale(plan, host), *_split_before(plan, host)]
    return tuple(dict.fromkeys(found))


def _sources(plan: FamilyPlan, host: HostFacts) -> Iterator[Problem]:
    for tree in host.trees:
        project, path = tree.project, tree.place.path
        get = f"check it out (`rocwright checkout {project}`) or name the directory where it is"
        if tree.place.kind == "absent":
            yield Problem(f"{project}: the checkout {path} does not exist", get)
        elif tree.place.kind == "file":
            yield Problem(f"{project}: {path} is a file, not a checkout", get)
        elif tree.empty:
            yield Problem(f"{project}: the checkout {path} is empty", get)
        else:
            yield from _whole(plan, tree, host)


def _whole(plan: FamilyPlan, tree: Tree, host: HostFacts) -> Iterator[Problem]:
    project, path = tree.project, tree.place.path
    if tree.unhipified and any(b.project == project and is_on(b.env.get("USE_ROCM")) for b in plan.builds):
        yield Problem(
            f"{project}: the sources are CUDA's, not translated to HIP: there is no .hip file",
            f"rocwright hipify {_quoted(path)}",
            path,
        )
    # An sdist may carry the list of submodules that only its repository's tests need.
    sdist = not tree.git and any(b.project == project and b.local for b in plan.builds)
    if tree.unpopulated and not host.system_libraries and not sdist:
        count, names = len(tree.unpopulated), some(tree.unpopulated)
        empty = f"the submodule {names} is empty" if count == 1 else f"{count} submodules are empty: {names}"
        # Without --force git leaves out what somebody deleted; nothing is lost in an empty directory.
        only = " --force -- " + " ".join(map(_quoted, tree.unpopulated)) if count <= SHOWN else ""
        get_checkout = f"there is no history there: check it out (`rocwright checkout {project}`)"
        update = f"git -C {_quoted(path)} submodule update --init --recursive{only}"
        yield Problem(f"{project}: {empty}", update if tree.git else get_checkout, path)
    for name in tree.uncalled:
        package = str(Path(name).parent)
        yield Problem(
            f"{project}: {package}/__init__.py does not call {name}, through which the wheel finds ROCm's "
            f"packages, so `import {package}` would fail",
            f"let it do so, as newer versions of PyTorch do (import {Path(name).stem}, call initialize(), "
            "before anything else is loaded); or build against a plain installation with --rocm-prefix",
            path,
        )
    if not tree.place.writable:
        yield Problem(
            f"{project}: the checkout is not writable, but a build leaves files there",
            "make it writable, or build from your own checkout",
            path,
        )


def _directories(plan: FamilyPlan, host: HostFacts) -> Iterator[Problem]:
    for what, flag, place in (
        ("output", "--output-dir", host.output),
        ("work", "--work-dir", host.work),
    ):
        if place.kind == "file":
            yield Problem(f"the {what} directory {place.path} is a file", f"give another {flag}")
        elif not place.writable:
            where = "" if place.nearest == place.path else f": nothing can be made in {place.nearest}"
            yield Problem(
                f"the {what} directory {place.path} is not writable{where}",
                f"make it writable, or give another {flag}",
            )
        tree = next((tree for tree in host.trees if _inside(place, tree.place)), None)
        if tree is not None:
            yield Problem(
                f"the {what} directory {place.path} lies in the checkout of {tree.project}, where a build "
                "may take files for sources or remove them",
                f"give another {flag}, outside of every checkout",
            )
    if host.output.path == host.work.path:
        yield Problem(
            f"{host.output.path} is to be both the output and the work directory",
            "give another --work-dir; without one it is made beside the output directory",
        )


def _stale(plan: FamilyPlan, host: HostFacts) -> Iterator[Problem]:
    """Wheels of other versions: whoever takes wheels from the output directory would take them, too."""
    for build in {build.project: build for build in plan.builds}.values():
        tree = next((tree for tree in host.trees if tree.project == build.project), None)
        version = _parsed(build.version)
        if version is None or tree is None or tree.empty:
            continue
        stale = [name for name in host.wheels if _is_other(name, build, version)]
        if stale:
            count = f"a wheel of another version ({stale[0]})" if len(stale) == 1 else f"{some(stale)}"
            yield Problem(
                f"{build.project}: {version} is to be built, but the output directory holds {count}",
                _ELSEWHERE,
                host.output.path,
            )


def _split_before(plan: FamilyPlan, host: HostFacts) -> Iterator[Problem]:
    """Device wheels that an earlier build split off the very wheel that this one replaces, and will not."""
    if not all(is_target(target) for target in plan.targets):
        # Only ROCm's packages will tell.
        return
    for build in plan.builds:
        targets = packages_of(plan.targets) if build.split else ()
        left = [name for name in host.wheels if _device_of(name, build) not in ("", *targets)]
        if left:
            made = f"will be split for {' '.join(targets)} alone" if build.split else "will not be split"
            held = f"the device wheel {left[0]}" if len(left) == 1 else f"device wheels ({some(left)})"
            yield Problem(
                f"{build.project} {made}, and the output directory holds {held} of an earlier build",
                _ELSEWHERE,
                host.output.path,
            )


_ELSEWHERE = "move these files elsewhere, or give another --output-dir"


def _is_other(file_name: str, build: BuildPlan, version: Version) -> bool:
    try:
        name, found, _, _ = parse_wheel_filename(file_name)
    except (InvalidWheelFilename, InvalidVersion):
        return False
    return (name == _own(build) or name.startswith(_device_prefix(build))) and found != version


def _device_of(file_name: str, build: BuildPlan) -> str:
    """The GPU target of a device wheel that belongs to this build's wheel; empty for other wheels."""
    try:
        name, version, _, tags = parse_wheel_filename(file_name)
    except (InvalidWheelFilename, InvalidVersion):
        return ""
    abi = f"cp{build.python.replace('.', '')}"
    if not name.startswith(_device_prefix(build)) or version != _parsed(build.version):
        return ""
    if not any((tag.interpreter, tag.abi) == (abi.rstrip("t"), abi) for tag in tags):
        return ""
    target = name.removeprefix(_device_prefix(build))
    # Code for a group of targets comes with each of them.
    return target if is_target(target) else ""


def _own(build: BuildPlan) -> str:
    return canonicalize_name(build.wheel_name or build.project)


def _device_prefix(build: BuildPlan) -> str:
    return f"amd-{_own(build)}-device-"


def _parsed(text: str) -> Version | None:
    """None for a version that only the build will know."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _inside(place: Place, tree: Place) -> bool:
    return Path(place.path) == Path(tree.path) or Path(tree.path) in Path(place.path).parents


def _quoted(path: str) -> str:
    return f"'{path}'" if " " in path else path


# Windows' limit for a path, and what a build adds to those of its sources: build\\temp…\\….obj.
_LONGEST, _ADDED = 260, 60


def find_advice(plan: FamilyPlan, host: HostFacts) -> tuple[str, ...]:
    """Sentences for the user, none when there is nothing to say."""
    return (*tight_space(plan, host, needs().space), *_long_paths(plan, host))


def _long_paths(plan: FamilyPlan, host: HostFacts) -> Iterator[str]:
    if plan.platform != "windows":
        return
    for tree in host.trees:
        length = len(tree.place.path) + 1 + tree.longest + _ADDED
        if length > _LONGEST:
            yield (
                f"{tree.project}: paths will have up to about {length} characters, and Windows takes "
                f"{_LONGEST}: check out to a short directory such as C:/b"
            )


# What is refused is half of the estimate: projects differ, and somebody who knows his must not be stopped.
_SURE = 0.5


class Need(msgspec.Struct, frozen=True):
    """Bytes that will be written on one file system, and those free there; `places` are the directories."""

    size: int
    free: int
    places: tuple[str, ...]


def estimate_space(plan: FamilyPlan, host: HostFacts, row: SpaceRow) -> tuple[Need, ...]:
    """What each file system has to hold; what an earlier build left in its tree is there already."""
    pythons = len({build.python for build in plan.builds})
    requirements = len({name for tree in host.trees for name in tree.brings})
    parts: list[tuple[Place, float]] = []
    wheels = compiled = 0.0
    for tree in host.trees:
        objects = tree.size * row.objects * (1 + len(plan.targets))
        parts.append((tree.place, max(0.0, objects * (1 + row.staged * pythons) - tree.built)))
        wheels += objects * row.wheel * pythons
        compiled += objects
    parts.append((host.output, wheels))
    # Installed twice, to build against and to be proven, and about twice as large as they are packed.
    installed = row.environment + row.requirement * requirements
    parts.append((host.work, installed * pythons + 4 * wheels))
    if host.unpacking is not None:
        parts.append((host.unpacking.place, host.unpacking.files * row.unpacked))
    if host.temporary is not None:
        # Of what is made at once, never more than comes of all of it.
        parts.append((host.temporary, min(compiled, _jobs(plan) * row.temporary)))
    needs: dict[int, Need] = {}
    for place, size in parts:
        if not place.writable:
            # Another finding, and perhaps a place of which nothing is known.
            continue
        before = needs.get(place.file_system, Need(0, place.free, ()))
        needs[place.file_system] = Need(before.size + int(size), place.free, (*before.places, place.path))
    return tuple(needs.values())


def _jobs(plan: FamilyPlan) -> int:
    asked = [build.env.get("MAX_JOBS", "") for build in plan.builds]
    return max((int(text) for text in asked if text.isdigit()), default=1)


def space_problems(plan: FamilyPlan, host: HostFacts, row: SpaceRow) -> Iterator[Problem]:
    """File systems that are too small for certain."""
    for need in estimate_space(plan, host, row):
        if need.free < need.size * _SURE:
            yield Problem(
                f"{_about(plan, host)} take about {need.size / 1e9:.1f} GB on the file system of "
                f"{some(need.places)}, where {need.free / 1e9:.1f} GB are free",
                "free some, or move the checkouts, --work-dir or --output-dir to another file system",
            )


def tight_space(plan: FamilyPlan, host: HostFacts, row: SpaceRow) -> Iterator[str]:
    """Sentences on file systems that may turn out to be too small."""
    for need in estimate_space(plan, host, row):
        if need.size * _SURE <= need.free < need.size:
            yield (
                f"disk space may run out: {_about(plan, host)} take about {need.size / 1e9:.1f} GB on the "
                f"file system of {some(need.places)}, where {need.free / 1e9:.1f} GB are free (an estimate)"
            )


def _about(plan: FamilyPlan, host: HostFacts) -> str:
    size = sum(tree.size for tree in host.trees)
    targets, pythons = len(plan.targets), len({build.python for build in plan.builds})
    rocm = " with a ROCm of their own" if host.unpacking is not None else ""
    return (
        f"builds of {size / 1e9:.1f} GB of sources for {targets} GPU target{'s' * (targets != 1)} and "
        f"{pythons} Python{'s' * (pythons != 1)}{rocm}"
    )
