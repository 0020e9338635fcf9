"""TOML text as plain values."""

from __future__ import annotations

import re
import sys
from typing import Any

from rocwright.errors import InvalidData

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

_HEADER = re.compile(r"\s*\[(\[?)\s*([\w.-]+)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r'\s*(?:"([^"]+)"|([\w-]+))\s*=')


def plain(text: str, *, where: str) -> dict[str, Any]:
    """The values of TOML text; raises `InvalidData` naming file and line."""
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers of thousands of digits
        why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise InvalidData(
            f"{where} is not valid TOML: {why}", where=where, next_step="correct the line that is named"
        ) from error
    return values


def line_of(text: str, message: str) -> int | None:
    """The line that a schema's message is about, as in "… - at `$.profile[1].tier`".

    The row's first line where the field is missing; None where neither is written as a line of its own.
    """
    lines = lines_of(text)
    at = re.search(r"`\$([^`]*)`", message)
    path = at[1] if at else ""
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if unknown and (line := lines.get(f"{path}.{unknown[1]}")):
        return line
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["))]
    return lines.get(path)


def comment_above(text: str, line: int | None) -> str:
    """The comment in the lines right above one; empty without."""
    if line is None:
        return ""
    lines = text.splitlines()
    found: list[str] = []
    for above in reversed(lines[: line - 1]):
        if not above.startswith("#"):
            break
        found.insert(0, above.lstrip("# "))
    return " ".join(filter(None, found))


def lines_of(text: str) -> dict[str, int]:
    """Lines of headers and keys by their path, `.profile[1].tier`; quotes of names are left out."""
    found: dict[str, int] = {}
    rows: dict[str, int] = {}
    here = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            name = header[2]
            if header[1]:
                rows = {held: at for held, at in rows.items() if not held.startswith(f"{name}.")}
                rows[name] = rows.get(name, -1) + 1
            parts = name.split(".")
            here = ""
            for end, part in enumerate(parts, 1):
                at = rows.get(".".join(parts[:end]))
                here += f".{part}" + ("" if at is None else f"[{at}]")
            found.setdefault(here, number)
        elif key := _KEY.match(line):
            found.setdefault(f"{here}.{key[1] or key[2]}", number)
    return found
