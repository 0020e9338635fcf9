"""Any part of a member that streamed by, without holding the member."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from rocwright.binary.view import View
from rocwright.errors import InvalidInput
from rocwright.wheel.stream import Cursor, PackedMember

PAGE = 4096
# A table in a real file has a few megabytes; a forged one must not fill the memory.
_MOST_READ = 32 << 20
_BLOCK = 256 << 10
_MOST_BLOCKS = 16


@dataclass
class Kept:
    """What was kept of a member while it streamed by.

    `head` and `tail` are its first and last bytes, the latter from `tail_at`. `spots` are some bytes at other
    offsets, `zeros` maps a page to the offset from which it holds nothing but zeros. `peeked` are unpacked
    heads of compressed bundles and `frames` those of the code objects in an archive, by file offset.
    """

    head: bytes = b""
    tail: bytes = b""
    tail_at: int = 0
    spots: dict[int, bytes] = field(default_factory=dict)
    zeros: dict[int, int] = field(default_factory=dict)
    peeked: dict[int, bytes] = field(default_factory=dict)
    frames: dict[int, bytes] = field(default_factory=dict)

    def read_at(self, offset: int, length: int) -> bytes | None:
        """These bytes, None unless all of them were kept."""
        end = offset + length
        if end <= len(self.head):
            return self.head[offset:end]
        if offset >= self.tail_at and end <= self.tail_at + len(self.tail):
            return self.tail[offset - self.tail_at : end - self.tail_at]
        page = offset // PAGE * PAGE
        for start in (offset, page):
            spot = self.spots.get(start, b"")
            if end <= start + len(spot):
                return spot[offset - start : end - start]
        if end <= page + PAGE and self.zeros.get(page, end) <= offset:
            return bytes(length)
        return None


@dataclass(frozen=True)
class StoredView:
    """A stored member, read where it lies in the archive."""

    path: Path
    packed: PackedMember

    @property
    def size(self) -> int:
        """Bytes in the member."""
        return self.packed.size

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        return self.packed.read_at(max(0, offset), _bounded(self, offset, length))


class InflatedView:
    """A compressed member: what was kept of it, and the rest inflated again from the nearest passed place."""

    def __init__(self, path: Path, size: int, kept: Kept, start: Cursor, passed: list[Cursor]) -> None:
        self.path, self.size, self.kept = path, size, kept
        self.passed = [start, *passed]
        self.places = [cursor.place for cursor in self.passed]
        self.cursor = start.copy()
        self.blocks: OrderedDict[int, bytes] = OrderedDict()

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end; raises `Damaged` when the file was changed."""
        offset = max(0, offset)
        length = _bounded(self, offset, length)
        kept = self.kept.read_at(offset, length)
        if kept is not None:
            return kept
        first = offset // _BLOCK * _BLOCK
        data = b"".join(self._block(start) for start in range(first, offset + length, _BLOCK))
        return data[offset - first : offset - first + length]

    def _block(self, start: int) -> bytes:
        if start in self.blocks:
            self.blocks.move_to_end(start)
            return self.blocks[start]
        nearest = self.passed[bisect_right(self.places, start) - 1]
        # Going on is as good as starting again, and most readers go forward.
        if not nearest.place <= self.cursor.place <= start:
            self.cursor = nearest.copy()
        while self.cursor.place < start:
            self.cursor.take(min(_BLOCK, start - self.cursor.place))
        self.blocks[start] = self.cursor.take(_BLOCK)
        if len(self.blocks) > _MOST_BLOCKS:
            self.blocks.popitem(last=False)
        return self.blocks[start]


def _bounded(view: View, offset: int, length: int) -> int:
    length = max(0, min(length, view.size - offset))
    if length > _MOST_READ:
        raise InvalidInput(f"{view.path.name}: a table at {offset:#x} claims to have {length} bytes")
    return length
