"""Versions of ROCm packages and the local version suffix that ties a framework wheel to them.

Source: the versioning rules of the ROCm Python packages (`7.10.0`, `7.10.0rc2`, `7.10.0a20251124`,
`7.10.0.dev0+<sha>`) and of PyTorch wheels built against them (`2.9.0+rocm7.10.0…`).
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Literal, get_args

import msgspec
from packaging.version import InvalidVersion as _PackagingInvalid
from packaging.version import Version

from rocwright.errors import InvalidInput

ReleaseType = Literal["ci", "dev", "dev-bkc", "nightly", "nightly-bkc", "prerelease", "release"]
RELEASE_TYPES: tuple[str, ...] = get_args(ReleaseType)
# Their versions carry the commit that was built.
COMMIT_TYPES = ("ci", "dev", "dev-bkc")
# Wheels of frameworks carry theirs as well.
GIT_TYPES = ("dev", "dev-bkc")


class InvalidVersion(InvalidInput):
    """Text that is no version, or one that cannot be used where it stands."""


def parse_version(text: str) -> Version:
    """A PEP 440 version; raises `InvalidVersion` naming the text."""
    try:
        return Version(text)
    except _PackagingInvalid as error:
        raise InvalidVersion(
            f"{text!r} is not a valid version (PEP 440)", next_step="write it like 2.9.1 or 7.10.0rc2"
        ) from error


# Of text that is one; raises as `Version` does. A store has thousands of files of one version: a plan to
# clean up spent a third of its time on parsing it again.
cached_version = lru_cache(maxsize=1 << 16)(Version)


def rocm_suffix(rocm_version: str) -> str:
    """The local version suffix for wheels built against this ROCm: `7.10.0rc2` → `+rocm7.10.0rc2`.

    A development version has a local part of its own, which is carried behind a dash:
    `7.10.0.dev0+efed3c` → `+devrocm7.10.0.dev0-efed3c`; a bkc one keeps the plain prefix.
    """
    version = parse_version(rocm_version)
    local = f"-{version.local}" if version.local else ""
    prefix = "+devrocm" if version.is_devrelease else "+rocm"
    return f"{prefix}{version.public}{local}"


def with_commit(suffix: str, commit: str) -> str:
    """A local suffix with the source commit first: `+rocm7.10.0` → `+git1a2b3c4d.rocm7.10.0`."""
    return f"+git{commit[:8]}.{suffix.removeprefix('+')}"


def with_suffix(base: str, suffix: str) -> str:
    """A project's own version with a local suffix, normalised; a version has one plus sign only."""
    if not suffix.startswith("+"):
        raise InvalidVersion(
            f"version suffix {suffix!r} must start with '+'", next_step="write it like +rocm7.10.0"
        )
    return str(parse_version(base.strip() + suffix))


def check_pattern(rocm_version: str, release_type: str) -> str:
    """What `check_version` is: exact for builds that move, `major.minor.*` for releases."""
    if release_type in ("release", "prerelease"):
        version = parse_version(rocm_version)
        return f"{version.major}.{version.minor}.*"
    return rocm_version


class RocmVersions(msgspec.Struct, frozen=True):
    """One version of ROCm's packages in the spellings of Python, Debian and RPM packages."""

    python: str
    deb: str
    rpm: str


def rocm_package_versions(
    base: str,
    *,
    release_type: str | None = None,
    custom_suffix: str | None = None,
    prerelease: int | None = None,
    date: str | None = None,
    sha: str | None = None,
    bkc_date: str | None = None,
) -> RocmVersions:
    """Version of ROCm's own packages for a release type, or with a suffix of one's own.

    `base` is the release (`7.10.0`); `prerelease` the number of a release candidate; dates are `YYYYMMDD`: of
    the build, and of the bkc (best known configuration) on top of a nightly; `sha` the full commit. What a
    release type does not use may be given all the same, but for `prerelease`, which asks for another type.

    In every spelling all of these sort before the release itself. Among each other only the Python ones sort
    dev, nightly, candidate: dpkg puts a nightly before a dev build, rpm a candidate before both.

    Raises `InvalidVersion` for a base that is no plain release, for a missing or malformed part, and for a
    result that Python would spell in another way, since file names, indexes and pins have to agree.
    """
    _require_release(base)
    if (release_type is None) == (custom_suffix is None):
        raise InvalidVersion("give either a release type or a suffix", next_step="give one of them, not both")
    if (prerelease is None) == (release_type == "prerelease"):
        raise InvalidVersion(
            "the number of a release candidate goes with the release type prerelease only",
            next_step="give --release-type prerelease, or leave its number out",
        )
    if custom_suffix is not None:
        return _with_suffix(base, custom_suffix)
    if release_type == "release":
        return RocmVersions(base, base, base)
    if release_type == "prerelease":
        return _checked(f"{base}rc{prerelease}", f"{base}~pre{prerelease}", f"{base}~rc{prerelease}")
    if release_type == "nightly":
        day = _day(date, "the build")
        return _checked(f"{base}a{day}", f"{base}~{day}", f"{base}~{day}")
    if release_type == "nightly-bkc":
        day, bkc = _day(date, "the nightly"), _day(bkc_date, "the bkc")
        native = f"{base}~{day}.bkc.{bkc}"
        return _checked(f"{base}a{day}+bkc.{bkc}", native, native)
    if release_type in COMMIT_TYPES:
        day, commit = _day(date, "the build"), _commit(sha)
        return _checked(f"{base}.dev0+{commit}", f"{base}~dev{day}", f"{base}~{day}g{commit[:8]}")
    raise InvalidVersion(
        f"release type {release_type!r} is not one of {', '.join(RELEASE_TYPES)}",
        next_step="choose one of these",
    )


def _require_release(base: str) -> None:
    version = parse_version(base)
    if base != ".".join(map(str, version.release)):
        raise InvalidVersion(
            f"{base!r} is not a plain release such as 7.10.0",
            next_step="give what follows it as a release type or suffix",
        )


def _checked(python: str, deb: str, rpm: str) -> RocmVersions:
    normal = str(parse_version(python))
    if normal != python:
        raise InvalidVersion(f"{python!r} is not in normal form", next_step=f"Python spells it {normal}")
    return RocmVersions(python, deb, rpm)


def _with_suffix(base: str, suffix: str) -> RocmVersions:
    version = parse_version(base + suffix)
    if version.base_version != base:
        raise InvalidVersion(
            f"the suffix {suffix!r} changes the release {base} itself",
            next_step="write it like +mine or .dev1",
        )
    # What comes before the release has to sort there for the other package managers, too.
    native = f"{base}~{suffix.lstrip('.')}" if version.is_prerelease else f"{base}{suffix}"
    return _checked(f"{base}{suffix}", native, native)


def _day(text: str | None, what: str) -> str:
    try:
        if text is None or len(text) != len("YYYYMMDD"):
            raise ValueError
        datetime.strptime(text, "%Y%m%d")
    except ValueError as error:
        raise InvalidVersion(
            f"the date of {what} must be YYYYMMDD, not {text!r}", next_step="write it like 20260131"
        ) from error
    return text


def _commit(sha: str | None) -> str:
    commit = (sha or "").lower()
    if not re.fullmatch(r"[0-9a-f]{8,64}", commit):
        raise InvalidVersion(
            f"{sha!r} is not a commit; the version of a development build contains one",
            next_step="give the full commit",
        )
    return commit
