"""Unpack a compressed bundle, or only its head, without trusting the sizes it claims."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import zstandard

from rocwright.binary.view import Mapped, View
from rocwright.errors import InvalidBundle

RAW_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"

COUNT = struct.Struct("<Q")
ENTRY = struct.Struct("<QQQ")
_ZLIB, _ZSTD = 0, 1
MOST_ENTRIES = 4096
# Enough for the entries of any real bundle; keeps a bomb in a compressed one from filling the memory.
HEADER_LIMIT = 4 << 20
_PIECE = 64 << 10
# Real bundles have up to 120 MB; header version 3 exists for those above the 4 GiB of the older ones.
_MOST_UNPACKED = 16 << 30
# zstd's own limit is about 1:32000; real bundles of 27 nearly equal code objects reach 1:90.
_MOST_RATIO = 40_000
# The window that the compiler's long-distance matching uses.
_MOST_WINDOW = 1 << 27


class PackedStream(msgspec.Struct, frozen=True):
    """Where a compressed bundle's stream lies in the file and what its header claims.

    `place` is the bundle's offset, `start` and `stop` bound the stream, `unpacked` is in bytes, `digest` the
    first 8 bytes (little-endian) of the MD5 of the unpacked bundle.
    """

    place: int
    start: int
    stop: int
    method: int
    unpacked: int
    digest: int


def unpack_head(file: View, packed: PackedStream, open_end: bool) -> tuple[PackedStream, bytes]:
    """The first unpacked bytes, as far as the entries reach, and `packed` with its true end.

    With `open_end` (header version 1) the stream is unpacked piece by piece to find where it ends.
    """
    if packed.method not in (_ZLIB, _ZSTD):
        raise _invalid(file, packed, f"unknown compression method {packed.method}")
    if packed.unpacked > min(_MOST_UNPACKED, (packed.stop - packed.start) * _MOST_RATIO):
        raise _invalid(file, packed, f"it claims to unpack to {packed.unpacked} bytes")
    gathered, looked_at = bytearray(), 0
    for piece, _ in _pieces(file, packed):
        gathered += piece
        # Looked at again when it has grown by half, so that long headers in small pieces stay cheap.
        if len(gathered) * 2 >= looked_at * 3:
            looked_at = len(gathered)
            if looked_at >= HEADER_LIMIT or header_complete(gathered):
                break
    head = bytes(gathered)
    if not head:
        raise _invalid(file, packed, "it cannot be unpacked: its data ends early")
    if not head.startswith(RAW_MAGIC):
        raise _invalid(file, packed, "the compressed data is not a bundle")
    return (msgspec.structs.replace(packed, stop=_end_of_stream(file, packed)) if open_end else packed), head


def unpacked_at(file: View, packed: PackedStream, offsets: Iterable[int], length: int) -> dict[int, bytes]:
    """`length` bytes from each of these offsets of the unpacked bundle, by offset; holds nothing else of it.

    Unpacks no further than the last one needs, and leaves out what lies behind the bundle's end.
    """
    waiting = sorted(set(offsets))
    found: dict[int, bytes] = {}
    kept, start = b"", 0
    for piece, _ in _pieces(file, packed):
        kept += piece
        while waiting and waiting[0] + length <= start + len(kept):
            offset = waiting.pop(0)
            found[offset] = kept[offset - start : offset - start + length]
        if not waiting:
            break
        done = max(0, min(waiting[0] - start, len(kept)))
        kept, start = kept[done:], start + done
    return found


def unpack(file: Mapped, packed: PackedStream) -> bytes:
    """The whole bundle; raises `InvalidBundle` when its size differs from the claim."""
    stream = file.slice(packed.start, packed.stop - packed.start)
    try:
        if packed.method == _ZLIB:
            data = zlib.decompressobj().decompress(stream, packed.unpacked + 1)
        else:
            _check_frame(file, packed, stream)
            data = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).decompress(
                stream, max_output_size=packed.unpacked, allow_extra_data=True
            )
    except (zlib.error, zstandard.ZstdError, MemoryError) as error:
        raise _invalid(file, packed, f"it cannot be unpacked: {error}") from error
    if len(data) != packed.unpacked:
        raise _invalid(file, packed, f"it does not unpack to the {packed.unpacked} bytes it claims")
    return data


def require_hash(file: Mapped, packed: PackedStream, data: bytes) -> None:
    """Raise `InvalidBundle` unless the unpacked bundle has the hash that its header claims."""
    found = int.from_bytes(hashlib.md5(data, usedforsecurity=False).digest()[:8], "little")
    if found != packed.digest:
        raise _invalid(file, packed, f"its hash is {found:#018x}, its header says {packed.digest:#018x}")


def header_complete(head: bytes | bytearray) -> bool:
    """Whether these bytes reach behind the last entry's id (or are plainly no bundle)."""
    at = len(RAW_MAGIC)
    if len(head) < at + COUNT.size:
        return False
    if not head.startswith(RAW_MAGIC):
        return True
    (count,) = COUNT.unpack_from(head, at)
    at += COUNT.size
    for _ in range(min(count, MOST_ENTRIES)):
        if at + ENTRY.size > len(head):
            return False
        at += ENTRY.size + ENTRY.unpack_from(head, at)[2]
    return at <= len(head)


