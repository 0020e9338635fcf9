"""Read members of a wheel, each once: inflate, compare size and CRC, digest, and look at what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from queue import Queue
from threading import Thread
from types import TracebackType

import msgspec

from rocwright.binary.view import Mapped
from rocwright.check.gather.look import NOTHING, Found, Look, reads_further
from rocwright.check.gather.skim import PIECE, InflatedView, Kept, Skim, StoredView
from rocwright.system.files import pread
from rocwright.wheel.deflate import INFLATE_ERRORS, crc32, inflater
from rocwright.wheel.read import WheelMember
from rocwright.wheel.stream import (
    WRONG_END,
    Cursor,
    Damaged,
    PackedMember,
    header_end,
    locate,
    require_agreement,
    stored_pieces,
)
from rocwright.wheel.zipformat import DEFLATED, ENCRYPTED, LOCAL, STORED

# Members up to WHOLE are held in memory, up to SMALL read together with their neighbours.
WHOLE, SMALL = 4 << 20, 256 << 10
_BATCH, _MOST_IN_BATCH = 2 << 20, 256
# What reading a larger member holds: what is kept of it, and places to inflate from again.
_SKIMMED = 24 << 20
_APART = 64 << 20
_NEAREST, _MOST_PLACES = 4 << 20, 100
_ROOM = 1 << 10  # for the local header, whose extra field the directory does not know
_METHODS = (STORED, DEFLATED)


class Batch(msgspec.Struct, frozen=True):
    """Members to read in one go: neighbours in the file, or a single member; `weight` is bytes of memory."""

    members: tuple[WheelMember, ...]
    weight: int

    @property
    def size(self) -> int:
        """Bytes to inflate."""
        return sum(member.size for member in self.members)


class Seen(msgspec.Struct, frozen=True):
    """What became of a member: hex digest, and bytes if they were asked for; `damage` instead of all that.

    A member that no installer can read has neither.
    """

    member: WheelMember
    sha256: str | None = None
    damage: str | None = None
    text: bytes | None = None
    found: Found = NOTHING


def batches(members: Sequence[WheelMember]) -> Iterator[Batch]:
    """All members, each in one batch."""
    run: list[WheelMember] = []
    for member in sorted(members, key=lambda one: one.offset):
        if member.size > SMALL or member.packed > SMALL:
            yield Batch((member,), member.size + member.packed if member.size <= WHOLE else _SKIMMED)
            continue
        start = run[0].offset if run else member.offset
        if member.offset + member.packed - start > _BATCH or len(run) == _MOST_IN_BATCH:
            yield _run(run)
            run = []
        run.append(member)
    if run:
        yield _run(run)


def _run(run: list[WheelMember]) -> Batch:
    return Batch(tuple(run), _end(run[-1]) - run[0].offset + max(member.size for member in run))


def _end(member: WheelMember) -> int:
    return member.offset + _ROOM + 4 * len(member.name) + member.packed


class Reader:
    """Reads members of an open wheel; `wanted` says how many bytes of a member are asked for as text.

    `tell` is told how many bytes were read, of a large member piece by piece. With `several` threads in the
    first place, very large members get a second one.
    """

    def __init__(
        self,
        handle: int,
        look: Look,
        wanted: Callable[[str], int],
        tell: Callable[[int], None],
        *,
        several: bool = False,
    ) -> None:
        self.handle, self.look, self.wanted, self.tell, self.several = handle, look, wanted, tell, several

    def read(self, batch: Batch) -> list[Seen]:
        """What became of each member; raises `OSError` when the file cannot be read."""
        first = batch.members[0]
        if len(batch.members) == 1:
            data = b""
        else:
            data = pread(self.handle, _end(batch.members[-1]) - first.offset, first.offset)
        return [self._one(member, data, first.offset) for member in batch.members]

    def _one(self, member: WheelMember, data: bytes, start: int) -> Seen:
        if member.flags & ENCRYPTED or member.method not in _METHODS:
            return Seen(member)
        part = memoryview(data)[member.offset - start :] if data else None
        try:
            in_memory = max(WHOLE, self.wanted(member.name))
            seen = self._large(member) if member.size > in_memory else self._whole(member, part)
            # Last, because whoever writes a header wrong mostly has a better reason for it.
            require_agreement(part or pread(self.handle, LOCAL.size, member.offset), member)
            return seen
        except Damaged as damage:
            return Seen(member, damage=str(damage))

    # Members that fit into memory.

    def _whole(self, member: WheelMember, data: memoryview | None) -> Seen:
        if data is None:
            packed: bytes | memoryview = _all_of(locate(self.handle, member))
        else:
            at = header_end(data, member)
            packed = data[at : at + member.packed]
            if len(packed) < member.packed:
                # An extra field above all measure, or the end of the file.
                packed = _all_of(locate(self.handle, member))
        raw = bytes(packed) if member.method == STORED else _inflate(packed, member.size)
        require_same(member, len(raw), crc32(raw))
        self.tell(len(raw))
        most = self.wanted(member.name)
        return Seen(
            member,
            hashlib.sha256(raw).hexdigest(),
            text=raw if len(raw) <= most else None,
            found=self.look(member.name, Mapped(Path(member.name), raw)),
        )

    # Members that do not.

    def _large(self, member: WheelMember) -> Seen:
        packed = locate(self.handle, member)
        if member.method == STORED:
            return self._stored(member, packed)
        every = max(_NEAREST, member.size // _MOST_PLACES)
        cursor = Cursor(packed)
        start = cursor.copy()
        first = cursor.take(PIECE)
        skim = Skim(Path(member.name), member.size) if reads_further(first) else None
        cursor.every = every if skim is not None else 0
        with Digest(member, apart=self._apart(member)) as digest:
            for piece in chain((first,), iter(lambda: cursor.take(PIECE), b"")):
                if skim is not None:
                    skim.see(digest.size, piece)
                digest.add(piece)
                self.tell(len(piece))
            cursor.require_end()
        if skim is None:
            return Seen(member, digest.sha256, found=self.look(member.name, Mapped(Path(member.name), first)))
        kept = skim.done()
        view = InflatedView(Path(member.name), member.size, kept, start, cursor.passed)
        return Seen(member, digest.sha256, found=self.look(member.name, view, kept))

    def _stored(self, member: WheelMember, packed: PackedMember) -> Seen:
        with Digest(member, apart=False) as digest:
            for piece in stored_pieces(packed, PIECE):
                digest.add(piece)
                self.tell(len(piece))
        found = self.look(member.name, StoredView(Path(member.name), packed), Kept())
        return Seen(member, digest.sha256, found=found)

    def _apart(self, member: WheelMember) -> bool:
        return self.several and member.size > _APART


def _all_of(packed: PackedMember) -> bytes:
    data = packed.read_at(0, packed.size)
    if len(data) < packed.size:
        raise Damaged("the file ends inside it")
    return data


def _inflate(packed: bytes | memoryview, size: int) -> bytes:
    unpacker = inflater()
    try:
        raw: bytes = unpacker.decompress(packed, size + 1)
    except INFLATE_ERRORS as error:
        raise Damaged(str(error)) from error
    if len(raw) > size:
        raise longer(size)
    # A stream that ends on the byte that was asked for may have its end still to come.
    if not unpacker.eof and unpacker.decompress(unpacker.unconsumed_tail, 1):
        raise longer(size)
    if not unpacker.eof or unpacker.unused_data:
        raise Damaged(WRONG_END)
    return raw


# -- size, CRC and sha256 of a member that streams by; of a large member the sha256 on a thread of its own


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
