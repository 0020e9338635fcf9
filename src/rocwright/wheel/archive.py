"""Write a zip archive whose local headers say the same as its central directory.

No data descriptors: uv refuses a stored member that has one. Sizes of large members are filled in by
seeking back. The sha256 of the archive is taken behind the writer, so that nobody reads it a second time.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from rocwright.system.files import CHUNK
from rocwright.wheel.zipformat import (
    CENTRAL,
    CENTRAL_MARK,
    DEFLATED,
    FULL32,
    LOCAL,
    LOCAL_MARK,
    MADE_ON_UNIX,
    STORED,
    UTF8_NAME,
    VERSION,
    VERSION64,
    directory_end,
    wide_field,
)

# A member this near 4 GiB gets 64-bit sizes from the start: incompressible data grows a little in deflate.
_LARGE = 0xFF000000
_DATE_1980 = (1 << 5) | 1
_REGULAR_FILE = 0o100000
_HASHED_AT_ONCE = 4 << 20


class Entry(msgspec.Struct, frozen=True):
    """A member's header: sizes in bytes, `offset` of its local header, `mode` the permission bits."""

    name: str
    mode: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int
    wide: bool


class ZipWriter:
    """Appends members to a seekable stream; `close` writes the directory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.entries: list[Entry] = []
        self.position = 0

    def add(
        self, name: str, data: bytes | bytearray, *, crc: int, size: int, deflated: bool, mode: int
    ) -> None:
        """A member whose bytes are at hand."""
        method = DEFLATED if deflated else STORED
        entry = Entry(name, mode, method, crc, len(data), size, self.position, size >= _LARGE)
        self.stream.write(_local_header(entry))
        self.stream.write(data)
        self._append(entry)

    def begin(self, name: str, *, size: int, deflated: bool, mode: int) -> Entry:
        """Start a member whose compressed size is not known yet; write its data to `stream` next."""
        method = DEFLATED if deflated else STORED
        entry = Entry(name, mode, method, 0, 0, size, self.position, size >= _LARGE)
        self.stream.write(_local_header(entry))
        return entry

    def finish(self, begun: Entry, *, crc: int, packed: int) -> None:
        """Fill in what `begin` could not know."""
        entry = Entry(begun.name, begun.mode, begun.method, crc, packed, begun.size, begun.offset, begun.wide)
        self.stream.seek(entry.offset)
        self.stream.write(_local_header(entry))
        self.stream.seek(packed, 1)
        self._append(entry)

    def close(self) -> None:
        """Write the central directory and its end, in the 64-bit forms where needed."""
        start = self.position
        directory = b"".join(_central_header(entry) for entry in self.entries)
        self.stream.write(directory + directory_end(len(self.entries), len(directory), start))

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.position = self.stream.tell()


def _name(entry: Entry) -> tuple[bytes, int]:
    """The name's bytes and the flags they need."""
    return entry.name.encode(), 0 if entry.name.isascii() else UTF8_NAME


def _local_header(entry: Entry) -> bytes:
    name, flags = _name(entry)
    extra = wide_field(entry.size, entry.packed) if entry.wide else b""
    packed, size = (FULL32, FULL32) if entry.wide else (entry.packed, entry.size)
    head = LOCAL.pack(
        LOCAL_MARK, VERSION64 if entry.wide else VERSION, flags, entry.method, 0, _DATE_1980,
        entry.crc, packed, size, len(name), len(extra),
    )  # fmt: skip
    return head + name + extra


def _central_header(entry: Entry) -> bytes:
    name, flags = _name(entry)
    far = entry.offset >= FULL32
    fields = ([entry.size, entry.packed] if entry.wide else []) + ([entry.offset] if far else [])
    extra = wide_field(*fields)
    version = VERSION64 if entry.wide else VERSION
    packed, size = (FULL32, FULL32) if entry.wide else (entry.packed, entry.size)
    head = CENTRAL.pack(
        CENTRAL_MARK, MADE_ON_UNIX | (VERSION64 if fields else VERSION), version,
        flags, entry.method, 0, _DATE_1980, entry.crc, packed, size, len(name), len(extra), 0, 0, 0,
        (_REGULAR_FILE | entry.mode) << 16, min(entry.offset, FULL32),
    )  # fmt: skip
    return head + name + extra


class TrailingDigest:
    """Hashes what is final of a growing file on a thread of its own, so that nobody waits for a second read.

    Needs the writer's stream because what lies in its memory cannot be read yet.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._path = Path(stream.name)
        self._digest = hashlib.sha256()
        self._piece = memoryview(bytearray(CHUNK))
        self._asked = 0
        self._done = 0
        self._last: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rocwright-digest")

    def __enter__(self) -> TrailingDigest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def settled(self, end: int) -> None:
        """Bytes before `end` will not change any more."""
        if end - self._asked >= _HASHED_AT_ONCE:
            self._ask(end)

    def finish(self) -> str:
        """Hex sha256 of the whole file."""
        self._ask(self._stream.tell())
        if self._last is not None:
            self._last.result()
        return self._digest.hexdigest()

    def _ask(self, end: int) -> None:
        self._stream.flush()
        self._asked = end
        self._last = self._pool.submit(self._read_up_to, end)

    def _read_up_to(self, end: int) -> None:
        piece = self._piece
        with self._path.open("rb", buffering=0) as file:
            file.seek(self._done)
            while self._done < end:
                count = file.readinto(piece[: end - self._done])
                if not count:
                    raise OSError(f"{self._path.name} ends before {end}")
                self._digest.update(piece[:count])
                self._done += count
