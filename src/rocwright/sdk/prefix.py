"""Read a ROCm prefix: every file and link, its ELF facts, its version, the targets it holds code for."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rocwright.binary import fatbin
from rocwright.binary.elf import Elf
from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.model.gpu import base_targets
from rocwright.sdk.links import follow
from rocwright.sdk.rpaths import read_elves
from rocwright.system.files import walk_files


@dataclass(frozen=True)
class Link:
    """A symbolic link of the prefix.

    `target` is the file or directory it finally leads to, relative to the root; `kind` is `file`,
    `directory`, or `dangling` for one that leads nowhere or out of the prefix.
    """

    text: str
    target: str
    kind: str


@dataclass(frozen=True)
class Prefix:
    """A ROCm installation as read. Paths are relative to `root`, with forward slashes."""

    root: Path
    version: str
    files: Mapping[str, os.stat_result]
    links: Mapping[str, Link]
    elves: Mapping[str, Elf]
    device_code: Mapping[str, frozenset[str]]

    @property
    def targets(self) -> tuple[str, ...]:
        """Base targets that any library holds device code for."""
        return base_targets({target for ids in self.device_code.values() for target in ids})

    def executable(self, path: str) -> bool:
        """Whether the file may be run."""
        return bool(self.files[path].st_mode & 0o111)


def read_prefix(root: Path, *, version: str | None = None) -> Prefix:
    """Read the installation at `root`; headers and names only, no file is read whole.

    `version` overrides what the prefix says of itself (`.info/version`, else `hip_version.h`). Raises
    `InvalidPrefix` for a directory that holds no HIP runtime, has no version, or cannot be read.
    """
    if not root.is_dir():
        raise InvalidPrefix(
            f"{root} is no directory", where=root, next_step="give the root of a ROCm installation"
        )
    root = root.resolve()
    files: dict[str, os.stat_result] = {}
    found: dict[str, str] = {}
    for entry in _entries(root):
        path = entry.relative_to(root).as_posix()
        if not path.isprintable():
            raise InvalidPrefix(
                f"the file name {path!r} is no text", where=ascii(str(entry)), next_step="rename the file"
            )
        facts = entry.lstat()
        if stat.S_ISLNK(facts.st_mode):
            found[path] = str(entry.readlink())
        elif stat.S_ISREG(facts.st_mode):
            files[path] = facts
            if not os.access(entry, os.R_OK):
                raise InvalidPrefix(f"{path} cannot be read", where=entry, next_step="make it readable")
        else:
            raise InvalidPrefix(f"{path} is neither file, link nor directory", where=entry)
    if not any(re.fullmatch(r"lib(64)?/(x86_64-linux-gnu/)?libamdhip64\.so.*", path) for path in files):
        raise InvalidPrefix(
            f"{root} is no ROCm installation: it has no lib/libamdhip64.so*",
            where=root,
            next_step="give the directory that holds bin/, include/ and lib/ of a ROCm, such as /opt/rocm",
        )
    elves = read_elves(root, files)
    directories = frozenset(str(parent) for path in (*files, *found) for parent in Path(path).parents)
    return Prefix(
        root=root,
        version=version or _version(root),
        files=files,
        links={path: _resolve(path, files, directories, found) for path in found},
        elves=elves,
        device_code={
            path: targets
            for path, elf in elves.items()
            if ".hip_fatbin" in elf.sections and (targets := fatbin.targets(root / path))
        },
    )


def _entries(root: Path) -> Iterator[Path]:
    try:
        yield from walk_files(root)
    except InvalidInput as error:
        raise InvalidPrefix(error.what, where=error.where, next_step=error.next_step) from error


def _version(root: Path) -> str:
    info = root / ".info" / "version"
    if info.exists():
        # Some installations append a build number: 6.4.1-83.
        said = info.read_text(encoding="utf-8", errors="replace").split("-", 1)[0].strip()
        if said:
            return said
    header = root / "include" / "hip" / "hip_version.h"
    if header.exists():
        text = header.read_text(encoding="utf-8", errors="replace")
        numbers = [
            re.search(rf"#define HIP_VERSION_{part} +(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")
        ]
        if all(numbers):
            return ".".join(number.group(1) for number in numbers if number is not None)
    raise InvalidPrefix(
        "the prefix does not say its version (.info/version, include/hip/hip_version.h)",
        where=root,
        next_step="give it with --version",
    )


def _resolve(
    path: str, files: Mapping[str, object], directories: frozenset[str], links: Mapping[str, str]
) -> Link:
    """What a link of the tree leads to; absolute links and those that leave the tree count as dangling."""
    target = follow(path, links, directories)
    if target is not None and target in files:
        return Link(links[path], target, "file")
    if target is not None and target in directories:
        return Link(links[path], target, "directory")
    return Link(links[path], "", "dangling")
