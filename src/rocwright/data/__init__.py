"""The facts, as TOML beside this file, loaded into typed values.

Numbers, names and tables that change with the world (targets, families, projects, packages) stand
here, never in code.
"""

from __future__ import annotations

import sys
from importlib import resources
from typing import TypeVar

import msgspec

from rocwright.errors import InvalidData

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

T = TypeVar("T")


def parse_table(text: str, type_: type[T], *, where: str) -> T:
    """Turn TOML text into a value of `type_`; raises `InvalidData` naming file and field."""
    try:
        return msgspec.convert(tomllib.loads(text), type_)
    except tomllib.TOMLDecodeError as error:
        raise InvalidData(f"{where} is no valid TOML: {error}", where=where) from error
    except msgspec.ValidationError as error:
        raise InvalidData(
            f"{where} does not fit its schema: {error}",
            where=where,
            next_step="compare the named field with the other rows of the table",
        ) from error


def load_table(name: str, type_: type[T]) -> T:
    """The built-in table `<name>.toml` as a value of `type_`."""
    resource = resources.files("rocwright.data").joinpath(f"{name}.toml")
    return parse_table(resource.read_text(encoding="utf-8"), type_, where=f"data/{name}.toml")
