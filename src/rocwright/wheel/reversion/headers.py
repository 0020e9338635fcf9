"""The headers in front of members, looked at while the bytes go by that they stand in."""

from __future__ import annotations

from typing import Any

from rocwright.system.pread import pread
from rocwright.wheel.reversion.directory import Archive, Entry, damaged
from rocwright.wheel.zipformat import (
    CENTRAL,
    DESCRIPTOR,
    DESCRIPTOR_MARK,
    DESCRIPTORS,
    EXTRA_LENGTH,
    FULL32,
    LOCAL,
    LOCAL_MARK,
    NAME_LENGTH,
    PACKED,
    SHARED,
    wide_values,
)

_LONGEST_DESCRIPTOR = len(DESCRIPTOR_MARK) + DESCRIPTORS[-1].size


class Headers:
    """Every byte of an archive belongs to a member, whose header says what the directory says.

    `seen` takes pieces of the file in the order in which they lie; those between and headers that a piece
    cuts are read from `handle`. Raises `InvalidWheel` naming the first member of which that is not so.
    """

    def __init__(self, archive: Archive, handle: int) -> None:
        lying = archive.lying
        if (lying[0].offset if lying else archive.directory_at) != 0:
            raise damaged(archive.path, "something lies before its first member")
        self._archive, self._handle = archive, handle
        self._ends = [*(entry.offset for entry in lying[1:]), archive.directory_at]
        self._next = 0

    def seen(self, data: bytearray, length: int, place: int) -> None:
        """The first `length` bytes of `data`, which begin at `place` of the file."""
        directory, lying, ends, fixed = self._archive.directory, self._archive.lying, self._ends, LOCAL.size
        until, number, count, starts = place + length, self._next, len(lying), data.startswith
        while number < count:
            _, at, _, offset, _ = lying[number]
            names = directory[at + NAME_LENGTH] | directory[at + NAME_LENGTH + 1] << 8
            behind = offset + fixed + names
            if behind > until and offset >= until:
                break
            start = offset - place
            extra = start + EXTRA_LENGTH
            packed = int.from_bytes(directory[at + PACKED.start : at + PACKED.stop], "little")
            if (
                start < 0
                or behind > until
                or not starts(LOCAL_MARK + directory[at + SHARED.start : at + SHARED.stop], start)
                or not starts(directory[at + CENTRAL.size : at + CENTRAL.size + names], start + fixed)
                or behind + (data[extra] | data[extra + 1] << 8) + packed != ends[number]
            ):
                self._require(lying[number], ends[number])
            number += 1
        self._next = number

    def finish(self) -> None:
        """The members that no piece has shown."""
        lying = self._archive.lying
        for number in range(self._next, len(lying)):
            self._require(lying[number], self._ends[number])

    def _require(self, entry: Entry, following: int) -> None:
        _require_header(self._archive, self._handle, entry, following)


def _require_header(archive: Archive, handle: int, entry: Entry, following: int) -> None:
    """As above, for a header that is not the same byte by byte."""
    record = archive.record(entry)
    head = pread(handle, LOCAL.size + record[10], entry.offset)
    if len(head) < LOCAL.size or head[:4] != LOCAL_MARK:
        raise damaged(archive.path, f"{entry.name} has no header at {entry.offset:#x}")
    _, _, flags, method, _, _, crc, packed, size, names, extras = LOCAL.unpack_from(head)
    start = entry.offset + LOCAL.size + names + extras
    end = start + record[8]
    place = entry.at + CENTRAL.size
    same = head[LOCAL.size :] == archive.directory[place : place + record[10]] and names == record[10]
    same = same and (flags, method) == (record[3], record[4])
    if flags & DESCRIPTOR:
        same = same and _described(handle, record, end, following)
    else:
        if FULL32 in (packed, size):
            size, packed, _ = wide_values(pread(handle, extras, start - extras), (size, packed, 0))
        same = same and (crc, packed, size) == (record[7], record[8], record[9]) and end == following
    if not same:
        raise damaged(archive.path, f"the header of {entry.name} and the directory contradict each other")


def _described(handle: int, record: tuple[Any, ...], end: int, following: int) -> bool:
    """Whether what stands behind a member's bytes is its descriptor, and nothing else."""
    length = following - end
    data = pread(handle, length, end) if 0 < length <= _LONGEST_DESCRIPTOR else b""
    for form in DESCRIPTORS:
        if len(data) == form.size + len(DESCRIPTOR_MARK) and data.startswith(DESCRIPTOR_MARK):
            data = data.removeprefix(DESCRIPTOR_MARK)
        if len(data) == form.size:
            return form.unpack(data) == (record[7], record[8], record[9])
    return False
