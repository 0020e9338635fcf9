"""Write and read `.kpack` archives: the device code of many libraries for one target.

Layout, version 1, little-endian: magic `KPAK`, u32 version, u64 offset of the table of contents, zeros up to
byte 64, the data, and the table, one MessagePack map that ends the file. With scheme `zstd-per-kernel` the
data is a u32 count and, for each ordinal, a u32 length and one zstd frame; with `none` the plain bytes.
Source: AMD's rocm-kpack, its description of the format and the limits of its runtime.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
import zstandard

from rocwright.binary.view import Mapped, View
from rocwright.errors import InvalidArchive, InvalidInput

MAGIC = b"KPAK"
SUFFIX = ".kpack"
DIRECTORY = ".kpack"  # where archives lie, at the root of what is installed
PLACEHOLDER = "@GFXARCH@"  # in a search path; the runtime puts a target here, only the first one counts
ZSTD, PLAIN = "zstd-per-kernel", "none"
_HEADER = struct.Struct("<4sIQ")
_COUNT = struct.Struct("<I")
_DATA_AT = 64
# For readers that see the bytes before the table: where the number of frames stands, behind which the
# length of the first does, and the bytes of each of these numbers.
FRAMES_AT, NUMBER = _DATA_AT, _COUNT.size
_VERSION = 1
# Keys of our own, which AMD's readers pass over: of a marker, and of an archive's table.
_BUILD, _BUILDS = "host_build", "host_builds"
NO_BUILD = "0" * 32
# As MessagePack has it: a short text, and one of 32 bytes.
_BUILD_FIELD = re.compile(rb"\xaahost_build\xd9\x20([0-9a-f]{32})")
LONGEST_BUILD = 45
# Limits of AMD's runtime; an archive beyond them could be written and never be read.
_MOST_DATA = 4 << 30
_MOST_FRAMES = 1 << 20
_MOST_CODE = (4 << 30) - 1
_MOST_MARKER = 64 << 10
_MOST_DIGITS = 10  # of an index, which has 32 bits
# A table of a few hundred bytes for each code object; a guard against a forged offset.
_MOST_TABLE = 1 << 30


class Entry(msgspec.Struct, frozen=True):
    """A code object in an archive.

    `kernel` and `index` name its library and wrapper, `target` the device target, `size` is in bytes
    unpacked; `id` is the bundle entry id it came from, where the writer recorded it.
    """

    kernel: str
    index: int
    target: str
    ordinal: int
    size: int
    id: str | None = None


class Contents(msgspec.Struct, frozen=True):
    """What an archive's table says: `blobs` are `(offset, size)` of each ordinal's bytes as stored.

    `builds` maps a library's name to the identity of the host file that its code was taken out of; writers
    other than this one leave it empty.
    """

    group: str
    targets: tuple[str, ...]
    scheme: str
    entries: tuple[Entry, ...]
    blobs: tuple[tuple[int, int], ...]
    builds: Mapping[str, str]


class Archive(Contents, frozen=True):
    """An archive whose bytes are at hand."""

    file: Mapped


class Marker(msgspec.Struct, frozen=True):
    """What a split library says of its code: where archives may lie, and its name in them.

    `build` is the host code's identity, as long as `NO_BUILD`; none where another tool wrote the marker.
    Archives with its code repeat it.
    """

    search_paths: tuple[str, ...]
    kernel: str
    build: str = ""


def pack_marker(marker: Marker) -> bytes:
    """The marker as MessagePack; raises `InvalidInput` above the 64 KiB that the runtime reads."""
    said: dict[str, object] = {
        "kpack_search_paths": list(marker.search_paths),
        "kernel_name": marker.kernel,
    }
    data = msgspec.msgpack.encode(said | ({_BUILD: marker.build} if marker.build else {}))
    if len(data) > _MOST_MARKER:
        raise InvalidInput(f"the marker of {marker.kernel[:80]} is longer than {_MOST_MARKER} bytes")
    return data


def find_build(data: bytes) -> str:
    """The identity of a marker anywhere in these bytes; "" where none is. It has `LONGEST_BUILD` bytes."""
    found = _BUILD_FIELD.search(data)
    return found[1].decode() if found else ""


def parse_marker(data: bytes) -> Marker:
    """The marker in these bytes; raises `InvalidArchive` when they are none."""
    try:
        raw = msgspec.msgpack.decode(data, type=dict[str, Any])
        paths = msgspec.convert(raw.get("kpack_search_paths"), tuple[str, ...])
        kernel = msgspec.convert(raw.get("kernel_name"), str)
        build = msgspec.convert(raw.get(_BUILD, ""), str)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArchive(f"this is not a kpack marker: {error}") from error
    if not paths:
        raise InvalidArchive(f"the marker of {kernel} names no search path")
    return Marker(paths, kernel, build)


def read_marker(file: View, offset: int, size: int) -> Marker:
    """The marker of a split library that lies there; raises `InvalidArchive` naming the file."""
    try:
        return parse_marker(file.read_at(offset, size))
    except InvalidArchive as error:
        raise InvalidArchive(f"{file.path.name}: {error.what}", where=file.path) from error


class ArchiveWriter:
    """Writes one archive for one target to a seekable stream, frame after frame."""

    def __init__(self, stream: IO[bytes], group: str, target: str) -> None:
        self.stream, self.group, self.target = stream, group, target
        self.entries: list[Entry] = []
        self.builds: dict[str, str] = {}
        self.frames: list[tuple[int, int]] = []
        self.size = _COUNT.size
        stream.write(bytes(_DATA_AT) + _COUNT.pack(0))

    def add(self, frame: bytes) -> int:
        """Append a zstd frame; returns its ordinal."""
        self.stream.write(_COUNT.pack(len(frame)))
        self.stream.write(frame)
        self.frames.append((_DATA_AT + self.size + _COUNT.size, len(frame)))
        self.size += _COUNT.size + len(frame)
        if self.size > _MOST_DATA or len(self.frames) > _MOST_FRAMES:
            raise InvalidInput(
                f"archive {self.group} for {self.target} grows beyond the 4 GiB that AMD's runtime reads",
                next_step="split the tree in several groups, or use a higher --level",
            )
        return len(self.frames) - 1

    def frame(self, ordinal: int) -> bytes:
        """A frame that was added, read back from the file."""
        offset, size = self.frames[ordinal]
        self.stream.flush()
        with Path(self.stream.name).open("rb") as again:
            again.seek(offset)
            frame: bytes = again.read(size)
        return frame

    def enter(self, entry: Entry, build: str = "") -> None:
        """Record a code object of a library with that identity; two entries may share an ordinal."""
        self.entries.append(entry)
        if build:
            self.builds[entry.kernel] = build

    def close(self) -> None:
        """Write the table, then what could not be known at the start."""
        table = _table(self.group, self.target, self.entries, self.builds, self.size)
        self.stream.write(table)
        self.stream.seek(0)
        self.stream.write(_HEADER.pack(MAGIC, _VERSION, _DATA_AT + self.size))
        self.stream.seek(_DATA_AT)
        self.stream.write(_COUNT.pack(len(self.frames)))


def _table(group: str, target: str, entries: list[Entry], builds: dict[str, str], size: int) -> bytes:
    toc: dict[str, dict[str, dict[str, object]]] = {}
    for entry in entries:
        row: dict[str, object] = {"type": "hsaco", "ordinal": entry.ordinal, "original_size": entry.size}
        if entry.id is not None:
            row["metadata"] = {"target": entry.id}
        toc.setdefault(f"{entry.kernel}#{entry.index}", {})[entry.target] = row
    return msgspec.msgpack.encode(
        {
            "format_version": _VERSION,
            "group_name": group,
            "gfx_arch_family": target,
            "gfx_arches": [target],
            "toc": toc,
            "compression_scheme": ZSTD,
            "zstd_offset": _DATA_AT,
            "zstd_size": size,
            **({_BUILDS: builds} if builds else {}),
        }
    )


def read_archive(file: Mapped) -> Archive:
    """An archive with what its table says; raises as `read_contents`."""
    told = read_contents(file)
    return Archive(**msgspec.structs.asdict(told), file=file)


def read_contents(file: View) -> Contents:
    """Read header and table of an archive; checks every number against the file before using it.

    Raises `InvalidArchive` with file and offset.
    """
    head = file.read_at(0, _HEADER.size)
    if len(head) < _HEADER.size or head[:4] != MAGIC:
        raise _invalid(file, 0, "this is not a kpack archive")
    _, version, table_at = _HEADER.unpack(head)
    if version != _VERSION:
        raise _invalid(file, 4, f"format version {version}; {_VERSION} is known")
    if not _DATA_AT <= table_at < file.size or file.size - table_at > _MOST_TABLE:
        raise _invalid(file, 8, f"its table of contents at {table_at:#x} lies outside the file")
    table = _decode(file, table_at)
    scheme = table.compression_scheme
    if table.format_version != _VERSION:
        raise _invalid(file, table_at, f"its table has format version {table.format_version}")
    if scheme not in (ZSTD, PLAIN):
        raise _invalid(file, table_at, f"unknown compression scheme {scheme!r}")
    blobs = tuple(_frames(file, table, table_at) if scheme == ZSTD else _plain(file, table, table_at))
    entries = tuple(_entries(file, table, table_at, len(blobs)))
    builds = {kernel.replace("\\", "/"): build for kernel, build in table.host_builds.items()}
    return Contents(table.group_name, tuple(table.gfx_arches), scheme, entries, blobs, builds)


def code_object(archive: Archive, entry: Entry) -> bytes:
    """The code object's bytes; raises `InvalidArchive` unless they are exactly as long as recorded."""
    offset, size = archive.blobs[entry.ordinal]
    return _object(archive.file, archive, entry, archive.file.slice(offset, size))


