"""Plan a library with other device code of any size: the old is cut out, the new lies behind everything else.

The section `.hip_fatbin` is cut out as for a host file, so nothing else moves in memory; where the header
table has no room for that, zeros stay in its place. The new one comes at the end of the last load segment, or
in a segment of its own where a program header is dispensable: the header table stays where it is, so GNU
strip and patchelf can lay the file out again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.dynamic import pack_segment, up
from rocwright.binary.elf import Elf, Section, Segment, read_elf
from rocwright.binary.new_segment import expendable
from rocwright.binary.patch import BytePatch, Copy, Splice
from rocwright.binary.soundness import problems
from rocwright.binary.view import View
from rocwright.device_code import fatbin
from rocwright.device_code.host import MARKER_SECTION, contradicting, plan_host
from rocwright.device_code.wrappers import (
    FAT_MAGIC,
    RELATIVE,
    WRAPPER,
    Unsplittable,
    Wrapper,
    read_wrappers,
)

_PAGE = 0x1000
_SHOFF_FIELD, _SHNUM_FIELD = 40, 60  # in the ELF header
_INFO_AT = 8  # in a RELA entry; the addend follows
_LEFT = ".hip_fatbin.old"
_MOST_ZEROS = 64 << 20  # of zero-initialised data that become bytes of the file
_MOST_ALIGN = 64 << 20  # of a segment: so much padding may stand in the file; real ones have 2 MiB at most
_MOST_SECTIONS = 0xFF00
_PLACEHOLDER = b"\0"


class Refilled(msgspec.Struct, frozen=True):
    """A library as it will be: `file` with `room` bytes for the device code left free at `offset`."""

    file: Splice
    offset: int
    room: int


def plan_refill(
    elf: Elf, file: View, fat: Section, wrappers: tuple[Wrapper, ...], room: int, starts: Sequence[int]
) -> Refilled:
    """The library with `room` bytes for device code, where wrapper i leads `starts[i]` bytes into them.

    Only these wrappers lead into `fat`, as `split.wrapped_bundles` requires. Raises `Unsplittable` when there
    is no place for the new code, `InvalidElf` for headers that contradict each other.
    """
    try:
        host = plan_host(elf, file, fat, wrappers, _PLACEHOLDER)
    except Unsplittable:
        host = _emptied(file, fat)
    return _planned(elf, host, {fat.index}, room, starts)


def plan_return(elf: Elf, file: View, room: int, starts: Sequence[int]) -> Refilled:
    """A split library with `room` bytes for device code; wrapper i leads `starts[i]` bytes into them.

    Its marker becomes zeros, and its section and an empty one for device code keep their places under another
    name. Raises as `plan_refill`.
    """
    old = [section for section in elf.section_table if section.name in (MARKER_SECTION, fatbin.SECTION)]
    blank = file
    for section in old:
        if section.type != fmt.SHT_NOBITS:
            blank = _blanked(blank, section)
    indices = {section.index for section in old}
    return _planned(elf, blank, indices, room, starts)


def _planned(before: Elf, host: View, old: set[int], room: int, starts: Sequence[int]) -> Refilled:
    try:
        refilled = _Refill(read_elf(host), host, old, room, starts).plan()
    except (ValueError, struct.error) as error:
        raise contradicting(before, error) from error
    known = problems(before)
    if worse := [text for text in problems(read_elf(refilled.file)) if text not in known]:
        raise Unsplittable(f"with other device code it would not be sound: {worse[0]}")
    return refilled


def _blanked(file: View, section: Section) -> Splice:
    """The file with zeros for a section that stays."""
    length = max(0, min(section.size, file.size - section.offset))
    patch = BytePatch(((section.offset, bytes(length)),) if length else (), file.size)
    return Splice(file, (Copy(0, 0, file.size),), patch)


def _emptied(file: View, fat: Section) -> Splice:
    """The file with zeros in a section's place."""
    end = fat.offset + fat.size
    copies = (Copy(0, 0, fat.offset), Copy(end, end, file.size - end))
    return Splice(file, copies, BytePatch((), file.size))


