"""Split fat libraries: decide what each becomes, then write its code into one archive for each target.

Deciding reads headers, bundles and relocations, and returns a plan or the reason why a library stays whole.
Writing streams code objects from where they lie into zstd frames on several threads; each frame is unpacked
again and compared with the original before it counts.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import zstandard

from rocwright.binary import elf as fmt
from rocwright.binary import fatbin
from rocwright.binary.elf import Elf, Section, read_elf
from rocwright.binary.fatbin import Bundle, CodeObject, device_code, scan_bundles
from rocwright.binary.host import MARKER_SECTION, plan_host
from rocwright.binary.kpack import ArchiveWriter, Entry, Marker, pack_marker
from rocwright.binary.splice import Splice
from rocwright.binary.view import Mapped
from rocwright.binary.wrappers import (
    FAT_MAGIC,
    SPLIT_MAGIC,
    Unsplittable,
    Wrapper,
    exported_between,
    foreign_references,
    read_wrappers,
)
from rocwright.errors import IntegrityError
from rocwright.model.gpu import InvalidTarget, Target, parse_target
from rocwright.system.files import atomic_write
from rocwright.system.parallel import in_order

DEFAULT_LEVEL = 3
# What waits for a thread, in bytes. Code that is used where it lies in the file takes no memory, but its
# frame will: it counts as little, so that all threads have work and the queue still ends.
_WINDOW = 24 << 20
_LIGHT = 1 << 20
_LARGE = 1 << 20
_PIECE = 256 << 10
_HASH_LOG, _CHAIN_LOG = 16, 15
_LARGEST_CODE = (4 << 30) - 1  # what AMD's runtime unpacks


@dataclass(frozen=True)
class LibraryPlan:
    """One library's split: its name in the archives, the host file, and each bundle with the numbers of the
    wrappers that lead to it."""

    kernel: str
    file: Mapped
    host: Splice
    bundles: tuple[tuple[Bundle, tuple[int, ...]], ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """Device targets it has code for, sorted."""
        return tuple(sorted({e.target for bundle, _ in self.bundles for e in bundle.entries if e.target}))

    @property
    def objects(self) -> int:
        """Code objects as the runtime counts them: one for each wrapper and target."""
        return sum(
            len(indices) * sum(1 for e in bundle.entries if e.target) for bundle, indices in self.bundles
        )


@dataclass(frozen=True)
class Kept:
    """A library with device code that stays as it is; `already` when it was split before."""

    reason: str
    already: bool = False


@dataclass
class Stored:
    """What went into the archives: for each target code objects, their bytes, and the archive's bytes.

    `identical` of the code objects were proven; `repeated` were put into a more specific archive as well.
    """

    objects: Counter[str] = field(default_factory=Counter)
    unpacked: Counter[str] = field(default_factory=Counter)
    packed: Counter[str] = field(default_factory=Counter)
    identical: int = 0
    repeated: int = 0


def plan_library(file: Mapped, marker: Marker) -> LibraryPlan | Kept | None:
    """What becomes of a file: a plan, the reason why its device code stays inside, or None without any.

    Raises `InvalidElf` and `InvalidBundle` for a file that is damaged.
    """
    if file.read_at(0, len(fmt.MAGIC)) != fmt.MAGIC:
        return None
    elf = read_elf(file)
    if not _is_text(marker):
        return Kept("its name is no UTF-8, which a marker is written in")
    if MARKER_SECTION in elf.sections:
        return Kept("it is split already", already=True)
    fat = elf.sections.get(fatbin.SECTION)
    if fat is None:
        return _unnamed(elf)
    if fat.size == 0:
        return None
    if elf.kind not in ("dyn", "exec"):
        return Kept("only linked libraries and programs can be split")
    try:
        return _plan(elf, file, fat, marker)
    except Unsplittable as reason:
        return Kept(str(reason))


def _is_text(marker: Marker) -> bool:
    try:
        "".join((marker.kernel, *marker.search_paths)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unnamed(elf: Elf) -> Kept | None:
    """Without section headers nothing says where device code is; the wrappers' magic betrays it."""
    if elf.section_table:
        return None
    for load in elf.segments_of(fmt.PT_LOAD):
        data = elf.source.read_at(load.offset, load.filesz) if load.flags & fmt.PF_W else b""
        if FAT_MAGIC.to_bytes(4, "little") + b"\1\0\0\0" in data:
            return Kept("it has device code and no section headers, which say where")
    return None


