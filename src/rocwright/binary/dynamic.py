"""The dynamic table and string table that give a file its RPATH, before they have a place in it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Dynamic, Elf, Segment
from rocwright.errors import InvalidElf


class NewTables(msgspec.Struct, frozen=True):
    """What has to find room in the file.

    `strings` is the old string table with the new string at its end; `entries` the new dynamic table, not
    yet pointing at it. With `moves` the old dynamic table has too few slots and the new one needs room as
    well. In the room the strings come first and the table follows, 8-aligned: `.dynstr` precedes `.dynamic`
    among the section headers, and GNU strip lays sections out in that order.
    """

    elf: Elf
    strings: bytes
    entries: tuple[Dynamic, ...]
    moves: bool

    @property
    def table_at(self) -> int:
        """Where the dynamic table starts, from the start of the room."""
        return up(len(self.strings), 8)

    @property
    def table_size(self) -> int:
        """Bytes of the dynamic table with its terminator."""
        return (len(self.entries) + 1) * fmt.DYN.size

    @property
    def length(self) -> int:
        """Bytes of room needed."""
        return self.table_at + self.table_size if self.moves else len(self.strings)

    @property
    def table(self) -> Segment:
        """The program header of the old dynamic table."""
        return self.elf.segments_of(fmt.PT_DYNAMIC)[0]

    def dynamic(self, strings_vaddr: int) -> bytes:
        """The dynamic table for strings at this address; fills the old one's room when it stays there."""
        values = {fmt.DT_STRTAB: strings_vaddr, fmt.DT_STRSZ: len(self.strings)}
        entries = [Dynamic(entry.tag, values.get(entry.tag, entry.value)) for entry in self.entries]
        return pack_dynamic(entries, len(self.entries) + 1 if self.moves else slots(self.elf))

    def room(self, strings_vaddr: int) -> bytes:
        """The bytes of the room, which starts at this address."""
        if not self.moves:
            return self.strings
        return self.strings.ljust(self.table_at, b"\0") + self.dynamic(strings_vaddr)


def new_tables(elf: Elf, rpath: str) -> NewTables:
    """Tables with DT_RPATH in the place of the old RPATH or RUNPATH, else behind the last entry."""
    start, size = elf.dynamic_value(fmt.DT_STRTAB), elf.dynamic_value(fmt.DT_STRSZ)
    if start is None or size is None:
        raise InvalidElf(f"{elf.path.name} has no dynamic string table", where=elf.path)
    offset = elf.offset_of(start)
    if offset + size > elf.size:
        raise InvalidElf(f"{elf.path.name}: its string table ends behind the file", where=elf.path)
    new = Dynamic(fmt.DT_RPATH, size)
    entries: list[Dynamic] = []
    for entry in elf.dynamic:
        if entry.tag not in (fmt.DT_RPATH, fmt.DT_RUNPATH):
            entries.append(entry)
        elif new not in entries:
            entries.append(new)
    if new not in entries:
        entries.append(new)
    strings = elf.source.read_at(offset, size) + rpath.encode("utf-8", "surrogateescape") + b"\0"
    return NewTables(elf, strings, tuple(entries), len(entries) + 1 > slots(elf))


def slots(elf: Elf) -> int:
    """Entries the dynamic table has room for, terminator included."""
    return len(elf.dynamic) + 1 + elf.spare_nulls


def pack_dynamic(entries: Sequence[Dynamic], count: int) -> bytes:
    """Entries, filled up with DT_NULL to `count`."""
    packed = b"".join(fmt.DYN.pack(entry.tag, entry.value) for entry in entries)
    return packed.ljust(count * fmt.DYN.size, b"\0")


def pack_segment(segment: Segment) -> bytes:
    """A program header's bytes."""
    return fmt.PHDR.pack(
        segment.type, segment.flags, segment.offset, segment.vaddr, segment.paddr,
        segment.filesz, segment.memsz, segment.align,
    )  # fmt: skip


def dynamic_symbols(elf: Elf) -> list[int]:
    """File offsets of the symbol table entries called `_DYNAMIC` that point at the dynamic table."""
    old = elf.segments_of(fmt.PT_DYNAMIC)[0].vaddr
    found = []
    for section in elf.section_table:
        is_table = section.type in (fmt.SHT_SYMTAB, fmt.SHT_DYNSYM) and section.entsize == fmt.SYM.size
        if not is_table or section.link >= len(elf.section_table):
            continue
        names = elf.section_table[section.link].offset
        table = elf.source.read_at(section.offset, section.size // fmt.SYM.size * fmt.SYM.size)
        for index, (name, _, _, _, value, _) in enumerate(fmt.SYM.iter_unpack(table)):
            if value == old and elf.source.read_at(names + name, 9) == b"_DYNAMIC\0":
                found.append(section.offset + index * fmt.SYM.size)
    return found


def up(value: int, alignment: int) -> int:
    """`value` rounded up to a multiple."""
    return -(-value // alignment) * alignment
