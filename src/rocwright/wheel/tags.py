"""Which Python and which platform a wheel's tags are for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.tags import compatible_tags, cpython_tags, parse_tag

from rocwright.errors import InvalidInput

_PYTHON = re.compile(r"(?P<major>3)\.(?P<minor>[0-9]+)(?P<threads>t?)")
# Before, the ABI's name had a flag behind the version.
_FIRST = 8
# How platform tags begin.
_PLATFORMS = {
    "linux": ("linux_", "manylinux", "musllinux_"),
    "windows": ("win32", "win_"),
    "any": ("any",),
}


def cp_version(python: str) -> str:
    """`3.12` as the tags of CPython spell it: `cp312-cp312`; `3.13t`, without the lock, is `cp313-cp313t`.

    Raises `InvalidInput` for other text.
    """
    match = _PYTHON.fullmatch(python.strip())
    if match is None or int(match["minor"]) < _FIRST:
        raise InvalidInput(
            f"{python!r} is no version of Python from 3.{_FIRST} on", next_step="write it like 3.12 or 3.13t"
        )
    interpreter = f"cp{match['major']}{match['minor']}"
    return f"{interpreter}-{interpreter}{match['threads']}"


def platform_of(tags: Iterable[str]) -> str | None:
    """`linux` or `windows`, when all tags (`cp312-cp312-linux_x86_64`) are for it; None otherwise."""
    found = {_platform(tag.rpartition("-")[2]) for tag in tags}
    return found.pop() if len(found) == 1 and "any" not in found else None


def _platform(tag: str) -> str | None:
    return next((name for name, starts in _PLATFORMS.items() if tag.startswith(starts)), None)


def serves(tags: Iterable[str], python: str, platform: str) -> bool:
    """Whether a wheel with these tags can be installed with that Python (`3.12`) on `linux` or `windows`.

    Which machine it is and how new its C library is are not compared. Raises `InvalidInput` for a Python.
    """
    interpreter, _, abi = cp_version(python).partition("-")
    number = (int(interpreter[2]), int(interpreter[3:]))
    fitting = {
        (tag.interpreter, tag.abi)
        for tag in (
            *cpython_tags(number, abis=[abi], platforms=["any"]),
            *compatible_tags(number, interpreter=interpreter, platforms=["any"]),
        )
    }
    return any(
        (tag.interpreter, tag.abi) in fitting and _platform(tag.platform) in (platform, "any")
        for text in tags
        for tag in parse_tag(text)
    )
