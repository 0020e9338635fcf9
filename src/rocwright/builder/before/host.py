"""Look at the machine that is to build: the only door that looks, once, for everything that a plan needs,
and at the ROCm packages that the build would install on it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from rocwright.builder.before.tree import Place, Tree, look_at_place, look_at_tree
from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.rocm.rocm import what_lacks
from rocwright.builder.units.caches import find_cache
from rocwright.errors import CommandFailed, MissingTool
from rocwright.system import process
from rocwright.system.interpreters import Interpreter
from rocwright.system.venv import local_path, package_directories

# What compilers are called where no variable names one.
_COMPILERS = {"cc": ("CC", ("cc", "gcc", "clang")), "c++": ("CXX", ("c++", "g++", "clang++"))}

# In the order in which compilers look at them.
_TEMPORARY = {"windows": ("TMP", "TEMP"), "linux": ("TMPDIR", "TMP", "TEMP")}


class Python(msgspec.Struct, frozen=True):
    """An interpreter that wheels are to be built for; `headers` also where only the plan knows of some."""

    interpreter: Interpreter
    headers: bool
    venv: bool


class HostFacts(msgspec.Struct, frozen=True):
    """The machine, as a plan sees it.

    `platform` is linux, windows or darwin, `system` the kind of distribution (debian, fedora, suse) where
    that is known. `programs` maps names to paths, empty for what is not there; `misnamed` maps variables
    (CC) to programs that they name and that are not there. `lacks` says what the plan's ROCm is without,
    `uncopied` maps files that a build is to copy into its tree to where they were looked for in vain, and
    `no_llvm` projects to where an LLVM of their own should be.
    `wheels` are names of files in the output directory, `cache` the compiler cache that was asked for.
    `temporary` is where compilers keep what they hand on, `temporary_variable` what names that place;
    `unpacking` are ROCm's packages, where they are still to be installed.
    """

    platform: str
    output: Place
    work: Place
    system: str = ""
    trees: tuple[Tree, ...] = ()
    programs: dict[str, str] = {}
    misnamed: dict[str, str] = {}
    ninja: str = ""
    pythons: dict[str, Python] = {}
    lacks: tuple[str, ...] = ()
    uncopied: dict[str, str] = {}
    no_llvm: dict[str, str] = {}
    wheels: tuple[str, ...] = ()
    cache: str = ""
    temporary: Place | None = None
    temporary_variable: str = ""
    unpacking: Unpacking | None = None
    # The user has said that libraries come from the system instead of from submodules.
    system_libraries: bool = False


def look_at_host(
    plan: FamilyPlan,
    *,
    interpreters: Mapping[str, Interpreter],
    output_dir: Path,
    work_dir: Path,
    cache: str = "",
    unpacking: Unpacking | None = None,
    caller: Mapping[str, str] = os.environ,
) -> HostFacts:
    """Look for everything that the plan needs; nothing is written.

    `interpreters` are those that were found, by any names; `unpacking` is handed on. Facts about tools are
    not looked for when the plan is for another platform than this one.
    """
    platform = this_system()
    facts = HostFacts(
        platform=platform,
        output=look_at_place(output_dir),
        work=look_at_place(work_dir),
        system=_system(Path("/etc/os-release")) if platform == "linux" else platform,
        trees=_trees(plan),
        wheels=_wheels(output_dir),
        cache=cache,
        system_libraries=bool(caller.get("USE_SYSTEM_LIBS")),
    )
    if platform != plan.platform:
        return facts
    path = os.pathsep.join(dict.fromkeys(build.env.get("PATH", "") for build in plan.builds))
    compilers, misnamed = _compilers(plan.builds, caller, path)
    variable = next((name for name in _TEMPORARY.get(platform, ()) if caller.get(name)), "")
    programs = {name: shutil.which(name, path=path) or "" for name in _program_names(plan, facts)}
    if cache and not programs[cache] and Path(find_cache(cache)).is_file():
        programs[cache] = find_cache(cache)
    return msgspec.structs.replace(
        facts,
        temporary=look_at_place(Path(caller[variable] if variable else tempfile.gettempdir())),
        temporary_variable=variable,
        unpacking=unpacking,
        programs=programs | compilers,
        misnamed=misnamed,
        ninja=_version(programs.get("ninja", "")),
        pythons=_pythons(plan.builds, interpreters),
        lacks=() if plan.rocm.origin == "unknown" else what_lacks(plan.rocm),
        uncopied=_uncopied(plan.builds),
        no_llvm={
            build.project: build.env["LLVM_SYSPATH"]
            for build in plan.builds
            if "LLVM_SYSPATH" in build.env and not Path(build.env["LLVM_SYSPATH"]).is_dir()
        },
    )


def this_system() -> str:
    """`linux`, `windows` or `darwin`."""
    return "windows" if sys.platform == "win32" else sys.platform


def _system(os_release: Path) -> str:
    """The kind of distribution, by os-release(5)."""
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError:
        return ""
    words = " ".join(re.findall(r"^ID(?:_LIKE)?=\"?([^\"\n]*)", text, re.MULTILINE)).split()
    kinds = {"debian": "debian", "ubuntu": "debian", "fedora": "fedora", "rhel": "fedora", "suse": "suse"}
    return next((kinds[word] for word in words if word in kinds), "")


def _trees(plan: FamilyPlan) -> tuple[Tree, ...]:
    first: dict[str, BuildPlan] = {}
    for build in plan.builds:
        first.setdefault(build.project, build)
    return tuple(
        look_at_tree(
            build.project,
            Path(build.tree or build.directory),
            build.requirements,
            build.requirements_files,
            build.generated,
        )
        for build in first.values()
    )


def _wheels(output_dir: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in output_dir.iterdir() if path.suffix == ".whl"))
    except OSError:
        return ()


def _program_names(plan: FamilyPlan, facts: HostFacts) -> tuple[str, ...]:
    names = [name for build in plan.builds for name in build.programs]
    if any(tree.git for tree in facts.trees):
        names.append("git")
    if plan.platform == "windows":
        names += ["cl", "ninja"]
    return tuple(dict.fromkeys([*names, *filter(None, [facts.cache])]))


def _compilers(
    builds: tuple[BuildPlan, ...], caller: Mapping[str, str], path: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Paths of `cc` and `c++`, and what variables name in vain."""
    found, misnamed = {}, {}
    for role, (variable, names) in _COMPILERS.items():
        text = next((build.env[variable] for build in builds if variable in build.env), None)
        words = shlex.split(text or caller.get(variable, ""), posix=os.name == "posix")
        if words and "${" not in words[0]:
            found[role] = shutil.which(words[0], path=path) or ""
            if not found[role]:
                misnamed[variable] = words[0]
        else:
            found[role] = next((there for name in names if (there := shutil.which(name, path=path))), "")
    return found, misnamed


