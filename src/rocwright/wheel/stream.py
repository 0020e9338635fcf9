"""Read a wheel's members where they lie: compressed, to be taken over, or inflated with every check."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rocwright.errors import InvalidWheel
from rocwright.system.files import CHUNK
from rocwright.wheel.deflate import INFLATE_ERRORS, crc32, inflater
from rocwright.wheel.read import Wheel, WheelMember

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _UTF8_NAME = 0x1, 0x800
_PIECE = 4 * CHUNK  # at most this much comes out at once, however well it was compressed
_DAMAGE: tuple[type[Exception], ...] = (*INFLATE_ERRORS, OSError)
_WRONG_END = "its compressed bytes do not end where they should"


@dataclass(frozen=True)
class PackedMember:
    """A member's bytes as stored, readable while its wheel is open; a `Source`."""

    handle: int
    start: int
    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        return os.pread(self.handle, min(length, self.size - offset), self.start + offset)


@dataclass(frozen=True)
class WheelStream:
    """An open wheel; several threads may read from it at once."""

    wheel: Wheel
    handle: int

    def packed(self, member: WheelMember) -> PackedMember:
        """A member's bytes as stored; raises `InvalidWheel` when its header is damaged."""
        head = os.pread(self.handle, _LOCAL.size, member.offset)
        if len(head) < _LOCAL.size or head[:4] != b"PK\3\4":
            raise self.damaged(member, f"no header at offset {member.offset:#x}")
        _, _, flags, *_, name_size, extra_size = _LOCAL.unpack(head)
        name = os.pread(self.handle, name_size, member.offset + _LOCAL.size)
        if name.decode("utf-8" if flags & _UTF8_NAME else "cp437", "replace") != member.name:
            raise self.damaged(member, "its header names another file")
        start = member.offset + _LOCAL.size + name_size + extra_size
        return PackedMember(self.handle, start, member.packed)

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
                    raise self.damaged(member, f"it is longer than the {member.size} bytes recorded")
                yield piece
        except _DAMAGE as error:
            raise self.damaged(member, str(error)) from error
        if size != member.size or crc != member.crc:
            raise self.damaged(member, f"{size} bytes with CRC {crc:08x} are not what the archive records")

    def _pieces(self, member: WheelMember) -> Iterator[bytes]:
        if member.flags & _ENCRYPTED:
            raise self.damaged(member, "it is encrypted")
        if member.method == _STORED:
            yield from self._stored(member)
        elif member.method == _DEFLATED:
            yield from self._inflate(member)
        else:
            raise self.damaged(member, f"compression method {member.method} is not one that wheels use")

    def _inflate(self, member: WheelMember) -> Iterator[bytes]:
        unpacker = inflater()
        for packed in self._stored(member):
            if unpacker.eof:
                raise self.damaged(member, _WRONG_END)
            rest, full = packed, True
            # Behind the end of the stream a decompressor hands back the rest for ever.
            while (rest or full) and not unpacker.eof:
                piece = unpacker.decompress(rest, _PIECE)
                rest, full = unpacker.unconsumed_tail, len(piece) == _PIECE
                if piece:
                    yield piece
        if not unpacker.eof or unpacker.unused_data:
            raise self.damaged(member, _WRONG_END)

    def _stored(self, member: WheelMember) -> Iterator[bytes]:
        packed = self.packed(member)
        place = 0
        while place < packed.size:
            piece = packed.read_at(place, CHUNK)
            if not piece:
                raise self.damaged(member, "the file ends inside it")
            yield piece
            place += len(piece)

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
        raise InvalidWheel(f"cannot read {wheel.path.name}: {error.strerror}", where=wheel.path) from error
    try:
        yield WheelStream(wheel, handle)
    finally:
        os.close(handle)
