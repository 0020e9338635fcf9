"""The facts, as TOML beside this file, loaded into typed values.

Numbers, names and tables that change with the world (targets, families, projects, packages) stand
here, never in code.
"""

from __future__ import annotations

from importlib import resources
from typing import TypeVar

import msgspec

from rocwright.data.overlay import Overlay, merged
from rocwright.data.toml import plain
from rocwright.errors import InvalidData

T = TypeVar("T")
_NEXT = "compare the named field with the other rows of the table"


def parse_table(text: str, type_: type[T], *, where: str) -> T:
    """Turn TOML text into a value of `type_`; raises `InvalidData` naming file and field."""
    try:
        return msgspec.convert(plain(text, where=where), type_)
    except msgspec.ValidationError as error:
        raise InvalidData(
            f"{where} does not fit its schema: {error}", where=where, next_step=_NEXT
        ) from error


def load_table(name: str, type_: type[T], overlay: Overlay | None = None) -> T:
    """The built-in table `<name>.toml` as a value of `type_`, with what an overlay adds to it.

    Raises `InvalidData` naming the overlay's file and field when that does not fit.
    """
    resource = resources.files("rocwright.data").joinpath(f"{name}.toml")
    text = resource.read_text(encoding="utf-8")
    if overlay is None or name not in overlay.tables:
        return parse_table(text, type_, where=f"data/{name}.toml")
    both = merged(plain(text, where=f"data/{name}.toml"), overlay.tables[name])
    try:
        return msgspec.convert(both.values, type_)
    except msgspec.ValidationError as error:
        message = both.own_path(str(error), name)
        raise InvalidData(
            f"{overlay.where} does not fit its schema: {message}", where=overlay.where, next_step=_NEXT
        ) from error
