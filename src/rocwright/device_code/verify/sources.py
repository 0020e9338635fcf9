"""The files that verifying looks at, by where they are installed, wherever they lie now.

A split tree consists of parts: one for the host and one for each target, laid over each other when they are
installed. A part is a directory or a wheel; rules see one tree of sources.
"""

from __future__ import annotations

import functools
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from rocwright.binary.elf import read_elf
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.kpack import SUFFIX, Marker, parse_marker
from rocwright.device_code.source import Source, archives_on_disk, on_disk
from rocwright.device_code.tree.names import GENERIC, MANIFEST, tables
from rocwright.device_code.verify.report import FindingLog
from rocwright.errors import InvalidInput
from rocwright.model.gpu import is_target
from rocwright.system.files import walk_files


class Tree(msgspec.Struct, frozen=True):
    """Sources that are installed together.

    `parts` says that host and targets are apart, so each file must be in the right one; `whole` that every
    library of the archives is there to be seen; `merged` that it may be for some of the targets only.
    """

    sources: tuple[Source, ...]
    parts: bool = False
    whole: bool = False
    merged: bool = False


def file_tree(paths: Iterable[Path]) -> Tree:
    """Libraries and archives given one by one; a library brings the archives that its marker leads to."""
    files: dict[str, Source] = {}
    for path in paths:
        real = path.resolve()
        files.setdefault(str(real), on_disk(real, path.name, real.as_posix()))
        # What is wrong with a library is reported when it is checked.
        with suppress(InvalidInput):
            marker = marker_of(real)
            for found in archives_on_disk(real, marker) if marker else ():
                files.setdefault(found, on_disk(Path(found), posixpath.basename(found), found))
    return Tree(tuple(files.values()))


def marker_of(path: Path) -> Marker | None:
    """The marker of a library on disk; raises `InvalidInput` for one that is damaged."""
    if path.name.endswith(SUFFIX):
        return None
    elf = read_elf(path)
    section = elf.sections.get(MARKER_SECTION)
    return parse_marker(elf.source.read_at(section.offset, section.size)) if section else None


def directory_trees(paths: Iterable[Path], log: FindingLog) -> Iterator[Tree]:
    """Trees in these directories: parts that lie beside each other, or were given together, make one."""
    parts: list[tuple[Path, str | None]] = []
    alone: list[Path] = []
    for path in paths:
        inside = _parts_inside(path, log)
        name = path.resolve().name
        own = _part_name(name)
        if inside:
            parts += inside
        elif own is not None and (name in (own, f"_{own}") or own == GENERIC or (path / MANIFEST).is_file()):
            parts.append((path, None if own == GENERIC else own))
        else:
            alone.append(path)
    # Directories that merely are called after a target are parts only where a host part is.
    host = any(part is None for _, part in parts)
    for path in alone:
        own = _part_name(path.resolve().name) if host else None
        if own is None:
            yield Tree(tuple(_walk(path, None)), whole=True)
        else:
            parts.append((path, own))
    if parts:
        sources = tuple(source for path, part in parts for source in _walk(path, part))
        yield Tree(sources, parts=True, whole=host)


def _part_name(name: str) -> str | None:
    """`generic`, a target or a group, as a directory's name or at the end of an artifact's name."""
    tails = _tails(name, "_")
    return next((tail for tail in tails if tail == GENERIC or is_target(tail) or tail in _groups()), None)


def device_part(project: str) -> str | None:
    """The target or group at the end of a device wheel's canonical name; None for another project."""
    groups = {str(canonicalize_name(group)) for group in _groups()}
    tails = _tails(project, "-")[1:]
    return next((tail for tail in tails if is_target(tail) or tail in groups), None)


def _tails(text: str, separator: str) -> list[str]:
    words = text.split(separator)
    return [separator.join(words[at:]) for at in range(len(words))]


@functools.cache
def _groups() -> frozenset[str]:
    """Names of groups of targets: those that the table of device files gives, and wildcards for the rest."""
    known = tables()
    wildcards = {target[:-size] + "x" * size for target in known.targets for size in (1, 2)}
    names = known.device_files.group_names
    return frozenset(wildcards) | set(names) | set(names.values())


def _parts_inside(path: Path, log: FindingLog) -> list[tuple[Path, str | None]]:
    """Parts that lie beside each other in a directory; artifacts that were not split are all for the host."""
    folders = sorted(item for item in path.iterdir() if item.is_dir() and not item.is_symlink())
    names = {folder: _part_name(folder.name) for folder in folders}
    if GENERIC not in names.values():
        return [(folder, None) for folder in folders if (folder / MANIFEST).is_file()]
    found: list[tuple[Path, str | None]] = []
    for folder, name in names.items():
        if name is not None:
            found.append((folder, None if name == GENERIC else name))
        else:
            log.add(
                "kpack-layout", folder.name, "it lies beside a part for the host and belongs to no target"
            )
    return found


def _walk(root: Path, part: str | None) -> Iterator[Source]:
    prefixes = _prefixes(root)
    base = root.resolve().name
    for path in walk_files(root):
        relative = path.relative_to(root).as_posix()
        if relative == MANIFEST:
            continue
        prefix = next((text for text in prefixes if relative.startswith(f"{text}/")), None)
        installed = relative if prefix is None else relative[len(prefix) + 1 :]
        if path.is_symlink() or path.is_file():
            yield on_disk(path, f"{base}/{relative}", installed, part=part, owner=base)


def _prefixes(root: Path) -> list[str]:
    """The prefixes of an artifact directory, the longest first: what is below them is installed."""
    manifest = root / MANIFEST
    if not manifest.is_file():
        return []
    lines = os.fsdecode(manifest.read_bytes()).splitlines()
    return sorted((line.strip().strip("/") for line in lines if line.strip()), key=len, reverse=True)