def _plan(elf: Elf, file: Mapped, fat: Section, marker: Marker) -> LibraryPlan | Kept:
    wrappers = read_wrappers(elf, file)
    if wrappers and all(wrapper.magic == SPLIT_MAGIC for wrapper in wrappers):
        return Kept("it is split already", already=True)
    if fat.type == fmt.SHT_NOBITS:
        return Kept(f"its section {fatbin.SECTION} is empty")
    bundles = scan_bundles(file, fat.offset, fat.offset + fat.size)
    if not any(entry.target for bundle in bundles for entry in bundle.entries):
        return Kept("its bundles hold no code for any target")
    owners = _owners(wrappers, bundles, fat)
    _require_own_references(elf, file, fat, wrappers)
    for bundle in bundles:
        _require_plain(bundle)
    host = plan_host(elf, file, fat, wrappers, pack_marker(marker))
    return LibraryPlan(marker.kernel, file, host, tuple((b, tuple(owners[b.offset])) for b in bundles))


def _owners(wrappers: tuple[Wrapper, ...], bundles: tuple[Bundle, ...], fat: Section) -> dict[int, list[int]]:
    """File offset of each bundle → numbers of the wrappers that point to it."""
    owners: dict[int, list[int]] = {bundle.offset: [] for bundle in bundles}
    for wrapper in wrappers:
        if wrapper.magic != FAT_MAGIC or wrapper.version != 1 or wrapper.reserved:
            raise Unsplittable(f"wrapper {wrapper.index} is none that this tool knows")
        place = wrapper.pointer - fat.addr + fat.offset
        if place not in owners:
            raise Unsplittable(f"wrapper {wrapper.index} points to no start of a bundle")
        owners[place].append(wrapper.index)
    alone = sum(1 for indices in owners.values() if not indices)
    if alone:
        raise Unsplittable(f"no wrapper leads to {alone} of its {len(bundles)} bundles")
    return owners


def _require_own_references(elf: Elf, file: Mapped, fat: Section, wrappers: tuple[Wrapper, ...]) -> None:
    start, end = fat.addr, fat.addr + fat.size
    foreign = foreign_references(elf, file, wrappers, start, end)
    if foreign:
        raise Unsplittable(f"{len(foreign)} pointers besides the wrappers' lead into its device code")
    if exported_between(elf, file, start, end):
        raise Unsplittable("it exports symbols inside its device code")


def _require_plain(bundle: Bundle) -> None:
    """Only what the runtime finds again in an archive may leave: one object with code for each ISA."""
    seen = set()
    for entry in bundle.entries:
        if not entry.target:
            if entry.size:
                raise Unsplittable(f"the bundle at {bundle.offset:#x} holds host code")
            continue
        try:
            target = parse_target(entry.target)
        except InvalidTarget:
            raise Unsplittable(f"the entry {entry.id!r} names no known kind of target") from None
        if str(target) != entry.target or list(target.features) != sorted(target.features):
            raise Unsplittable(f"{entry.target} is spelled in a way that no runtime looks for")
        if target.is_spirv:
            raise Unsplittable("it holds SPIR-V, which AMD's runtime does not look for in archives")
        if entry.target in seen:
            raise Unsplittable(f"a bundle has two entries for {entry.target}")
        if not 0 < entry.size <= _LARGEST_CODE:
            raise Unsplittable(f"its code object for {entry.target} has {entry.size} bytes")
        seen.add(entry.target)


# Writing.


@dataclass(frozen=True)
class _Item:
    """A code object on its way into an archive."""

    plan: LibraryPlan
    indices: tuple[int, ...]
    code: CodeObject
    data: memoryview


def store(
    plans: Iterable[LibraryPlan],
    path_of: Callable[[str], Path],
    group: str,
    *,
    level: int = DEFAULT_LEVEL,
    threads: int = 2,
    prove: bool = True,
) -> Stored:
    """Write the code of all plans into one archive for each target, at `path_of(target)`.

    `plans` may be made on the way. Bytes do not depend on `threads`. All archives appear whole at the end or
    not at all. `prove` unpacks every frame again and compares it with its code object; only those count as
    `identical`. Raises `InvalidBundle` for damaged code, `IntegrityError` when a frame differs.
    """
    stored = Stored()
    with ExitStack() as open_files:
        archives: dict[str, ArchiveWriter] = {}
        work = _Packer(level, prove)
        with closing(in_order(work, _items(plans), threads=threads, window=_WINDOW)) as outcomes:
            for item, frame in outcomes:
                if item is None:
                    continue
                target = item.code.target
                if target not in archives:
                    stream = open_files.enter_context(atomic_write(path_of(target)))
                    archives[target] = ArchiveWriter(stream, group, target)
                _enter(archives[target], item, frame, stored)
                stored.identical += len(item.indices) if prove else 0
        stored.repeated = _complete(archives)
        for target, archive in archives.items():
            archive.close()
            stored.packed[target] = _length(archive.stream)
    return stored


