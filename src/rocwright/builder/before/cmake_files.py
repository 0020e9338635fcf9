"""Downloads in CMake files: in all of a project, or in those that its CMakeLists.txt comes to."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from rocwright.builder.before.fetching import (
    Download,
    fetching_command,
    only_what_lacks,
    updates_submodules,
)
from rocwright.builder.decide.cmake import OPAQUE, cmake_text
from rocwright.system.files import walk_files

_CMAKE = re.compile(
    r"\b(?P<what>if|elseif|else|endif|foreach|endforeach|while|endwhile|function|endfunction|macro|endmacro|return"
    r"|FetchContent_\w+|ExternalProject_Add|CPMAddPackage|file|execute_process|include|add_subdirectory"
    r"|configure_file|set)\s*\(",
    re.IGNORECASE,
)
_PAREN = re.compile(r"[()]")
_REMOTE = re.compile(r"\b(GIT_REPOSITORY|URL|GITHUB_REPOSITORY|SVN_REPOSITORY)\b|gh:|://")
# An address, as it stands there.
_ADDRESS = re.compile(r"(?<!file)://|\bgit@|gh:")
# So many CMake files are followed; PyTorch with all its submodules has fewer that its build comes to.
_MOST = 1000
# A variable may stand in another's value so many times over.
_NESTED = 4
# A project's own: what others have built into it has its own rules, and no part in this build.
_OTHERS = frozenset(
    ("third_party", "third-party", "3rdparty", "external", "build", ".git", "tests", "test", "docs")
)


def cmake_files(directory: Path) -> list[Path]:
    """All that are the project's own."""
    return [
        path
        for path in walk_files(directory)
        if (path.name == "CMakeLists.txt" or path.suffix == ".cmake")
        and not _OTHERS.intersection(path.relative_to(directory).parts[:-1])
    ]


class _Command(NamedTuple):
    """One command of a CMake file; `sure`: no condition, loop, function or return stands before it."""

    name: str
    spelled: str
    args: str
    line: int
    sure: bool

    def __str__(self) -> str:
        return f"{self.spelled}({' '.join(self.args.split()[:1])} …)"


def _commands(path: Path) -> Iterator[_Command]:
    whole = cmake_text(path)
    text = OPAQUE.sub(lambda found: _blank(found[0]) if found[0].startswith("#") else found[0], whole)
    bare = OPAQUE.sub(lambda found: _blank(found[0]), whole)
    inside: list[str] = []
    left = False
    for found in _CMAKE.finditer(bare):
        name = found["what"].lower()
        if name in ("if", "foreach", "while", "function", "macro"):
            inside.append(name)
        elif name.startswith("end"):
            del inside[-1:]
        elif name == "return":
            left = left or "function" not in inside
        else:
            line = text.count("\n", 0, found.start()) + 1
            args = text[found.end() : _end(bare, found.end())]
            yield _Command(name, found["what"], args, line, not inside and not left)


def in_cmake(path: Path, name: str) -> Iterator[Download]:
    """Downloads in one file, which is called `name` below its tree."""
    for command in _commands(path):
        if _fetches(command.name, command.args):
            # What a file for others to include does, depends on who includes it.
            certain = command.sure and path.name == "CMakeLists.txt"
            yield Download(name, command.line, str(command), certain)


