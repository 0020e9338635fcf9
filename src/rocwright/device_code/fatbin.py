"""Find the device code in a fat binary, and write such code: Clang offload bundles, raw or compressed.

HIP puts one bundle for each translation unit into the section `.hip_fatbin`, each starting on a page
boundary with zeros between. A raw bundle is a magic, a count, and for each entry offset, size, length of
its id and the id; offsets count from the bundle's start. A compressed bundle (`CCOB`, header versions 1
to 3) holds a raw one deflated by zlib or zstd. Facts: the LLVM documentation of clang-offload-bundler.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType

import msgspec
import zstandard

from rocwright.binary.dynamic import up
from rocwright.binary.elf import (
    EM_AARCH64,
    EM_X86_64,
    HIP_FATBIN,
    MAGIC,
    SHT_NOBITS,
    Elf,
    Section,
    read_elf,
)
from rocwright.binary.view import Mapped, View, mapped
from rocwright.device_code.unpack import (
    COUNT,
    ENTRY,
    HEADER_LIMIT,
    MOST_ENTRIES,
    RAW_MAGIC,
    PackedStream,
    header_complete,
    invalid_bundle,
    require_hash,
    unpack,
    unpack_head,
)
from rocwright.errors import InvalidBundle
from rocwright.model.gpu import is_target

PACKED_MAGIC = b"CCOB"
SECTION = HIP_FATBIN

PREFIX = struct.Struct("<4sHH")
# Behind magic, version and method: total size of the bundle where it is told, unpacked size, hash.
HEADERS = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
_LONGEST_HEADER = PREFIX.size + max(layout.size for layout in HEADERS.values())
_LONGEST_ID = 4096
_PIECE = 64 << 10
PAGE = 4096  # where the compiler lets bundles and code objects begin
_PEEK = PAGE + 64  # all entries, and the header of the first code object
_ANYWHERE = 1 << 63
_NOTHING: Mapping[int, bytes] = MappingProxyType({})
_HOST = "host"
# The ids that the compiler gives to the empty entry of the host, and what it puts in front of a target.
HOST_IDS = {EM_X86_64: "host-x86_64-unknown-linux-gnu-", EM_AARCH64: "host-aarch64-unknown-linux-gnu-"}
DEVICE_ID = "hipv4-amdgcn-amd-amdhsa--"
_ZSTD = 1
_LEVEL = 3  # the compiler's own
_LARGEST_OLD = (1 << 32) - 1  # what header versions 1 and 2 can say


class CodeObject(msgspec.Struct, frozen=True):
    """An entry of a bundle.

    `id` is the whole bundle entry id, `target` the device target in it (`gfx90a:xnack-`), empty for the
    host entry. `offset` and `size` are bytes: from the start of the file for a raw bundle, from the start
    of the unpacked bundle for a compressed one.
    """

    id: str
    target: str
    offset: int
    size: int


class Bundle(msgspec.Struct, frozen=True):
    """One bundle; `offset` in the file and `size` in bytes, as it is stored; `packed` None when raw."""

    offset: int
    size: int
    packed: PackedStream | None
    entries: tuple[CodeObject, ...]

    @property
    def compressed(self) -> bool:
        """Whether it has to be unpacked to get at its code."""
        return self.packed is not None

    @property
    def memory(self) -> int:
        """Bytes of memory that its code takes; none for a raw bundle, which is used where it lies."""
        return self.packed.unpacked if self.packed else 0


def read_bundles(path: Path) -> tuple[Bundle, ...]:
    """The bundles of an ELF file's `.hip_fatbin`, or of a file that is nothing but bundles, in file order.

    Empty for an ELF file without device code and for other files. Reads headers, and as much of a
    compressed bundle as its header needs. Raises `InvalidBundle` with file and offset, `InvalidElf`.
    """
    with mapped(path) as file:
        if file.read_at(0, len(MAGIC)) == MAGIC:
            section = fat_section(read_elf(file))
            if section is None:
                return ()
            start, end = section.offset, section.offset + section.size
        else:
            start, end = 0, file.size
            if not file.read_at(0, len(RAW_MAGIC)).startswith((RAW_MAGIC, PACKED_MAGIC)):
                return ()
        return scan_bundles(file, start, end)


def fat_section(elf: Elf) -> Section | None:
    """The section with a library's device code; None where there is none, or no more.

    AMD's own splitter leaves the section's addresses and none of its bytes.
    """
    section = elf.sections.get(SECTION)
    return section if section is not None and section.size and section.type != SHT_NOBITS else None


def targets(path: Path) -> frozenset[str]:
    """Device targets that a file holds code for; empty when it has none. Errors as `read_bundles`."""
    return frozenset(
        entry.target for bundle in read_bundles(path) for entry in bundle.entries if entry.target
    )


def scan_bundles(
    file: View, start: int, end: int, peeked: Mapping[int, bytes] = _NOTHING
) -> tuple[Bundle, ...]:
    """The bundles between two file offsets; only zeros may lie between them.

    Walks from the end of one bundle to the next and never looks inside one, where any bytes may be. `peeked`
    is what `peek` gave for compressed bundles, by file offset; those are not unpacked again. Raises
    `InvalidBundle` with file and offset.
    """
    if end > file.size:
        raise InvalidBundle(
            f"{file.path.name}: section {SECTION} ends beyond the end of the file", where=file.path
        )
    return tuple(_scan(file, start, end, peeked))


def peek(data: bytes, path: Path) -> bytes | None:
    """The unpacked first page, and 64 bytes more, of the compressed bundle that begins with `data`.

    None where `data` does not reach far enough for all entries, or is no such bundle.
    """
    if len(data) < _LONGEST_HEADER:
        return None
    file = Mapped(path, data)
    try:
        packed, told = _claims(file, 0, _ANYWHERE)
        if not told:
            return None
        _, head = unpack_head(file, msgspec.structs.replace(packed, stop=min(packed.stop, len(data))), False)
    except InvalidBundle:
        return None
    return head[:_PEEK] if header_complete(head[:_PEEK]) else None


def device_code(file: Mapped, bundle: Bundle) -> list[tuple[CodeObject, memoryview]]:
    """The device entries of a bundle in its order, each with its bytes.

    Slices of the mapping for a raw bundle. A compressed one is unpacked into memory as a whole (`memory`
    bytes), and its hash is verified. Raises `InvalidBundle`.
    """
    if bundle.packed is None:
        return [(e, file.slice(e.offset, e.size)) for e in bundle.entries if e.target]
    data = unpack(file, bundle.packed)
    require_hash(file, bundle.packed, data)
    return code_in(bundle, data)


def code_in(bundle: Bundle, data: bytes) -> list[tuple[CodeObject, memoryview]]:
    """The device entries of a compressed bundle in its order, each with its bytes in the unpacked `data`."""
    whole = memoryview(data)
    return [(e, whole[e.offset : e.offset + e.size]) for e in bundle.entries if e.target]


def _scan(file: View, start: int, end: int, peeked: Mapping[int, bytes]) -> Iterator[Bundle]:
    place = start
    while (place := _next(file, place, end)) < end:
        raw = file.read_at(place, len(RAW_MAGIC)) == RAW_MAGIC
        bundle = _raw(file, place, end) if raw else _packed(file, place, end, peeked.get(place))
        yield bundle
        place = bundle.offset + bundle.size


def _next(file: View, place: int, end: int) -> int:
    """Offset of the next bundle; most begin with the next page, so that is all that is read at first."""
    steps = chain((-place % PAGE, len(RAW_MAGIC)), repeat(_PIECE))
    while place < end:
        step = next(steps)
        piece = file.read_at(place, min(step, end - place))
        padding = len(piece) - len(piece.lstrip(b"\0"))
        place += padding
        if padding < len(piece):
            break
    head = file.read_at(place, min(len(RAW_MAGIC), end - place))
    if place < end and not head.startswith((RAW_MAGIC, PACKED_MAGIC)):
        raise invalid_bundle(file.path, place, "neither a bundle nor padding")
    return place


def _raw(file: View, place: int, end: int) -> Bundle:
    header = file.read_at(place, min(PAGE, end - place))
    if not header_complete(header):
        header = file.read_at(place, min(HEADER_LIMIT, end - place))
    entries, size = _entries(header, end - place, place, file.path)
    inside = tuple(CodeObject(e.id, e.target, place + e.offset, e.size) for e in entries)
    return Bundle(place, size, None, inside)


def _entries(header: bytes, room: int, place: int, path: Path) -> tuple[list[CodeObject], int]:
    """Entries of a raw bundle from its first bytes, and the bundle's extent; `room` bounds it."""
    at = len(RAW_MAGIC)
    if len(header) < at + COUNT.size:
        raise invalid_bundle(path, place, "it ends inside its header")
    (count,) = COUNT.unpack_from(header, at)
    at += COUNT.size
    if count > MOST_ENTRIES:
        raise invalid_bundle(path, place, f"it claims {count} entries")
    entries = []
    for _ in range(count):
        if at + ENTRY.size > len(header):
            raise invalid_bundle(path, place, "it ends inside its header")
        offset, size, length = ENTRY.unpack_from(header, at)
        at += ENTRY.size
        if length > _LONGEST_ID or at + length > len(header):
            raise invalid_bundle(path, place, f"an entry's id of {length} bytes does not fit")
        try:
            text = header[at : at + length].decode("ascii")
        except UnicodeDecodeError:
            raise invalid_bundle(path, place, "an entry's id is not ASCII") from None
        at += length
        if offset + size > room:
            raise invalid_bundle(path, place, f"the code of {text} ends beyond the end of the data")
        entries.append(CodeObject(text, entry_target(text), offset, size))
    _require_apart(entries, at, place, path)
    return entries, max([at, *(entry.offset + entry.size for entry in entries)])


