"""Look at a checkout and at directories that are to be written."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


class Place(msgspec.Struct, frozen=True):
    """A path that will be written: what is there now, and the file system that it is (or will be) on.

    `free` is in bytes, `file_system` the number that the system gives it; `nearest` is the path itself or
    the first above it that exists.
    """

    path: str
    kind: Literal["directory", "file", "absent"] = "absent"
    nearest: str = ""
    writable: bool = True
    free: int = 0
    file_system: int = 0


class Tree(msgspec.Struct, frozen=True):
    """A checkout: sizes in bytes, without `.git`; `built` is what lies in its `build` already.

    `unhipified`: there are CUDA sources and a script that translates them, and no HIP source. `unpopulated`
    are submodules whose directories are empty, `brings` the distributions that its requirements install,
    `longest` the length of its longest path below the checkout. `uncalled` are modules that the build puts
    into a package whose `__init__.py` does not speak of them.
    """

    project: str
    place: Place
    empty: bool = False
    size: int = 0
    built: int = 0
    unhipified: bool = False
    unpopulated: tuple[str, ...] = ()
    git: bool = False
    cmake: bool = False
    brings: frozenset[str] = frozenset()
    longest: int = 0
    uncalled: tuple[str, ...] = ()


def look_at_place(path: Path) -> Place:
    """What is at `path`."""
    try:
        kind: Literal["directory", "file", "absent"] = (
            "directory" if path.is_dir() else "file" if path.exists() else "absent"
        )
        nearest = path
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        return Place(
            path=str(path),
            kind=kind,
            nearest=str(nearest),
            writable=nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK),
            free=shutil.disk_usage(nearest).free,
            file_system=nearest.stat().st_dev,
        )
    except PermissionError:
        # A directory above it is closed to this user.
        return Place(path=str(path), nearest=str(path), writable=False)


def look_at_tree(
    project: str,
    directory: Path,
    requirements: Iterable[str],
    files: Iterable[str],
    generated: Iterable[str] = (),
) -> Tree:
    """What a build needs to know of a checkout before it begins.

    `requirements` are those that the build installs first, `files` requirement files below the checkout,
    `generated` what the build puts there.
    """
    place = look_at_place(directory)
    if place.kind != "directory":
        return Tree(project, place, empty=True)
    seen = _walk(directory)
    script = directory / "tools" / "amd_build" / "build_amd.py"
    return Tree(
        project=project,
        place=place,
        empty=not seen.files,
        size=seen.size,
        built=seen.built,
        unhipified=script.is_file() and seen.cuda and not seen.hip,
        unpopulated=_unpopulated(directory),
        git=(directory / ".git").exists(),
        cmake=(directory / "CMakeLists.txt").is_file(),
        brings=frozenset(_names(requirements)) | frozenset(_in_files(directory, files)),
        longest=seen.longest,
        uncalled=tuple(path for path in generated if _is_uncalled(directory / path)),
    )


def has_sources(directory: Path) -> bool:
    """Whether there is anything beside what git keeps; `find_problems` speaks of directories without."""
    try:
        return any(path.name != ".git" for path in directory.iterdir())
    except OSError:
        return False


class _Sums:
    """Sums of a walk."""

    def __init__(self) -> None:
        self.files, self.size, self.built, self.longest = 0, 0, 0, 0
        self.cuda, self.hip = False, False

    def add(self, path: str, size: int, *, own: bool) -> None:
        """Count a source file."""
        self.files += 1
        self.size += size
        self.longest = max(self.longest, len(path))
        if own:
            self.cuda = self.cuda or path.endswith(".cu")
            self.hip = self.hip or path.endswith(".hip")


def _walk(root: Path) -> _Sums:
    """Add up a tree of perhaps 100,000 files; what cannot be listed counts nothing (builds will say so)."""
    seen = _Sums()
    pending = [("", str(root))]
    while pending:
        below, directory = pending.pop()
        built = below.startswith("build/")
        # Other projects' sources are translated, or not, by their own rules.
        own = not built and not below.startswith("third_party/")
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    # What git keeps is no part of the build; older wheels in dist go before it.
                    if below or entry.name not in (".git", "dist"):
                        pending.append((f"{below}{entry.name}/", entry.path))
                elif built:
                    seen.built += entry.stat(follow_symlinks=False).st_size
                else:
                    seen.add(below + entry.name, entry.stat(follow_symlinks=False).st_size, own=own)
    return seen


def _is_uncalled(module: Path) -> bool:
    """Whether a module will lie in a package that is there and never speaks of it."""
    try:
        text = (module.parent / "__init__.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(rf"\b{re.escape(module.stem)}\b", text) is None


def _unpopulated(directory: Path) -> tuple[str, ...]:
    """Paths of `.gitmodules` whose directories are missing or empty."""
    try:
        text = (directory / ".gitmodules").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    paths = re.findall(r"^\s*path\s*=\s*(.+?)\s*$", text, re.MULTILINE)
    return tuple(path for path in paths if not has_sources(directory / path))


def _in_files(directory: Path, files: Iterable[str]) -> list[str]:
    """Distributions that requirement files name, and those of files that these include."""
    names: list[str] = []
    pending, seen = [directory / name for name in files], set[Path]()
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            included = re.match(r"\s*(?:-r|--requirement)[\s=]+(\S+)", line)
            if included:
                pending.append(path.parent / included[1])
            else:
                names += _names([line.split(" #")[0]])
    return names


def _names(requirements: Iterable[str]) -> list[str]:
    names: list[str] = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate():
            names.append(canonicalize_name(requirement.name))
    return names
