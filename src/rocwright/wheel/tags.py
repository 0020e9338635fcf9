"""What the file names of wheels tell: for which Python and platform they are, and a family's versions.

Also which variant they are (PEP 817 and 825): such a name has a label behind its tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag
from packaging.utils import BuildTag, InvalidWheelFilename, NormalizedName, parse_wheel_filename
from packaging.version import Version

from rocwright.errors import ContractBroken, InvalidInput
from rocwright.model.variants import split_label

if TYPE_CHECKING:
    # The tables of projects are slow to import, and most who ask for tags do not need them.
    from rocwright.model.project import Project

_PYTHON = re.compile(r"(?P<major>3)\.(?P<minor>[0-9]+)(?P<threads>t?)")
# Before, the ABI's name had a flag behind the version.
_FIRST = 8
# The stable ABI, for Pythons with the lock and (from 3.15 on, PEP 803) for those without it.
STABLE = ("abi3", "abi3t")
# How platform tags begin.
_PLATFORMS = {
    "linux": ("linux_", "manylinux", "musllinux_"),
    "windows": ("win32", "win_"),
    "any": ("any",),
}


class WheelName(NamedTuple):
    """What the name of a wheel says; `label` is that of a variant, empty for any other wheel."""

    project: NormalizedName
    version: Version
    build: BuildTag
    tags: frozenset[Tag]
    label: str = ""


def parse_wheel_name(name: str) -> WheelName:
    """The parts of a file name, `NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM[-LABEL].whl`.

    Raises `InvalidWheelFilename` and `InvalidVersion`, as packaging does, which knows no variants.
    """
    plain, label = split_label(name)
    return WheelName(*parse_wheel_filename(plain), label or "")


def cp_version(python: str) -> str:
    """`3.12` as the tags of CPython spell it: `cp312-cp312`; `3.13t`, without the lock, is `cp313-cp313t`.

    Raises `InvalidInput` for other text.
    """
    match = _PYTHON.fullmatch(python.strip())
    if match is None or int(match["minor"]) < _FIRST:
        raise InvalidInput(
            f"{python!r} is not a version of Python from 3.{_FIRST} on",
            next_step="write it like 3.12 or 3.13t",
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


def allows(requires_python: str | None, python: str) -> bool:
    """Whether a Requires-Python is for that Python (`3.12`, `3.13t`)."""
    try:
        allowed = SpecifierSet(requires_python or "")
    except InvalidSpecifier:
        # Installers take no notice of a Requires-Python that they cannot read.
        return True
    # Some patch release is enough: >=3.12.4 is a Python 3.12.
    return any(allowed.contains(f"{python.rstrip('t')}.{patch}") for patch in (0, 99))


class FamilyVersions(msgspec.Struct, frozen=True):
    """Project → version, normalised, in the order of the projects; `missing` are those a release may lack."""

    versions: dict[str, str]
    missing: tuple[str, ...]
    platform: str


def family_versions(names: Iterable[str], projects: Sequence[Project], platform: str) -> FamilyVersions:
    """Versions of the projects among wheels with these file names; wheels of other projects do not matter.

    What may be missing depends on the platform that the projects' wheels are for; `platform` (`linux`,
    `windows`) is taken where their tags do not tell. Raises `ContractBroken` with everything that is wrong: a
    `.whl` without a valid name, several versions of a project, a project that is not there.
    """
    wanted = {project.name: project for project in projects}
    found: dict[str, dict[str, list[str]]] = {}
    platforms: set[str | None] = set()
    wrong: list[str] = []
    for name in sorted(names):
        try:
            project, version, _, tags, _ = parse_wheel_name(name)
        except InvalidWheelFilename as error:
            wrong.append(f"{name} is not a valid wheel name: {error}")
            continue
        if project in wanted:
            found.setdefault(project, {}).setdefault(str(version), []).append(name)
            platforms.add(platform_of(map(str, tags)))
    platforms.discard(None)
    if len(platforms) > 1:
        wrong.append("wheels for Linux and for Windows are mixed")
    else:
        platform = next(filter(None, platforms), platform)
    for name, by_version in found.items():
        if len(by_version) > 1:
            files = ", ".join(file for files in by_version.values() for file in files)
            wrong.append(f"there are {len(by_version)} versions of {name}: {files}")
    absent = [name for name in wanted if name not in found]
    optional = tuple(name for name in absent if wanted[name].optional(platform))
    wrong += [f"there is no wheel of {name}" for name in absent if name not in optional]
    if wrong:
        raise ContractBroken(
            "\n".join(wrong),
            next_step="look for builds that failed, and start each build with an empty output folder",
        )
    versions = {name: next(iter(found[name])) for name in wanted if name in found}
    return FamilyVersions(versions, optional, platform)
