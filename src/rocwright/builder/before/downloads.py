"""Downloads in the build of a project, found by reading its setup.py, what that imports, and its CMake files,
never by running them.

What is done in any case is told apart from what a condition or a function may keep from being done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from rocwright.builder.before.cmake_files import Lists, cmake_files, in_cmake
from rocwright.builder.before.fetching import Download, fetching_call, only_what_lacks, updates_submodules
from rocwright.builder.before.needs import Problem
from rocwright.builder.before.reach import Reached, Script

# So many are named.
_SHOWN = 4


def find_downloads(directory: Path, *, cmake: bool) -> tuple[Download, ...]:
    """Downloads in setup.py and the modules that it imports and, where CMake has a part in the build, in all
    of the project's CMake files, whether the build comes to them or not.
    """
    found = list(_in_python(Script(directory / "setup.py").every_call(), directory))
    for path in cmake_files(directory) if cmake else ():
        found += in_cmake(path, path.relative_to(directory).as_posix())
    return tuple(found)


def reached_downloads(directory: Path, setup: str = ".", *, cmake: bool = False) -> tuple[Download, ...]:
    """Downloads that the build of a tree comes to, from setup.py in the directory `setup` below it and from
    the CMakeLists.txt of the tree, which is followed where one of its scripts runs `cmake`, or with `cmake`.

    Certain are only those that no build without a network can do without, as far as that can be read; it is
    better to be silent than to stop a build that would have worked. So what only fetches where something is
    missing (pip install, git fetch) is not certain, nor is an address or a path in a variable, a CMake
    function, a module of CMAKE_MODULE_PATH, or a method of a setuptools command; what a program that is run
    does is not seen. Submodules are not told here: empty ones are found by looking at the tree.
    """
    script = Script(directory / setup / "setup.py")
    found = [
        msgspec.structs.replace(each, certain=each.certain and not only_what_lacks(each.what))
        for each in _in_python(script.calls(), directory)
        if not updates_submodules(each.what)
    ]
    if cmake or script.says("cmake"):
        found += Lists(directory).found
    return tuple(found)


def unknown(downloads: Sequence[Download], fetches: Collection[str]) -> list[Download]:
    """Those in files that the row of a project (`fetches`, "setup.py: what") does not name."""
    known = {text.partition(":")[0].strip() for text in fetches}
    return [each for each in downloads if each.file not in known]


def listed(items: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    shown = "; ".join(map(str, items[:_SHOWN]))
    return shown + (f"; and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")


def download_problems(
    project: str, downloads: Sequence[Download], fetches: Collection[str], directory: Path
) -> Iterator[Problem]:
    """What is certain to be downloaded by a build of the family, which nothing keeps from the network."""
    certain = [each for each in unknown(downloads, fetches) if each.certain]
    if certain:
        yield Problem(
            f"{project}: its build downloads: {listed(certain)}",
            "bring that by hand and let its build take it; or give it a row in your rocwright.toml that "
            f'knows of it: [[recipes.recipe]], project = "{project}", fetches = ["{certain[0].file}: …"], …',
            str(directory),
        )


def download_notes(project: str, downloads: Sequence[Download], fetches: Collection[str]) -> Iterator[str]:
    """What a build of the family may download."""
    perhaps = [each for each in unknown(downloads, fetches) if not each.certain]
    if perhaps:
        # One of each directory first, as many are alike there.
        first = {Path(each.file).parent: each for each in reversed(perhaps)}.values()
        rest = [each for each in perhaps if each not in first]
        yield (
            f"{project}: its build may download, by conditions of its own, and is not kept from the network: "
            f"{listed([*reversed(first), *rest])}"
        )


def _in_python(calls: Iterator[Reached], root: Path) -> Iterator[Download]:
    for each in calls:
        what = fetching_call(each.call)
        if what:
            name = each.path.relative_to(root).as_posix()
            yield Download(name, each.call.lineno, what, each.certain)