class Lists:
    """The CMakeLists.txt of a tree and the files in it that it comes to, with the downloads found there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.variables: dict[str, str] = {}
        self._seen: dict[Path, bool] = {}
        self._found: dict[tuple[str, int], Download] = {}
        self._file(root / "CMakeLists.txt", root, certain=True)

    @property
    def found(self) -> tuple[Download, ...]:
        """In the order in which CMake comes to them."""
        return tuple(self._found.values())

    def _file(self, path: Path, directory: Path, *, certain: bool) -> None:
        """One file; `directory` is that of its CMakeLists.txt."""
        if path in self._seen and (self._seen[path] or not certain):
            return
        if len(self._seen) >= _MOST or not path.is_file():
            return
        self._seen[path] = certain
        commands = list(_commands(path))
        made = {
            word
            for command in commands
            if command.sure and command.name in ("fetchcontent_makeavailable", "fetchcontent_populate")
            for word in command.args.split()
        }
        for command in commands:
            if command.name == "set":
                name, *values = [word.strip('"') for word in command.args.split()[:2]] or [""]
                self.variables[name] = "".join(values)
            elif command.name in ("include", "add_subdirectory", "configure_file"):
                self._follow(command, path, directory, certain=certain and command.sure)
            elif _fetches(command.name, command.args) and not _is_about_submodules(command):
                sure = certain and command.sure and _is_needed(command, made)
                where = path.relative_to(self.root).as_posix(), command.line
                known = self._found.get(where)
                if known is None or sure:
                    self._found[where] = Download(*where, str(command), sure)

    def _follow(self, command: _Command, path: Path, directory: Path, *, certain: bool) -> None:
        words = [word.strip('"') for word in command.args.split()]
        text, plain = self._filled(words[0] if words else "", path, directory)
        if not text or "$" in text:
            return
        place = Path(os.path.normpath(directory / text))
        if not place.is_relative_to(self.root):
            return
        if command.name == "add_subdirectory":
            certain = certain and plain and "EXCLUDE_FROM_ALL" not in words
            self._file(place / "CMakeLists.txt", place, certain=certain)
        elif command.name == "include":
            self._file(place, directory, certain=certain and plain)
        elif len(words) > 1 and words[1].endswith("CMakeLists.txt"):
            # A project of its own, which is run by another command, perhaps.
            self._file(place, directory, certain=False)

    def _filled(self, text: str, path: Path, directory: Path) -> tuple[str, bool]:
        """A path with the values of its variables, and whether those are all CMake's own."""
        own = {
            "CMAKE_SOURCE_DIR": str(self.root),
            "PROJECT_SOURCE_DIR": str(self.root),
            "CMAKE_CURRENT_SOURCE_DIR": str(directory),
            "CMAKE_CURRENT_LIST_DIR": str(path.parent),
        }
        plain = all(name in own for name in re.findall(r"\$\{(\w+)\}", text))
        for _ in range(_NESTED):
            text = re.sub(
                r"\$\{(\w+)\}", lambda found: own.get(found[1], self.variables.get(found[1], found[0])), text
            )
        return text, plain


def _is_about_submodules(command: _Command) -> bool:
    return command.name == "execute_process" and updates_submodules(fetching_command(command.args))


def _is_needed(command: _Command, made: Collection[str]) -> bool:
    """Whether nothing in a command says that it may do without the download."""
    name, args = command.name, command.args
    if name == "execute_process":
        return "RESULT_VARIABLE" not in args and not only_what_lacks(fetching_command(args))
    if name == "file":
        return re.search(r"\bSTATUS\b", args) is None
    if name == "externalproject_add":
        spared = re.search(r"\b(EXCLUDE_FROM_ALL|DOWNLOAD_COMMAND)\b", args)
        return bool(_ADDRESS.search(args)) and spared is None
    if name == "fetchcontent_declare":
        asked = bool({*args.split()[:1]} & {*made})
        return asked and bool(_ADDRESS.search(args)) and "FIND_PACKAGE" not in args
    # CPM takes what its cache has, or the system's.
    return False


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _end(bare: str, start: int) -> int:
    """Where the parenthesis before `start` is closed."""
    depth = 1
    for found in _PAREN.finditer(bare, start):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.start()
    return len(bare)


def _fetches(what: str, args: str) -> bool:
    if what == "file":
        return re.match(r"\s*DOWNLOAD\b", args) is not None
    if what == "execute_process":
        return fetching_command(args) != ""
    return what in ("fetchcontent_declare", "externalproject_add", "cpmaddpackage") and bool(
        _REMOTE.search(args)
    )