def stored_object(file: View, contents: Contents, entry: Entry) -> bytes:
    """As `code_object`, of an archive whose table alone was read."""
    return _object(file, contents, entry, file.read_at(*contents.blobs[entry.ordinal]))


def _object(file: View, contents: Contents, entry: Entry, blob: bytes | memoryview) -> bytes:
    offset, _ = contents.blobs[entry.ordinal]
    data = bytes(blob) if contents.scheme == PLAIN else _unpacked(file, offset, blob, entry.size)
    if len(data) != entry.size:
        raise _invalid(file, offset, f"a code object has {len(data)} bytes, not {entry.size}")
    return data


def _unpacked(file: View, offset: int, blob: bytes | memoryview, size: int) -> bytes:
    """What a frame, or several that follow each other, unpack to; never much more than `size` bytes."""
    unpacker = zstandard.ZstdDecompressor()
    try:
        told = zstandard.frame_content_size(blob)
        if told > size:
            raise _invalid(file, offset, f"a frame unpacks to {told} bytes, not {size}")
        if told in (-1, size):
            return unpacker.decompress(blob, max_output_size=size, allow_extra_data=False)
        with unpacker.stream_reader(blob, read_across_frames=True) as stream:
            return stream.read(size + 1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise _invalid(file, offset, f"a frame cannot be unpacked: {error}") from error


def frame_at(place: int, number: bytes) -> tuple[int, int]:
    """Offset and bytes of the frame whose length stands at `place`; behind it stands the next one's."""
    return place + NUMBER, int.from_bytes(number, "little")


def frame_head(data: bytes, length: int) -> bytes | None:
    """The first `length` bytes of a frame that begins with `data`; None when that is no such frame."""
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    head = b""
    try:
        # Little at a time, so that a frame made to explode cannot.
        for at in range(0, len(data), 256):
            head += unpacker.decompress(data[at : at + 256])
            if len(head) >= length or unpacker.eof:
                break
    except zstandard.ZstdError:
        return None
    return head[:length]


class _Row(msgspec.Struct):
    type: str
    ordinal: int
    original_size: int
    metadata: dict[str, Any] = {}


class _Table(msgspec.Struct):
    format_version: int
    group_name: str
    gfx_arches: list[str]
    toc: dict[str, dict[str, _Row]]
    compression_scheme: str = PLAIN
    blobs: list[dict[str, int]] = []
    zstd_offset: int = 0
    zstd_size: int = 0
    host_builds: dict[str, str] = {}


def _decode(file: View, at: int) -> _Table:
    try:
        return msgspec.msgpack.decode(file.read_at(at, file.size - at), type=_Table)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(file, at, f"its table of contents is malformed: {error}") from error


def _frames(file: View, table: _Table, table_at: int) -> Iterator[tuple[int, int]]:
    place, end = table.zstd_offset, table.zstd_offset + table.zstd_size
    if not _DATA_AT <= place <= end <= table_at or table.zstd_size < _COUNT.size:
        raise _invalid(file, table_at, f"its data from {place:#x} to {end:#x} lies outside the file")
    (count,) = _COUNT.unpack(file.read_at(place, _COUNT.size))
    place += _COUNT.size
    if count > _MOST_FRAMES:
        raise _invalid(file, place, f"it claims {count} frames")
    for _ in range(count):
        place, size = frame_at(place, file.read_at(place, NUMBER))
        if place + size > end:
            raise _invalid(file, place, f"a frame of {size} bytes does not fit")
        yield place, size
        place += size
    if place != end:
        raise _invalid(file, place, f"{end - place} bytes follow the last frame")


def _plain(file: View, table: _Table, table_at: int) -> Iterator[tuple[int, int]]:
    for row in table.blobs:
        offset, size = row.get("offset", -1), row.get("size", -1)
        if offset < _DATA_AT or size < 0 or offset + size > table_at:
            raise _invalid(file, table_at, f"a code object at {offset} of {size} bytes lies outside the file")
        yield offset, size


def _entries(file: View, table: _Table, at: int, count: int) -> Iterator[Entry]:
    for key, rows in table.toc.items():
        kernel, found, number = key.replace("\\", "/").rpartition("#")
        if not found or not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
            raise _invalid(file, at, f"the key {key!r} does not end in #index")
        for target, row in rows.items():
            if not 0 <= row.ordinal < count:
                raise _invalid(file, at, f"{key} for {target} has ordinal {row.ordinal} of {count}")
            if not 0 <= row.original_size <= _MOST_CODE:
                raise _invalid(file, at, f"{key} for {target} claims {row.original_size} bytes")
            origin = row.metadata.get("target")
            yield Entry(
                kernel,
                int(number),
                target,
                row.ordinal,
                row.original_size,
                origin if isinstance(origin, str) else None,
            )


def _invalid(file: View, offset: int, what: str) -> InvalidArchive:
    return InvalidArchive(
        f"{file.path.name}: at offset {offset:#x}: {what}",
        where=file.path,
        next_step="the archive is damaged or of another kind; split again or download it again",
    )
