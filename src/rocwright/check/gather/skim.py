"""Any part of a large member that streams by, without holding the member.

A `Skim` keeps what readers will ask for: headers, and where device code begins. What is kept only saves time:
anything else can be had again from the wheel, more slowly (`StoredView`, `InflatedView`). The compiler lets
bundles and code objects begin on page boundaries, so only the first byte of each page is looked at.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import msgspec

from rocwright.binary.elf import MAGIC as ELF_MAGIC
from rocwright.binary.view import View
from rocwright.device_code.fatbin import PACKED_MAGIC, peek
from rocwright.device_code.kpack import FRAMES_AT, NUMBER, frame_at, frame_head
from rocwright.device_code.kpack import MAGIC as KPACK_MAGIC
from rocwright.device_code.unpack import RAW_MAGIC
from rocwright.errors import InvalidInput
from rocwright.model.machines import HEADER_SIZE
from rocwright.wheel.stream import Cursor, PackedMember

PIECE = 256 << 10  # a multiple of the page
_HEAD, _TAIL = 256 << 10, 1 << 20
_MOST_KEPT = 16 << 20
_OVERHEAD = 256  # about what Python takes to keep a few bytes, and their place
# A bundle's first block of zstd, which holds up to 128 KiB and must be there as a whole.
FIRST_BLOCK = 192 << 10
# The first bytes of what is looked for.
_MARKS = re.compile(b"[" + re.escape(RAW_MAGIC[:1] + PACKED_MAGIC[:1] + ELF_MAGIC[:1]) + b"]")
PAGE = 4096
# A table in a real file has a few megabytes; a forged table must not fill the memory.
_MOST_READ = 32 << 20
_BLOCK = 256 << 10
_MOST_BLOCKS = 16


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
        """Where the padding before a bundle begins, in which the bundle before it ends."""
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
        """A frame's length stands before it, and the next frame's behind it."""
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


class Kept(msgspec.Struct):
    """What was kept of a member while it streamed by.

    `head` and `tail` are its first and last bytes, the latter from `tail_at`. `spots` are some bytes at other
    offsets, `zeros` maps a page to the offset from which it holds nothing but zeros. `peeked` are unpacked
    heads of compressed bundles and `frames` those of the code objects in an archive, by file offset.
    """

    head: bytes = b""
    tail: bytes = b""
    tail_at: int = 0
    spots: dict[int, bytes] = msgspec.field(default_factory=dict)
    zeros: dict[int, int] = msgspec.field(default_factory=dict)
    peeked: dict[int, bytes] = msgspec.field(default_factory=dict)
    frames: dict[int, bytes] = msgspec.field(default_factory=dict)

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


class StoredView(msgspec.Struct, frozen=True):
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
