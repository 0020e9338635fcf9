"""A file made of ranges of another one and of new bytes, as a value and as a view never held in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rocwright.binary.patch import BytePatch, overlay
from rocwright.binary.view import View
from rocwright.system.files import CHUNK


@dataclass(frozen=True)
class Copy:
    """`length` bytes from `source` of the old file appear at `offset` of the new one."""

    offset: int
    source: int
    length: int


@dataclass(frozen=True)
class Splice:
    """A new file: `copies` of ranges of `base`, then `patch` over them; the rest reads as zeros.

    Copies are sorted by `offset` and disjoint. Threads may read at the same time when `base` allows it.
    """

    base: View
    copies: tuple[Copy, ...]
    patch: BytePatch

    def __post_init__(self) -> None:
        end = 0
        for copy in self.copies:
            if copy.offset < end or copy.source + copy.length > self.base.size:
                raise ValueError(f"{copy} overlaps another or reads behind the old file")
            end = copy.offset + copy.length
        if end > self.size:
            raise ValueError(f"copies end at {end}, behind the size {self.size}")

    @property
    def path(self) -> Path:
        """The old file; names the new one in messages too."""
        return self.base.path

    @property
    def size(self) -> int:
        """Bytes of the new file."""
        return self.patch.size

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        length = max(0, min(length, self.size - offset))
        view = bytearray(length)
        first = max(0, bisect_right(self.copies, offset, key=lambda copy: copy.offset) - 1)
        for copy in self.copies[first:]:
            if copy.offset >= offset + length:
                break
            start, end = max(copy.offset, offset), min(copy.offset + copy.length, offset + length)
            if start < end:
                old = self.base.read_at(copy.source + start - copy.offset, end - start)
                view[start - offset : end - offset] = old
        overlay(view, offset, self.patch.edits)
        return bytes(view)

    def pieces(self) -> Iterator[bytes]:
        """The new file from its start, in 1 MiB pieces."""
        for offset in range(0, self.size, CHUNK):
            yield self.read_at(offset, CHUNK)
