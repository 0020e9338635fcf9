"""The same archive with some members renamed, changed or left out, as pieces to write one after another."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import TypeAlias

import msgspec

from rocwright.wheel.deflate import blocks_of, crc32, levels_of, pack
from rocwright.wheel.reversion.directory import DirectoryEntry, WheelArchive
from rocwright.wheel.source import Buffers, BytesSource
from rocwright.wheel.zipformat import (
    CENTRAL,
    DEFLATED,
    DESCRIPTOR,
    EXTRA64,
    FULL32,
    LOCAL,
    LOCAL_MARK,
    OFFSET,
    STORED,
    UTF8_NAME,
    VERSION64,
    directory_end,
    extra_field,
    extra_fields,
    wide_field,
)

# Bytes to write as they are, or a range of the old file.
Piece: TypeAlias = bytes | tuple[int, int]
_OFFSET = struct.Struct("<I")


class Edits(msgspec.Struct, frozen=True):
    """What changes, by old name: new names, new content, what is left out."""

    renamed: Mapping[str, str]
    changed: Mapping[str, bytes]
    dropped: Collection[str]

    @property
    def names(self) -> frozenset[str]:
        """Members that are not taken over as they are."""
        return frozenset((*self.renamed, *self.changed, *self.dropped))


class _Moved(msgspec.Struct, frozen=True):
    """A member that changes, in the new archive; `data` None where only its name does."""

    entry: DirectoryEntry
    name: str
    offset: int
    method: int
    crc: int
    packed: int
    size: int
    data: bytes | None


def rewrite(archive: WheelArchive, edits: Edits) -> tuple[Piece, ...]:
    """The new archive. Members keep their order, times and modes; untouched ones are taken with header and
    descriptor, neighbours in one piece.
    """
    special = edits.names
    pieces: list[Piece] = []
    directory = bytearray(archive.directory)
    records: dict[int, tuple[int, bytes]] = {}
    place = taken = first = 0
    lying, patch = archive.lying, _OFFSET.pack_into

    def take(until: int, last: int) -> None:
        """Untouched members up to the byte `until`, which are those from `first` to `last`."""
        nonlocal place
        if until > taken:
            pieces.append((taken, until))
        moved = place - taken
        for entry in lying[first:last] if moved else ():
            if entry.offset + moved < FULL32 and entry.offset < FULL32:
                patch(directory, entry.at + OFFSET, entry.offset + moved)
            else:
                far = _kept(archive, entry, entry.name, entry.offset + moved)
                records[entry.at] = (entry.length, _new_record(archive, far))
        place += until - taken

    for number, entry in enumerate(lying):
        if entry.name not in special:
            continue
        take(entry.offset, number)
        body = archive.body(entry)
        first, taken = number + 1, body.next
        if entry.name in edits.dropped:
            records[entry.at] = (entry.length, b"")
            continue
        name, data = edits.renamed.get(entry.name, entry.name), edits.changed.get(entry.name)
        if data is None:
            member = _kept(archive, entry, name, place)
            pieces += [_renamed_header(body.head, name), (body.start, body.next)]
            place += len(pieces[-2]) + body.next - body.start
        else:
            packed, member = _packed(archive, entry, name, data, place)
            pieces.append(_fresh_header(body.head, member) + packed)
            place += len(pieces[-1])
        records[entry.at] = (entry.length, _new_record(archive, member))
    take(archive.directory_at, len(lying))
    return (*pieces, _directory(directory, records, len(lying) - len(edits.dropped), place, archive.comment))


def _directory(
    old: bytearray, records: Mapping[int, tuple[int, bytes]], count: int, start: int, comment: bytes
) -> bytes:
    """The directory with some records (old length and new bytes by place) exchanged, and its end."""
    parts: list[bytes | bytearray] = []
    done = 0
    for at, (length, new) in sorted(records.items()):
        parts += [old[done:at], new]
        done = at + length
    joined = b"".join((*parts, old[done:]))
    return joined + directory_end(count, len(joined), start, comment)


def _kept(archive: WheelArchive, entry: DirectoryEntry, name: str, place: int) -> _Moved:
    """A member whose content stays."""
    record = archive.record(entry)
    return _Moved(entry, name, place, record[4], record[7], record[8], record[9], None)


def _packed(
    archive: WheelArchive, entry: DirectoryEntry, name: str, data: bytes, place: int
) -> tuple[bytes, _Moved]:
    """New content, compressed where the old one was and where that gains something."""
    levels = levels_of("fast") if archive.record(entry)[4] == DEFLATED else None
    source, own = BytesSource(data), Buffers(0)
    parts = [pack(block, own) for block in blocks_of(name, source, levels)]
    body = b"".join(part.data for part in parts)
    method = DEFLATED if parts[0].deflated else STORED
    return body, _Moved(entry, name, place, method, crc32(data), len(body), len(data), data)


def _raw_name(name: str, flags: int) -> bytes:
    """A name as it stands in the archive; what changes in a name is ASCII, so its flags still hold."""
    return name.encode("utf-8" if flags & UTF8_NAME else "cp437")


def _renamed_header(head: bytes, name: str) -> bytes:
    fields = list(LOCAL.unpack_from(head))
    behind = head[LOCAL.size + fields[9] :]
    raw = _raw_name(name, fields[2])
    fields[9] = len(raw)
    return LOCAL.pack(*fields) + raw + behind


def _fresh_header(head: bytes, member: _Moved) -> bytes:
    """The local header of a changed member: sizes are known, so no descriptor and no 64-bit field."""
    _, needed, flags, _, time, date, _, _, _, names, extras = LOCAL.unpack_from(head)
    raw = _raw_name(member.name, flags)
    extra = _plain_extra(head[LOCAL.size + names : LOCAL.size + names + extras])
    return (
        LOCAL.pack(
            LOCAL_MARK, min(needed, 20), flags & ~DESCRIPTOR, member.method, time, date,
            member.crc, member.packed, member.size, len(raw), len(extra),
        ) + raw + extra
    )  # fmt: skip


def _plain_extra(extra: bytes, wide: bytes = b"") -> bytes:
    """Extra fields with this 64-bit one in front, in place of theirs."""
    kept = [extra_field(kind, body) for kind, body in extra_fields(extra) if kind != EXTRA64]
    return b"".join([wide, *kept])


def _new_record(archive: WheelArchive, member: _Moved) -> bytes:
    """The directory record of a member that changed, or whose offset needs another form."""
    raw = archive.directory[member.entry.at : member.entry.at + member.entry.length]
    fields = list(CENTRAL.unpack_from(raw))
    names, extras, flags = fields[10], fields[11], fields[3]
    behind = CENTRAL.size + names
    name = _raw_name(member.name, flags)
    wide: list[int] = []
    for number, value in ((9, member.size), (8, member.packed), (16, member.offset)):
        # A size that stood in the 64-bit field stays there, as in the local header that was taken over.
        far = value >= FULL32 or (number != 16 and member.data is None and fields[number] == FULL32)
        wide += [value] * far
        fields[number] = FULL32 if far else value
    extra = _plain_extra(raw[behind : behind + extras], wide_field(*wide))
    if wide:
        fields[2] = max(fields[2], VERSION64)
    if member.data is not None:
        fields[3] &= ~DESCRIPTOR
        fields[4], fields[7] = member.method, member.crc
    fields[10], fields[11] = len(name), len(extra)
    return CENTRAL.pack(*fields) + name + extra + raw[behind + extras :]
