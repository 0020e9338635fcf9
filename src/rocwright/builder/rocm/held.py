"""What a build's own environment was made for and holds, as it is written down in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from rocwright.system import files
from rocwright.system.remote import without_login
from rocwright.system.venv import Closed, local_path, package_directories

_STAMP = "rocwright-rocm.json"
_PACKAGE_FILES = ("*.whl", "*.tar.gz", "*.zip")


class PackageRequest(msgspec.Struct, frozen=True):
    """What decides which packages an environment gets; addresses without logins."""

    spec: str
    extras: tuple[str, ...]
    pre: bool
    index_url: str
    find_links: tuple[str, ...]
    python: str
    family: str = ""


class Held(msgspec.Struct, frozen=True):
    """What an environment was made for and holds.

    `packages` maps each project to its version and the sha256 of its file (empty where unknown), `installed`
    to the version in the name of its directory; `local` says how ROCm's files lay in the directories among
    the places.
    """

    asked: PackageRequest
    version: str
    packages: dict[str, tuple[str, str]]
    installed: dict[str, str]
    local: tuple[str, ...]


def asked_for(places: Closed, spec: str, extras: Sequence[str], pre: bool, python: Path) -> PackageRequest:
    """What the options ask for."""
    return PackageRequest(
        spec=str(SpecifierSet(spec)),
        extras=tuple(sorted(extras)),
        pre=pre,
        index_url=without_login(places.index_url or ""),
        find_links=tuple(without_login(place) for place in places.find_links),
        # Of another Python, site-packages would lie elsewhere.
        python=str(python.resolve()),
        # The rocm source package chooses its libraries by it.
        family=os.environ.get("ROCM_SDK_TARGET_FAMILY", ""),
    )


class _Archive(msgspec.Struct, frozen=True):
    hashes: dict[str, str] = {}


class _Download(msgspec.Struct, frozen=True):
    archive_info: _Archive = _Archive()


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    version: str


class _Item(msgspec.Struct, frozen=True):
    metadata: _Metadata
    download_info: _Download = _Download()


class _Report(msgspec.Struct, frozen=True):
    """What is needed of pip's installation report."""

    install: tuple[_Item, ...]


def read_report(path: Path) -> dict[str, tuple[str, str]]:
    """Project to version and sha256 of what pip installed, or would install."""
    report = msgspec.json.decode(path.read_bytes(), type=_Report)
    return {
        canonicalize_name(item.metadata.name): (
            item.metadata.version,
            item.download_info.archive_info.hashes.get("sha256", ""),
        )
        for item in report.install
    }


def read_held(root: Path) -> Held | None:
    """What an environment holds; None where none was finished."""
    try:
        return msgspec.json.decode((root / _STAMP).read_bytes(), type=Held)
    except (OSError, msgspec.DecodeError):
        return None


def write_held(root: Path, held: Held) -> None:
    """Write it down; the last step of making an environment."""
    files.write_text(root / _STAMP, msgspec.json.format(msgspec.json.encode(held), indent=1).decode())


def local_state(places: Closed) -> tuple[str, ...]:
    """How ROCm's files lie in the directories among the places: name, size, time; sorted."""
    lines: set[str] = set()
    for place in places.find_links:
        path = local_path(place)
        if path is None:
            continue
        found = [path] if path.is_file() else [p for glob in _PACKAGE_FILES for p in path.glob(f"rocm{glob}")]
        for file in found:
            facts = file.stat()
            lines.add(f"{file} {facts.st_size} {facts.st_mtime_ns}")
    return tuple(sorted(lines))


def distributions(root: Path) -> dict[str, str]:
    """Project to version of what is installed, by the names of the directories that say so."""
    found: dict[str, str] = {}
    for info in (info for site in package_directories(root) for info in site.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        found[canonicalize_name(name)] = version
    return found
