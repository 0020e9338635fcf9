"""The bytes inside a `.tar.zst` or `.tar.xz`, as a stream that knows when it was cut short."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path
from typing import IO, Protocol, cast

import zstandard

from rocwright.system.files import CHUNK

# Put behind every zstd stream. Only the end of a whole stream leaves these bytes as the last that come out.
_MARK = b"rocwright: the end"
_MARK_FRAME = zstandard.ZstdCompressor(write_checksum=True).compress(_MARK)
# What damage raises here and in the reader of tar, which meets some of it as numbers that are none.
DAMAGE = (lzma.LZMAError, zstandard.ZstdError, tarfile.TarError, ValueError)


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class UnpackedStream:
    """The bytes inside an archive, in order, never more of them in memory than a bounded piece."""

    def __init__(self, path: Path) -> None:
        self.position = 0
        self._file = path.open("rb")
        xz = path.name.endswith(".xz")
        self._stream: _Readable = lzma.LZMAFile(self._file) if xz else _Zstd(self._file)  # noqa: SIM115

    def __enter__(self) -> UnpackedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, none at the end; raises `EOFError` when the packed stream is cut short."""
        data = self._stream.read(size)
        self.position += len(data)
        return data

    def drain(self) -> None:
        """Read to the end: what the packed stream says of itself there is checked, too."""
        while self.read(CHUNK):
            pass


class _Zstd:
    """A zstd stream of any number of frames; the library itself takes one that was cut short for a whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = zstandard.ZstdDecompressor().stream_reader(
            cast("IO[bytes]", _Marked(file)), read_across_frames=True, closefd=False
        )
        self._have = b""

    def read(self, size: int = CHUNK) -> bytes:
        # What may be the mark is held back.
        while len(self._have) <= len(_MARK):
            data = self._stream.read(size)
            if not data:
                if self._have != _MARK:
                    raise EOFError
                return b""
            self._have += data
        taken, self._have = self._have[: -len(_MARK)], self._have[-len(_MARK) :]
        return taken


class _Marked:
    """A file and, behind it, the mark."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if not data and not self._ended:
            self._ended = True
            return _MARK_FRAME
        return data
