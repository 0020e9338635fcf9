"""Edits of a binary file as values, and views of the edited file that are never held in memory.

A `BytePatch` writes over what stands in a file or behind it; a `Splice` also moves ranges of the file.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rocwright.binary.view import View
from rocwright.errors import InvalidInput
from rocwright.system.files import CHUNK, atomic_write, pread


class BytePatch(msgspec.Struct, frozen=True):
    """Replacements in a file: `(offset, bytes)` pairs and the size of the result in bytes.

    Edits are sorted and disjoint. They may lie beyond the old end of the file; what neither the old file
    nor an edit covers reads as zeros.
    """

    edits: tuple[tuple[int, bytes], ...]
    size: int

    def __post_init__(self) -> None:
        end = 0
        for offset, data in self.edits:
            if offset < end:
                raise ValueError(f"edit at {offset} overlaps or precedes the one that ends at {end}")
            end = offset + len(data)
        if end > self.size:
            raise ValueError(f"edits end at {end}, behind the size {self.size}")


class PatchedFile(msgspec.Struct, frozen=True):
    """A file as it will be after a patch; `patch` None is the file itself.

    `expected` is the file's size in bytes when the patch was made: a shorter one is `InvalidInput` then, not
    zeros. Threads may read at the same time; nothing stays open between reads.
    """

    path: Path
    patch: BytePatch | None = None
    expected: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the edited file."""
        return self.path.stat().st_size if self.patch is None else self.patch.size

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end of the file."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            data = _pread(handle, offset, length)
        finally:
            os.close(handle)
        self._require(offset, length, len(data))
        if self.patch is None:
            return data
        length = max(0, min(length, self.patch.size - offset))
        if len(data) == length and not _touching(self.patch.edits, offset, offset + length):
            return data
        view = bytearray(length)
        view[: len(data)] = data[:length]
        overlay(view, offset, self.patch.edits)
        return bytes(view)

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill `view` from `offset`; how many bytes were read, fewer only at the end of the file."""
        view = view[: max(0, self.size - offset)]
        done = 0
        with self.path.open("rb", buffering=0) as stream:
            stream.seek(offset)
            while done < len(view) and (count := stream.readinto(view[done:])):
                done += count
        self._require(offset, len(view), done)
        if self.patch is None:
            return done
        view[done:] = bytes(len(view) - done)
        overlay(view, offset, self.patch.edits)
        return len(view)

    def _require(self, offset: int, wanted: int, got: int) -> None:
        if self.expected is not None and got < min(wanted, self.expected - offset):
            raise InvalidInput(
                f"{self.path.name} became shorter while it was packaged",
                where=self.path,
                next_step="make sure that nothing writes to the inputs and run again",
            )


def overlay(view: bytearray | memoryview, offset: int, edits: tuple[tuple[int, bytes], ...]) -> None:
    """Put the parts of sorted `edits` that lie in `view`, which starts at `offset`, into it."""
    end = offset + len(view)
    for start, replacement in _touching(edits, offset, end):
        first, last = max(start, offset), min(start + len(replacement), end)
        view[first - offset : last - offset] = replacement[first - start : last - start]


def apply_patch(source: Path, patch: BytePatch | None, target: Path) -> None:
    """Write the edited `source` to `target` in 1 MiB pieces, atomically, with the mode of `source`.

    `target` may be `source`: it is replaced, never written into, so hard links of it keep the old bytes.
    Raises `NoSpace` when the disk is full.
    """
    edited = PatchedFile(source, patch)
    size = edited.size
    with atomic_write(target) as stream:
        for offset in range(0, size, CHUNK):
            stream.write(edited.read_at(offset, CHUNK))
        Path(stream.name).chmod(stat.S_IMODE(source.stat().st_mode))


def _pread(handle: int, offset: int, length: int) -> bytes:
    """pread until `length` bytes or the end; one call returns at most 2 GiB and may return less.

    A damaged file may ask for places that no file has: there is nothing.
    """
    end = min(offset + length, os.fstat(handle).st_size)
    offset = max(0, offset)
    length = max(0, end - offset)
    if not length:
        return b""
    data = pread(handle, length, offset)
    if len(data) == length or not data:
        return data
    pieces = [data]
    got = len(data)
    while got < length and (data := pread(handle, length - got, offset + got)):
        pieces.append(data)
        got += len(data)
    return b"".join(pieces)


def _touching(edits: tuple[tuple[int, bytes], ...], start: int, end: int) -> list[tuple[int, bytes]]:
    """The edits that share a byte with [start, end)."""
    first = max(0, bisect_right(edits, start, key=lambda edit: edit[0]) - 1)
    found = []
    for offset, data in edits[first:]:
        if offset >= end:
            break
        if offset + len(data) > start:
            found.append((offset, data))
    return found


class Copy(msgspec.Struct, frozen=True):
    """`length` bytes from `source` of the old file appear at `offset` of the new one."""

    offset: int
    source: int
    length: int


class Splice(msgspec.Struct, frozen=True):
    """A new file: `copies` of ranges of `base`, then `patch` over them; the rest reads as zeros.

    Copies are sorted by `offset` and disjoint. Threads may read at the same time when `base` allows it.
    """

    base: View
    copies: tuple[Copy, ...]
    patch: BytePatch

    def __post_init__(self) -> None:
        end = 0
        for copy in self.copies:
            if copy.offset < end or copy.source + copy.length > self.base.size:
                raise ValueError(f"{copy} overlaps another or reads behind the old file")
            end = copy.offset + copy.length
        if end > self.size:
            raise ValueError(f"copies end at {end}, behind the size {self.size}")

    @property
    def path(self) -> Path:
        """The old file; names the new one in messages too."""
        return self.base.path

    @property
    def size(self) -> int:
        """Bytes of the new file."""
        return self.patch.size

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        length = max(0, min(length, self.size - offset))
        view = bytearray(length)
        first = max(0, bisect_right(self.copies, offset, key=lambda copy: copy.offset) - 1)
        for copy in self.copies[first:]:
            if copy.offset >= offset + length:
                break
            start, end = max(copy.offset, offset), min(copy.offset + copy.length, offset + length)
            if start < end:
                old = self.base.read_at(copy.source + start - copy.offset, end - start)
                view[start - offset : end - offset] = old
        overlay(view, offset, self.patch.edits)
        return bytes(view)

    def pieces(self) -> Iterator[bytes]:
        """The new file from its start, in 1 MiB pieces."""
        for offset in range(0, self.size, CHUNK):
            yield self.read_at(offset, CHUNK)