def invalid_bundle(path: Path, offset: int, what: str) -> InvalidBundle:
    """The error for a bundle that begins at a file offset."""
    return InvalidBundle(
        f"{path.name}: device code bundle at offset {offset:#x}: {what}",
        where=path,
        next_step="the file is damaged or incomplete; build or download it again",
    )


def _invalid(file: View, packed: PackedStream, what: str) -> InvalidBundle:
    return invalid_bundle(file.path, packed.place, what)


def _check_frame(file: Mapped, packed: PackedStream, stream: memoryview) -> None:
    """The frame's own size is what gets allocated, so it must be the one that was bounded."""
    told = zstandard.frame_content_size(stream)
    if told not in (-1, packed.unpacked):
        raise _invalid(file, packed, f"it does not unpack to the {packed.unpacked} bytes it claims")


def _end_of_stream(file: View, packed: PackedStream) -> int:
    """File offset behind the compressed stream, found by unpacking all of it piece by piece."""
    size = 0
    for piece, unused in _pieces(file, packed):
        size += len(piece)
        if size > packed.unpacked:
            break
        if unused is not None:
            if size == packed.unpacked:
                return unused
            break
    raise _invalid(file, packed, f"it does not unpack to the {packed.unpacked} bytes it claims")


def _pieces(file: View, packed: PackedStream) -> Iterator[tuple[bytes, int | None]]:
    """Unpacked pieces of bounded size; with the last one the file offset behind the stream."""
    try:
        yield from _zlib(file, packed) if packed.method == _ZLIB else _zstd(file, packed)
    except (zlib.error, zstandard.ZstdError) as error:
        raise _invalid(file, packed, f"it cannot be unpacked: {error}") from error


def _zlib(file: View, packed: PackedStream) -> Iterator[tuple[bytes, int | None]]:
    stream = zlib.decompressobj()
    for at in range(packed.start, packed.stop, _PIECE):
        waiting = file.read_at(at, min(_PIECE, packed.stop - at))
        behind = at + len(waiting)
        while waiting and not stream.eof:
            piece = stream.decompress(waiting, _PIECE)
            waiting = stream.unconsumed_tail
            yield piece, behind - len(stream.unused_data) if stream.eof else None
        if stream.eof:
            return


def _zstd(file: View, packed: PackedStream) -> Iterator[tuple[bytes, int | None]]:
    # A quarter of a kilobyte at a time bounds what one call can unpack to about 32 MiB (a block of
    # zstd is at most 128 KiB and needs at least 4 bytes), in a stream made to explode.
    stream = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).decompressobj()
    for at in range(packed.start, packed.stop, 256):
        waiting = file.read_at(at, min(256, packed.stop - at))
        piece = stream.decompress(waiting)
        yield piece, at + len(waiting) - len(stream.unused_data) if stream.eof else None
        if stream.eof:
            return
