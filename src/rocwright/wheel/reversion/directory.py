"""A wheel's zip structure as raw bytes, so that members can be taken over exactly as they lie there.

Stricter than readers have to be: every byte of the file belongs to a member or to the directory, and both
tell the same of each member. What this accepts can be copied without looking inside.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rocwright.errors import InvalidWheel, see_who_may_read
from rocwright.system.files import pread
from rocwright.wheel.deflate import INFLATE_ERRORS, crc32, inflater
from rocwright.wheel.zipformat import (
    CENTRAL,
    CENTRAL_MARK,
    COMMENT_LENGTH,
    DEFLATED,
    ENCRYPTED,
    END,
    END64,
    END64_MARK,
    END_MARK,
    FULL16,
    FULL32,
    LOCAL,
    LOCATOR64,
    LOCATOR64_MARK,
    MOST_COMMENT,
    STORED,
    UTF8_NAME,
    wide_values,
)

# Encrypted, patch data, strongly encrypted, masked headers.
_REFUSED = ENCRYPTED | 0x20 | 0x40 | 0x2000
_LARGEST_TEXT = 64 << 20
_BAD_PARTS = ("\\", "//", "\n/", "\n\n")
_DOTS = ("/../", "\n../", "/..\n", "\n..\n", "/./", "\n./", "/.\n", "\n.\n")
_DRIVE = re.compile(r"\n[A-Za-z]:")


class DirectoryEntry(NamedTuple):
    """A member: place and length of its directory record, offset of its local header, size unpacked."""

    name: str
    at: int
    length: int
    offset: int
    size: int


class Body(NamedTuple):
    """A member's local header, the place of its bytes as stored, and where the member behind it begins."""

    head: bytes
    start: int
    end: int
    next: int


class WheelArchive(msgspec.Struct, frozen=True):
    """A wheel's structure: members in the order of the directory, and as they lie; the directory's bytes.

    `directory_at` is where the members end, `comment` what stands at the end of the file.
    """

    path: Path
    entries: tuple[DirectoryEntry, ...]
    lying: Sequence[DirectoryEntry]
    directory: bytes
    directory_at: int
    comment: bytes

    def following(self, entry: DirectoryEntry) -> int:
        """Where the member behind this one begins."""
        number = bisect_right(self.lying, entry.offset, key=lambda other: other.offset)
        return self.lying[number].offset if number < len(self.lying) else self.directory_at

    def record(self, entry: DirectoryEntry) -> tuple[Any, ...]:
        """The fields of a member's directory record, sizes and offset as they are, wherever they stand."""
        fields = list(CENTRAL.unpack_from(self.directory, entry.at))
        if FULL32 in (fields[8], fields[9], fields[16]):
            behind = entry.at + CENTRAL.size + fields[10]
            extra = self.directory[behind : behind + fields[11]]
            fields[9], fields[8], fields[16] = wide_values(extra, (fields[9], fields[8], fields[16]))
        return tuple(fields)

    def body(self, entry: DirectoryEntry) -> Body:
        """Where a member's header and bytes are."""
        with self.path.open("rb", buffering=0) as stream:
            handle = stream.fileno()
            head = pread(handle, LOCAL.size, entry.offset)
            if len(head) < LOCAL.size:
                raise damaged(self.path, f"{entry.name} has no header at {entry.offset:#x}")
            fields = LOCAL.unpack(head)
            head += pread(handle, fields[9] + fields[10], entry.offset + LOCAL.size)
        start = entry.offset + len(head)
        return Body(head, start, start + self.record(entry)[8], self.following(entry))

    def read(self, entry: DirectoryEntry) -> bytes:
        """A small member's bytes; raises `InvalidWheel` when they are not those the directory tells of."""
        record = self.record(entry)
        if max(entry.size, record[8]) > _LARGEST_TEXT:
            raise damaged(self.path, f"{entry.name} has {entry.size} bytes")
        body = self.body(entry)
        with self.path.open("rb", buffering=0) as stream:
            data = pread(stream.fileno(), body.end - body.start, body.start)
        whole = True
        if record[4] == DEFLATED:
            try:
                unpacker = inflater()
                data = unpacker.decompress(data, entry.size + 1)
                whole = unpacker.eof and not unpacker.unused_data
            except INFLATE_ERRORS as error:
                raise damaged(self.path, f"{entry.name}: {error}") from error
        if not whole or len(data) != entry.size or crc32(data) != record[7]:
            raise damaged(self.path, f"{entry.name} does not match its entry in the directory")
        return data


