"""A flat page of the packages in folders, for `pip install --find-links <the page>`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rocwright.errors import InvalidInput
from rocwright.model.manifest import FileEntry
from rocwright.store.index.listed import ListedFile, flat_page
from rocwright.store.pool import describe_files, is_distribution
from rocwright.system.files import PARTIAL, sha256_file, walk_files, write_text

PAGE = "index.html"


@dataclass(frozen=True)
class FolderPage:
    """A page: where it lies, what it lists, and files that match but are no packages."""

    path: Path
    files: tuple[FileEntry, ...]
    ignored: tuple[Path, ...]
    text: str


def folder_page(
    folders: Sequence[Path], patterns: Sequence[str], output: Path | None, *, recursive: bool = False
) -> FolderPage:
    """The page of all packages in the folders whose names match a pattern (any name, without patterns).

    It goes to `output`, by default `index.html` of the first folder, and links relative to its place. A
    package that lies in several folders with the same bytes is listed once. Raises `InvalidInput` for a
    folder without packages, for one name with different bytes, and `InvalidWheel` for damaged files.
    """
    path = _place(folders, output)
    found, ignored = _matching(folders, patterns, recursive=recursive)
    once = _distinct(found)
    if not once:
        raise InvalidInput(
            f"there is no wheel or sdist in {', '.join(map(str, folders))}"
            + (f" that matches {' '.join(patterns)}" if patterns else ""),
            next_step="build packages first, or give the folder that holds them",
        )
    entries = describe_files(once.values())
    listed = [ListedFile(_served(entry, once[entry.name]), _way(path, once[entry.name])) for entry in entries]
    title = folders[0].resolve().name
    return FolderPage(path, entries, ignored, flat_page(listed, title=title, base=""))


def write_folder_page(page: FolderPage) -> None:
    """Write it, whole or not at all."""
    write_text(page.path, page.text)


def _place(folders: Sequence[Path], output: Path | None) -> Path:
    for folder in folders:
        if not folder.is_dir():
            raise InvalidInput(f"{folder} is no directory", where=folder, next_step="give one with packages")
    if output is None:
        return folders[0] / PAGE
    # A name alone is one in the folder, whatever the current directory.
    return folders[0] / output if output.name == str(output) else output


def _matching(
    folders: Iterable[Path], patterns: Sequence[str], *, recursive: bool
) -> tuple[list[Path], tuple[Path, ...]]:
    found: list[Path] = []
    ignored: list[Path] = []
    for folder in folders:
        for path in walk_files(folder) if recursive else sorted(folder.iterdir()):
            if not path.is_file() or path.name.endswith(PARTIAL):
                continue
            if patterns and not any(fnmatchcase(path.name, pattern) for pattern in patterns):
                continue
            (found if is_distribution(path) else ignored).append(path)
    return found, tuple(ignored)


def _distinct(paths: Iterable[Path]) -> dict[str, Path]:
    once: dict[str, Path] = {}
    for path in paths:
        known = once.setdefault(path.name, path)
        if known != path and sha256_file(known) != sha256_file(path):
            raise InvalidInput(
                f"{path.name} is there twice, with different bytes: in {known.parent} and {path.parent}",
                where=path,
                next_step="keep one of them; which one an installer takes is chance",
            )
    return once


def _served(entry: FileEntry, path: Path) -> FileEntry:
    """The entry with the digest of its METADATA only where the sidecar lies there: clients ask for it."""
    sidecar = path.with_name(path.name + ".metadata")
    if entry.metadata_sha256 is not None and sidecar.is_file():
        digest = sha256_file(sidecar)
        if digest == entry.metadata_sha256:
            return entry
    return FileEntry(
        entry.name, entry.sha256, entry.size, entry.project, entry.version, entry.requires_python
    )


def _way(page: Path, file: Path) -> str:
    return Path(os.path.relpath(file.absolute(), page.absolute().parent)).as_posix()
