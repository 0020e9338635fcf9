"""The layout of a zip archive: headers, directory, its end, the 64-bit forms. PKWARE's APPNOTE.TXT 6.3.

The one module that knows it. What is done with it differs: wheels are written, read, taken over as they lie,
and looked at before anything in them is believed.
"""

from __future__ import annotations

import struct

LOCAL = struct.Struct("<4sHHHHHIIIHH")
CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
END = struct.Struct("<4sHHHHIIH")
END64 = struct.Struct("<4sQHHIIQQQQ")
LOCATOR64 = struct.Struct("<4sIQI")
# What stands behind a member's bytes where its header did not know them: checksum, packed size, size.
DESCRIPTORS = (struct.Struct("<III"), struct.Struct("<IQQ"))
# Where fields lie in a record of the directory, for loops that are too hot to take it apart. What is shared
# stands in a local header behind its mark: from the version needed to the length of the name.
SHARED, PACKED, NAME_LENGTH, OFFSET = slice(6, 30), slice(20, 24), 28, 42
# And in a local header, and in the end of the directory.
EXTRA_LENGTH, COMMENT_LENGTH = 28, slice(20, 22)
LOCAL_MARK, CENTRAL_MARK, DESCRIPTOR_MARK = b"PK\3\4", b"PK\1\2", b"PK\7\x08"
END_MARK, END64_MARK, LOCATOR64_MARK = b"PK\5\6", b"PK\6\6", b"PK\6\7"
# What stands where a number is in the 64-bit form.
FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF
MOST_COMMENT = 0xFFFF
EXTRA64 = 0x0001
STORED, DEFLATED = 0, 8
ENCRYPTED, DESCRIPTOR, UTF8_NAME = 0x1, 0x8, 0x800
# The version that a reader needs for plain deflate, and for 64-bit forms.
VERSION, VERSION64 = 20, 45
MADE_ON_UNIX = 3 << 8


def extra_field(kind: int, body: bytes) -> bytes:
    """One extra field as it stands behind a header."""
    return struct.pack("<HH", kind, len(body)) + body


def wide_field(*values: int) -> bytes:
    """The extra field with numbers of 64 bits; empty for none."""
    return extra_field(EXTRA64, struct.pack(f"<{len(values)}Q", *values)) if values else b""


def extra_fields(extra: bytes) -> list[tuple[int, bytes]]:
    """Kind and content of each extra field; what is malformed at the end is left out."""
    fields, at = [], 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        fields.append((kind, extra[at + 4 : at + 4 + length]))
        at += 4 + length
    return fields


def wide_values(extra: bytes, values: tuple[int, int, int]) -> tuple[int, int, int]:
    """Size, packed size and offset, with those that did not fit taken from the 64-bit extra field."""
    field = next((body for kind, body in extra_fields(extra) if kind == EXTRA64), b"")
    found, at = list(values), 0
    for number, value in enumerate(values):
        if value == FULL32 and at + 8 <= len(field):
            found[number] = int.from_bytes(field[at : at + 8], "little")
            at += 8
    return found[0], found[1], found[2]


def directory_end(count: int, length: int, start: int, comment: bytes = b"") -> bytes:
    """What stands behind a directory of `length` bytes that begins at `start`, in both forms where needed."""
    wide = b""
    if count >= FULL16 or length >= FULL32 or start >= FULL32:
        made = MADE_ON_UNIX | VERSION64
        wide = END64.pack(END64_MARK, 44, made, VERSION64, 0, 0, count, count, length, start)
        wide += LOCATOR64.pack(LOCATOR64_MARK, 0, start + length, 1)
    count, length, start = min(count, FULL16), min(length, FULL32), min(start, FULL32)
    return wide + END.pack(END_MARK, 0, 0, count, count, length, start, len(comment)) + comment
