"""Look at device code where it is: in fat files, in split ones, in archives; list it, and take it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rocwright.binary import elf as fmt
from rocwright.binary import fatbin
from rocwright.binary.elf import Elf, read_elf
from rocwright.binary.fatbin import Bundle, device_code, scan_bundles
from rocwright.binary.host import MARKER_SECTION
from rocwright.binary.kpack import MAGIC, SUFFIX, Marker, code_object, parse_marker, read_archive
from rocwright.binary.unpack import RAW_MAGIC
from rocwright.binary.view import Mapped, mapped
from rocwright.binary.wrappers import FAT_MAGIC, SPLIT_MAGIC, Unsplittable, read_wrappers
from rocwright.errors import InvalidInput
from rocwright.system.files import atomic_write, walk_files

FAT, SPLIT, ARCHIVE = "fat", "split", "archive"
_PLACEHOLDER = "@GFXARCH@"


@dataclass(frozen=True)
class Code:
    """One code object: `kernel` and `index` as an archive names it, `size` in bytes, `place` the file offset
    of its bundle or frame."""

    kernel: str
    index: int
    target: str
    size: int
    place: int
    form: str


@dataclass(frozen=True)
class DeviceFile:
    """A file with device code, or with a marker that leads to it.

    `kind` is `fat`, `split` or `archive`. `wrappers` counts registrations; `marker` and `archives` (those
    that exist beside the file) are set for a split file.
    """

    path: Path
    kind: str
    size: int
    wrappers: int
    code: tuple[Code, ...]
    marker: Marker | None = None
    archives: tuple[Path, ...] = ()

    @property
    def targets(self) -> dict[str, tuple[int, int]]:
        """Target → number of code objects and their bytes, sorted by target."""
        count: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for code in self.code:
            count[code.target] += 1
            size[code.target] += code.size
        return {target: (count[target], size[target]) for target in sorted(count)}


def list_device_code(path: Path) -> list[DeviceFile]:
    """What a file, or every file below a directory, has of device code; links are not followed.

    Raises `InvalidInput` and its children, naming the file that is damaged.
    """
    if path.is_dir():
        files = (file for file in walk_files(path) if file.is_file() and not file.is_symlink())
        return [found for file in files if (found := describe(file)) is not None]
    found = describe(path)
    return [] if found is None else [found]


def describe(path: Path) -> DeviceFile | None:
    """What one file has of device code, None for nothing."""
    with mapped(path) as file:
        head = file.read_at(0, len(RAW_MAGIC))
        if head[: len(MAGIC)] == MAGIC:
            return _archive(file)
        if head[: len(fmt.MAGIC)] == fmt.MAGIC:
            return _linked(file)
        if head.startswith((RAW_MAGIC, fatbin.PACKED_MAGIC)):
            bundles = scan_bundles(file, 0, file.size)
            return DeviceFile(path, FAT, file.size, 0, tuple(_bundled(file, enumerate(bundles))))
    return None


def extract(path: Path, dest: Path, *, targets: frozenset[str] | None = None) -> list[Path]:
    """Write each code object of a file to `dest` as `KERNEL#INDEX-TARGET.hsaco`; returns the paths.

    For a split file the archives beside it are followed. `targets` limits it to those, spelled in full.
    """
    found = describe(path)
    if found is None:
        raise InvalidInput(f"{path.name} has no device code", where=path)
    written = []
    for code, data in _contents(found):
        if targets is None or code.target in targets:
            name = f"{code.kernel.replace('/', '__')}#{code.index}-{code.target}.hsaco"
            with atomic_write(dest / name) as stream:
                stream.write(data)
            written.append(dest / name)
    return written


def _archive(file: Mapped) -> DeviceFile:
    archive = read_archive(file)
    code = tuple(
        Code(e.kernel, e.index, e.target, e.size, archive.blobs[e.ordinal][0], archive.scheme)
        for e in archive.entries
    )
    return DeviceFile(file.path, ARCHIVE, file.size, len({(c.kernel, c.index) for c in code}), code)


def _linked(file: Mapped) -> DeviceFile | None:
    elf = read_elf(file)
    section = elf.sections.get(fatbin.SECTION)
    marked = MARKER_SECTION in elf.sections
    if not marked and (section is None or section.size == 0 or section.type == fmt.SHT_NOBITS):
        return None
    try:
        wrappers = read_wrappers(elf, file)
    except Unsplittable as reason:
        raise InvalidInput(f"{file.path.name}: {reason}", where=file.path) from reason
    if marked:
        return _split(elf, file, sum(1 for w in wrappers if w.magic == SPLIT_MAGIC))
    assert section is not None  # one of the two is there
    bundles = scan_bundles(file, section.offset, section.offset + section.size)
    numbers = {w.pointer - section.addr + section.offset: w.index for w in wrappers if w.magic == FAT_MAGIC}
    numbered = ((numbers.get(bundle.offset, -1), bundle) for bundle in bundles)
    return DeviceFile(file.path, FAT, file.size, len(wrappers), tuple(_bundled(file, numbered)))


def _bundled(file: Mapped, bundles: Iterable[tuple[int, Bundle]]) -> Iterator[Code]:
    for index, bundle in bundles:
        form = "compressed" if bundle.compressed else "raw"
        for entry in bundle.entries:
            if entry.target:
                yield Code(file.path.name, index, entry.target, entry.size, bundle.offset, form)


def _split(elf: Elf, file: Mapped, wrappers: int) -> DeviceFile:
    section = elf.sections[MARKER_SECTION]
    marker = parse_marker(file.read_at(section.offset, section.size))
    archives = tuple(dict.fromkeys(a for path in marker.search_paths for a in _beside(file.path, path)))
    code = []
    for path in archives:
        with mapped(path) as archive:
            code += [c for c in _archive(archive).code if c.kernel == marker.kernel]
    return DeviceFile(file.path, SPLIT, file.size, wrappers, tuple(code), marker, archives)


def _beside(path: Path, search: str) -> list[Path]:
    """The archives that a search path can mean, as they exist beside the file."""
    pattern = path.parent / search
    head, found, tail = pattern.name.partition(_PLACEHOLDER)
    if not found:
        return [pattern] if pattern.is_file() else []
    if not pattern.parent.is_dir():
        return []
    return sorted(
        p for p in pattern.parent.iterdir() if p.name.startswith(head) and p.name.endswith(tail or SUFFIX)
    )


def _contents(found: DeviceFile) -> Iterator[tuple[Code, bytes]]:
    if found.kind == FAT:
        yield from _fat_contents(found)
        return
    kernel = found.marker.kernel if found.marker else None
    for path in found.archives or (found.path,):
        with mapped(path) as file:
            archive = read_archive(file)
            for entry in archive.entries:
                if kernel in (None, entry.kernel):
                    place = archive.blobs[entry.ordinal][0]
                    code = Code(entry.kernel, entry.index, entry.target, entry.size, place, archive.scheme)
                    yield code, code_object(archive, entry)


def _fat_contents(found: DeviceFile) -> Iterator[tuple[Code, bytes]]:
    with mapped(found.path) as file:
        wanted = {(code.place, code.target): code for code in found.code}
        for bundle in scan_bundles(file, *_fat_range(file)):
            for entry, data in device_code(file, bundle):
                yield wanted[bundle.offset, entry.target], bytes(data)


def _fat_range(file: Mapped) -> tuple[int, int]:
    if file.read_at(0, len(fmt.MAGIC)) != fmt.MAGIC:
        return 0, file.size
    section = read_elf(file).sections[fatbin.SECTION]
    return section.offset, section.offset + section.size