def _require_apart(entries: list[CodeObject], header_end: int, place: int, path: Path) -> None:
    """No code object may share a byte with the header or with another."""
    free, before = header_end, "the header"
    for entry in sorted((e for e in entries if e.size), key=lambda e: e.offset):
        if entry.offset < free:
            raise invalid_bundle(path, place, f"the code of {entry.id} overlaps {before}")
        free, before = entry.offset + entry.size, entry.id


def entry_target(text: str) -> str:
    """The device target in an entry id such as `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`."""
    kind, _, triple = text.partition("-")
    if kind == _HOST:
        return ""
    if "--" in triple:
        return triple.rpartition("--")[2]
    # arch-vendor-os-environment-target, and old ids lack the environment; targets may contain '-'.
    parts = triple.split("-", 3)
    last = parts[-1]
    return last if is_target(last) else last.partition("-")[2] or last


def _claims(file: View, place: int, end: int) -> tuple[PackedStream, bool]:
    """What the header of a compressed bundle claims, and whether it tells where the bundle ends."""
    path = file.path
    head = file.read_at(place, min(PREFIX.size, end - place))
    if len(head) < PREFIX.size:
        raise invalid_bundle(path, place, "it ends inside its header")
    _, version, method = PREFIX.unpack(head)
    layout = HEADERS.get(version)
    if layout is None:
        raise invalid_bundle(path, place, f"compressed with header version {version}; 1, 2 and 3 are known")
    body = place + PREFIX.size + layout.size
    if body > end:
        raise invalid_bundle(path, place, "it ends inside its header")
    *total, unpacked, digest = layout.unpack(file.read_at(place + PREFIX.size, layout.size))
    # Version 1 does not say how long the compressed data is; the stream itself knows where it ends.
    stop = place + total[0] if total else None
    if stop is not None and not body < stop <= end:
        raise invalid_bundle(path, place, f"its {stop - place} bytes do not fit into the data")
    return PackedStream(place, body, stop or end, method, unpacked, digest), stop is not None


