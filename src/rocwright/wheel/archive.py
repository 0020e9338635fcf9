"""Write a zip archive whose local headers say the same as its central directory.

No data descriptors: uv refuses a stored member that has one. Sizes of large members are filled in by
seeking back. Layouts follow PKWARE's APPNOTE.TXT 6.3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR64 = struct.Struct("<4sIQI")
_EXTRA64 = 0x0001
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
# A member this near 4 GiB gets 64-bit sizes from the start: incompressible data grows a little in deflate.
_LARGE = 0xFF000000
_STORED, _DEFLATED = 0, 8
_UTF8_NAME = 0x800
_MADE_ON_UNIX = 3 << 8
_DATE_1980 = (1 << 5) | 1
_REGULAR_FILE = 0o100000


@dataclass(frozen=True)
class Entry:
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
        method = _DEFLATED if deflated else _STORED
        entry = Entry(name, mode, method, crc, len(data), size, self.position, size >= _LARGE)
        self.stream.write(_local_header(entry))
        self.stream.write(data)
        self._append(entry)

    def begin(self, name: str, *, size: int, deflated: bool, mode: int) -> Entry:
        """Start a member whose compressed size is not known yet; write its data to `stream` next."""
        method = _DEFLATED if deflated else _STORED
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
        count, size = len(self.entries), len(directory)
        self.stream.write(directory)
        if count >= _FULL16 or size >= _FULL32 or start >= _FULL32:
            self.stream.write(
                _END64.pack(b"PK\6\6", 44, _MADE_ON_UNIX | 45, 45, 0, 0, count, count, size, start)
            )
            self.stream.write(_LOCATOR64.pack(b"PK\6\7", 0, start + size, 1))
        count, size, start = min(count, _FULL16), min(size, _FULL32), min(start, _FULL32)
        self.stream.write(_END.pack(b"PK\5\6", 0, 0, count, count, size, start, 0))

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.position = self.stream.tell()


def _name(entry: Entry) -> tuple[bytes, int]:
    """The name's bytes and the flags they need."""
    return entry.name.encode(), 0 if entry.name.isascii() else _UTF8_NAME


def _local_header(entry: Entry) -> bytes:
    name, flags = _name(entry)
    extra = struct.pack("<HHQQ", _EXTRA64, 16, entry.size, entry.packed) if entry.wide else b""
    packed, size = (_FULL32, _FULL32) if entry.wide else (entry.packed, entry.size)
    head = _LOCAL.pack(
        b"PK\3\4", 45 if entry.wide else 20, flags, entry.method, 0, _DATE_1980,
        entry.crc, packed, size, len(name), len(extra),
    )  # fmt: skip
    return head + name + extra


def _central_header(entry: Entry) -> bytes:
    name, flags = _name(entry)
    far = entry.offset >= _FULL32
    fields = ([entry.size, entry.packed] if entry.wide else []) + ([entry.offset] if far else [])
    extra = struct.pack(f"<HH{len(fields)}Q", _EXTRA64, 8 * len(fields), *fields) if fields else b""
    version = 45 if entry.wide else 20
    packed, size = (_FULL32, _FULL32) if entry.wide else (entry.packed, entry.size)
    head = _CENTRAL.pack(
        b"PK\1\2", _MADE_ON_UNIX | (45 if fields else 20), version, flags, entry.method, 0, _DATE_1980,
        entry.crc, packed, size, len(name), len(extra), 0, 0, 0,
        (_REGULAR_FILE | entry.mode) << 16, min(entry.offset, _FULL32),
    )  # fmt: skip
    return head + name + extra
