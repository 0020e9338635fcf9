"""Find the device code in a fat binary: Clang offload bundles, raw or compressed.

HIP puts one bundle for each translation unit into the section `.hip_fatbin`, each starting on a page
boundary with zeros between. A raw bundle is a magic, a count, and for each entry offset, size, length of
its id and the id; offsets count from the bundle's start. A compressed bundle (`CCOB`, header versions 1
to 3) holds a raw one deflated by zlib or zstd. Facts: the LLVM documentation of clang-offload-bundler.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from rocwright.binary.elf import SHT_NOBITS, is_elf, read_elf
from rocwright.errors import InvalidBundle

RAW_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
PACKED_MAGIC = b"CCOB"
SECTION = ".hip_fatbin"

_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")
_PREFIX = struct.Struct("<4sHH")
# Behind magic, version and method: total size of the bundle where it is told, unpacked size, hash.
_HEADERS = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
_ZLIB, _ZSTD = 0, 1
_MOST_ENTRIES = 4096
_LONGEST_ID = 4096
# Enough for the entries of any real bundle; keeps a bomb in a compressed one from filling the memory.
_HEADER_LIMIT = 4 << 20
_PIECE = 64 << 10
_HOST = "host"


@dataclass(frozen=True)
class CodeObject:
    """An entry of a bundle.

    `id` is the whole bundle entry id, `target` the device target in it (`gfx90a:xnack-`), empty for the
    host entry. `offset` and `size` are bytes: from the start of the file for a raw bundle, from the start
    of the unpacked bundle for a compressed one.
    """

    id: str
    target: str
    offset: int
    size: int


@dataclass(frozen=True)
class Bundle:
    """One bundle; `offset` in the file and `size` in bytes, as it is stored."""

    offset: int
    size: int
    compressed: bool
    entries: tuple[CodeObject, ...]


def read_bundles(path: Path) -> tuple[Bundle, ...]:
    """The bundles of an ELF file's `.hip_fatbin`, or of a file that is nothing but bundles, in file order.

    Empty for an ELF file without device code and for other files. Reads headers, and as much of a
    compressed bundle as its header needs. Raises `InvalidBundle` with file and offset, `InvalidElf`.
    """
    if is_elf(path):
        section = read_elf(path).sections.get(SECTION)
        # A split library keeps the section's addresses and has none of its bytes.
        if section is None or section.size == 0 or section.type == SHT_NOBITS:
            return ()
        start, end = section.offset, section.offset + section.size
        if end > path.stat().st_size:
            raise InvalidBundle(f"{path.name}: section {SECTION} ends behind the file", where=path)
    else:
        start, end = 0, path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(len(RAW_MAGIC))
        if not head.startswith((RAW_MAGIC, PACKED_MAGIC)):
            return ()
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return tuple(_scan(data, start, end, path))


def targets(path: Path) -> frozenset[str]:
    """Device targets that a file holds code for; empty when it has none. Errors as `read_bundles`."""
    return frozenset(
        entry.target for bundle in read_bundles(path) for entry in bundle.entries if entry.target
    )


def _invalid(path: Path, offset: int, what: str) -> InvalidBundle:
    return InvalidBundle(
        f"{path.name}: device code bundle at offset {offset:#x}: {what}",
        where=path,
        next_step="the file is damaged or was cut; build or download it again",
    )


def _scan(data: mmap.mmap, start: int, end: int, path: Path) -> Iterator[Bundle]:
    """Walk from the end of one bundle to the next; never look inside one, where any bytes may be."""
    place = start
    while (place := _next(data, place, end, path)) < end:
        if data[place : place + len(RAW_MAGIC)] == RAW_MAGIC:
            bundle = _raw(data, place, end, path)
        else:
            bundle = _packed(data, place, end, path)
        yield bundle
        place = bundle.offset + bundle.size


def _next(data: mmap.mmap, place: int, end: int, path: Path) -> int:
    """Offset of the next bundle; only zeros may lie between."""
    while place < end:
        piece = data[place : min(place + _PIECE, end)]
        padding = len(piece) - len(piece.lstrip(b"\0"))
        place += padding
        if padding < len(piece):
            break
    if place < end and not data[place : min(end, place + len(RAW_MAGIC))].startswith(
        (RAW_MAGIC, PACKED_MAGIC)
    ):
        raise _invalid(path, place, "neither a bundle nor padding")
    return place


def _raw(data: mmap.mmap, place: int, end: int, path: Path) -> Bundle:
    header = data[place : min(end, place + _PIECE)]
    if not _header_complete(header):
        header = data[place : min(end, place + _HEADER_LIMIT)]
    entries, size = _entries(header, end - place, place, path)
    inside = tuple(CodeObject(e.id, e.target, place + e.offset, e.size) for e in entries)
    return Bundle(place, size, False, inside)


def _entries(header: bytes, room: int, place: int, path: Path) -> tuple[list[CodeObject], int]:
    """Entries of a raw bundle from its first bytes, and the bundle's extent; `room` bounds it."""
    at = len(RAW_MAGIC)
    if len(header) < at + _COUNT.size:
        raise _invalid(path, place, "it ends inside its header")
    (count,) = _COUNT.unpack_from(header, at)
    at += _COUNT.size
    if count > _MOST_ENTRIES:
        raise _invalid(path, place, f"it claims {count} entries")
    entries = []
    extent = at
    for _ in range(count):
        if at + _ENTRY.size > len(header):
            raise _invalid(path, place, "it ends inside its header")
        offset, size, length = _ENTRY.unpack_from(header, at)
        at += _ENTRY.size
        if length > _LONGEST_ID or at + length > len(header):
            raise _invalid(path, place, f"an entry's id of {length} bytes does not fit")
        try:
            text = header[at : at + length].decode("ascii")
        except UnicodeDecodeError:
            raise _invalid(path, place, "an entry's id is not ASCII") from None
        at += length
        if offset + size > room:
            raise _invalid(path, place, f"the code of {text} ends behind the data")
        entries.append(CodeObject(text, _target(text), offset, size))
        extent = max(extent, offset + size)
    return entries, max(extent, at)


