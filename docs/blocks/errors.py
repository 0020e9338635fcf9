"""The tree of errors, from the classes; what each says, from the table that the tests provoke them by."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

import rocwright
from blocks.text import code, table
from rocwright.errors import RocwrightError


def error_classes() -> list[tuple[int, type[RocwrightError]]]:
    """Every error of the package with its depth in the tree, parents before children."""
    for module in pkgutil.walk_packages(rocwright.__path__, "rocwright."):
        # What runs beside torch is no part of the tree, and found by path only.
        if not module.name.endswith("__main__") and ".inside." not in module.name:
            importlib.import_module(module.name)

    def below(parent: type[RocwrightError], depth: int) -> Iterator[tuple[int, type[RocwrightError]]]:
        yield depth, parent
        children = (kind for kind in parent.__subclasses__() if kind.__module__.startswith("rocwright."))
        for child in sorted(children, key=lambda kind: (kind.exit_code, kind.__name__)):
            yield from below(child, depth + 1)

    return list(below(RocwrightError, 0))


def render_errors() -> str:
    """The tree of errors as a table."""
    rows = []
    for depth, kind in error_classes():
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        meaning = "Any other refusal or failure." if depth == 0 else first
        rows.append((str(kind.exit_code), "&nbsp;" * 4 * max(0, depth - 1) + code(kind.__name__), meaning))
    return table(("Exit code", "Error", "Meaning"), rows)


_LINES = Path(__file__).resolve().parents[2] / "tests/unit/cli/bad_lines.toml"
# What the test puts in, and how it looks to a reader.
_PLACES = {
    "{work}": "/home/me/work",
    "{served}": "https://packages.example.org/",
    "{dead}": "https://gone.example.org/simple/",
}


def render_messages() -> str:
    """A command line for every error, and what it prints, by exit code."""
    lines = [line for line in msgspec.toml.decode(_LINES.read_bytes())["line"] if "text" in line]
    codes = {kind.__name__: kind.exit_code for _, kind in error_classes()}
    shown = []
    for line in sorted(lines, key=lambda one: (one.get("exit", codes[one["error"]]), one["error"])):
        # Where it has the code of what it is about, the line says which.
        text = f"$ {line['line']}\n{line['text'].strip()}"
        text = re.sub(r"\{\w+\}", lambda place: _PLACES.get(place[0], place[0]), text)
        code_ = line.get("exit", codes[line["error"]])
        shown.append(f"## `{line['error']}`, exit code {code_}\n\n```text\n{text}\n```")
    return "\n\n".join(shown)