def _packed(file: View, place: int, end: int, head: bytes | None) -> Bundle:
    """A compressed bundle, of which the unpacked `head` may be known."""
    packed, told = _claims(file, place, end)
    if head is None:
        packed, head = unpack_head(file, packed, not told)
    entries, extent = _entries(head, packed.unpacked, place, file.path)
    if extent > packed.unpacked:
        raise invalid_bundle(file.path, place, "its header is longer than its unpacked size")
    return Bundle(place, packed.stop - place, packed, tuple(entries))


class NewEntry(msgspec.Struct, frozen=True):
    """An entry of a bundle to be written; the host's has no data."""

    id: str
    data: memoryview | bytes


def raw_bundle(entries: Sequence[NewEntry]) -> bytes:
    """A bundle with these entries in this order, each on a page of its own."""
    header, places, size = _layout([(entry.id, len(entry.data)) for entry in entries])
    bundle = bytearray(size)
    bundle[: len(header)] = header
    for entry, offset in zip(entries, places, strict=True):
        bundle[offset : offset + len(entry.data)] = entry.data
    return bytes(bundle)


def raw_size(entries: Sequence[tuple[str, int]]) -> int:
    """Bytes of the raw bundle with entries of these ids and sizes."""
    return _layout(entries)[2]


def _layout(entries: Sequence[tuple[str, int]]) -> tuple[bytes, list[int], int]:
    """Header, offset of each entry and bytes of a raw bundle with entries of these ids and sizes."""
    ids = [text.encode("ascii") for text, _ in entries]
    header = len(RAW_MAGIC) + COUNT.size + sum(ENTRY.size + len(text) for text in ids)
    place, places, rows = up(header, PAGE), [], []
    for (_, size), text in zip(entries, ids, strict=True):
        place = up(place, PAGE)
        places.append(place)
        rows.append(ENTRY.pack(place, size, len(text)) + text)
        place += size
    head = RAW_MAGIC + COUNT.pack(len(entries)) + b"".join(rows)
    return head, places, max(place, header)


def packed_bundle(raw: bytes, version: int) -> bytes:
    """A raw bundle compressed by zstd, behind a header of `version`, or of 3 where the sizes need it."""
    stream = zstandard.ZstdCompressor(level=_LEVEL).compress(raw)
    digest = int.from_bytes(hashlib.md5(raw, usedforsecurity=False).digest()[:8], "little")
    if max(len(raw), len(stream) + PREFIX.size + HEADERS[version].size) > _LARGEST_OLD:
        version = 3
    layout = HEADERS[version]
    total = [] if version == 1 else [PREFIX.size + layout.size + len(stream)]
    return PREFIX.pack(PACKED_MAGIC, version, _ZSTD) + layout.pack(*total, len(raw), digest) + stream


def header_version(bundle: Bundle) -> int | None:
    """The header version of a compressed bundle; None for a raw one."""
    if bundle.packed is None:
        return None
    length = bundle.packed.start - bundle.packed.place - PREFIX.size
    return next(version for version, layout in HEADERS.items() if layout.size == length)