def _target(text: str) -> str:
    """The device target in an entry id such as `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`."""
    kind, _, triple = text.partition("-")
    if kind == _HOST:
        return ""
    if "--" in triple:
        return triple.rpartition("--")[2]
    # arch-vendor-os-environment-target; targets may contain '-' (generic ones do), and old ids lack parts.
    parts = triple.split("-", 4)
    return parts[4] if len(parts) == 5 else parts[-1]


def _packed(data: mmap.mmap, place: int, end: int, path: Path) -> Bundle:
    if place + _PREFIX.size > end:
        raise _invalid(path, place, "it ends inside its header")
    _, version, method = _PREFIX.unpack(data[place : place + _PREFIX.size])
    layout = _HEADERS.get(version)
    if layout is None:
        raise _invalid(path, place, f"compressed with header version {version}; 1, 2 and 3 are known")
    body = place + _PREFIX.size + layout.size
    if body > end:
        raise _invalid(path, place, "it ends inside its header")
    *total, unpacked, _ = layout.unpack(data[place + _PREFIX.size : body])
    # Version 1 does not say how long the compressed data is; the stream itself knows where it ends.
    stop = place + total[0] if total else end
    if not body < stop <= end:
        raise _invalid(path, place, f"its {stop - place} bytes do not fit into the data")
    unpacker = _Unpacker(data, body, stop, method, place, path)
    entries, extent = _entries(unpacker.head(), unpacked, place, path)
    if extent > unpacked:
        raise _invalid(path, place, "its header is longer than its unpacked size")
    if not total:
        stop = unpacker.end_of_stream(unpacked)
    return Bundle(place, stop - place, True, tuple(entries))


class _Unpacker:
    """Decompresses no more than it is asked for."""

    def __init__(self, data: mmap.mmap, start: int, stop: int, method: int, place: int, path: Path) -> None:
        if method not in (_ZLIB, _ZSTD):
            raise _invalid(path, place, f"unknown compression method {method}")
        self.data, self.start, self.stop, self.method = data, start, stop, method
        self.place, self.path = place, path

    def head(self) -> bytes:
        """Unpacked bytes from the start: the magic, and all entries as far as they reach."""
        head = b""
        for piece, _ in self._pieces():
            head += piece
            if len(head) >= _HEADER_LIMIT or _header_complete(head):
                break
        if not head:
            raise _invalid(self.path, self.place, "it cannot be unpacked: its data ends early")
        if not head.startswith(RAW_MAGIC):
            raise _invalid(self.path, self.place, "what is compressed in it is no bundle")
        return head

    def end_of_stream(self, unpacked: int) -> int:
        """File offset behind the compressed stream, found by unpacking all of it piece by piece."""
        size = 0
        for piece, unused in self._pieces():
            size += len(piece)
            if size > unpacked:
                break
            if unused is not None:
                if size == unpacked:
                    return unused
                break
        raise _invalid(self.path, self.place, f"it does not unpack to the {unpacked} bytes it claims")

    def _pieces(self) -> Iterator[tuple[bytes, int | None]]:
        """Unpacked pieces of bounded size; with the last one the file offset behind the stream."""
        try:
            yield from self._zlib() if self.method == _ZLIB else self._zstd()
        except (zlib.error, zstandard.ZstdError) as error:
            raise _invalid(self.path, self.place, f"it cannot be unpacked: {error}") from error

    def _zlib(self) -> Iterator[tuple[bytes, int | None]]:
        stream = zlib.decompressobj()
        for at in range(self.start, self.stop, _PIECE):
            waiting = self.data[at : min(at + _PIECE, self.stop)]
            behind = at + len(waiting)
            while waiting and not stream.eof:
                piece = stream.decompress(waiting, _PIECE)
                waiting = stream.unconsumed_tail
                yield piece, behind - len(stream.unused_data) if stream.eof else None
            if stream.eof:
                return

    def _zstd(self) -> Iterator[tuple[bytes, int | None]]:
        # A quarter of a kilobyte at a time bounds what one call can unpack to about 32 MiB (a block of
        # zstd is at most 128 KiB and needs at least 4 bytes), in a stream made to explode.
        stream = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        for at in range(self.start, self.stop, 256):
            waiting = self.data[at : min(at + 256, self.stop)]
            piece = stream.decompress(waiting)
            yield piece, at + len(waiting) - len(stream.unused_data) if stream.eof else None
            if stream.eof:
                return


def _header_complete(head: bytes) -> bool:
    """Whether these bytes reach behind the last entry's id (or are plainly no bundle)."""
    at = len(RAW_MAGIC)
    if len(head) < at + _COUNT.size:
        return False
    if not head.startswith(RAW_MAGIC):
        return True
    (count,) = _COUNT.unpack_from(head, at)
    at += _COUNT.size
    for _ in range(min(count, _MOST_ENTRIES)):
        if at + _ENTRY.size > len(head):
            return False
        at += _ENTRY.size + _ENTRY.unpack_from(head, at)[2]
    return at <= len(head)
