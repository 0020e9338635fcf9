"""The facts, as TOML beside this file, loaded into typed values.

Numbers, names and tables that change with the world (targets, families, projects, packages) stand
here, never in code.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from typing import Any, TypeVar

import msgspec

from rocwright.data.overlay import Overlay, merged
from rocwright.data.toml import line_of, plain
from rocwright.errors import InvalidData

T = TypeVar("T")
_NEXT = "compare the named field with the other rows of the table"


def parse_table(text: str, type_: type[T], *, where: str) -> T:
    """Turn TOML text into a value of `type_`; raises `InvalidData` naming file, line and field."""
    return _fitted(plain(text, where=where), text, type_, where)


def _fitted(values: dict[str, Any], text: str, type_: type[T], where: str) -> T:
    try:
        return msgspec.convert(values, type_)
    except msgspec.ValidationError as error:
        raise InvalidData(
            f"{where} does not fit its schema: {_with_line(str(error), text)}",
            where=where,
            next_step=_next_step(error, type_),
        ) from error


def load_table(name: str, type_: type[T], overlay: Overlay | None = None) -> T:
    """The built-in table `<name>.toml` as a value of `type_`, with what an overlay adds to it.

    Raises `InvalidData` naming the overlay's file, line and field when that does not fit.
    """
    resource = resources.files("rocwright.data").joinpath(f"{name}.toml")
    text = resource.read_text(encoding="utf-8")
    built_in = _plain_built_in(name, text)
    if overlay is None or name not in overlay.tables:
        return _fitted(built_in, text, type_, f"data/{name}.toml")
    both = merged(built_in, overlay.tables[name])
    try:
        return msgspec.convert(both.values, type_)
    except InvalidData as error:
        # Rows that contradict each other: the built-in ones do not.
        error.where = error.where or overlay.where
        raise
    except msgspec.ValidationError as error:
        message = both.own_path(str(error), name)
        raise InvalidData(
            f"{overlay.where} does not fit its schema: {_with_line(message, overlay.text)}",
            where=overlay.where,
            next_step=_next_step(error, type_),
        ) from error


def built_in_values(name: str) -> Mapping[str, Any]:
    """The built-in table `<name>.toml` as plain values; nobody changes them."""
    text = resources.files("rocwright.data").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return _plain_built_in(name, text)


@lru_cache(maxsize=64)
def _plain_built_in(name: str, text: str) -> dict[str, Any]:
    """Parsed once in a process, though several ask for a table; nobody changes these values."""
    return plain(text, where=f"data/{name}.toml")


def _with_line(message: str, text: str) -> str:
    line = line_of(text, message)
    return message if line is None else f"{message}, line {line}"


def _next_step(error: msgspec.ValidationError, type_: object) -> str:
    """For a field that does not exist the one that may have been meant."""
    unknown = re.search(r"unknown field `([^`]+)`", str(error))
    near = get_close_matches(unknown[1], set(_fields(type_)), n=1) if unknown else []
    return f"perhaps {near[0]}" if near else _NEXT


def _fields(type_: object) -> Iterator[str]:
    """Names of all fields of a struct and of those in it."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        for field in msgspec.structs.fields(type_):
            yield field.encode_name
            yield from _fields(field.type)
    for inner in typing.get_args(type_):
        yield from _fields(inner)
