"""Versions of ROCm packages and the local version suffix that ties a framework wheel to them.

Source: the versioning rules of the ROCm Python packages (`7.10.0`, `7.10.0rc2`, `7.10.0a20251124`,
`7.10.0.dev0+<sha>`) and of PyTorch wheels built against them (`2.9.0+rocm7.10.0…`).
"""

from __future__ import annotations

from packaging.version import InvalidVersion as _PackagingInvalid
from packaging.version import Version

from rocwright.errors import InvalidInput

RELEASE_TYPES = ("ci", "dev", "dev-bkc", "nightly", "nightly-bkc", "prerelease", "release")


class InvalidVersion(InvalidInput):
    """Text that is no version, or one that cannot be used where it stands."""


def parse_version(text: str) -> Version:
    """A PEP 440 version; raises `InvalidVersion` naming the text."""
    try:
        return Version(text)
    except _PackagingInvalid as error:
        raise InvalidVersion(f"{text!r} is no valid version (PEP 440)") from error


def rocm_suffix(rocm_version: str) -> str:
    """The local version suffix for wheels built against this ROCm: `7.10.0rc2` → `+rocm7.10.0rc2`.

    A development version has a local part of its own, which is carried behind a dash:
    `7.10.0.dev0+efed3c` → `+devrocm7.10.0.dev0-efed3c`; a bkc one keeps the plain prefix.
    """
    version = parse_version(rocm_version)
    local = f"-{version.local}" if version.local else ""
    prefix = "+devrocm" if version.is_devrelease else "+rocm"
    return f"{prefix}{version.public}{local}"


def wheel_version(base: str, suffix: str, *, release_type: str, commit: str | None = None) -> str:
    """Version of a framework wheel: the project's own base version plus the suffix, normalised.

    `dev` builds carry the source commit first: `2.12.0a0+git1a2b3c4d.rocm7.10.0`.
    """
    if not suffix.startswith("+"):
        raise InvalidVersion(f"version suffix {suffix!r} must start with '+'")
    if release_type not in RELEASE_TYPES:
        raise InvalidVersion(f"release type {release_type!r} is not one of {', '.join(RELEASE_TYPES)}")
    if release_type in ("dev", "dev-bkc") and commit:
        suffix = f"+git{commit[:8]}.{suffix[1:]}"
    return str(parse_version(base.strip() + suffix))


def check_pattern(rocm_version: str, release_type: str) -> str:
    """What `check_version` is: exact for builds that move, `major.minor.*` for releases."""
    if release_type in ("release", "prerelease"):
        version = parse_version(rocm_version)
        return f"{version.major}.{version.minor}.*"
    return rocm_version
