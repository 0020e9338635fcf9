"""Bytes of a file, read without holding them: the one interface that the format readers need."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rocwright.errors import InvalidInput


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


@dataclass(frozen=True)
class Mapped:
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
        raise InvalidInput(f"cannot read {path.name}: {error.strerror}", where=path) from error
    try:
        data = map_handle(handle)
    except OSError as error:
        raise InvalidInput(f"cannot read {path.name}: {error.strerror}", where=path) from error
    finally:
        os.close(handle)
    yield Mapped(path, data)
    # Not closed here: the mapping ends with the last slice of it, which an error may still hold.


def map_handle(handle: int) -> mmap.mmap | bytes:
    """An open file's bytes; an empty file cannot be mapped."""
    if os.fstat(handle).st_size == 0:
        return b""
    return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
