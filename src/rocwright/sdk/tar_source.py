"""A tar archive that is never written to disk: headers in memory, file contents read where they lie."""

from __future__ import annotations

import tarfile
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from rocwright.errors import InvalidInput
from rocwright.wheel.source import BytesSource, Source

_BLOCK = 512


@dataclass(frozen=True)
class TarEntry:
    """One entry: a file with content, or (with `link`) a symbolic link. `name` is relative, with `/`."""

    name: str
    source: Source | None = None
    executable: bool = False
    link: str | None = None


class TarSource:
    """An uncompressed tar (PAX format, no owners, no times) as a `wheel.Source`.

    The same entries give the same bytes on every machine.
    """

    def __init__(self, entries: Iterable[TarEntry]) -> None:
        pieces: list[Source] = []
        for entry in entries:
            pieces.append(BytesSource(_header(entry)))
            if entry.source is not None:
                pieces.append(entry.source)
                padding = -entry.source.size % _BLOCK
                if padding:
                    pieces.append(BytesSource(b"\0" * padding))
        pieces.append(BytesSource(b"\0" * (2 * _BLOCK)))
        self._pieces = pieces
        self._starts = [0, *accumulate(piece.size for piece in pieces)]

    @property
    def size(self) -> int:
        """Bytes of the archive."""
        return self._starts[-1]

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        end = min(offset + length, self.size)
        number = bisect_right(self._starts, offset) - 1
        parts: list[bytes] = []
        while offset < end:
            start = self._starts[number]
            wanted = min(end, self._starts[number + 1]) - offset
            piece = self._pieces[number].read_at(offset - start, wanted)
            if len(piece) != wanted:
                raise InvalidInput(
                    f"a file became shorter while it was packed: {self._pieces[number]}",
                    next_step="nothing else may write into the prefix meanwhile; run again",
                )
            parts.append(piece)
            offset += wanted
            number += 1
        return b"".join(parts)


def _header(entry: TarEntry) -> bytes:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o755 if entry.executable else 0o644
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    elif entry.source is not None:
        info.size = entry.source.size
    return info.tobuf(tarfile.PAX_FORMAT)