class _Refill:
    """Works out one file; every method only computes."""

    def __init__(self, elf: Elf, host: View, old: set[int], room: int, starts: Sequence[int]) -> None:
        self.elf, self.host, self.old, self.room, self.starts = elf, host, old, room, starts
        loads = elf.segments_of(fmt.PT_LOAD)
        self.last = max(loads, key=lambda load: load.vaddr)
        self.end = self.last.offset + self.last.filesz
        self.dropped = expendable(elf)
        self.unit = unit = max(_PAGE, *(load.align for load in loads))
        self._require_end(loads)
        vaddr = up(self.last.vaddr + self.last.memsz, unit)
        # Congruent to its address, in both kinds of segment.
        offset = (
            self.end + (vaddr - self.end) % unit
            if self.dropped
            else self.last.offset + vaddr - self.last.vaddr
        )
        self.vaddr, self.offset = vaddr, offset
        self.shift = up(offset + room - self.end, _PAGE)

    def _require_end(self, loads: tuple[Segment, ...]) -> None:
        elf, last = self.elf, self.last
        if any(load.offset + load.filesz > self.end for load in loads):
            raise Unsplittable("its last load segment is not the last in the file")
        if not self.dropped and (last.flags & fmt.PF_X or last.memsz - last.filesz > _MOST_ZEROS):
            raise Unsplittable("its last load segment cannot take device code at its end")
        if self.unit > _MOST_ALIGN:
            raise Unsplittable(f"its segments are aligned to {self.unit} bytes")
        if len(elf.section_table) + 1 >= _MOST_SECTIONS:
            raise Unsplittable("its section header table is full")

    def plan(self) -> Refilled:
        stop = self.elf.shoff if self._headers_are_last() else self.host.size
        copies = [Copy(0, 0, self.end)]
        if stop > self.end:
            copies.append(Copy(self.end + self.shift, self.end, stop - self.end))
        names_at = max(stop + self.shift, self.offset + self.room)
        names = self._names()
        headers_at = up(names_at + len(names), 8)
        headers = self._section_headers(names_at, names)
        edits = [
            (_SHOFF_FIELD, headers_at.to_bytes(8, "little")),
            (_SHNUM_FIELD, (len(headers) // fmt.SHDR.size).to_bytes(2, "little")),
            (self.elf.phoff, b"".join(pack_segment(segment) for segment in self._segments())),
            *self._wrapper_edits(),
            (names_at, names),
            (headers_at, headers),
        ]
        patch = BytePatch(tuple(sorted(edits)), headers_at + len(headers))
        return Refilled(Splice(self.host, tuple(copies), patch), self.offset, self.room)

    def _headers_are_last(self) -> bool:
        return self.elf.shoff + len(self.elf.section_table) * fmt.SHDR.size == self.host.size

    def _segments(self) -> list[Segment]:
        size = self.offset + self.room - self.last.offset
        if not self.dropped:
            grown = msgspec.structs.replace(self.last, filesz=size, memsz=size)
            return [grown if s is self.last else self._moved(s) for s in self.elf.segments]
        new = Segment(
            fmt.PT_LOAD, fmt.PF_R, self.offset, self.vaddr, self.vaddr, self.room, self.room, self.unit
        )
        segments = [self._moved(s) for s in self.elf.segments if s is not self.dropped]
        # Load segments must be sorted by address, and the new one is the highest.
        last = max(index for index, s in enumerate(segments) if s.type == fmt.PT_LOAD)
        return [*segments[: last + 1], new, *segments[last + 1 :]]

    def _moved(self, segment: Segment) -> Segment:
        if segment.type != fmt.PT_LOAD and segment.filesz and segment.offset >= self.end:
            return msgspec.structs.replace(segment, offset=segment.offset + self.shift)
        return segment

    def _wrapper_edits(self) -> list[tuple[int, bytes]]:
        edits = []
        for wrapper, start in zip(read_wrappers(self.elf, self.host), self.starts, strict=True):
            _, version, in_place, reserved = WRAPPER.unpack(self.host.read_at(wrapper.offset, WRAPPER.size))
            address = self.vaddr + start
            # Some linkers store the value in the file as well, although the loader takes it from the entry.
            value = 0 if wrapper.rela is not None and in_place == 0 else address
            # Of the reserved word, a split file's lower half is the wrapper's number.
            packed = WRAPPER.pack(FAT_MAGIC, version, value, reserved >> 32 << 32)
            edits.append((wrapper.offset, packed))
            if wrapper.rela is not None:
                entry = struct.pack("<QQ", RELATIVE[self.elf.machine], address)
                edits.append((wrapper.rela + _INFO_AT, entry))
        return edits

    # The section headers. `.hip_fatbin` gets a new one at the end of the table: GNU strip lays the sections
    # of a segment out in the order of their headers.

    def _raw(self) -> list[tuple[int, ...]]:
        size = len(self.elf.section_table) * fmt.SHDR.size
        return list(fmt.SHDR.iter_unpack(self.host.read_at(self.elf.shoff, size)))

    def _names_section(self) -> Section:
        header = fmt.EHDR.unpack(self.host.read_at(0, fmt.EHDR.size))
        return self.elf.section_table[int(header[13])]

    def _names(self) -> bytes:
        section = self._names_section()
        old = self.host.read_at(section.offset, section.size)
        return old + _LEFT.encode() + b"\0" + fatbin.SECTION.encode() + b"\0"

    def _section_headers(self, names_at: int, names: bytes) -> bytes:
        holder = self._names_section()
        rows = []
        for section, row in zip(self.elf.section_table, self._raw(), strict=True):
            name, kind, flags, addr, offset, size, link, info, align, entsize = row
            if section.index in self.old:
                name = holder.size
            elif section.index == holder.index:
                offset, size = names_at, len(names)
            elif not self.dropped and self._is_zeros(section):
                kind, offset = fmt.SHT_PROGBITS, self.last.offset + addr - self.last.vaddr
            elif not flags & fmt.SHF_ALLOC and offset >= self.end:
                offset += self.shift
            rows.append((name, kind, flags, addr, offset, size, link, info, align, entsize))
        name = holder.size + len(_LEFT) + 1
        place = (self.vaddr, self.offset, self.room)
        rows.append((name, fmt.SHT_PROGBITS, fmt.SHF_ALLOC, *place, 0, 0, _PAGE, 0))
        return b"".join(fmt.SHDR.pack(*row) for row in rows)

    def _is_zeros(self, section: Section) -> bool:
        """Whether this section is a part of the segment that was memory only; thread-local ones never are."""
        inside = self.last.vaddr <= section.addr < self.last.vaddr + max(self.last.memsz, 1)
        return section.type == fmt.SHT_NOBITS and inside and not section.flags & fmt.SHF_TLS
