"""Gather which libraries the libraries of an environment need and nobody has; read from their headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rocwright.binary.elf import Elf, is_elf, read_elf
from rocwright.compat.doctor.facts import Environment, Machine, Need
from rocwright.errors import InvalidElf
from rocwright.model.platforms import Platforms

_SYSTEM = ("lib", "usr/lib", "lib64", "usr/lib64", "lib/*-linux-*", "usr/lib/*-linux-*", "usr/local/lib")


def unmet_needs(
    environment: Environment, machine: Machine, platforms: Platforms, root: Path = Path("/")
) -> tuple[Need, ...]:
    """Each library that is needed and is neither in the environment nor on the system, with who needs it.

    Where a library is looked for is not followed, only whether there is one of the name: what loads it may
    have loaded it before. A torch that is not for ROCm is no concern of ours: its libraries are in other
    packages.
    """
    if environment.torch is not None and not environment.torch.hip:
        return ()
    found = list(_headers(environment))
    have = {PurePosixPath(path).name for _, path, _ in found}
    have |= {elf.soname for _, _, elf in found if elf.soname}
    have |= {name for place in machine.places for name in place.libraries}
    have |= _names(Path(environment.prefix) / "lib")
    for pattern in _SYSTEM:
        for directory in root.glob(pattern):
            have |= _names(directory)
    first: dict[str, Need] = {}
    for distribution, path, elf in found:
        for name in elf.needed:
            if name not in have and not platforms.on_every(name):
                first.setdefault(name, Need(name, distribution, path))
    return tuple(first[name] for name in sorted(first))


def _headers(environment: Environment) -> Iterator[tuple[str, str, Elf]]:
    """Distribution, path and headers of each library; damaged ones are told of by RECORD."""
    for one in environment.family:
        for path in one.libraries:
            place = Path(one.directory, path)
            try:
                if is_elf(place):
                    yield one.name, path, read_elf(place)
            except (InvalidElf, OSError):
                continue


def _names(directory: Path) -> set[str]:
    try:
        return {entry.name for entry in directory.iterdir() if ".so" in entry.name}
    except OSError:
        return set()
