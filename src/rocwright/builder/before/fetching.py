"""What fetches something in the build of a project: calls and command lines, as they stand in its files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import msgspec

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
# What has nothing to do where there already is what it brings.
_LACKING = re.compile(r"^(?:git (?:fetch|pull)|pip3? install|conda install|apt(?:-get)? install)")


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


def fetching_command(line: str) -> str:
    """What a command line fetches with; empty for others."""
    found = _COMMANDS.search(" ".join(line.replace('"', " ").split()))
    return " ".join(found["what"].split()) if found else ""


def only_what_lacks(what: str) -> bool:
    """Whether a command has nothing to do where there already is what it brings."""
    return _LACKING.match(what) is not None


def updates_submodules(what: str) -> bool:
    """Whether a command brings submodules, which a checkout has already."""
    return what.startswith("git submodule")


def fetching_call(call: ast.Call) -> str:
    """What a call fetches with; empty for other calls."""
    last = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if last in _CALLS:
        return _CALLS[last]
    owner = getattr(getattr(call.func, "value", None), "id", "")
    if last in _MODULES.get(owner, ()):
        return f"{owner}.{last}"
    if last in _RUNNERS and call.args:
        command = " ".join(_words(call.args[0]))
        return "" if {*command.split()[:1]} & _ASKING else fetching_command(command)
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