def _complete(archives: dict[str, ArchiveWriter]) -> int:
    """Repeat code in more specific archives that lack it; returns how often.

    On `gfx90a:xnack-` the runtime opens the archive for that, if there is one, and older ones then look
    nowhere else (ROCm/TheRock 7081). Code that was built for plain `gfx90a` has to be found there too.
    """
    repeated = 0
    for text, archive in sorted(archives.items()):
        target = parse_target(text)
        have = {(entry.kernel, entry.index) for entry in archive.entries}
        for other in _less_specific(target, archives):
            ordinals: dict[int, int] = {}
            for entry in list(archives[other].entries):
                if (entry.kernel, entry.index) in have:
                    continue
                if entry.ordinal not in ordinals:
                    ordinals[entry.ordinal] = archive.add(archives[other].frame(entry.ordinal))
                archive.enter(replace(entry, target=text, ordinal=ordinals[entry.ordinal]))
                have.add((entry.kernel, entry.index))
                repeated += 1
    return repeated


def _less_specific(target: Target, archives: Iterable[str]) -> list[str]:
    """Archives whose code also runs on `target`: its base with some of its features, most features first."""
    others = (parse_target(text) for text in archives)
    fitting = [o for o in others if o.base == target.base and set(o.features) < set(target.features)]
    return [str(o) for o in sorted(fitting, key=lambda o: (-len(o.features), str(o)))]


def _length(stream: IO[bytes]) -> int:
    return stream.seek(0, 2)


def _enter(archive: ArchiveWriter, item: _Item, frame: bytes, stored: Stored) -> None:
    ordinal = archive.add(frame)
    code = item.code
    for index in item.indices:
        archive.enter(Entry(item.plan.kernel, index, code.target, ordinal, code.size, code.id))
        stored.objects[code.target] += 1
    stored.unpacked[code.target] += code.size


def _items(plans: Iterable[LibraryPlan]) -> Iterator[tuple[_Item | None, int]]:
    """Code objects with their weight in bytes.

    An unpacked bundle stays in memory until its last code object is done. Before the next one is unpacked a
    weight that fills the window makes the threads finish, unless both fit beside each other.
    """
    unpacked = 0
    for plan in plans:
        largest = max(bundle.memory for bundle, _ in plan.bundles)
        for bundle, indices in plan.bundles:
            if bundle.memory and unpacked + bundle.memory > max(largest, _WINDOW):
                yield None, _WINDOW
            unpacked = bundle.memory
            for code, data in device_code(plan.file, bundle):
                yield _Item(plan, indices, code, data), code.size if bundle.memory else _LIGHT


def _compressor(level: int, large: bool) -> zstandard.ZstdCompressor:
    """A compressor whose frames depend on nothing but level and input."""
    if level != DEFAULT_LEVEL or not large:
        return zstandard.ZstdCompressor(level=level)
    # Tables of half the size stay in a core's own cache: 9 % less CPU for 0.5 % more bytes (rocSPARSE).
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, hash_log=_HASH_LOG, chain_log=_CHAIN_LOG
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


class _Packer:
    """Compresses one code object and proves the frame; runs on any thread."""

    def __init__(self, level: int, prove: bool) -> None:
        self.level, self.prove = level, prove
        self.tools = threading.local()

    def __call__(self, item: _Item | None) -> tuple[_Item | None, bytes]:
        if item is None:
            return None, b""
        if not hasattr(self.tools, "packers"):
            self.tools.packers = {large: _compressor(self.level, large) for large in (False, True)}
            self.tools.unpacker = zstandard.ZstdDecompressor()
            self.tools.piece = bytearray(_PIECE)
        frame: bytes = self.tools.packers[len(item.data) >= _LARGE].compress(item.data)
        if self.prove and not self._gives_back(frame, item.data):
            raise IntegrityError(
                f"code for {item.code.target} of {item.plan.kernel} did not survive compression",
                where=item.plan.file.path,
            )
        return item, frame

    def _gives_back(self, frame: bytes, data: memoryview) -> bool:
        """Whether a frame unpacks to exactly these bytes, in pieces that stay in the processor's cache."""
        piece = self.tools.piece
        done = 0
        with self.tools.unpacker.stream_reader(frame) as stream:
            while got := stream.readinto(piece):
                # startswith compares any buffer without copying it.
                if done + got > len(data) or not piece.startswith(data[done : done + got]):
                    return False
                done += got
        return done == len(data)
