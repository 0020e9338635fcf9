"""ROCm's packages that a build installs first: how much of the disk they take, as far as that can be seen."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from rocwright.builder.before.tree import Place, look_at_place
from rocwright.builder.rocm.place import RocmPlace
from rocwright.system.venv import local_path, package_directories


class Unpacking(msgspec.Struct, frozen=True):
    """Where ROCm's packages go, and the bytes of their files; 0 for those that only an index has."""

    place: Place
    files: int


def look_at_packages(rocm: RocmPlace, into: Path) -> Unpacking | None:
    """What is to be unpacked into the environment `into`; None where that has ROCm's packages already.

    Of several versions the newest counts, of device packages and others that are installed on request those
    that the extras name.
    """
    if any((site / "rocm_sdk").exists() for site in package_directories(into)):
        return None
    newest: dict[str, tuple[Version, int]] = {}
    for place in rocm.places.find_links:
        directory = local_path(place)
        for path in directory.glob("rocm*") if directory is not None else ():
            named = _named(path.name)
            if named is not None and _is_wanted(named[0], rocm.extras):
                name, version = named
                newest[name] = max(newest.get(name, (version, 0)), (version, path.stat().st_size))
    return Unpacking(look_at_place(into), sum(size for _, size in newest.values()))


def _named(file: str) -> tuple[str, Version] | None:
    try:
        if file.endswith(".whl"):
            return parse_wheel_filename(file)[:2]
        return parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def _is_wanted(name: str, extras: tuple[str, ...]) -> bool:
    asked = re.fullmatch(r"rocm-sdk-(device-.+|profiler.*)", name)
    if asked is None:
        return True
    return asked[1] in extras or (asked[1].startswith("device-") and "device-all" in extras)
