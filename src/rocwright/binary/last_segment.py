"""Room for new tables at the end of the last load segment, where no program header slot can be taken over.

The zero-initialised part of the segment becomes bytes of the file, the tables follow it, and what lay
behind the segment in the file (symbols, debug information, section headers; nothing that is loaded) moves
on. No program header is added, so GNU strip and objcopy can lay the file out again.
"""

from __future__ import annotations

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.dynamic import NewTables, dynamic_symbols, pack_segment, up
from rocwright.binary.elf import Elf, Section, Segment
from rocwright.binary.patch import BytePatch

_SHOFF_FIELD, _SHNUM_FIELD = 40, 60  # in the ELF header
# What moves and what becomes zeros is part of the plan, in memory.
_MOST_MOVED = 64 << 20
_ALIGN, _MOST_ALIGN = 16, 0x1000
_MOST_SECTIONS = 0xFF00  # from here on e_shnum cannot say the number
_OLD = ".old"


def has_extensible_end(tables: NewTables) -> bool:
    """Whether the last load segment can grow.

    It must be the last in the file too, be writable when the dynamic table moves into it, and at most
    64 MiB may have to move or become zeros.
    """
    elf = tables.elf
    last = _last(elf)
    end = last.offset + last.filesz
    loads = elf.segments_of(fmt.PT_LOAD)
    if not 0 < len(elf.section_table) < _MOST_SECTIONS - 2 or elf.shoff < end or elf.phoff >= end:
        return False
    if any(load.offset + load.filesz > end for load in loads):
        return False
    if tables.moves and not last.flags & fmt.PF_W:
        return False
    for section in elf.section_table:
        stop = section.offset + section.size
        # Neither loaded bytes behind the segment nor a section that lies on both sides of its end.
        if section.type != fmt.SHT_NOBITS and end < stop and (_is_loaded(section) or section.offset < end):
            return False
    return (
        0 < _names_index(elf) < len(elf.section_table)
        and (last.memsz - last.filesz) + (elf.size - end) <= _MOST_MOVED
    )


def in_last_segment(tables: NewTables) -> BytePatch:
    """The edit that makes the last load segment longer and puts `tables` at its end."""
    return _LastSegment(tables).patch()


def _last(elf: Elf) -> Segment:
    return max(elf.segments_of(fmt.PT_LOAD), key=lambda load: load.vaddr)


def _is_loaded(section: Section) -> bool:
    return bool(section.flags & fmt.SHF_ALLOC)


def _names_index(elf: Elf) -> int:
    header = elf.source.read_at(0, fmt.EHDR.size)
    return int(fmt.EHDR.unpack(header)[13])


class _Layout(msgspec.Struct, frozen=True):
    """File offsets and addresses of the result; `shift` is by how much the tail moves."""

    room: int
    room_vaddr: int
    end: int
    tail: int
    shift: int


