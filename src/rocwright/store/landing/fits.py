"""Which Pythons and platforms a file serves, as an installer decides it from the file's tags."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rocwright.model.manifest import FileEntry

_LINUX = re.compile(r"(?:manylinux(?:1|2010|2014|_[0-9]+_[0-9]+)|linux)_(?P<machine>.+)")
_MUSL = re.compile(r"musllinux_[0-9]+_[0-9]+_(?P<machine>.+)")
_PYTHON = re.compile(r"(?P<kind>cp|py)3(?P<minor>[0-9]*)")


def tags_of(entry: FileEntry) -> frozenset[Tag]:
    """The tags of a wheel; none for an sdist, and for a name that no installer reads."""
    try:
        return parse_wheel_filename(entry.name)[3]
    except InvalidWheelFilename:
        return frozenset()


def platform_of(tag: str) -> str:
    """A platform without the version that its tag asks for: `manylinux_2_28_x86_64` → `linux-x86_64`."""
    for pattern, name in ((_LINUX, "linux"), (_MUSL, "musllinux")):
        match = pattern.fullmatch(tag)
        if match:
            return f"{name}-{match['machine']}"
    return {"win_amd64": "windows-x86_64", "win_arm64": "windows-arm64"}.get(tag, tag)


def pythons_of(entry: FileEntry, any_python: Iterable[str]) -> set[str]:
    """Pythons that the file names (`3.12`, `3.13t`), and those of `any_python` that it fits besides."""
    named = set(any_python)
    for tag in tags_of(entry):
        match = _PYTHON.fullmatch(tag.interpreter)
        if match and match["kind"] == "cp" and match["minor"]:
            named.add(f"3.{match['minor']}" + ("t" if tag.abi.endswith("t") else ""))
    return {python for python in named if fits(entry, python, None)}


def fits(entry: FileEntry, python: str, platform: str | None) -> bool:
    """Whether the file can be installed there; `platform` None asks for the Python alone."""
    if not _allowed(entry, python):
        return False
    if not entry.name.endswith(".whl"):
        return True
    return any(_python_fits(tag, python) and _platform_fits(tag, platform) for tag in tags_of(entry))


def _platform_fits(tag: Tag, platform: str | None) -> bool:
    return platform is None or tag.platform == "any" or platform_of(tag.platform) == platform


def _allowed(entry: FileEntry, python: str) -> bool:
    if not entry.requires_python:
        return True
    try:
        allowed = SpecifierSet(entry.requires_python)
    except InvalidSpecifier:
        # Installers take no notice of one that they cannot read.
        return True
    # Some patch release is enough: >=3.12.4 is a Python 3.12.
    return any(allowed.contains(f"{python.rstrip('t')}.{patch}") for patch in (0, 99))


def _python_fits(tag: Tag, python: str) -> bool:
    match = _PYTHON.fullmatch(tag.interpreter)
    if match is None:
        return False
    unlocked = python.endswith("t")
    minor = int(python.rstrip("t").partition(".")[2])
    named = int(match["minor"]) if match["minor"] else None
    if match["kind"] == "py":
        return tag.abi == "none" and (named is None or minor >= named)
    if tag.abi == "abi3":
        return not unlocked and named is not None and minor >= named
    return named == minor and tag.abi in ("none", f"cp3{minor}" + ("t" if unlocked else ""))
