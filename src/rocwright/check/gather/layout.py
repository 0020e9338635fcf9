"""How an archive lies in its file: whether every byte of it belongs to what its directory lists.

Some readers begin at the end of a file, others at its front. Where bytes lie that the directory does not tell
of, or where two records tell differently, they install different files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from rocwright.check.facts import Fault
from rocwright.system.files import pread
from rocwright.wheel.zipformat import (
    CENTRAL,
    CENTRAL_MARK,
    DESCRIPTOR,
    DESCRIPTOR_MARK,
    DESCRIPTORS,
    END,
    END64,
    END64_MARK,
    END_MARK,
    EXTRA64,
    FULL16,
    FULL32,
    LOCAL,
    LOCAL_MARK,
    LOCATOR64,
    LOCATOR64_MARK,
    MOST_COMMENT,
    UTF8_NAME,
    extra_fields,
    wide_values,
)

# Info-ZIP's field with a name that counts instead of the header's; some readers take it, others do not.
_UNICODE_PATH = 0x7075
_HEAD = 5  # of that field: a version and a checksum


class _Entry(msgspec.Struct, frozen=True):
    """A record of the directory, as far as its place in the file follows from it."""

    name: bytes
    flags: int
    crc: int
    packed: int
    size: int
    offset: int

    @property
    def text(self) -> str:
        """The name as zipfile reads it."""
        return self.name.decode("utf-8" if self.flags & UTF8_NAME else "cp437", "replace")


class _Directory(msgspec.Struct, frozen=True):
    """Where the directory says that it is, and where it ends."""

    count: int
    length: int
    start: int
    end: int


def layout_faults(handle: int) -> tuple[Fault, ...]:
    """What readers of an open archive would disagree about.

    The first fault of the file, or one of each member. For a file whose directory could be read.
    """
    found = _directory(handle)
    if isinstance(found, str):
        return (Fault("", found),)
    data = pread(handle, found.length, found.start)
    entries = _entries(data)
    if entries is None or len(entries) != found.count:
        return (Fault("", "its end tells of another number of members than its directory lists"),)
    named = tuple(_names(data, entries))
    return named or tuple(_gaps(handle, entries, found.start))


def _directory(handle: int) -> _Directory | str:
    """The directory that the end of the file tells of, or why readers may see another."""
    whole = os.fstat(handle).st_size
    before = max(0, whole - END.size - MOST_COMMENT)
    tail = pread(handle, whole - before, before)
    at = tail.rfind(END_MARK, 0, max(0, len(tail) - END.size + len(END_MARK)))
    if at < 0:
        return "its end is missing"
    _, disk, first, here, total, length, start, comment = END.unpack_from(tail, at)
    at += before
    if (more := whole - at - END.size - comment) > 0:
        return f"{more:,} bytes follow behind its end"
    if more < 0:
        return "its end says that a longer comment follows"
    if disk or first or here != total:
        return "its end says that it is one part of several"
    end = at
    locator = pread(handle, LOCATOR64.size, at - LOCATOR64.size) if at >= LOCATOR64.size else b""
    if locator.startswith(LOCATOR64_MARK) and len(locator) == LOCATOR64.size:
        wide = _wide_end(handle, locator, at - LOCATOR64.size, (total, length, start))
        if isinstance(wide, str):
            return wide
        total, length, start, end = wide
    if start + length != end:
        more = end - length - start
        if more > 0:
            return f"{more:,} bytes stand in front of it, or its directory lies elsewhere than its end says"
        return "its directory does not lie where its end says"
    return _Directory(total, length, start, end)


def _wide_end(
    handle: int, locator: bytes, at: int, narrow: tuple[int, int, int]
) -> tuple[int, int, int, int] | str:
    """Count, length and start as the 64-bit end tells them, and where that lies."""
    _, disk, place, disks = LOCATOR64.unpack(locator)
    record = pread(handle, END64.size, place) if place + END64.size <= at else b""
    if len(record) < END64.size or not record.startswith(END64_MARK) or disk or disks > 1:
        return "its 64-bit end does not lie where it should"
    _, size, _, _, one, two, here, total, length, start = END64.unpack(record)
    if place + 12 + size != at or one or two or here != total:
        return "its 64-bit end does not lie where it should"
    wide = (total, length, start)
    full = (FULL16, FULL32, FULL32)
    if any(few not in (most, many) for few, many, most in zip(narrow, wide, full, strict=True)):
        return "its two ends contradict each other"
    return (*wide, place)


def _entries(data: bytes) -> list[_Entry] | None:
    """The records of a directory; None unless they fill it."""
    entries, at = [], 0
    while at + CENTRAL.size <= len(data) and data.startswith(CENTRAL_MARK, at):
        (_, _, _, flags, _, _, _, crc, packed, size, name, extra, comment, _, _, _, offset) = (
            CENTRAL.unpack_from(data, at)
        )
        begin = at + CENTRAL.size
        fields = data[begin + name : begin + name + extra]
        size, packed, offset = wide_values(fields, (size, packed, offset))
        entries.append(_Entry(data[begin : begin + name], flags, crc, packed, size, offset))
        at = begin + name + extra + comment
    return entries if at == len(data) else None


def _other_name(extra: bytes, name: bytes) -> bool:
    return any(kind == _UNICODE_PATH and body[_HEAD:] != name for kind, body in extra_fields(extra))


def _names(data: bytes, entries: list[_Entry]) -> Iterator[Fault]:
    """Names that are read in two ways."""
    at = 0
    for entry in entries:
        name, extra, comment = (int.from_bytes(data[at + n : at + n + 2], "little") for n in (28, 30, 32))
        begin = at + CENTRAL.size + name
        at = begin + extra + comment
        if not entry.name.isascii() and not entry.flags & UTF8_NAME:
            yield Fault(entry.text, "its name is not marked as UTF-8: tools read different names")
        elif _other_name(data[begin : begin + extra], entry.name):
            yield Fault(entry.text, "an extra field gives it another name: tools read different names")


def _gaps(handle: int, entries: list[_Entry], start: int) -> Iterator[Fault]:
    """Bytes between members that no record of the directory tells of."""
    ordered = sorted(entries, key=lambda entry: entry.offset)
    if not ordered:
        if start:
            yield Fault("", f"{start:,} bytes stand in front of it")
        return
    if ordered[0].offset:
        yield Fault("", f"{ordered[0].offset:,} bytes stand in front of its first member")
        return
    bounds = [*(entry.offset for entry in ordered), start]
    for entry, (_, following) in zip(ordered, pairwise(bounds), strict=True):
        what = _behind(handle, entry, following)
        if what is not None:
            yield Fault(entry.text, what)
            return


def _behind(handle: int, entry: _Entry, following: int) -> str | None:
    """What is wrong with the bytes from a member's header to where the next one begins."""
    head = pread(handle, LOCAL.size, entry.offset)
    if len(head) < LOCAL.size or not head.startswith(LOCAL_MARK):
        return None  # it cannot be read, which is a finding of its own
    _, _, flags, _, _, _, _, packed, size, name, extra = LOCAL.unpack(head)
    if extra:
        fields = pread(handle, extra, entry.offset + LOCAL.size + name)
        if _other_name(fields, entry.name):
            return "an extra field of its header gives it another name: tools read different names"
        told = next((body for kind, body in extra_fields(fields) if kind == EXTRA64), b"")
        values = wide_values(fields, (size, packed, 0))[:2] if told else (entry.size, entry.packed)
        if not flags & DESCRIPTOR and values != (entry.size, entry.packed):
            return "its header gives other 64-bit sizes than the directory"
    end = entry.offset + LOCAL.size + name + extra + entry.packed
    between = following - end
    if flags & DESCRIPTOR and 0 < between <= len(DESCRIPTOR_MARK) + DESCRIPTORS[1].size:
        written = [
            form.pack(entry.crc, entry.packed, entry.size) for form in DESCRIPTORS if _fits(entry, form.size)
        ]
        held = pread(handle, between, end)
        if held in written or held in [DESCRIPTOR_MARK + one for one in written]:
            return None
    elif not between and not flags & DESCRIPTOR:
        return None
    if between < 0:
        return "it shares bytes with what follows"
    if flags & DESCRIPTOR and not between:
        return "what its header announces behind its bytes is missing"
    return f"{between:,} bytes behind it belong to no member that the directory lists"


def _fits(entry: _Entry, size: int) -> bool:
    return size > DESCRIPTORS[0].size or max(entry.size, entry.packed) <= FULL32
