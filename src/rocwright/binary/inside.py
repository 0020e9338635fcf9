"""Files that lie inside other files, as files of their own: where they are, or unpacked beside."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rocwright.binary.view import Mapped, map_handle
from rocwright.errors import InvalidInput
from rocwright.system.files import disk_error


@dataclass(frozen=True)
class Window(Mapped):
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
        raise InvalidInput(f"{path.name} ends behind {whole.path.name}, which holds it", where=whole.path)
    return Window(path, whole.data, start, length)


def spooled(path: Path, pieces: Iterable[bytes], directory: Path | None = None) -> Mapped:
    """Pieces of bytes as one file called `path`, in a file without a name on disk (in `directory`).

    Raises `NoSpace`; the room is free again when the last slice of it is gone.
    """
    try:
        with tempfile.TemporaryFile(dir=directory) as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            return Mapped(path, map_handle(stream.fileno()))
    except OSError as error:
        raise disk_error(error, path) from error
