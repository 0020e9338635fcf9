"""Results as another machine reads them: directories of this one are written as `${work}` and `${cache}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import msgspec

from rocwright.pipeline.records import WORK, Machine

CACHE = "${cache}"


def portable(value: object, machine: Machine) -> object:
    """The value in JSON's types, without directories of this machine."""
    patterns = _patterns(machine.work, machine.cache)

    def write(text: str) -> str:
        for pattern, token in patterns:
            text = pattern.sub(token, text)
        return text

    return _each(msgspec.to_builtins(value), write)


def local_form(value: object, machine: Machine) -> object:
    """What `portable` wrote, with the directories of this machine."""
    places = [
        place
        for token, path in ((WORK, machine.work), (CACHE, machine.cache))
        for place in ((f"file://{token}", path.as_uri()), (token, str(path)))
    ]

    def read(text: str) -> str:
        for token, place in places:
            text = text.replace(token, place)
        return text

    return _each(value, read)


@lru_cache(maxsize=8)
def _patterns(work: Path, cache: Path) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Places and what is written for them; the inner one of two first."""
    found = []
    for path, token in sorted(((work, WORK), (cache, CACHE)), key=lambda one: -len(str(one[0]))):
        # A sibling of the same beginning is another directory.
        found.append((re.compile(re.escape(path.as_uri()) + r"(?![\w+-])(?!\.\w)"), f"file://{token}"))
        found.append((re.compile(r"(?<![\w./-])" + re.escape(str(path)) + r"(?![\w+-])(?!\.\w)"), token))
    return tuple(found)


def _each(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change(key) if isinstance(key, str) else key: _each(item, change) for key, item in value.items()
        }
    return [_each(item, change) for item in value] if isinstance(value, (list, tuple)) else value
