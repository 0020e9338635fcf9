"""A user's `rocwright.toml`: further rows and other values for the built-in tables, under the same schemas.

Each table of the file is named after the built-in one: `[contract]`, `[[contract.package]]`. Arrays of tables
are appended to the built-in ones, tables are merged key by key, and any other value takes the place of the
built-in one; that holds for arrays of plain values, too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rocwright.data.toml import plain
from rocwright.errors import InvalidData

FILE_NAME = "rocwright.toml"
# Whoever reads one of these tables gives the overlay; a table that nobody would read is refused.
OVERLAID = (
    "channels",
    "compat",
    "compat_features",
    "compat_libraries",
    "contract",
    "distributions",
    "extensions",
    "families",
    "gpus",
    "indexes",
    "profiles",
    "projects",
    "recipes",
    "signatures",
    "skips",
    "slurm",
    "sources",
    "tests",
    "triggers",
)


class Overlay(msgspec.Struct, frozen=True):
    """A read `rocwright.toml`: `where` it lies, for messages, its tables by name, its text for lines.

    `sha256` is the digest of its bytes: what is recorded of it, as its place means nothing to others.
    """

    where: str
    tables: Mapping[str, Mapping[str, Any]]
    text: str = ""
    sha256: str = ""

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return Path(self.where).name


def read_overlay(path: Path | None = None) -> Overlay | None:
    """The given file, or `rocwright.toml` of the current directory; None when there is none.

    Raises `InvalidData`: a given file that cannot be read, no TOML, a table that has no built-in one.
    """
    if path is None:
        path = Path(FILE_NAME)
        if not path.is_file():
            return None
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidData(
            f"{path} cannot be read: {why}", where=path, next_step="give an existing rocwright.toml"
        ) from error
    read = parse_overlay(text.replace("\r\n", "\n"), where=str(path))
    return msgspec.structs.replace(read, sha256=hashlib.sha256(data).hexdigest())


def parse_overlay(text: str, *, where: str) -> Overlay:
    """The text of a `rocwright.toml`; raises `InvalidData` as `read_overlay`."""
    tables = plain(text, where=where)
    for name, value in tables.items():
        if name not in OVERLAID:
            near = get_close_matches(name, OVERLAID, n=1)
            raise InvalidData(
                f"{where} cannot have a table {name!r}; it can have {', '.join(OVERLAID)}",
                where=where,
                next_step=f"write [{near[0]}]" if near else "take it out, or name the table that it adds to",
            )
        if not isinstance(value, dict):
            raise InvalidData(
                f"{where} gives {name!r} a value; it is a table",
                where=where,
                next_step=f"write [{name}] and its fields below, or [[{name}.…]] for a row",
            )
    return Overlay(where, tables, text, hashlib.sha256(text.encode()).hexdigest())


class Merged(msgspec.Struct, frozen=True):
    """A built-in table with an overlay in it; `offsets` is how many rows were there before, by JSON path."""

    values: dict[str, Any]
    offsets: Mapping[str, int]

    def own_path(self, message: str, table: str) -> str:
        """A schema's message with the row numbers of the overlay's file instead of those of all rows."""
        for path, before in self.offsets.items():
            for number in map(int, re.findall(re.escape(path) + r"\[([0-9]+)\]", message)):
                message = message.replace(f"{path}[{number}]", f"{path}[{number - before}]")
        return message.replace("`$", f"`$.{table}")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Merged:
    """The built-in values with those of an overlay."""
    offsets: dict[str, int] = {}
    return Merged(_joined(base, over, "$", offsets), offsets)


def _joined(
    base: Mapping[str, Any], over: Mapping[str, Any], path: str, offsets: dict[str, int]
) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        held, here = base.get(key), f"{path}.{key}"
        if isinstance(held, dict) and isinstance(value, dict):
            result[key] = _joined(held, value, here, offsets)
        elif isinstance(held, list) and isinstance(value, list) and _are_rows(held):
            result[key] = [*held, *value]
            offsets[here] = len(held)
        else:
            result[key] = value
    return result


class Changed(NamedTuple):
    """A value of a table that an overlay changes: its path in the table, both as JSON, empty for none."""

    path: str
    before: str
    after: str


def changed(base: Mapping[str, Any], over: Mapping[str, Any], path: str = "") -> Iterator[Changed]:
    """What an overlay makes of a built-in table, value by value; each row that it adds is one."""
    for key, value in over.items():
        held, here = base.get(key), f"{path}.{key}".lstrip(".")
        if isinstance(held, dict) and isinstance(value, dict):
            yield from changed(held, value, here)
        elif isinstance(held, list) and isinstance(value, list) and _are_rows(held):
            yield from (Changed(here, "", as_json(row)) for row in value)
        elif held != value:
            yield Changed(here, "" if held is None else as_json(held), as_json(value))


def as_json(value: Any) -> str:
    """A value of TOML in a line; days are text."""
    return json.dumps(value, default=str, ensure_ascii=False)


def _are_rows(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(each, dict) for each in values)
