"""Decide from an archive's directory alone whether its members can be inflated without harm."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise

from rocwright.system.pread import pread
from rocwright.wheel.read import WheelMember
from rocwright.wheel.zipformat import (
    CENTRAL_MARK,
    END,
    END64,
    END64_MARK,
    END_MARK,
    FULL32,
    LOCAL,
    LOCATOR64,
    LOCATOR64_MARK,
    MOST_COMMENT,
)

# Every member takes memory before anything is checked: about a kilobyte.
_MOST_DIRECTORY, _MOST_MEMBERS = 64 << 20, 200_000
_PIECE = 4 << 20
_HARMLESS, _MOST_RATIO = 1 << 30, 100
_MOST_MEMBER = 64 << 30
_MOST_TOTAL = 256 << 30


def directory_size(handle: int) -> int:
    """Bytes that the directory claims to have; 0 when there is no end of a zip archive."""
    size = os.fstat(handle).st_size
    start = max(0, size - END.size - MOST_COMMENT)
    tail = pread(handle, size - start, start)
    at = tail.rfind(END_MARK)
    if at < 0 or at + END.size > len(tail):
        return 0
    claimed: int = END.unpack_from(tail, at)[5]
    locator = pread(handle, LOCATOR64.size, max(0, start + at - LOCATOR64.size))
    if len(locator) == LOCATOR64.size and locator.startswith(LOCATOR64_MARK):
        end = pread(handle, END64.size, LOCATOR64.unpack(locator)[2] & (1 << 62) - 1)
        if len(end) == END64.size and end.startswith(END64_MARK):
            # Where this record is there, the older one may tell nothing but that it is.
            large: int = END64.unpack(end)[8]
            claimed = large if claimed == FULL32 else max(claimed, large)
    return claimed


def too_large(handle: int) -> str | None:
    """Why a directory is not read at all; None for any real one."""
    size, whole = directory_size(handle), os.fstat(handle).st_size
    if min(size, whole) > _MOST_DIRECTORY:
        return f"its directory has {size:,} bytes, more than that of any real wheel"
    start = max(0, whole - size - END.size - MOST_COMMENT - LOCATOR64.size - END64.size)
    entries = sum(pread(handle, _PIECE, at).count(CENTRAL_MARK) for at in range(start, whole, _PIECE))
    if entries > _MOST_MEMBERS:
        return f"its directory has about {entries:,} members, more than any real wheel"
    return None


def bomb(members: Sequence[WheelMember]) -> str | None:
    """Why these members must not be inflated; None for a harmless archive.

    Members that share bytes of the archive, one member above 64 GiB, or more than 1 GiB in one member or in
    all of them that is more than a hundred times what is stored for it.
    """
    ordered = sorted(members, key=lambda member: member.offset)
    for before, after in pairwise(ordered):
        name = min(len(before.name), len(before.name.encode("utf-8", "replace")))
        if before.offset + LOCAL.size + name + before.packed > after.offset:
            return f"{before.name} and {after.name} share bytes of the archive"
    for member in members:
        if member.size > _MOST_MEMBER:
            return f"{member.name} unpacks to {member.size:,} bytes"
        if _explodes(member.size, member.packed):
            return f"{member.name} has {member.packed:,} bytes and unpacks to {member.size:,}"
    size, packed = sum(member.size for member in members), sum(member.packed for member in members)
    if size > _MOST_TOTAL or _explodes(size, packed):
        return f"its members have {packed:,} bytes and unpack to {size:,}"
    return None


def _explodes(size: int, packed: int) -> bool:
    return size > _HARMLESS and size > _MOST_RATIO * packed
