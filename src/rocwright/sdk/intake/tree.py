"""A ROCm as read: the files of one installed tree, wherever each lies, and those of single GPU targets."""

from __future__ import annotations

import filecmp
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import msgspec

from rocwright.binary.elf import Elf, is_loadable, read_elf
from rocwright.device_code import fatbin
from rocwright.device_code.host import MARKER_SECTION
from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.model.gpu import base_targets
from rocwright.sdk.links import follow
from rocwright.system.files import walk_files


class TreeFile(msgspec.Struct, frozen=True):
    """A regular file: where it lies, and the artifact (`<name>_<component>_<target>`) that it comes from."""

    place: Path
    facts: os.stat_result
    artifact: str | None = None

    @property
    def executable(self) -> bool:
        """Whether the file may be run."""
        return bool(self.facts.st_mode & 0o111)


class Link(msgspec.Struct, frozen=True):
    """A symbolic link.

    `target` is the file or directory it finally leads to, relative to the root; `kind` is `file`,
    `directory`, or `dangling` for one that leads nowhere or out of the tree.
    """

    text: str
    target: str
    kind: str


class Layer(msgspec.Struct, frozen=True):
    """Files and links of a tree, by path from its root, with forward slashes; ELF facts of the files."""

    files: Mapping[str, TreeFile]
    links: Mapping[str, Link]
    elves: Mapping[str, Elf]

    def code(self, path: str) -> frozenset[str]:
        """Full targets that the file holds device code for."""
        elf = self.elves.get(path)
        if elf is None or ".hip_fatbin" not in elf.sections:
            return frozenset()
        return fatbin.targets(self.files[path].place)

    def is_split(self, path: str) -> bool:
        """Whether the file's device code lies in archives beside it."""
        elf = self.elves.get(path)
        return elf is not None and MARKER_SECTION in elf.sections


