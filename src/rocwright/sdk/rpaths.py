"""Decide the RPATH of every ELF file of a tree: what it needs, from where the tree has it, nothing more.

An RPATH is inherited by whatever the file loads, so a directory is listed only when it holds something
the file needs by name, or when it is the library's own (libraries open their siblings by bare name:
HIP opens comgr so).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rocwright.binary.elf import Elf
from rocwright.sdk.links import normalise, relative_link


@dataclass(frozen=True)
class Providers:
    """Where each SONAME of a tree lives: SONAME to the directory (relative to the common root)."""

    directories: Mapping[str, str]
    known: frozenset[str]

    @classmethod
    def of(cls, places: Iterable[tuple[str, str]]) -> Providers:
        """Build from `(path below the common root, SONAME)` pairs; the first of equal names wins."""
        directories: dict[str, str] = {}
        for path, soname in places:
            directories.setdefault(soname, _directory(path))
        return cls(directories, frozenset(directories.values()))


def rpath_entries(path: str, elf: Elf, providers: Providers, *, also: Iterable[str] = ()) -> tuple[str, ...]:
    """`$ORIGIN`-relative entries for the file at `path` (below the root that `providers` speaks of).

    Order: the library's own directory, directories that provide what it needs, `also`, then those of its
    present relative entries that lead to a directory of the tree. Absolute entries are dropped.
    """
    here = _directory(path)
    wanted: list[str] = []
    if elf.soname is not None:
        wanted.append(here)
    wanted += [providers.directories[name] for name in elf.needed if name in providers.directories]
    wanted += also
    for text in filter(None, (elf.rpath, elf.runpath)):
        for entry in text.split(":"):
            if entry == "$ORIGIN" or entry.startswith("$ORIGIN/"):
                named = normalise(path, entry.removeprefix("$ORIGIN").lstrip("/"))
                wanted += [] if named is None else [named]
    kept = dict.fromkeys(place for place in wanted if place in providers.known or place == here)
    return tuple(_origin(here, directory) for directory in kept)


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _origin(here: str, directory: str) -> str:
    if here == directory:
        return "$ORIGIN"
    return "$ORIGIN/" + relative_link(f"{here}/x", f"{directory}/x").removesuffix("/x")
