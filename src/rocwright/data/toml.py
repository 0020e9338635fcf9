"""TOML text as plain values."""

from __future__ import annotations

import sys
from typing import Any

from rocwright.errors import InvalidData

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib


def plain(text: str, *, where: str) -> dict[str, Any]:
    """The values of TOML text; raises `InvalidData` naming file and line."""
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidData(
            f"{where} is no valid TOML: {error}", where=where, next_step="correct the line that is named"
        ) from error
    return values
