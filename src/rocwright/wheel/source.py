"""Where the bytes of a wheel's members come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Source(Protocol):
    """Bytes of known size that can be read in any order and from several threads at once."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""


@dataclass(frozen=True)
class FileSource:
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
            while length > 0 and (piece := os.pread(stream.fileno(), length, offset)):
                pieces.append(piece)
                offset += len(piece)
                length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@dataclass(frozen=True)
class BytesSource:
    """Bytes in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        """A slice."""
        return self.data[offset : offset + length]
