"""Bytes of a file, read without holding them: the one interface that the format readers need.

A file may also lie inside of another one: a range of it is a file of its own, or it is unpacked beside.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from rocwright.errors import InvalidInput, see_who_may_read
from rocwright.system.files import disk_error


class View(Protocol):
    """A file, or one as it will be; `path` names it in messages."""

    @property
    def path(self) -> Path:
        """The file that messages name."""

    @property
    def size(self) -> int:
        """Bytes in the file."""

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""


class Mapped(msgspec.Struct, frozen=True):
    """A file's bytes at hand, as a mapping (nothing is read before it is used) or in memory."""

    path: Path
    data: mmap.mmap | bytes

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        """A copy of `length` bytes from `offset`, fewer only at the end."""
        return self.data[max(0, offset) : max(0, offset + length)]

    def slice(self, offset: int, length: int) -> memoryview:
        """`length` bytes from `offset` without a copy."""
        return memoryview(self.data)[offset : offset + length]


@contextmanager
def mapped(path: Path) -> Iterator[Mapped]:
    """Map a file; raises `InvalidInput` naming it when it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path.name}: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
    try:
        data = map_handle(handle)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path.name}: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
    finally:
        os.close(handle)
    yield Mapped(path, data)
    # Not closed here: the mapping ends with the last slice of it, which an error may still hold.


def map_handle(handle: int) -> mmap.mmap | bytes:
    """An open file's bytes; an empty file cannot be mapped."""
    if os.fstat(handle).st_size == 0:
        return b""
    return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)


class Window(Mapped, frozen=True):
    """A range of a mapped file as a file of its own, such as a stored member of a wheel."""

    start: int = 0
    length: int = 0

    @property
    def size(self) -> int:
        """Bytes in the range."""
        return self.length

    def read_at(self, offset: int, length: int) -> bytes:
        """A copy of `length` bytes from `offset`, fewer only at the end."""
        return bytes(self.slice(offset, length))

    def slice(self, offset: int, length: int) -> memoryview:
        """`length` bytes from `offset` without a copy."""
        offset = max(0, offset)
        return memoryview(self.data)[
            self.start + min(offset, self.length) : self.start + min(offset + max(0, length), self.length)
        ]


def window(whole: Mapped, path: Path, start: int, length: int) -> Window:
    """`length` bytes from `start` of a file, called `path`; raises `InvalidInput` behind the file's end."""
    if start + length > whole.size:
        raise InvalidInput(
            f"{path.name} ends behind {whole.path.name}, which holds it",
            where=whole.path,
            next_step="build or fetch the file again",
        )
    return Window(path, whole.data, start, length)


def spooled(path: Path, pieces: Iterable[bytes], directory: Path | None = None) -> Mapped:
    """Pieces of bytes as one file called `path`, in a file without a name on disk (in `directory`).

    Raises `NoSpace`; the room is free again when the last slice of it is gone.
    """
    import tempfile  # slow to import, and most runs unpack nothing

    try:
        with tempfile.TemporaryFile(dir=directory) as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            return Mapped(path, map_handle(stream.fileno()))
    except OSError as error:
        raise disk_error(error, path) from error
