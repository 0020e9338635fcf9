"""Where the files of a ROCm come from: distribution packages with versions, or repositories with commits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from rocwright.errors import InvalidData

T = TypeVar("T")

PACKAGES = ".info/packages.json"
MANIFEST = "share/therock/therock_manifest.json"

_DEB = ("debian", "ubuntu")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_GITHUB = re.compile(r"(?:https://|git@|ssh://git@)github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


@dataclass(frozen=True)
class Origin:
    """What brought a file: an artifact or distribution package; version (or commit) and purl where known."""

    name: str
    version: str | None = None
    purl: str | None = None


@dataclass(frozen=True)
class Provenance:
    """Origins by name, and path in the tree → name of its package; empty where nothing is known."""

    origins: Mapping[str, Origin] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)

    def package_of(self, path: str, artifact: str | None = None) -> str | None:
        """The package or artifact that a file comes from, without component and target.

        `artifact` is the name of the artifact's directory, `<name>_<component>_<target>`.
        """
        return self.packages.get(path) if artifact is None else artifact.rsplit("_", 2)[0]


class _Package(msgspec.Struct, frozen=True):
    name: str
    version: str
    files: tuple[str, ...]
    architecture: str | None = None


class _Packages(msgspec.Struct, frozen=True):
    distribution: str
    packages: tuple[_Package, ...]


class _Submodule(msgspec.Struct, frozen=True):
    submodule_name: str
    submodule_url: str | None = None
    pin_sha: str | None = None


class _Manifest(msgspec.Struct, frozen=True):
    submodules: tuple[_Submodule, ...] = ()


def read_provenance(files: Mapping[str, Path], repositories: Mapping[str, str]) -> Provenance:
    """What a tree (path in it → where it lies) says of where it comes from.

    `repositories` maps artifact to submodule. Raises `InvalidData` naming file and field when one of its two
    lists is malformed.
    """
    origins: dict[str, Origin] = {}
    packages: dict[str, str] = {}
    if PACKAGES in files:
        listing = _read(files[PACKAGES], _Packages)
        packages = _by_path(listing, files[PACKAGES])
        origins = {package.name: _packaged(package, listing.distribution) for package in listing.packages}
    if MANIFEST in files:
        manifest = _read(files[MANIFEST], _Manifest)
        pinned = {row.submodule_name: row for row in manifest.submodules}
        for artifact, name in repositories.items():
            if name in pinned:
                origins[artifact] = _pinned(artifact, pinned[name], files[MANIFEST])
    return Provenance(origins, packages)


def package_purl(distribution: str, name: str, version: str, architecture: str | None) -> str | None:
    """The purl of a distribution's package; `distribution` is `<id>-<release>`. None for one without debs."""
    family = distribution.partition("-")[0]
    if family not in _DEB:
        return None
    qualifiers = f"arch={quote(architecture)}&" if architecture else ""
    place = f"{family}/{quote(name.lower(), safe='')}@{quote(version, safe=':')}"
    return f"pkg:deb/{place}?{qualifiers}distro={quote(distribution)}"


def repository_purl(url: str, commit: str) -> str | None:
    """The purl of a commit in a repository on GitHub; None for one elsewhere."""
    match = _GITHUB.fullmatch(url)
    return f"pkg:github/{match[1].lower()}/{match[2].lower()}@{commit}" if match else None


def _by_path(listing: _Packages, where: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in listing.packages:
        for path in package.files:
            other = found.setdefault(path, package.name)
            if other != package.name:
                raise InvalidData(f"{path} is in two packages, {other} and {package.name}", where=where)
    return found


def _packaged(package: _Package, distribution: str) -> Origin:
    purl = package_purl(distribution, package.name, package.version, package.architecture)
    return Origin(package.name, package.version, purl)


def _pinned(artifact: str, row: _Submodule, where: Path) -> Origin:
    if row.pin_sha is None:
        return Origin(artifact)
    if not _COMMIT.fullmatch(row.pin_sha):
        raise InvalidData(
            f"the commit of {row.submodule_name}, {row.pin_sha!r}, is no commit id", where=where
        )
    return Origin(artifact, row.pin_sha, repository_purl(row.submodule_url or "", row.pin_sha))


def _read(path: Path, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path.name} does not fit its schema: {error}", where=path) from error
    except OSError as error:
        raise InvalidData(f"cannot read {path.name}: {error.strerror}", where=path) from error
