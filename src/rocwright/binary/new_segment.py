"""Room for new tables in a load segment of its own, behind everything else in the file and in memory."""

from __future__ import annotations

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.dynamic import NewTables, dynamic_symbols, pack_segment, up
from rocwright.binary.elf import Elf, Section, Segment
from rocwright.binary.patch import BytePatch

_PAGE = 0x1000
_PHOFF_FIELD, _PHNUM_FIELD = 32, 56  # in the ELF header


def expendable(elf: Elf) -> Segment | None:
    """A program header whose slot a new segment may take, so that the table need not grow.

    PT_GNU_PROPERTY repeats what a PT_NOTE says (on x86-64 glibc reads either); PT_PHDR has a meaning only
    for programs.
    """
    notes = {(note.offset, note.filesz) for note in elf.segments_of(fmt.PT_NOTE)}
    for segment in elf.segments:
        repeated = segment.type == fmt.PT_GNU_PROPERTY and (segment.offset, segment.filesz) in notes
        if repeated and elf.machine == fmt.EM_X86_64:
            return segment
        if segment.type == fmt.PT_PHDR and elf.kind == "dyn" and elf.interp is None:
            return segment
    return None


def in_new_segment(tables: NewTables, dropped: Segment | None) -> BytePatch:
    """The edit that puts `tables` into a new segment, in the header slot of `dropped`.

    Without such a slot the whole header table moves into the new segment too. That runs everywhere, but
    GNU strip cannot lay out such a file again (seen with binutils 2.40), so it is the last resort.
    """
    return _NewSegment(tables, dropped).patch()


class _Placement(msgspec.Struct, frozen=True):
    """Where the new segment starts, in the file and in memory, and its alignment."""

    offset: int
    vaddr: int
    align: int


class _NewSegment:
    """Works out one file's edit; every method only computes."""

    def __init__(self, tables: NewTables, dropped: Segment | None) -> None:
        self.elf = tables.elf
        self.tables = tables
        self.dropped = dropped
        self.count = len(self.elf.segments) + (dropped is None)
        # Header table first, then the tables; all need at most 8 bytes alignment, headers are 56 long.
        self.headers = self.count * fmt.PHDR.size if dropped is None else 0
        self.length = self.headers + tables.length
        self.place = self._find_place()

    def _find_place(self) -> _Placement:
        loads = self.elf.segments_of(fmt.PT_LOAD)
        align = max(_PAGE, *(load.align for load in loads))
        memory_end = max(load.vaddr + load.memsz for load in loads)
        if self.dropped is None and self.elf.interp is not None:
            # Kernels before 5.18 tell a program that its headers are at load bias + e_phoff, which is only
            # true where address and file offset differ as they do in the first load segment.
            shift = loads[0].vaddr - loads[0].offset
            vaddr = up(max(memory_end, self.elf.size + shift), align)
            return _Placement(vaddr - shift, vaddr, align)
        offset = up(self.elf.size, _PAGE)
        return _Placement(offset, up(memory_end, align) + offset % align, align)

    def patch(self) -> BytePatch:
        strings_vaddr = self.place.vaddr + self.headers
        body = self.tables.room(strings_vaddr)
        program = b"".join(pack_segment(segment) for segment in self._segments())
        edits: list[tuple[int, bytes]] = []
        if self.dropped is None:
            body = program + body
            edits.append((_PHOFF_FIELD, self.place.offset.to_bytes(8, "little")))
            edits.append((_PHNUM_FIELD, self.count.to_bytes(2, "little")))
        else:
            edits.append((self.elf.phoff, program))
        if self.tables.moves:
            address = (strings_vaddr + self.tables.table_at).to_bytes(8, "little")
            edits += [(symbol + 8, address) for symbol in dynamic_symbols(self.elf)]
        else:
            edits.append((self.tables.table.offset, self.tables.dynamic(strings_vaddr)))
        edits.append((self.place.offset, body))
        edits += self._section_edits()
        return BytePatch(tuple(sorted(edits)), self.place.offset + self.length)

    def _segments(self) -> list[Segment]:
        place = self.place
        # A dynamic table must stay writable: glibc before 2.35 relocates it in place, and for programs
        # every version stores the address of the debugger's structure in DT_DEBUG.
        flags = fmt.PF_R | (fmt.PF_W if self.tables.moves else 0)
        new = Segment(
            fmt.PT_LOAD, flags, place.offset, place.vaddr, place.vaddr, self.length, self.length, place.align
        )
        segments = [self._moved(s) for s in self.elf.segments if s is not self.dropped]
        # Load segments must be sorted by address, and the new one is the highest.
        last = max(index for index, s in enumerate(segments) if s.type == fmt.PT_LOAD)
        return [*segments[: last + 1], new, *segments[last + 1 :]]

    def _moved(self, segment: Segment) -> Segment:
        if segment.type == fmt.PT_PHDR and self.dropped is None:
            return self._at(segment, 0, self.headers)
        if segment.type == fmt.PT_DYNAMIC and self.tables.moves:
            return self._at(segment, self.headers + self.tables.table_at, self.tables.table_size)
        return segment

    def _at(self, segment: Segment, start: int, size: int) -> Segment:
        vaddr = self.place.vaddr + start
        return msgspec.structs.replace(
            segment, offset=self.place.offset + start, vaddr=vaddr, paddr=vaddr, filesz=size, memsz=size
        )

    def _section_edits(self) -> list[tuple[int, bytes]]:
        old_strings = self.elf.dynamic_value(fmt.DT_STRTAB)
        edits = []
        for section in self.elf.section_table:
            if section.type == fmt.SHT_STRTAB and section.addr == old_strings:
                edits.append(self._section_edit(section, self.headers, len(self.tables.strings)))
            elif section.type == fmt.SHT_DYNAMIC and self.tables.moves:
                start = self.headers + self.tables.table_at
                edits.append(self._section_edit(section, start, self.tables.table_size))
        return edits

    def _section_edit(self, section: Section, at: int, size: int) -> tuple[int, bytes]:
        """sh_addr, sh_offset and sh_size lie side by side from byte 16 of a section header."""
        values = (self.place.vaddr + at, self.place.offset + at, size)
        where = self.elf.shoff + section.index * fmt.SHDR.size + 16
        return where, b"".join(value.to_bytes(8, "little") for value in values)
