"""Decide from an archive's directory alone whether its members can be inflated without harm."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from itertools import pairwise

from rocwright.wheel.inflate import LOCAL
from rocwright.wheel.read import WheelMember

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_MOST_COMMENT = (1 << 16) - 1
_IN_RECORD = 0xFFFFFFFF
# Every member takes memory before anything is checked: about a kilobyte.
_MOST_DIRECTORY, _MOST_MEMBERS = 64 << 20, 200_000
_ENTRY = b"PK\1\2"
_PIECE = 4 << 20
_HARMLESS, _MOST_RATIO = 1 << 30, 100
_MOST_MEMBER = 64 << 30
_MOST_TOTAL = 256 << 30


def directory_size(handle: int) -> int:
    """Bytes that the directory claims to have; 0 when there is no end of a zip archive."""
    size = os.fstat(handle).st_size
    start = max(0, size - _END.size - _MOST_COMMENT)
    tail = os.pread(handle, size - start, start)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        return 0
    claimed: int = _END.unpack_from(tail, at)[5]
    locator = os.pread(handle, _LOCATOR.size, max(0, start + at - _LOCATOR.size))
    if len(locator) == _LOCATOR.size and locator.startswith(b"PK\6\7"):
        end = os.pread(handle, _END64.size, _LOCATOR.unpack(locator)[2] & (1 << 62) - 1)
        if len(end) == _END64.size and end.startswith(b"PK\6\6"):
            # Where this record is there, the older one may tell nothing but that it is.
            large: int = _END64.unpack(end)[8]
            claimed = large if claimed == _IN_RECORD else max(claimed, large)
    return claimed


def too_large(handle: int) -> str | None:
    """Why a directory is not read at all; None for any real one."""
    size, whole = directory_size(handle), os.fstat(handle).st_size
    if min(size, whole) > _MOST_DIRECTORY:
        return f"its directory has {size:,} bytes, more than that of any real wheel"
    start = max(0, whole - size - _END.size - _MOST_COMMENT - _LOCATOR.size - _END64.size)
    entries = sum(os.pread(handle, _PIECE, at).count(_ENTRY) for at in range(start, whole, _PIECE))
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