def read_archive(path: Path) -> WheelArchive:
    """Read a wheel's structure; raises `InvalidWheel` for one that cannot be copied member by member.

    Headers inside the file are not looked at yet: `Headers` does while the file is copied.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            return _read(path, stream.fileno())
    except OSError as error:
        raise InvalidWheel(
            f"cannot read {path.name}: {error.strerror or error}",
            where=path,
            next_step=see_who_may_read(path),
        ) from error


def _read(path: Path, handle: int) -> WheelArchive:
    size = os.fstat(handle).st_size
    count, length, start, comment = _end(path, handle, size)
    directory = pread(handle, length, start)
    entries = _records(path, directory, count)
    _require_names(path, [entry.name for entry in entries])
    offsets = [entry.offset for entry in entries]
    # Mostly they lie as they are listed.
    lying = entries if offsets == sorted(offsets) else sorted(entries, key=lambda entry: entry.offset)
    return WheelArchive(path, tuple(entries), lying, directory, start, comment)


def _comment_length(end: bytes) -> int:
    return int.from_bytes(end[COMMENT_LENGTH], "little")


def _end(path: Path, handle: int, size: int) -> tuple[int, int, int, bytes]:
    """Number of members, length and offset of the directory, the comment."""
    most = min(size, END.size + MOST_COMMENT)
    tail = pread(handle, most, size - most)
    place = tail.rfind(END_MARK)
    while place >= 0 and place + END.size + _comment_length(tail[place:]) != most:
        place = tail.rfind(END_MARK, 0, place)
    if place < 0 or len(tail) - place < END.size:
        raise damaged(path, "it does not end as a zip archive does; it is cut off, or something follows it")
    _, disk, first, here, count, length, start, _ = END.unpack_from(tail, place)
    comment, end = tail[place + END.size :], size - most + place
    if FULL16 in (disk, first, here, count) or FULL32 in (length, start):
        locator = pread(handle, LOCATOR64.size, max(0, end - LOCATOR64.size))
        if locator[:4] == LOCATOR64_MARK:
            _, disk, end, _ = LOCATOR64.unpack(locator)
            record = pread(handle, END64.size, end)
            if len(record) < END64.size or record[:4] != END64_MARK:
                raise damaged(path, "its 64-bit directory is not where it should be")
            _, _, _, _, disk, first, here, count, length, start = END64.unpack(record)
    if disk or first or here != count:
        raise damaged(path, "it is one of several volumes")
    if start + length != end:
        raise damaged(path, "something lies before its first member or around its directory")
    return count, length, start, comment


def _records(path: Path, data: bytes, count: int) -> list[DirectoryEntry]:
    entries: list[DirectoryEntry] = []
    at, end, fixed, unpack = 0, len(data), CENTRAL.size, CENTRAL.unpack_from
    # A named tuple's own constructors are functions of Python, which take longer than all the rest here.
    make = partial(tuple.__new__, DirectoryEntry)
    while at < end:
        if data[at : at + 4] != CENTRAL_MARK or at + fixed > end:
            raise damaged(path, f"its directory is malformed at record {len(entries) + 1}")
        (_, _, _, flags, method, _, _, _, packed, size, names, extras, comments, disk, _, _, offset) = (
            unpack(data, at)
        )  # fmt: skip
        behind = at + fixed + names
        raw = data[at + fixed : behind]
        if size == FULL32 or packed == FULL32 or offset == FULL32:
            size, packed, offset = wide_values(data[behind : behind + extras], (size, packed, offset))
        if flags & _REFUSED or (method != DEFLATED and method != STORED) or disk not in (0, FULL16):
            raise damaged(
                path, f"{raw!r} is encrypted or packed in a way that wheels do not use (method {method})"
            )
        try:
            name = raw.decode() if raw.isascii() or flags & UTF8_NAME else raw.decode("cp437")
        except UnicodeDecodeError as error:
            raise damaged(path, f"the name {raw!r} is not UTF-8") from error
        length = fixed + names + extras + comments
        entries.append(make((name, at, length, offset, size)))
        at += length
    # A small record counts modulo 65536.
    if at != end or len(entries) & FULL16 != count & FULL16:
        raise damaged(path, f"its directory has {len(entries)} members, its end says {count}")
    return entries


def _require_names(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        double = next(name for number, name in enumerate(names) if name in names[:number])
        raise InvalidWheel(f"{path.name} contains {double} twice", where=path)
    # One search over all of them; a line break inside a name would make two of it.
    if _bad(names):
        wrong = next((name for name in names if _bad([name])), "")
        raise InvalidWheel(f"{path.name} contains {wrong!r}, which is not a plain relative path", where=path)


def _bad(names: Sequence[str]) -> bool:
    # Names of folders end with a slash.
    joined = "\n".join(("", *names, "")).replace("/\n", "\n")
    return (
        any(part in joined for part in _BAD_PARTS)
        or (("/." in joined or "\n." in joined) and any(part in joined for part in _DOTS))
        or (":" in joined and _DRIVE.search(joined) is not None)
        or joined.count("\n") != len(names) + 1
        or not joined.replace("\n", "").isprintable()
    )


def damaged(path: Path, what: str) -> InvalidWheel:
    """The error for a wheel whose structure is not understood."""
    return InvalidWheel(
        f"{path.name} cannot be copied member by member: {what}",
        where=path,
        next_step="download or build the wheel again",
    )
