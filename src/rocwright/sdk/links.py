"""How the files of a tree find each other: paths and symbolic links, followed by name as the kernel follows
them by place, and the RPATH of every ELF file.

An RPATH is inherited by whatever the file loads, so a directory is listed only when it holds something
the file needs by name, or when it is the library's own (libraries open their siblings by bare name:
HIP opens comgr so).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping

import msgspec

from rocwright.binary.elf import Elf

# Linux gives up after this many links on one path.
_MOST_LINKS = 40


def normalise(path: str, text: str) -> str | None:
    """The path, relative to the root, that the relative link `text` at `path` names; None outside the root.

    Links on the way are not followed; `follow` does that.
    """
    parts = path.split("/")[:-1]
    for piece in text.split("/"):
        if piece == "..":
            if not parts:
                return None
            parts.pop()
        elif piece not in ("", "."):
            parts.append(piece)
    return "/".join(parts)


def relative_link(path: str, target: str) -> str:
    """The link text at `path` that points to `target`, both relative to the same root."""
    here, there = path.split("/")[:-1], target.split("/")
    common = 0
    while common < min(len(here), len(there) - 1) and here[common] == there[common]:
        common += 1
    return "/".join([".."] * (len(here) - common) + there[common:])


def follow(path: str, links: Mapping[str, str], directories: Container[str]) -> str | None:
    """Where `path` leads once every link on it is followed.

    `links` maps paths to link texts, `directories` are the paths of real directories, which a path has to
    pass through. None for a circle, a way out of the root, or a way through something that is no directory;
    whether the end exists is not asked.
    """
    here: list[str] = []
    pending = deque(path.split("/"))
    budget = _MOST_LINKS
    while pending:
        piece = pending.popleft()
        if piece in ("", "."):
            continue
        if piece == "..":
            if not here:
                return None
            here.pop()
            continue
        text = links.get("/".join([*here, piece]))
        if text is None:
            here.append(piece)
            if pending and "/".join(here) not in directories:
                return None
            continue
        budget -= 1
        if text.startswith("/") or budget < 0:
            return None
        pending.extendleft(reversed(text.split("/")))
    return "/".join(here)


class Providers(msgspec.Struct, frozen=True):
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