class _LastSegment:
    """Works out one file's edit; every method only computes."""

    def __init__(self, tables: NewTables) -> None:
        self.tables = tables
        self.elf = tables.elf
        self.last = _last(self.elf)
        self.old_end = self.last.offset + self.last.filesz
        vaddr = up(self.last.vaddr + self.last.memsz, _ALIGN)
        room = self.last.offset + vaddr - self.last.vaddr
        end = room + tables.length
        # Sections of the tail keep their alignment when they move by a multiple of it.
        wanted = max(s.addralign for s in self.elf.section_table if not _is_loaded(s))
        align = min(max(_ALIGN, wanted), _MOST_ALIGN)
        shift = up(end - self.old_end, align)
        self.layout = _Layout(room, vaddr, end, self.old_end + shift, shift)

    def patch(self) -> BytePatch:
        layout, elf = self.layout, self.elf
        tail = self._tail()
        names, name_of = self._names()
        names_at = layout.tail + len(tail)
        headers_at = up(names_at + len(names), 8)
        headers = self._headers(names_at, len(names), name_of)

        body = bytearray(headers_at - self.old_end)
        body[layout.room - self.old_end : layout.end - self.old_end] = self.tables.room(layout.room_vaddr)
        body[layout.shift : layout.shift + len(tail)] = tail
        body[names_at - self.old_end : names_at - self.old_end + len(names)] = names
        edits = [
            (_SHOFF_FIELD, headers_at.to_bytes(8, "little")),
            (_SHNUM_FIELD, (len(headers) // fmt.SHDR.size).to_bytes(2, "little")),
            (elf.phoff, b"".join(pack_segment(self._segment(s)) for s in elf.segments)),
            (self.old_end, bytes(body) + headers),
        ]
        if self.tables.moves:
            edits += [edit for edit in self._symbol_edits() if edit[0] < self.old_end]
        else:
            edits.append((self.tables.table.offset, self.tables.dynamic(layout.room_vaddr)))
        return BytePatch(tuple(sorted(edits)), headers_at + len(headers))

    def _segment(self, segment: Segment) -> Segment:
        layout = self.layout
        if segment is self.last:
            size = layout.end - segment.offset
            return msgspec.structs.replace(segment, filesz=size, memsz=size)
        if segment.type == fmt.PT_DYNAMIC and self.tables.moves:
            vaddr = layout.room_vaddr + self.tables.table_at
            size = self.tables.table_size
            offset = layout.room + self.tables.table_at
            return msgspec.structs.replace(
                segment, offset=offset, vaddr=vaddr, paddr=vaddr, filesz=size, memsz=size
            )
        if segment.type != fmt.PT_LOAD and segment.filesz and segment.offset >= self.old_end:
            return msgspec.structs.replace(segment, offset=segment.offset + layout.shift)
        return segment

    # The section headers. `.dynstr` (and `.dynamic`) get new headers at the end of the table: GNU strip lays
    # the sections of a segment out in the order of their headers, and finds the string table by its name.

    def _names(self) -> tuple[bytes, dict[str, int]]:
        """The section names with those that are new, and the offsets of the new ones."""
        section = self.elf.section_table[_names_index(self.elf)]
        names = self.elf.source.read_at(section.offset, section.size)
        offsets = {}
        for moved in self._moved():
            for name in (moved.name, moved.name + _OLD):
                offsets[name] = len(names)
                names += name.encode("utf-8", "surrogateescape") + b"\0"
        return names, offsets

    def _moved(self) -> list[Section]:
        """The sections that get a new place, in the order of the room."""
        old_strings = self.elf.dynamic_value(fmt.DT_STRTAB)
        table = self.elf.section_table
        strings = [s for s in table if s.type == fmt.SHT_STRTAB and s.addr == old_strings and _is_loaded(s)]
        dynamic = [s for s in table if s.type == fmt.SHT_DYNAMIC] if self.tables.moves else []
        return [*strings[:1], *dynamic[:1]]

    def _headers(self, names_at: int, names_size: int, name_of: dict[str, int]) -> bytes:
        elf, layout = self.elf, self.layout
        moved = self._moved()
        new_index = {section.index: len(elf.section_table) + i for i, section in enumerate(moved)}
        raw = list(
            fmt.SHDR.iter_unpack(elf.source.read_at(elf.shoff, len(elf.section_table) * fmt.SHDR.size))
        )
        rows = []
        for section, row in zip(elf.section_table, raw, strict=True):
            name, kind, flags, addr, offset, size, link, *rest = row
            link = new_index.get(link, link)
            if section in moved:
                name = name_of[section.name + _OLD]
                kind = fmt.SHT_PROGBITS
            elif section.index == _names_index(elf):
                offset, size = names_at, names_size
            elif self._is_zeros(section):
                kind, offset = fmt.SHT_PROGBITS, self.last.offset + section.addr - self.last.vaddr
            elif not _is_loaded(section) and offset >= self.old_end:
                offset += layout.shift
            rows.append((name, kind, flags, addr, offset, size, link, *rest))
        for section in moved:
            _, kind, flags, _, _, _, link, *rest = raw[section.index]
            strings = section.type == fmt.SHT_STRTAB
            start = 0 if strings else self.tables.table_at
            size = len(self.tables.strings) if strings else self.tables.table_size
            place = (layout.room_vaddr + start, layout.room + start, size)
            rows.append((name_of[section.name], kind, flags, *place, new_index.get(link, link), *rest))
        return b"".join(fmt.SHDR.pack(*row) for row in rows)

    def _is_zeros(self, section: Section) -> bool:
        """Whether this section is a part of the segment that was memory only; thread-local ones never are."""
        inside = self.last.vaddr <= section.addr < self.last.vaddr + max(self.last.memsz, 1)
        return section.type == fmt.SHT_NOBITS and inside and not section.flags & fmt.SHF_TLS

    def _symbol_edits(self) -> list[tuple[int, bytes]]:
        """`_DYNAMIC` with its new section and address: st_shndx and st_value lie side by side from byte 6."""
        if not self.tables.moves:
            return []
        index = len(self.elf.section_table) + len(self._moved()) - 1
        address = self.layout.room_vaddr + self.tables.table_at
        new = index.to_bytes(2, "little") + address.to_bytes(8, "little")
        return [(symbol + 6, new) for symbol in dynamic_symbols(self.elf)]

    def _tail(self) -> bytes:
        """What lies behind the last segment, without a section header table at its very end."""
        count = len(self.elf.section_table)
        at_end = self.elf.shoff + count * fmt.SHDR.size == self.elf.size
        stop = self.elf.shoff if at_end else self.elf.size
        tail = bytearray(self.elf.source.read_at(self.old_end, stop - self.old_end))
        for at, data in self._symbol_edits():
            if at >= self.old_end:
                tail[at - self.old_end : at - self.old_end + len(data)] = data
        return bytes(tail)
