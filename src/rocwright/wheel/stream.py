"""Read a wheel's members where they lie: compressed, to be taken over, or inflated with every check.

A `Cursor` inflates one member bit by bit, and goes on from any place that it passed before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from rocwright.errors import InvalidWheel, see_who_may_read
from rocwright.system.files import CHUNK, pread
from rocwright.wheel.deflate import INFLATE_ERRORS, crc32, inflater
from rocwright.wheel.read import Wheel, WheelMember
from rocwright.wheel.zipformat import (
    DEFLATED,
    DESCRIPTOR,
    ENCRYPTED,
    FULL32,
    LOCAL,
    LOCAL_MARK,
    STORED,
    UTF8_NAME,
)

WRONG_END = "its compressed bytes do not end where they should"
# A decompressor copies what it was given and has not used yet at every call, so it gets little at a time.
_INPUT = 128 << 10
_PIECE = 4 * CHUNK  # at most this much comes out at once, however well it was compressed


class Damaged(Exception):
    """A member that cannot be read; the text says why, and neither names the member nor the wheel."""


class PackedMember(msgspec.Struct, frozen=True):
    """A member's bytes as stored, readable while its wheel is open; a `Source`."""

    handle: int
    start: int
    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        return pread(self.handle, max(0, min(length, self.size - offset)), self.start + offset)


def header_end(data: bytes | memoryview, member: WheelMember) -> int:
    """How long the local header is that these bytes begin with; raises `Damaged` if it is of another."""
    if len(data) < LOCAL.size or data[:4] != LOCAL_MARK:
        raise Damaged(f"no header at offset {member.offset:#x}")
    _, _, flags, *_, name_size, extra_size = LOCAL.unpack_from(data)
    name = bytes(data[LOCAL.size : LOCAL.size + name_size])
    if name.decode("utf-8" if flags & UTF8_NAME else "cp437", "replace") != member.name:
        raise Damaged("its header names another file")
    end: int = LOCAL.size + name_size + extra_size
    return end


def require_agreement(head: bytes | memoryview, member: WheelMember) -> None:
    """Raises `Damaged` when a local header tells of other content than the directory.

    Readers that stream an archive believe the one, others the other; so they would see different files.
    """
    _, _, flags, method, _, _, crc, packed, size, *_ = LOCAL.unpack_from(head)
    told = [(method, member.method)]
    if not flags & DESCRIPTOR:
        told.append((crc, member.crc))
        # Where one of them does not fit, both stand in an extra field.
        told += [(packed, member.packed), (size, member.size)] if FULL32 not in (packed, size) else []
    if any(here != there for here, there in told):
        raise Damaged("its local header contradicts the directory")


def locate(handle: int, member: WheelMember) -> PackedMember:
    """Where a member's bytes are; raises `Damaged`, `OSError`."""
    most = LOCAL.size + len(member.name.encode("utf-8", "replace")) + 1
    head = pread(handle, most, member.offset)
    return PackedMember(handle, member.offset + header_end(head, member), member.packed)


def stored_pieces(packed: PackedMember, length: int = CHUNK) -> Iterator[bytes]:
    """The bytes as stored in pieces of `length`; raises `Damaged` where the file ends inside them."""
    place = 0
    while place < packed.size:
        piece = packed.read_at(place, length)
        if not piece:
            raise Damaged("the file ends inside it")
        yield piece
        place += len(piece)


