"""METADATA of wheels without the wheels: read out of a remote file's end, or in wheels of nothing else.

A remote file is read in parts, as few as possible. A stub is enough to describe and resolve what it stands
for.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

from rocwright.errors import InvalidWheel
from rocwright.model.variants import WHEEL_FILE, split_label
from rocwright.system.files import atomic_write
from rocwright.system.http import Web
from rocwright.wheel.metadata import render_wheel_file, wheel_filename
from rocwright.wheel.tags import parse_wheel_name

# A wheel's directory is at its end, METADATA mostly right before. That of torch needs 1.7 MB of 190.
_TAIL, _LARGE_TAIL, _LARGE = 64 << 10, 2 << 20, 16 << 20
_LEAST = 64 << 10
# What a server that ignores ranges may send whole; what all parts of one wheel may have.
_MOST_WHOLE, _MOST_PARTS = 64 << 20, 64 << 20
_MOST_METADATA = 4 << 20


class RangedFile(io.RawIOBase):
    """A file behind an address, read only where it is needed; `size` is known after the first part."""

    def __init__(self, web: Web, url: str, size: int | None, into: Path | None = None) -> None:
        self._web, self._url = web, url
        self._parts: list[tuple[int, bytes]] = []
        self._place = self._received = 0
        tail = _LARGE_TAIL if size is not None and size > _LARGE else _TAIL
        first = web.part(url, f"-{tail}", most_whole=_MOST_WHOLE, into=into)
        self.size = first.total
        self.ignored = len(first.data) > tail or (into is not None and into.is_file())
        if into is not None and len(first.data) == first.total:
            # So small that its end is all of it.
            with atomic_write(into) as stream:
                stream.write(first.data)
        self._parts.append((first.start, first.data))
        if self.ignored:
            return
        if size is None and self.size > _LARGE:
            start = self.size - _LARGE_TAIL
            self._take(start, first.start)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise OSError("a place before the beginning of the file")
        self._place = base + offset
        return self._place

    def read(self, length: int = -1, /) -> bytes:
        """At most `length` bytes, fetched if they are not here yet."""
        end = self.size if length < 0 else min(self.size, self._place + length)
        found = bytearray()
        while self._place < end:
            piece = self._held(self._place, end)
            found += piece
            self._place += len(piece)
        return bytes(found)

    def _held(self, start: int, end: int) -> bytes:
        for first, data in self._parts:
            if first <= start < first + len(data):
                return data[start - first : end - first]
        later = min((first for first, _ in self._parts if first > start), default=self.size)
        self._take(start, min(later, max(end, start + _LEAST)))
        return self._held(start, end)

    def _take(self, start: int, end: int) -> None:
        self._received += end - start
        if self._received > _MOST_PARTS:
            raise zipfile.BadZipFile("its directory is larger than that of any real wheel")
        part = self._web.part(self._url, f"{start}-{end - 1}", most_whole=_MOST_WHOLE)
        if part.total != self.size or part.start > start or not part.data:
            raise zipfile.BadZipFile("it changed while it was read")
        self._parts.append((part.start, part.data))


def ranged_metadata(
    web: Web, url: str, name: str, size: int | None, into: Path | None = None, *, member: str = "METADATA"
) -> tuple[bytes, int, bool]:
    """METADATA of a remote wheel, the wheel's size, and whether the server ignored that a part was asked for.

    Another `member` of the dist-info directory, where one is named.

    A wheel that came as a whole, for that or because it is so small, is in `into` then, so that it need not
    be fetched again. Raises `InvalidWheel` for a file that is not a complete wheel.
    """
    try:
        remote = RangedFile(web, url, size, into)
        saved = into is not None and into.is_file()
        with zipfile.ZipFile(into if into is not None and saved else remote) as archive:
            found = [
                info
                for info in archive.infolist()
                if info.filename.count("/") == 1 and info.filename.endswith(f".dist-info/{member}")
            ]
            if len(found) != 1:
                raise InvalidWheel(f"{name} has {len(found)} {member} members, expected one", where=name)
            if found[0].file_size > _MOST_METADATA:
                raise InvalidWheel(f"{member} of {name} has {found[0].file_size:,} bytes", where=name)
            return archive.read(found[0]), remote.size, remote.ignored
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError) as error:
        raise InvalidWheel(
            f"{name} on the index is not a complete wheel: {error}",
            where=name,
            next_step="tell whoever runs the index; leave this build out until it is uploaded again",
        ) from error


def write_stub(folder: Path, name: str, metadata: bytes, variant: bytes | None = None) -> Path:
    """The wheel of this name with this METADATA, in `folder`; `variant` is what it states of itself."""
    info = "-".join(name.split("-")[:2]) + ".dist-info"
    tag = "-".join(split_label(name)[0].removesuffix(".whl").rsplit("-", 3)[1:])
    members = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": render_wheel_file(tag, root_is_purelib=False, generator="rocwright"),
    }
    if variant is not None:
        members[f"{info}/{WHEEL_FILE}"] = variant
    record = "".join(f"{member},,\n" for member in (*members, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in {**members, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(member), data)
    return path


def stub_name(project: str, version: str) -> str:
    """The name of a wheel that stands for an sdist."""
    name = wheel_filename(project, version, "py3-none-any")
    parse_wheel_name(name)
    return name
