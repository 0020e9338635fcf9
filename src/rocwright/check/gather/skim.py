"""Keep of a large member that streams by what readers will ask for: headers, and where device code begins.

What is kept only saves time: anything else can be had again, more slowly. The compiler lets bundles and code
objects begin on page boundaries, so only the first byte of each page is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from rocwright.binary.elf import MAGIC as ELF_MAGIC
from rocwright.check.gather.view import PAGE, Kept
from rocwright.device_code.fatbin import PACKED_MAGIC, peek
from rocwright.device_code.kpack import FRAMES_AT, NUMBER, frame_at, frame_head
from rocwright.device_code.kpack import MAGIC as KPACK_MAGIC
from rocwright.device_code.unpack import RAW_MAGIC
from rocwright.model.machines import HEADER_SIZE

PIECE = 256 << 10  # a multiple of the page
_HEAD, _TAIL = 256 << 10, 1 << 20
_MOST_KEPT = 16 << 20
_OVERHEAD = 256  # about what Python takes to keep a few bytes, and their place
# A bundle's first block of zstd, which holds up to 128 KiB and must be there as a whole.
FIRST_BLOCK = 192 << 10
# The first bytes of what is looked for.
_MARKS = re.compile(b"[" + re.escape(RAW_MAGIC[:1] + PACKED_MAGIC[:1] + ELF_MAGIC[:1]) + b"]")


class Skim:
    """Sees a member's bytes in order, in pieces that begin at multiples of a page."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size
        self.kept = Kept(tail_at=max(0, size - _TAIL))
        self.held = 0
        self.last = b""
        self.wanted: list[_Wanted] = []

    def see(self, at: int, piece: bytes) -> None:
        """Take what is worth keeping from a piece that begins at offset `at`."""
        if at < _HEAD:
            self.kept.head += piece[: _HEAD - at]
            if at == 0 and piece.startswith(KPACK_MAGIC):
                self._follow(FRAMES_AT, NUMBER, self._first_frame)
        if at + len(piece) > self.kept.tail_at:
            self.kept.tail += piece[max(0, self.kept.tail_at - at) :]
        for mark in _MARKS.finditer(piece[::PAGE]):
            self._page(at, piece, mark.start() * PAGE)
        self._fill(at, piece)
        self.last = piece[-PAGE:]

    def done(self) -> Kept:
        """What was kept, once everything was seen."""
        for one in self.wanted:
            one.then(one.offset, bytes(one.data))
        self.wanted = []
        return self.kept

    def _keep(self, into: dict[int, bytes], offset: int, data: bytes) -> bool:
        room = self.held + len(data) <= _MOST_KEPT
        if room:
            self.held += len(data) + _OVERHEAD
            into[offset] = data
        return room

    def _page(self, at: int, piece: bytes, page: int) -> None:
        if piece.startswith(ELF_MAGIC, page):
            self._keep(self.kept.spots, at + page, piece[page : page + HEADER_SIZE])
        elif piece.startswith(RAW_MAGIC, page):
            if self._keep(self.kept.spots, at + page, piece[page : page + PAGE]):
                self._before(at, piece, page)
        elif piece.startswith(PACKED_MAGIC, page) and self._keep(
            self.kept.spots, at + page, piece[page : page + HEADER_SIZE]
        ):
            self._before(at, piece, page)
            self._follow(at + page, FIRST_BLOCK, self._bundle)

    def _before(self, at: int, piece: bytes, page: int) -> None:
        """Where the padding before a bundle begins, which the one before it ends in."""
        before = piece[page - PAGE : page] if page else self.last
        start = at + page - PAGE
        if len(before) == PAGE:
            self.kept.zeros[start] = start + len(before.rstrip(b"\0"))

    # Ranges that may go on in the next pieces.

    def _follow(self, offset: int, length: int, then: Callable[[int, bytes], None]) -> None:
        self.wanted.append(_Wanted(offset, length, then))

    def _fill(self, at: int, piece: bytes) -> None:
        waiting = []
        # What is finished may want more of the same piece, which then stands at the end of the list.
        while self.wanted:
            one = self.wanted.pop(0)
            start = one.offset + len(one.data) - at
            if start < len(piece):
                one.data += piece[start : start + one.length - len(one.data)]
            if len(one.data) < one.length:
                waiting.append(one)
            else:
                one.then(one.offset, bytes(one.data))
        self.wanted = waiting

    def _bundle(self, offset: int, data: bytes) -> None:
        head = peek(data, self.path)
        if head is not None:
            self._keep(self.kept.peeked, offset, head)

    def _first_frame(self, offset: int, data: bytes) -> None:
        self._keep(self.kept.spots, offset, data)
        self._follow(offset + NUMBER, NUMBER, self._frame_size)

    def _frame_size(self, offset: int, data: bytes) -> None:
        """A frame's length stands before it, and the next one's behind it."""
        frame, size = frame_at(offset, data)
        if len(data) < NUMBER or frame + size > self.size or self.held > _MOST_KEPT // 2:
            return
        self._keep(self.kept.spots, offset, data)
        self._follow(frame, min(size, FIRST_BLOCK), self._frame)
        self._follow(frame + size, NUMBER, self._frame_size)

    def _frame(self, offset: int, data: bytes) -> None:
        head = frame_head(data, HEADER_SIZE)
        if head is not None:
            self._keep(self.kept.frames, offset, head)


class _Wanted:
    """A range of bytes that something is to be done with once all of them were seen."""

    def __init__(self, offset: int, length: int, then: Callable[[int, bytes], None]) -> None:
        self.offset, self.length, self.then = offset, length, then
        self.data = bytearray()
