"""Look at device code where it is: in fat files, in split ones, in archives, also in wheels; and list it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, read_elf
from rocwright.binary.view import Mapped
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import Bundle, scan_bundles
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.kpack import MAGIC, SUFFIX, Archive, Marker, read_archive, read_marker
from rocwright.device_code.source import Given, find_sources
from rocwright.device_code.unpack import RAW_MAGIC
from rocwright.device_code.wrappers import FAT_MAGIC, SPLIT_MAGIC, Unsplittable, Wrapper, read_wrappers
from rocwright.errors import InvalidArchive, InvalidElf, InvalidInput

FAT, SPLIT, ARCHIVE = "fat", "split", "archive"
# Names of sections, bundles, and wrappers with their version.
_TRACES = (
    fatbin.SECTION.encode(),
    MARKER_SECTION.encode(),
    RAW_MAGIC,
    *(fatbin.PACKED_MAGIC + bytes([version, 0]) for version in (1, 2, 3)),
    *(magic.to_bytes(4, "little") + b"\1\0\0\0" for magic in (FAT_MAGIC, SPLIT_MAGIC)),
)


class Code(msgspec.Struct, frozen=True):
    """One code object: `kernel` and `index` as an archive names it, `size` in bytes.

    `index` is None where no wrapper is known to lead there; `place` is the file offset of bundle or frame.
    """

    kernel: str
    index: int | None
    target: str
    size: int
    place: int
    form: str


class DeviceFile(msgspec.Struct, frozen=True):
    """A file with device code, or with a marker that leads to it.

    `name` is for people, `path` the file or the wheel with its `member`. `kind` is `fat`, `split` or
    `archive`. `wrappers` counts registrations; `marker` and `archives` (names of those that are there) are
    set for a split file. `remark` says what could not be told.
    """

    name: str
    path: Path
    member: str | None
    kind: str
    size: int
    wrappers: int
    code: tuple[Code, ...]
    marker: Marker | None = None
    archives: tuple[str, ...] = ()
    remark: str | None = None

    @property
    def targets(self) -> dict[str, tuple[int, int]]:
        """Target → number of code objects and their bytes, sorted by target."""
        count: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for code in self.code:
            count[code.target] += 1
            size[code.target] += code.size
        return {target: (count[target], size[target]) for target in sorted(count)}


class Listing(msgspec.Struct, frozen=True):
    """The files with device code, and what is wrong with others."""

    files: tuple[DeviceFile, ...]
    damaged: tuple[InvalidInput, ...]


def list_device_code(paths: Iterable[Path]) -> Listing:
    """What files, directories and wheels have of device code; only headers of it are read.

    Wheels are taken for one set. A damaged file is reported and does not stop the others.
    """
    damaged: dict[str, InvalidInput] = {}

    def report(error: InvalidInput) -> None:
        damaged.setdefault(str(error), error)

    files = []
    with ExitStack() as stack:
        read = _Tables(report)
        for source in find_sources(paths, stack, report):
            try:
                found = look(source, read)
            except InvalidInput as error:
                report(error)
                continue
            if found is not None:
                files.append(found[0])
    return Listing(tuple(files), tuple(damaged.values()))


class _Tables:
    """Tables of archives that libraries share, each read once; a damaged one is reported and empty."""

    def __init__(self, report: Callable[[InvalidInput], None]) -> None:
        self.report = report
        self.known: dict[str, tuple[Code, ...]] = {}

    def __call__(self, source: Given) -> tuple[Code, ...]:
        if source.key not in self.known:
            try:
                self.known[source.key] = tuple(archived(read_archive(source.open())))
            except InvalidInput as error:
                self.report(error)
                self.known[source.key] = ()
        return self.known[source.key]


def look(
    source: Given, read: Callable[[Given], tuple[Code, ...]]
) -> tuple[DeviceFile, Mapped, list[Given]] | None:
    """A file with device code, its bytes, and for a split one its archives; None for any other file.

    `read` gives the code objects of an archive. Raises `InvalidInput` and its children, naming the file.
    """
    head = source.head()
    if head.startswith((MAGIC, RAW_MAGIC, fatbin.PACKED_MAGIC)):
        file = source.open()
        if head.startswith(MAGIC):
            code, kind = tuple(archived(read_archive(file))), ARCHIVE
        else:
            numbered = enumerate(scan_bundles(file, 0, file.size))
            code, kind = tuple(c for n, b in numbered for c in _bundled(source.inside, b, (n,))), FAT
        wrappers = len({(c.kernel, c.index) for c in code}) if kind == ARCHIVE else 0
        found = DeviceFile(source.name, source.path, source.member, kind, file.size, wrappers, code)
        return found, file, []
    if source.inside.endswith(SUFFIX):
        raise InvalidArchive(f"{source.name} is not an archive of device code", where=source.path)
    if not head.startswith(fmt.MAGIC):
        return None
    file = source.open()
    try:
        elf = read_elf(file)
    except InvalidElf:
        # Directories hold damaged and foreign files that have nothing to do with device code.
        if source.given or _speaks_of_code(file):
            raise
        return None
    if MARKER_SECTION in elf.sections:
        return _split(source, file, elf, read)
    fat = fat_range(elf)
    return None if fat is None else (_fat(source, file, elf, *fat), file, [])


def fat_range(elf: Elf) -> tuple[int, int] | None:
    """File offsets of start and end of the device code in a library; None without any."""
    section = fatbin.fat_section(elf)
    return None if section is None else (section.offset, section.offset + section.size)


def archived(archive: Archive) -> Iterator[Code]:
    """The code objects in an archive."""
    for entry in archive.entries:
        place, _ = archive.blobs[entry.ordinal]
        yield Code(entry.kernel, entry.index, entry.target, entry.size, place, archive.scheme)


def _speaks_of_code(file: Mapped) -> bool:
    """Whether a file that cannot be read, perhaps cut, has anything of device code in it."""
    step = 16 << 20
    longest = max(map(len, _TRACES))
    pieces = (file.read_at(at, step + longest) for at in range(0, file.size, step))
    return any(trace in piece for piece in pieces for trace in _TRACES)


def _fat(source: Given, file: Mapped, elf: Elf, start: int, end: int) -> DeviceFile:
    bundles = scan_bundles(file, start, end)
    wrappers, remark = _wrappers(elf, file)
    section = elf.sections[fatbin.SECTION]
    numbers: dict[int, list[int | None]] = {}
    for wrapper in wrappers:
        if wrapper.magic == FAT_MAGIC:
            numbers.setdefault(wrapper.pointer - section.addr + start, []).append(wrapper.index)
    code = tuple(
        code
        for bundle in bundles
        for code in _bundled(source.inside, bundle, numbers.get(bundle.offset, [None]))
    )
    return DeviceFile(
        source.name, source.path, source.member, FAT, file.size, len(wrappers), code, remark=remark
    )


def _wrappers(elf: Elf, file: Mapped) -> tuple[tuple[Wrapper, ...], str | None]:
    """Wrappers, or why they cannot be told."""
    try:
        return read_wrappers(elf, file), None
    except Unsplittable as reason:
        return (), str(reason)


def _bundled(kernel: str, bundle: Bundle, indices: Iterable[int | None]) -> Iterator[Code]:
    form = "compressed" if bundle.compressed else "raw"
    for index in indices:
        for entry in bundle.entries:
            if entry.target:
                yield Code(kernel, index, entry.target, entry.size, bundle.offset, form)


def _split(
    source: Given, file: Mapped, elf: Elf, read: Callable[[Given], tuple[Code, ...]]
) -> tuple[DeviceFile, Mapped, list[Given]]:
    section = elf.sections[MARKER_SECTION]
    marker = read_marker(file, section.offset, section.size)
    wrappers, remark = _wrappers(elf, file)
    archives = source.archives(marker)
    found = DeviceFile(
        source.name,
        source.path,
        source.member,
        SPLIT,
        file.size,
        sum(1 for wrapper in wrappers if wrapper.magic == SPLIT_MAGIC),
        (),
        marker,
        tuple(archive.name for archive in archives),
        remark,
    )
    kernel = kernel_of(found)
    code = tuple(c for archive in archives for c in read(archive) if c.kernel == kernel)
    return msgspec.structs.replace(found, code=code), file, archives


def kernel_of(found: DeviceFile) -> str | None:
    """A split file's name in archives: readers turn every backslash into a slash."""
    return found.marker.kernel.replace("\\", "/") if found.marker else None
