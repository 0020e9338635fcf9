"""Find the archives that a split library's marker can mean, as its runtime would: by where both lie."""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterable
from pathlib import Path

from rocwright.device_code.kpack import PLACEHOLDER, Marker
from rocwright.model.gpu import is_target


def installed_at(library: str, search_path: str) -> str:
    """Where a search path leads from a library's own place, as text with forward slashes."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(library), search_path))


def archives_among(library: str, marker: Marker, paths: Iterable[str]) -> list[str]:
    """Those of these normal paths to which the library's search paths lead, for any target; in order."""
    patterns = [installed_at(library, path).partition(PLACEHOLDER) for path in marker.search_paths]
    return [path for path in paths if any(_fits(path, *pattern) for pattern in patterns)]


def archives_on_disk(library: Path, marker: Marker) -> list[str]:
    """Existing files to which the search paths of a library lead, for any target, in their order."""
    found: dict[str, None] = {}
    for search_path in marker.search_paths:
        if "\0" in search_path:  # no file system has such a name
            continue
        before, placeholder, after = installed_at(str(library), search_path).partition(PLACEHOLDER)
        wild = f"{glob.escape(before)}*{glob.escape(after)}" if placeholder else glob.escape(before)
        for match in sorted(glob.glob(wild)):  # noqa: PTH207 - an absolute pattern
            if _fits(match, before, placeholder, after) and os.path.isfile(match):  # noqa: PTH113
                found[match] = None
    return list(found)


def _fits(path: str, before: str, placeholder: str, after: str) -> bool:
    if not placeholder:
        return path == before
    fits = path.startswith(before) and path.endswith(after)
    return fits and is_target(path[len(before) : len(path) - len(after)])
