"""Where the files of a ROCm come from (distribution packages with versions, or repositories with commits),
and the software bill of materials of a wheel: what it bundles, from where, under which licence.

CycloneDX 1.6 as JSON, to lie in `.dist-info/sboms` (PEP 770). It holds no time and no random number: the
same contents give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from rocwright import __version__
from rocwright.device_code.kpack import SUFFIX
from rocwright.errors import InvalidData, see_who_may_read
from rocwright.sdk.licences import ComponentFiles, joined, library_name
from rocwright.wheel.metadata import normalized_name, normalized_version

T = TypeVar("T")

PACKAGES = ".info/packages.json"
MANIFEST = "share/therock/therock_manifest.json"

_DEB = ("debian", "ubuntu")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_GITHUB = re.compile(r"(?:https://|git@|ssh://git@)github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


class Origin(msgspec.Struct, frozen=True):
    """What brought a file: an artifact or distribution package; version (or commit) and purl where known."""

    name: str
    version: str | None = None
    purl: str | None = None


class Provenance(msgspec.Struct, frozen=True):
    """Origins by name, and path in the tree → name of its package; empty where nothing is known."""

    origins: Mapping[str, Origin] = msgspec.field(default_factory=dict)
    packages: Mapping[str, str] = msgspec.field(default_factory=dict)

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
            f"the commit of {row.submodule_name}, {row.pin_sha!r}, is not a commit id", where=where
        )
    return Origin(artifact, row.pin_sha, repository_purl(row.submodule_url or "", row.pin_sha))


def _read(path: Path, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path.name} does not fit its schema: {error}", where=path) from error
    except OSError as error:
        raise InvalidData(
            f"cannot read {path.name}: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error


SBOM_PATH = "sboms/rocwright.cdx.json"


class Bundled(msgspec.Struct, frozen=True):
    """Something that a wheel bundles. `licence` is an SPDX expression, `files` are paths in the wheel."""

    name: str
    version: str | None = None
    licence: str | None = None
    purl: str | None = None
    files: tuple[str, ...] = ()


def bundled(
    parts: Iterable[ComponentFiles], members: Mapping[str, str], provenance: Provenance
) -> tuple[Bundled, ...]:
    """What `licences_of` found in a package, as entries of its bill.

    Of the files only libraries and archives of device code are listed. `members` maps a path in the ROCm tree
    to the path in the wheel.
    """
    found: list[Bundled] = []
    for part in parts:
        origin = provenance.origins.get(part.package or "")
        libraries = [members[path] for path in part.files if _is_code(path) and path in members]
        found.append(
            Bundled(
                name=part.component.name,
                version=origin.version if origin else None,
                licence=joined(part.component.licences) or None,
                purl=origin.purl if origin else None,
                files=tuple(sorted(libraries)),
            )
        )
    return tuple(found)


def sbom(
    name: str,
    version: str,
    parts: Sequence[Bundled],
    *,
    licence: str | None = None,
    digests: Mapping[str, str] | None = None,
) -> bytes:
    """The bill of a wheel.

    `digests` maps paths in the wheel to hex sha256, where they are known; no file is read.
    """
    project, release = normalized_name(name), normalized_version(version)
    purl = f"pkg:pypi/{project}@{quote(release, safe='')}"
    main: dict[str, object] = {"type": "library", "bom-ref": purl, "name": project, "version": release}
    main |= {"purl": purl, **_licences(licence)}
    ordered = sorted(parts, key=lambda part: (part.name, part.version or "", part.purl or "", part.files))
    components = [
        _component(part, f"bundled-{number}", digests or {}) for number, part in enumerate(ordered, start=1)
    ]
    refs = [str(component["bom-ref"]) for component in components]
    document: dict[str, object] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": main,
            "tools": {"components": [{"type": "application", "name": "rocwright", "version": __version__}]},
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": refs}, *({"ref": ref} for ref in refs)],
    }
    # A bill needs a number of its own; derived from what it says, equal bills have equal numbers.
    digest = hashlib.sha256(_render(document)).hexdigest()
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}"
    return _render(document)


def _is_code(path: str) -> bool:
    return library_name(path) is not None or path.endswith(SUFFIX)


def _component(part: Bundled, ref: str, digests: Mapping[str, str]) -> dict[str, object]:
    component: dict[str, object] = {"type": "library", "bom-ref": ref, "name": part.name}
    if part.version is not None:
        component["version"] = part.version
    component |= _licences(part.licence)
    if part.purl is not None:
        component["purl"] = part.purl
    if part.files:
        component["components"] = [_file(path, digests.get(path)) for path in sorted(part.files)]
    return component


def _file(path: str, digest: str | None) -> dict[str, object]:
    hashes = {"hashes": [{"alg": "SHA-256", "content": digest}]} if digest else {}
    return {"type": "file", "name": path, **hashes}


def _licences(expression: str | None) -> dict[str, object]:
    return {"licenses": [{"expression": expression}]} if expression else {}


def _render(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
