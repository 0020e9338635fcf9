"""Downloads in the build of a project, found by reading its setup.py and CMake files, never by running them.

What is done in any case is told apart from what a condition or a function may keep from being done.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rocwright.system.files import walk_files

# Functions by their last name, and what a command line begins with that fetches.
_CALLS = {
    "urlretrieve": "urlretrieve",
    "urlopen": "urlopen",
    "download_url_to_file": "download_url_to_file",
    "snapshot_download": "snapshot_download",
    "hf_hub_download": "hf_hub_download",
}
_MODULES = {"requests": ("get", "request", "Session"), "httpx": ("get", "stream"), "wget": ("download",)}
_COMMANDS = re.compile(
    r"(?:^|[\s;&|/])(?P<what>git\s+(?:clone|fetch|pull|submodule\s+(?:update|sync))|curl|wget|pip3?\s+install"
    r"|conda\s+install|apt(?:-get)?\s+install)\b"
)
_RUNNERS = frozenset(
    ("run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput", "spawn")
)
# Commands that only ask whether another is there.
_ASKING = frozenset(("which", "where", "type", "command", "hash"))
_CMAKE = re.compile(
    r"\b(?P<what>if|elseif|else|endif|function|endfunction|macro|endmacro|FetchContent_Declare|ExternalProject_Add"
    r"|CPMAddPackage|file|execute_process)\s*\(",
    re.IGNORECASE,
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_QUOTED_OR_PAREN = re.compile(rf"{_QUOTED.pattern}|[()]", re.DOTALL)
_REMOTE = re.compile(r"\b(GIT_REPOSITORY|URL|GITHUB_REPOSITORY|SVN_REPOSITORY)\b|gh:|://")
# A project's own: what others have built into it has its own rules, and no part in this build.
_OTHERS = frozenset(
    ("third_party", "third-party", "3rdparty", "external", "build", ".git", "tests", "test", "docs")
)


class Download(msgspec.Struct, frozen=True):
    """A place in a build that fetches something: `file` below the tree, its line, what is there.

    `certain`: it is done in any build that comes there; else a condition or a function stands before it.
    """

    file: str
    line: int
    what: str
    certain: bool

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.what}"


def find_downloads(directory: Path, *, cmake: bool) -> tuple[Download, ...]:
    """Downloads in setup.py and, where CMake has a part in the build, in the project's CMake files."""
    found = list(_in_python(directory / "setup.py", "setup.py"))
    for path in _cmake_files(directory) if cmake else ():
        found += _in_cmake(path, path.relative_to(directory).as_posix())
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# -- Python


def _in_python(path: Path, name: str) -> Iterator[Download]:
    try:
        tree = ast.parse(_text(path))
    except (SyntaxError, ValueError):
        # What it does then, the build will say.
        return
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    certain: set[ast.AST] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        certain.add(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = functions.pop(node.func.id, None)
            pending += called.body if called is not None else []
        pending += _in_any_case(node)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        what = _fetching(call)
        if what:
            yield Download(name, call.lineno, what, call in certain)


def _in_any_case(node: ast.AST) -> Iterable[ast.AST]:
    """What of a statement or expression is evaluated whatever comes, and ends the build when it fails."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return [node.test]
    if isinstance(node, ast.Try) and node.handlers:
        return node.finalbody
    return ast.iter_child_nodes(node)


def _fetching(call: ast.Call) -> str:
    """What a call fetches with; empty for other calls."""
    last = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if last in _CALLS:
        return _CALLS[last]
    owner = getattr(getattr(call.func, "value", None), "id", "")
    if last in _MODULES.get(owner, ()):
        return f"{owner}.{last}"
    if last in _RUNNERS and call.args:
        command = " ".join(_words(call.args[0]))
        found = None if {*command.split()[:1]} & _ASKING else _COMMANDS.search(command)
        return " ".join(found["what"].split()) if found else ""
    return ""


def _words(node: ast.AST) -> Iterator[str]:
    """The plain texts of an expression, in order: of a list of words, of a text with values in it."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, (ast.List, ast.Tuple)):
        for each in node.elts:
            yield from _words(each) if isinstance(each, ast.Constant) else ("?",)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(each.value) if isinstance(each, ast.Constant) else "?" for each in node.values)
    elif isinstance(node, ast.BinOp):
        yield from _words(node.left)
        yield from _words(node.right)
    elif isinstance(node, ast.Call):
        # "…".split(), "…".format(…)
        yield from _words(getattr(node.func, "value", ast.Constant(0)))


# -- CMake


def _cmake_files(directory: Path) -> list[Path]:
    return [
        path
        for path in walk_files(directory)
        if (path.name == "CMakeLists.txt" or path.suffix == ".cmake")
        and not _OTHERS.intersection(path.relative_to(directory).parts[:-1])
    ]


def _in_cmake(path: Path, name: str) -> Iterator[Download]:
    text = re.sub(
        r"#\[\[.*?\]\]|#[^\n]*", lambda found: re.sub(r"[^\n]", " ", found[0]), _text(path), flags=re.DOTALL
    )
    depth = 0
    for found in _CMAKE.finditer(_QUOTED.sub(lambda found: " " * len(found[0]), text)):
        what, args = found["what"].lower(), _arguments(text, found.end())
        if what in ("if", "function", "macro"):
            depth += 1
        elif what.startswith("end"):
            depth -= 1
        elif _fetches(what, args):
            line = text.count("\n", 0, found.start()) + 1
            first = args.split()[:1]
            # What a file for others to include does, depends on who includes it.
            certain = depth == 0 and path.name == "CMakeLists.txt"
            yield Download(name, line, f"{found['what']}({' '.join(first)} …)", certain)


def _arguments(text: str, start: int) -> str:
    """What stands between the parenthesis before `start` and the one that closes it."""
    depth = 1
    for found in _QUOTED_OR_PAREN.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return text[start : found.start()]
    return text[start:]


def _fetches(what: str, args: str) -> bool:
    if what == "file":
        return re.match(r"\s*DOWNLOAD\b", args) is not None
    if what == "execute_process":
        return _COMMANDS.search(" ".join(args.replace('"', " ").split())) is not None
    return what in ("fetchcontent_declare", "externalproject_add", "cpmaddpackage") and bool(
        _REMOTE.search(args)
    )
