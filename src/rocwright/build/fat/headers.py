"""METADATA of a wheel with ROCm inside: another version, nothing of ROCm required."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rocwright.build.pins import environment_of, pinned
from rocwright.model.patterns import fits
from rocwright.wheel.metadata import add_headers, edit_headers, parse_metadata
from rocwright.wheel.read import Wheel

_EXTRA = re.compile(r"""extra\s*==\s*(['"])(?P<name>[^'"]+)\1""")
# Licence files have had a field since this version of core metadata.
_LICENCE_FILES = (2, 4)


def fat_metadata(
    wheel: Wheel,
    metadata: bytes,
    version: str,
    *,
    needless: Sequence[str],
    licences: Iterable[str] = (),
    torch: str | None = None,
) -> tuple[bytes, tuple[str, ...]]:
    """METADATA of the output, and the requirements that it no longer has.

    `needless` are patterns over names of projects that ROCm inside makes needless. `licences` are further
    licence files, below `.dist-info/licenses`; `torch` is the version to require exactly.
    """
    dropped: list[str] = []
    kept: set[str] = set()
    for line in parse_metadata(metadata).requires_dist:
        text = " ".join(line.split())
        if fits(_project(text), needless):
            dropped.append(text)
        else:
            kept |= _extras(text)
    # An extra that only asked for what is no longer required would install nothing.
    unused = {extra for text in dropped for extra in _extras(text)} - kept

    def edit(key: str, value: str) -> Sequence[str] | None:
        if key == "version":
            return [f"Version: {version}"]
        if key == "requires-dist" and value in dropped:
            return ()
        if key == "provides-extra" and canonicalize_name(value) in unused:
            return ()
        return None

    edited = edit_headers(metadata, edit)
    if _metadata_version(metadata) >= _LICENCE_FILES:
        edited = add_headers(edited, [f"License-File: {path}" for path in licences])
    if torch is not None:
        edited = pinned(edited, [Requirement(f"torch=={torch}")], environment_of(wheel.tags))
    return edited, tuple(dropped)


def _project(text: str) -> str:
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""


def _extras(text: str) -> set[str]:
    return {canonicalize_name(match["name"]) for match in _EXTRA.finditer(text)}


def _metadata_version(metadata: bytes) -> tuple[int, ...]:
    match = re.match(rb"Metadata-Version:\s*([0-9]+)\.([0-9]+)", metadata)
    return (int(match[1]), int(match[2])) if match else (0, 0)