def _version(program: str) -> str:
    """What a program prints for `--version`, its first word that is one; empty when it prints none."""
    if not program:
        return ""
    try:
        printed = process.run([program, "--version"]).stdout
    except (CommandFailed, MissingTool):
        return ""
    number = re.search(r"\d+(\.\d+)+", printed)
    return number[0] if number else ""


def _pythons(builds: tuple[BuildPlan, ...], interpreters: Mapping[str, Interpreter]) -> dict[str, Python]:
    named = {interpreter.name: interpreter for interpreter in interpreters.values()} | dict(interpreters)
    found: dict[str, Python] = {}
    for build in builds:
        if build.python in named and build.python not in found:
            interpreter = named[build.python]
            include = [Path(text) for text in build.env.get("CPATH", "").split(os.pathsep) if text]
            headers = interpreter.has_headers or any((path / "Python.h").is_file() for path in include)
            found[build.python] = Python(interpreter, headers, _has_venv(interpreter.path))
    return found


@cache
def _has_venv(python: str) -> bool:
    # A build looks twice, before and after ROCm is installed; this does not change between.
    try:
        process.run([python, "-I", "-c", "import venv"])
    except (CommandFailed, MissingTool):
        return False
    return True


def _uncopied(builds: tuple[BuildPlan, ...]) -> dict[str, str]:
    return {
        target: source
        for build in builds
        for target, source in build.copied.items()
        if not any(Path(Path(source).anchor or ".").glob(_below_anchor(source)))
    }


def _below_anchor(source: str) -> str:
    path = Path(source)
    return str(path.relative_to(path.anchor)) if path.anchor else source


class Unpacking(msgspec.Struct, frozen=True):
    """Where ROCm's packages go, and the bytes of their files; 0 for those that only an index has."""

    place: Place
    files: int


def look_at_packages(rocm: RocmPlace, into: Path) -> Unpacking | None:
    """What is to be unpacked into the environment `into`; None where that has ROCm's packages already.

    Of several versions the newest counts, of device packages and others that are installed on request those
    that the extras name.
    """
    if any((site / "rocm_sdk").exists() for site in package_directories(into)):
        return None
    newest: dict[str, tuple[Version, int]] = {}
    for place in rocm.places.find_links:
        directory = local_path(place)
        for path in directory.glob("rocm*") if directory is not None else ():
            named = _named(path.name)
            if named is not None and _is_wanted(named[0], rocm.extras):
                name, version = named
                newest[name] = max(newest.get(name, (version, 0)), (version, path.stat().st_size))
    return Unpacking(look_at_place(into), sum(size for _, size in newest.values()))


def _named(file: str) -> tuple[str, Version] | None:
    try:
        if file.endswith(".whl"):
            return parse_wheel_filename(file)[:2]
        return parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def _is_wanted(name: str, extras: tuple[str, ...]) -> bool:
    asked = re.fullmatch(r"rocm-sdk-(device-.+|profiler.*)", name)
    if asked is None:
        return True
    return asked[1] in extras or (asked[1].startswith("device-") and "device-all" in extras)