class Cursor:
    """A place in a raw deflate stream; `place` is how many bytes came out of it so far.

    With `every` it leaves copies of itself behind, in `passed`, about that many bytes apart.
    """

    def __init__(self, packed: PackedMember, every: int = 0) -> None:
        self.packed, self.every = packed, every
        self.place = 0
        self.passed: list[Cursor] = []
        self._fed = 0
        self._unpacker: Any = inflater()
        self._waiting = b""
        self._full = False

    def take(self, length: int) -> bytes:
        """The next `length` bytes, fewer only at the end; raises `Damaged`."""
        parts: list[bytes] = []
        left = length
        try:
            while left and not self._unpacker.eof:
                parts.append(self._some(left))
                left -= len(parts[-1])
                self.place += len(parts[-1])
        except INFLATE_ERRORS as error:
            raise Damaged(str(error)) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, most: int) -> bytes:
        # A full piece may have left bytes in the decompressor that need no further input.
        if not self._waiting and not self._full:
            if self.every and self.place - (self.passed[-1].place if self.passed else 0) >= self.every:
                self.passed.append(self.copy())
            self._waiting = self.packed.read_at(self._fed, _INPUT)
            if not self._waiting:
                raise Damaged(WRONG_END if self._fed >= self.packed.size else "the file ends inside it")
            self._fed += len(self._waiting)
        piece: bytes = self._unpacker.decompress(self._waiting, most)
        self._waiting = self._unpacker.unconsumed_tail
        self._full = len(piece) == most
        return piece

    def require_end(self) -> None:
        """Raises `Damaged` unless the stream ended, and with it the member."""
        unpacker = self._unpacker
        if not unpacker.eof or unpacker.unused_data or self._fed < self.packed.size:
            raise Damaged(WRONG_END)

    def copy(self) -> Cursor:
        """Another cursor at the same place; about 50 kB, most of it the last 32 KiB that came out."""
        other = Cursor(self.packed)
        other.place, other._fed, other._waiting, other._full = (
            self.place, self._fed, self._waiting, self._full
        )  # fmt: skip
        other._unpacker = self._unpacker.copy()
        return other


class WheelStream(msgspec.Struct, frozen=True):
    """An open wheel; several threads may read from it at once."""

    wheel: Wheel
    handle: int

    def packed(self, member: WheelMember) -> PackedMember:
        """A member's bytes as stored; raises `InvalidWheel` when its header is damaged."""
        try:
            return locate(self.handle, member)
        except (Damaged, OSError) as error:
            raise self.damaged(member, str(error)) from error

    def inflated(self, member: WheelMember) -> Iterator[bytes]:
        """A member's bytes in pieces of at most 4 MiB.

        Raises `InvalidWheel` naming wheel and member when they end early, cannot be inflated, or are not of
        the size and CRC that the directory records; never yields more than that size and one piece.
        """
        crc = size = 0
        try:
            for piece in self._pieces(member):
                size += len(piece)
                crc = crc32(piece, crc)
                if size > member.size:
                    raise Damaged(f"it is longer than the {member.size} bytes recorded")
                yield piece
        except (Damaged, OSError) as error:
            raise self.damaged(member, str(error)) from error
        if size != member.size or crc != member.crc:
            raise self.damaged(member, f"{size} bytes with CRC {crc:08x} are not what the archive records")

    def _pieces(self, member: WheelMember) -> Iterator[bytes]:
        if member.flags & ENCRYPTED:
            raise Damaged("it is encrypted")
        if member.method == STORED:
            yield from stored_pieces(locate(self.handle, member))
        elif member.method == DEFLATED:
            cursor = Cursor(locate(self.handle, member))
            while piece := cursor.take(_PIECE):
                yield piece
            cursor.require_end()
        else:
            raise Damaged(f"compression method {member.method} is not one that wheels use")

    def damaged(self, member: WheelMember, what: str) -> InvalidWheel:
        """The error about one member, which names wheel and member."""
        path = self.wheel.path
        return InvalidWheel(
            f"{member.name} in {path.name} is damaged: {what}",
            where=path,
            next_step="download or build the wheel again",
        )


@contextmanager
def opened(wheel: Wheel) -> Iterator[WheelStream]:
    """Open a wheel for reading its members."""
    try:
        handle = os.open(wheel.path, os.O_RDONLY)
    except OSError as error:
        raise InvalidWheel(
            f"cannot read {wheel.path.name}: {error.strerror}",
            where=wheel.path,
            next_step=see_who_may_read(wheel.path),
        ) from error
    try:
        yield WheelStream(wheel, handle)
    finally:
        os.close(handle)
