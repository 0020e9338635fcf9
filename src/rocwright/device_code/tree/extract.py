"""Take code objects out of files, archives and wheels; every file that is written lies in one directory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import msgspec

from rocwright.binary.elf import MAGIC as ELF_MAGIC
from rocwright.binary.elf import read_elf
from rocwright.binary.view import Mapped
from rocwright.device_code.fatbin import device_code, scan_bundles
from rocwright.device_code.kpack import code_object, read_archive
from rocwright.device_code.origin import unlike_beside
from rocwright.device_code.source import Given, find_sources, not_beside
from rocwright.device_code.tree.code import FAT, Code, DeviceFile, archived, fat_range, kernel_of, look
from rocwright.device_code.tree.names import printable
from rocwright.errors import InvalidInput
from rocwright.system.files import atomic_write

_UNSAFE = re.compile(r"[^0-9A-Za-z.+:@=#-]")
_LONGEST = 180  # bytes; file systems take 255, and a partial file's name is longer


class Extracted(msgspec.Struct, frozen=True):
    """A code object that was written to `path`; `source` is the file it came from."""

    path: Path
    source: str
    kernel: str
    index: int | None
    target: str
    size: int


class Extraction(msgspec.Struct, frozen=True):
    """What was written, and the split files whose archives were not found.

    `unlike` says of each archive that is not the one that a file beside it names, why.
    """

    written: tuple[Extracted, ...]
    absent: tuple[str, ...]
    unlike: tuple[str, ...] = ()


def extract(
    paths: Iterable[Path],
    dest: Path,
    *,
    targets: frozenset[str] | None = None,
    compare: bool = False,
) -> Extraction:
    """Write each code object in files, directories and wheels to `dest` as `KERNEL#INDEX-TARGET.hsaco`.

    The archives of a split file are followed; each of their objects is written once. `targets` limits it to
    those, spelled in full; `compare` fills `unlike` for the archives that code was taken of. In a name `/`
    becomes `__`, other unusual characters `_`; what would collide gets `~2`, `~3`. Stops at the first damaged
    file: raises `InvalidInput` and its children, also where no file with device code is at hand.
    """
    paths = list(paths)
    names = _Names()
    written = []
    with ExitStack() as stack:
        walk = _Walk(stack)
        for source, code, data in walk.contents(paths):
            if targets is not None and code.target not in targets:
                continue
            path = dest / names.new(code)
            with atomic_write(path) as stream:
                stream.write(data)
            written.append(Extracted(path, source, code.kernel, code.index, code.target, code.size))
        used = {one.source for one in written} if compare else set()
        archives = [one for one in walk.archives.values() if one.name in used]
        unlike = tuple(f"{one.name}: {why}" for one in archives if (why := unlike_beside(one)))
    if not walk.read:
        raise _nothing(paths, walk.absent)
    return Extraction(tuple(written), tuple(walk.absent), unlike)


class _Names:
    """File names that are safe and different, also where upper and lower case are the same."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def new(self, code: Code) -> str:
        index = f"at-{code.place:#x}" if code.index is None else code.index
        stem = safe(f"{code.kernel}#{index}-{code.target}")
        name, number = stem, 1
        while name.casefold() in self.taken:
            number += 1
            name = f"{stem}~{number}"
        self.taken.add(name.casefold())
        return f"{name}.hsaco"


def safe(text: str) -> str:
    """Text as one component of a path, short and never hidden; long text keeps a digest of the whole."""
    name = _UNSAFE.sub("_", text.replace("/", "__"))
    if name.startswith("."):
        name = f"_{name[1:]}"
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{name[: _LONGEST - 40]}~{digest}~{name[-20:]}"


class _Walk:
    """One way through all sources; no code object of an archive is met twice.

    `read` counts the fat files and archives that were read, `archives` are these, `absent` names split files
    without archives.
    """

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.read = 0
        self.absent: list[str] = []
        self.archives: dict[str, Given] = {}
        self.done: set[tuple[object, ...]] = set()

    def contents(self, paths: Iterable[Path]) -> Iterator[tuple[str, Code, bytes | memoryview]]:
        """Each code object with the name of the file that holds it, and its bytes."""
        for source in find_sources(paths, self.stack):
            looked = look(source, _unread)
            if looked is None:
                continue
            found, file, archives = looked
            if found.kind == FAT:
                self.read += 1
                yield from _fat(found, file)
            elif found.marker is None:
                yield from self._archived(source, None)
            elif not archives:
                self.absent.append(source.name)
            for archive in archives:
                yield from self._archived(archive, kernel_of(found))

    def _archived(self, source: Given, kernel: str | None) -> Iterator[tuple[str, Code, bytes]]:
        self.read += 1
        self.archives[source.key] = source
        archive = read_archive(source.open())
        for entry, code in zip(archive.entries, archived(archive), strict=True):
            mark = (source.key, code.kernel, code.index, code.target)
            if kernel in (None, code.kernel) and mark not in self.done:
                self.done.add(mark)
                yield source.name, code, code_object(archive, entry)


def _nothing(paths: list[Path], absent: list[str]) -> InvalidInput:
    if not absent:
        return InvalidInput(
            f"{' '.join(printable(path.name) for path in paths)}: no device code",
            next_step="name files that have some; `rocwright kpack list FILE` shows it",
        )
    return not_beside(absent[0])


def _unread(source: Given) -> tuple[Code, ...]:
    """Archives are opened when their turn comes."""
    return ()


def _fat(found: DeviceFile, file: Mapped) -> Iterator[tuple[str, Code, memoryview]]:
    span = (0, file.size)
    if file.read_at(0, len(ELF_MAGIC)) == ELF_MAGIC:
        span = fat_range(read_elf(file)) or span
    for bundle in scan_bundles(file, *span):
        objects = [data for _, data in device_code(file, bundle)]
        codes = [code for code in found.code if code.place == bundle.offset]
        # Each wrapper that leads to the bundle has all of its objects, in the bundle's order.
        for code, data in zip(codes, cycle(objects), strict=False):
            yield found.name, code, data
