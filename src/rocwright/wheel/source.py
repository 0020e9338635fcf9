"""Where the bytes of a wheel's members come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol, runtime_checkable

import msgspec

from rocwright.system.files import pread


class Source(Protocol):
    """Bytes of known size that can be read in any order and from several threads at once."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""


@runtime_checkable
class FillingSource(Source, Protocol):
    """A source that also reads into memory at hand, which is faster for large files: no fresh pages.

    A mapping would be as fast, but a file that shrinks while it is mapped ends the process (SIGBUS).
    """

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset`; how many bytes were read, fewer than its length only at the end."""


def read_into(source: Source, offset: int, view: memoryview) -> int:
    """Fill `view` from any source; how many bytes were read."""
    if isinstance(source, FillingSource):
        return source.read_into(offset, view)
    data = source.read_at(offset, len(view))
    view[: len(data)] = data
    return len(data)


class FileSource(msgspec.Struct, frozen=True):
    """A file; its bytes must not change while the wheel is written."""

    path: Path

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.path.stat().st_size

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end of the file."""
        with self.path.open("rb", buffering=0) as stream:
            pieces = []
            # One call to the system returns at most 2 GiB and may return less than asked for.
            while length > 0 and (piece := pread(stream.fileno(), length, offset)):
                pieces.append(piece)
                offset += len(piece)
                length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset`; how many bytes were read, fewer only at the end of the file."""
        done = 0
        with self.path.open("rb", buffering=0) as stream:
            stream.seek(offset)
            while done < len(view) and (count := stream.readinto(view[done:])):
                done += count
        return done


class BytesSource(msgspec.Struct, frozen=True):
    """Bytes in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        """A slice."""
        return self.data[offset : offset + length]


class Buffers:
    """Memory that threads lend and give back; at most `most` bytes of it are kept for the next ones.

    Fresh memory costs the system as much time as reading into it; lent memory was paid for before.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: list[bytearray] = []
        self._lock = Lock()

    @contextmanager
    def lend(self, size: int) -> Iterator[memoryview]:
        """`size` bytes of memory with whatever content."""
        buffer = self._take(size)
        with memoryview(buffer) as view, view[:size] as part:
            yield part
        self._keep(buffer)

    def _take(self, size: int) -> bytearray:
        with self._lock:
            for number, buffer in enumerate(self._free):
                if len(buffer) >= size:
                    return self._free.pop(number)
        return bytearray(size)

    def _keep(self, buffer: bytearray) -> None:
        """Keep the largest ones that fit, smallest first in the list."""
        with self._lock:
            if len(buffer) <= self._most:
                self._free.append(buffer)
                self._free.sort(key=len)
            while sum(map(len, self._free)) > self._most:
                self._free.pop(0)
