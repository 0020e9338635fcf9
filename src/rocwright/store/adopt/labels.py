"""Which build a version is of: its ROCm part, as it stands in versions of ROCm and behind a plus sign."""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from rocwright.model.patterns import any_pattern

_LOCAL = re.compile(r"(?:^|\.)(?:dev)?rocm(?P<version>[0-9].*)")
_DATE = re.compile(r"(?<![0-9])(20[0-9]{6})(?![0-9])")
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")
# Packages of ROCm itself: their own version is the label.
_ROCM = ("rocm", "rocm-*")


@lru_cache(maxsize=1 << 14)
def label_of(project: str, version: str) -> str | None:
    """The label of a build: `7.12.0a20260430` for `2.10.0+rocm7.12.0a20260430`; None where there is none.

    A plus sign in ROCm's own version is a dot in a label, as it is behind another plus sign.
    """
    parsed = Version(version)
    found = _LOCAL.search(parsed.local or "")
    if found is not None:
        return found["version"]
    if any_pattern(_ROCM).fullmatch(project):
        return str(parsed).replace("+", ".")
    return None


def date_of(label: str | None) -> str | None:
    """The date in a label, `20260430`."""
    found = _DATE.search(label or "")
    return found.group(1) if found else None


def label_order(label: str | None) -> tuple[str, Version]:
    """Sorts labels from old to new: by date where they have one, then as versions."""
    release = _RELEASE.match(label or "")
    try:
        version = Version(label or "0")
    except InvalidVersion:
        version = Version(release.group() if release else "0")
    return (date_of(label) or "", version)
