"""What is wrong with the tools of a machine: ROCm, programs, Pythons and their C headers, paths that tools
do not bear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from packaging.version import Version

from rocwright.builder.before.host import HostFacts, Python
from rocwright.builder.before.needs import Needs, Problem, how_to_get, how_to_get_headers
from rocwright.builder.decide.family import FamilyPlan
from rocwright.errors import MissingTool
from rocwright.system.interpreters import Interpreter, running_interpreter

# How many of many names an error shows.
SHOWN = 3


def tool_problems(plan: FamilyPlan, host: HostFacts, table: Needs) -> list[Problem]:
    """Findings about tools, of a plan for the platform of this machine."""
    found = [*_rocm(plan, host), *_programs(plan, host, table), *_pythons(plan, host, table)]
    return [*found, *_temporary(host), *_spaces(plan, host), *_windows(plan, host, table)]


def _rocm(plan: FamilyPlan, host: HostFacts) -> Iterator[Problem]:
    if not host.lacks:
        return
    if plan.rocm.origin == "packages":
        step = "install rocm[libraries,devel] there (`rocwright install-rocm`), then run `rocm-sdk test`"
    else:
        step = "install all of ROCm's development packages there, or name the directory that holds bin/hipcc"
    yield Problem(f"this ROCm cannot build: {_listed(host.lacks)} missing", step, plan.rocm.root)


def _programs(plan: FamilyPlan, host: HostFacts, table: Needs) -> Iterator[Problem]:
    for variable, name in host.misnamed.items():
        yield Problem(
            f"the variable {variable} names {name}, which was not found",
            f"correct or unset {variable}",
        )
    brought = {tree.project: tree.brings for tree in host.trees}
    for name, path in host.programs.items():
        users = [build for build in plan.builds if name in build.programs]
        # cmake and ninja are packages, too: requirement files may bring them into the build environment.
        if path or (users and all(name in brought.get(build.project, ()) for build in users)):
            continue
        if (name == "cc" and "CC" in host.misnamed) or (name == "c++" and "CXX" in host.misnamed):
            continue
        row = table.get(name)
        yield Problem(
            f"{name} was not found on PATH; it is needed to {row.purpose}", how_to_get(row, host.system)
        )


def _pythons(plan: FamilyPlan, host: HostFacts, table: Needs) -> Iterator[Problem]:
    for name in dict.fromkeys(build.python for build in plan.builds):
        python = host.pythons.get(name)
        if python is None:
            asked = f"Python {name}" if name else "the running Python"
            yield Problem(
                f"{asked} was not found", f"install it (`uv python install {name}`) or leave it out"
            )
            continue
        yield from _python(python, host, table)


def _python(python: Python, host: HostFacts, table: Needs) -> Iterator[Problem]:
    asked, own = python.interpreter, table.pythons
    if not own.has(asked.version):
        yield Problem(
            f"{asked.path} is Python {asked.version}; wheels are built for {own.first} to {own.last}",
            "choose others with --python",
        )
    if not python.headers:
        if asked.include.startswith("/usr/include/"):
            step = how_to_get_headers(table, asked.version, host.system)
        else:
            step = "install this Python again with its headers, or choose another one with --python"
        yield Problem(
            f"Python {asked.name} has no headers: {asked.include}/Python.h is missing; extensions need it",
            step,
        )
    if not python.venv:
        debian = f"apt install python{asked.version}-venv"
        yield Problem(
            f"{asked.path} cannot make virtual environments: it has no module venv",
            debian if host.system == "debian" else "install that part of it, or choose another Python",
        )


def _temporary(host: HostFacts) -> Iterator[Problem]:
    """A place that a variable names in vain: clang ends with an error, others take another one silently."""
    place, variable = host.temporary, host.temporary_variable
    if place is not None and variable and (place.kind != "directory" or not place.writable):
        what = "is not writable" if place.kind == "directory" else "is not a directory"
        yield Problem(
            f"the variable {variable} names {place.path}, which {what}", f"correct or unset {variable}"
        )


def _spaces(plan: FamilyPlan, host: HostFacts) -> Iterator[Problem]:
    """Paths that break compiler flags and build systems, which split them at spaces."""
    root = plan.rocm.root
    if plan.rocm.origin != "unknown" and " " in root:
        users = [
            b.project for b in plan.builds if any(root in b.env.get(n, "") for n in ("CXXFLAGS", "LDFLAGS"))
        ]
        if users:
            yield Problem(
                f"ROCm lies in a path with spaces, which compiler flags cannot hold ({some(users)})",
                "install it elsewhere, or name it through a link without spaces",
                root,
            )
    for tree in host.trees:
        if tree.cmake and " " in tree.place.path:
            yield Problem(
                f"{tree.project}: the path of the checkout has spaces, which its build cannot handle",
                "move the checkout; a link will not do, because CMake follows it",
                tree.place.path,
            )


def _windows(plan: FamilyPlan, host: HostFacts, table: Needs) -> Iterator[Problem]:
    if plan.platform != "windows":
        return
    projects = {build.project for build in plan.builds}
    for python in host.pythons.values():
        for project in table.no_spaces if " " in python.interpreter.path else ():
            if project not in projects:
                continue
            yield Problem(
                f"{project} cannot be built with a Python whose path has spaces ({table.no_spaces[project]})",
                "install Python for the current user only, in a path without spaces",
                python.interpreter.path,
            )
    wanted = table.ninja.windows_flash_attention
    attention = any(is_on(build.env.get("USE_FLASH_ATTENTION")) for build in plan.builds)
    if attention and host.ninja and Version(host.ninja) < Version(wanted):
        yield Problem(
            f"flash attention needs ninja {wanted} or newer on Windows, and this one is {host.ninja}",
            f"take it from {table.ninja.page}, or give --no-enable-pytorch-flash-attention",
            host.programs.get("ninja", ""),
        )
    for project, directory in host.no_llvm.items():
        yield Problem(
            f"{project} is built with its own LLVM, but {directory} does not exist",
            "unpack the one that its cmake/llvm-hash.txt names there, or let LLVM_SYSPATH name its directory",
        )
    for target, source in host.uncopied.items():
        yield Problem(
            f"{Path(target).name} is to become part of the wheel, but {source} does not exist",
            "set the variables that lead to such files: VCToolsRedistDir (by Visual Studio) and libuv_ROOT",
        )


def is_on(value: str | None) -> bool:
    """Whether a variable of a build switches something on."""
    return (value or "").upper() in ("1", "ON", "TRUE", "YES")


def some(names: Sequence[str]) -> str:
    """The first of many names."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _listed(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"{names[0]} {'are' if names[0].endswith('s of HIP') else 'is'}"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