class RocmTree(msgspec.Struct, frozen=True):
    """A whole ROCm.

    `host` is what all GPUs share. `parts` are the files of one family (device code still in the libraries)
    or, with `split`, of one base target or group of targets. `owners` maps the paths of `host` to packages
    where artifacts decide; None where paths do. `left_out` says what was read and is in neither, and why.
    """

    root: Path
    version: str
    host: Layer
    parts: Mapping[str, Layer]
    split: bool
    owners: Mapping[str, str] | None
    code: Mapping[str, frozenset[str]]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def windows(self) -> bool:
        """Whether this is a ROCm for Windows."""
        return is_windows(self.host.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        layers = (self.host, *self.parts.values())
        return sum(file.facts.st_size for layer in layers for file in layer.files.values())

    @property
    def targets(self) -> tuple[str, ...]:
        """Base targets that a library of the host layer holds device code for."""
        return base_targets({target for ids in self.code.values() for target in ids})


def is_windows(paths: Mapping[str, object]) -> bool:
    """Whether a tree holds HIP's runtime for Windows."""
    return any(re.fullmatch(r"bin/amdhip64\w*\.dll", path, re.IGNORECASE) for path in paths)


class GatheredTree(msgspec.Struct):
    """Files and links found so far, each path with what it comes from."""

    files: dict[str, TreeFile]
    links: dict[str, str]

    @classmethod
    def empty(cls) -> GatheredTree:
        """Nothing yet."""
        return cls({}, {})

    def add(self, root: Path, artifact: str | None = None) -> None:
        """Add everything below `root`.

        Raises `InvalidPrefix` for what cannot be read, is neither file, link nor directory, has a name that
        is no text, or stands where something else stands already.
        """
        for entry in _entries(root):
            self.put(entry, entry.relative_to(root).as_posix(), artifact)

    def put(self, entry: Path, path: str, artifact: str | None) -> None:
        """Add one entry as `path`; raises as `add`."""
        if not path.isprintable():
            raise InvalidPrefix(
                f"the file name {path!r} is not text", where=ascii(str(entry)), next_step="rename the file"
            )
        facts = entry.lstat()
        if stat.S_ISLNK(facts.st_mode):
            text = str(entry.readlink())
            if path in self.files or self.links.get(path, text) != text:
                raise self._twice(path, entry)
            self.links[path] = text
        elif stat.S_ISREG(facts.st_mode):
            if not os.access(entry, os.R_OK):
                raise InvalidPrefix(f"{path} cannot be read", where=entry, next_step="make it readable")
            present = self.files.get(path)
            if path in self.links or (
                present is not None and not filecmp.cmp(present.place, entry, shallow=False)
            ):
                raise self._twice(path, entry)
            self.files.setdefault(path, TreeFile(entry, facts, artifact))
        else:
            raise InvalidPrefix(f"{path} is neither file, link nor directory", where=entry)

    @property
    def directories(self) -> frozenset[str]:
        """The directories that hold anything."""
        paths = (*self.files, *self.links)
        return frozenset(str(parent) for path in paths for parent in PurePosixPath(path).parents)

    def _twice(self, path: str, entry: Path) -> InvalidPrefix:
        present = self.files.get(path)
        other = f"{present.place}" if present else f"a link to {self.links[path]}"
        return InvalidPrefix(
            f"{path} is there twice and differs: {entry} and {other}",
            where=entry,
            next_step="remove one of the two; an installed ROCm can hold only one",
        )

    def layer(self, beside: Mapping[str, object] = MappingProxyType({})) -> Layer:
        """The layer: links followed, ELF headers read. Links may lead to files of layers `beside` it.

        Raises `InvalidPrefix` for a file that is also a directory.
        """
        directories = self.directories
        for path in (*self.files, *self.links):
            if path in directories:
                raise InvalidPrefix(
                    f"{path} is a directory and also a file or link",
                    where=self.files[path].place if path in self.files else None,
                    next_step="remove one of the two; an installed ROCm can hold only one",
                )
        files = {**beside, **self.files}
        links = {path: _resolve(path, files, directories, self.links) for path in self.links}
        elves = {path: read_elf(file.place) for path, file in self.files.items() if is_loadable(file.place)}
        return Layer(self.files, links, elves)


_LIBRARY = re.compile(r".*\.so(\.[0-9]+)*")
_ELF = b"\x7fELF"
_SCRIPT_WORDS = (b"GROUP", b"INPUT", b"OUTPUT_FORMAT", b"/*")


def is_linker_script(path: str, place: Path) -> bool:
    """Whether a file that is called like a shared library is a text that only the linker reads.

    Raises `InvalidPrefix` for one that is neither that nor an ELF file.
    """
    if not _LIBRARY.fullmatch(path):
        return False
    with place.open("rb") as stream:
        head = stream.read(64)
    if head.startswith(_ELF):
        return False  # of another machine perhaps; shipped as it is
    if head.lstrip().startswith(_SCRIPT_WORDS):
        return True
    raise InvalidPrefix(
        f"{path} is named like a shared library, but is neither an ELF file nor a linker script",
        where=place,
        next_step="it is damaged, or a link that was unpacked as text; install that part of ROCm again",
    )


@contextmanager
def readable(root: Path) -> Iterator[None]:
    """Turn what the system says about files below `root` into `InvalidPrefix` that names the file."""
    try:
        yield
    except OSError as error:
        where = error.filename or root
        raise InvalidPrefix(
            f"cannot read {where}: {error.strerror or error}",
            where=str(where),
            next_step="make it readable, and let nothing change the files meanwhile",
        ) from error


def same_content(one: TreeFile, other: TreeFile) -> bool:
    """Whether two files hold the same bytes."""
    return filecmp.cmp(one.place, other.place, shallow=False)


def _entries(root: Path) -> Iterator[Path]:
    try:
        yield from walk_files(root)
    except InvalidInput as error:
        raise InvalidPrefix(error.what, where=error.where, next_step=error.next_step) from error


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


def device_code(layer: Layer) -> dict[str, frozenset[str]]:
    """The files of a layer that hold device code, with their full targets; only headers are read."""
    found = {path: layer.code(path) for path in layer.elves}
    return {path: code for path, code in found.items() if code}


def rocm_version(files: Mapping[str, TreeFile]) -> str | None:
    """What a tree says of its version: `.info/version`, else `hip_version.h`; None when it says nothing."""
    info = files.get(".info/version")
    if info is not None:
        # Some installations append a build number: 6.4.1-83.
        said = info.place.read_text(encoding="utf-8", errors="replace").split("-", 1)[0].strip()
        if said:
            return said
    header = files.get("include/hip/hip_version.h")
    if header is None:
        return None
    text = header.place.read_text(encoding="utf-8", errors="replace")
    numbers = [re.search(rf"#define HIP_VERSION_{part} +(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(number.group(1) for number in numbers if number) if all(numbers) else None
