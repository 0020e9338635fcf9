"""Size, CRC and sha256 of a member that streams by; of a large one the sha256 on a thread of its own."""

from __future__ import annotations

import hashlib
from queue import Queue
from threading import Thread
from types import TracebackType

from rocwright.wheel.deflate import crc32
from rocwright.wheel.inflate import Damaged
from rocwright.wheel.read import WheelMember

# Pieces that may wait: some megabytes.
_AHEAD = 16


class Digest:
    """Sees a member's bytes in pieces; a context, because of its thread.

    Inflating takes longer than digesting: `apart`, one very large library takes no longer than inflating it,
    where otherwise the other threads would have nothing left to do.
    """

    def __init__(self, member: WheelMember, *, apart: bool) -> None:
        self.member = member
        self.size = self.crc = 0
        self._sha256 = hashlib.sha256()
        self._waiting: Queue[bytes | None] = Queue(_AHEAD)
        self._thread = Thread(target=self._work, name="rocwright-digest", daemon=True) if apart else None

    def __enter__(self) -> Digest:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def add(self, piece: bytes) -> None:
        """Take in the next bytes; raises `Damaged` once they are more than recorded."""
        self.size += len(piece)
        self.crc = crc32(piece, self.crc)
        if self.size > self.member.size:
            raise longer(self.member.size)
        if self._thread is None:
            self._sha256.update(piece)
        else:
            self._waiting.put(piece)

    @property
    def sha256(self) -> str:
        """In hex, after the context's end; raises `Damaged` unless size and CRC are those recorded."""
        require_same(self.member, self.size, self.crc)
        return self._sha256.hexdigest()

    def _work(self) -> None:
        while (piece := self._waiting.get()) is not None:
            self._sha256.update(piece)


def longer(size: int) -> Damaged:
    """What is wrong with a member that does not end where the directory says."""
    return Damaged(f"it is longer than the {size} bytes recorded")


def require_same(member: WheelMember, size: int, crc: int) -> None:
    """Raises `Damaged` unless these are what the directory records."""
    if size != member.size or crc != member.crc:
        raise Damaged(f"{size} bytes with CRC {crc:08x} are not what the archive records")
