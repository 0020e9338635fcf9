"""Read a wheel's members where they lie: compressed, to be taken over, or inflated with every check."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rocwright.errors import InvalidWheel
from rocwright.system.files import CHUNK
from rocwright.wheel.deflate import crc32
from rocwright.wheel.inflate import Cursor, Damaged, PackedMember, locate, stored_pieces
from rocwright.wheel.read import Wheel, WheelMember
from rocwright.wheel.zipformat import DEFLATED, ENCRYPTED, STORED

__all__ = ["PackedMember", "WheelStream", "opened"]

_PIECE = 4 * CHUNK  # at most this much comes out at once, however well it was compressed


@dataclass(frozen=True)
class WheelStream:
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
        raise InvalidWheel(f"cannot read {wheel.path.name}: {error.strerror}", where=wheel.path) from error
    try:
        yield WheelStream(wheel, handle)
    finally:
        os.close(handle)