@cache
def _running() -> Interpreter:
    return running_interpreter()


def has_headers(interpreter: Interpreter | None = None) -> bool:
    """Whether the interpreter's `Python.h` is where compilers will be told to look; None: the running one."""
    return (Path((interpreter or _running()).include) / "Python.h").exists()


def distribution_package(interpreter: Interpreter | None = None) -> str | None:
    """Debian's package with the interpreter's headers; None for an interpreter of one's own."""
    asked = interpreter or _running()
    return f"libpython{asked.version}-dev" if asked.include.startswith("/usr/include/") else None


def include_directories(unpacked: Path, interpreter: Interpreter | None = None) -> tuple[str, ...]:
    """What a compiler needs of that package, unpacked at `unpacked`, to find `Python.h`.

    Two directories: Debian's `pyconfig.h` includes one for the machine by a path below `include`.
    """
    version = f"python{(interpreter or _running()).version}"
    return (str(unpacked / "usr" / "include" / version), str(unpacked / "usr" / "include"))


def require_headers(interpreter: Interpreter | None = None) -> None:
    """Raise `MissingTool` when there is no `Python.h`."""
    if not has_headers(interpreter):
        raise MissingTool(
            f"Python.h was not found in {(interpreter or _running()).include}",
            next_step="install Python's development headers (Debian: python3-dev) and run again",
        )
