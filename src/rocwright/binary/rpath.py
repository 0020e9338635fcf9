"""Decide the one edit that gives an ELF file its RPATH.

Strings in `.dynstr` share suffixes with symbol names, so nothing in it is overwritten: a copy with the new
string at its end goes into a load segment of its own behind everything else. Its program header takes over
a slot nobody needs where there is one; else the whole table moves into the new segment as well.

DT_RPATH rather than DT_RUNPATH: it also holds for libraries that a dependency opens or needs, and a RUNPATH
in the same file would make the loader ignore it (ld.so(8)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Dynamic, Elf, Section, Segment
from rocwright.binary.patch import BytePatch
from rocwright.errors import InvalidElf, InvalidInput

_PAGE = 0x1000
_ORIGIN = "$ORIGIN"
_PHDR_TABLE_FIELDS = 32  # e_phoff in the ELF header
_PHNUM_FIELD = 56


def plan_rpath(elf: Elf, entries: Sequence[str]) -> BytePatch | None:
    """The edit after which DT_RPATH is exactly `':'.join(entries)` and DT_RUNPATH is gone.

    Entries are `$ORIGIN` or start with `$ORIGIN/`; an empty sequence removes both tags. None when the file
    is already so. Reads the string table of the file, nothing larger. Raises `InvalidInput` for entries
    that are absolute, repeated or contain `:`, `InvalidElf` for a file without a dynamic table.
    """
    wanted = _joined(entries)
    if _is_so(elf, wanted):
        return None
    if not elf.dynamic or not elf.segments_of(fmt.PT_LOAD):
        raise InvalidElf(
            f"{elf.path.name} is not dynamically linked, it cannot have an RPATH", where=elf.path
        )
    if wanted is None:
        kept = [e for e in elf.dynamic if e.tag not in (fmt.DT_RPATH, fmt.DT_RUNPATH)]
        place = elf.segments_of(fmt.PT_DYNAMIC)[0].offset
        return BytePatch(((place, _dynamic_bytes(kept, _slots(elf))),), elf.size)
    return _Plan(elf, wanted).patch()


def _joined(entries: Sequence[str]) -> str | None:
    for entry in entries:
        if entry != _ORIGIN and not entry.startswith(_ORIGIN + "/"):
            raise InvalidInput(
                f"RPATH entry {entry!r} does not start with $ORIGIN",
                next_step="give a path relative to the library; absolute ones hold on one machine only",
            )
        if ":" in entry or "\0" in entry:
            raise InvalidInput(f"RPATH entry {entry!r} contains a separator")
    if len(set(entries)) != len(entries):
        raise InvalidInput(f"RPATH entries repeat: {':'.join(entries)}")
    return ":".join(entries) or None


def _is_so(elf: Elf, wanted: str | None) -> bool:
    tags = [entry.tag for entry in elf.dynamic]
    count = tags.count(fmt.DT_RPATH)
    return elf.rpath == wanted and fmt.DT_RUNPATH not in tags and count == (wanted is not None)


def _slots(elf: Elf) -> int:
    """Entries the dynamic table has room for, terminator included."""
    return len(elf.dynamic) + 1 + elf.spare_nulls


def _dynamic_bytes(entries: Sequence[Dynamic], slots: int) -> bytes:
    packed = b"".join(fmt.DYN.pack(entry.tag, entry.value) for entry in entries)
    return packed.ljust(slots * fmt.DYN.size, b"\0")


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


@dataclass(frozen=True)
class _Place:
    """Where the new segment starts, in the file and in memory, and its alignment."""

    offset: int
    vaddr: int
    align: int


class _Plan:
    """Works out one file's edit; every method only computes."""

    def __init__(self, elf: Elf, wanted: str) -> None:
        self.elf = elf
        self.string_offset, self.strings = self._string_table(wanted)
        self.entries = self._entries()
        self.moves_dynamic = len(self.entries) + 1 > _slots(elf)
        self.dropped = _expendable(elf)
        self.moves_headers = self.dropped is None
        self.place = self._find_place()

    def _string_table(self, wanted: str) -> tuple[int, bytes]:
        start, size = self.elf.dynamic_value(fmt.DT_STRTAB), self.elf.dynamic_value(fmt.DT_STRSZ)
        if start is None or size is None:
            raise InvalidElf(f"{self.elf.path.name} has no dynamic string table", where=self.elf.path)
        offset = self.elf.offset_of(start)
        if offset + size > self.elf.size:
            raise InvalidElf(f"{self.elf.path.name}: string table ends behind the file", where=self.elf.path)
        old = self.elf.source.read_at(offset, size)
        return len(old), old + wanted.encode("utf-8", "surrogateescape") + b"\0"

    def _entries(self) -> list[Dynamic]:
        """The dynamic table with the one RPATH, in the place of the old tag where there is one."""
        rpath = Dynamic(fmt.DT_RPATH, self.string_offset)
        entries: list[Dynamic] = []
        for entry in self.elf.dynamic:
            if entry.tag not in (fmt.DT_RPATH, fmt.DT_RUNPATH):
                entries.append(entry)
            elif rpath not in entries:
                entries.append(rpath)
        return entries if rpath in entries else [*entries, rpath]

    def _find_place(self) -> _Place:
        loads = self.elf.segments_of(fmt.PT_LOAD)
        align = max(_PAGE, *(load.align for load in loads))
        memory_end = max(load.vaddr + load.memsz for load in loads)
        if self.moves_headers and self.elf.interp is not None:
            # Kernels before 5.18 tell a program that its headers are at load bias + e_phoff, which is only
            # true where address and file offset differ as they do in the first load segment.
            shift = loads[0].vaddr - loads[0].offset
            vaddr = _up(max(memory_end, self.elf.size + shift), align)
            return _Place(vaddr - shift, vaddr, align)
        offset = _up(self.elf.size, _PAGE)
        return _Place(offset, _up(memory_end, align) + offset % align, align)

    def patch(self) -> BytePatch:
        # The order inside the segment: program headers, dynamic table, strings; the first two need 8 bytes
        # alignment and are multiples of 8.
        count = len(self.elf.segments) + 1
        headers = count * fmt.PHDR.size if self.moves_headers else 0
        table = (len(self.entries) + 1) * fmt.DYN.size if self.moves_dynamic else 0
        strings_at = headers + table
        length = strings_at + len(self.strings)
        dynamic = self._dynamic(table, self.place.vaddr + strings_at)
        program = b"".join(_pack(segment) for segment in self._segments(headers, table, length))

        edits: list[tuple[int, bytes]] = []
        body = b""
        if self.moves_headers:
            body += program
            edits.append((_PHDR_TABLE_FIELDS, self.place.offset.to_bytes(8, "little")))
            edits.append((_PHNUM_FIELD, count.to_bytes(2, "little")))
        else:
            edits.append((self.elf.phoff, program))
        if self.moves_dynamic:
            body += dynamic
        else:
            edits.append((self.elf.segments_of(fmt.PT_DYNAMIC)[0].offset, dynamic))
        edits.append((self.place.offset, body + self.strings))
        edits += self._section_edits(headers, table, strings_at)
        if self.moves_dynamic:
            edits += self._symbol_edits(self.place.vaddr + headers)
        return BytePatch(tuple(sorted(edits)), self.place.offset + length)

    def _dynamic(self, table: int, strings_vaddr: int) -> bytes:
        values = {fmt.DT_STRTAB: strings_vaddr, fmt.DT_STRSZ: len(self.strings)}
        entries = [Dynamic(e.tag, values.get(e.tag, e.value)) for e in self.entries]
        return _dynamic_bytes(entries, table // fmt.DYN.size or _slots(self.elf))

    def _segments(self, headers: int, table: int, length: int) -> list[Segment]:
        place = self.place
        # A dynamic table must stay writable: glibc before 2.35 relocates it in place, and for programs
        # every version stores the address of the debugger's structure in DT_DEBUG.
        flags = fmt.PF_R | (fmt.PF_W if self.moves_dynamic else 0)
        new = Segment(fmt.PT_LOAD, flags, place.offset, place.vaddr, place.vaddr, length, length, place.align)
        segments = [self._moved(s, headers, table) for s in self.elf.segments if s is not self.dropped]
        last = max(index for index, s in enumerate(segments) if s.type == fmt.PT_LOAD)
        return [*segments[: last + 1], new, *segments[last + 1 :]]

    def _moved(self, segment: Segment, headers: int, table: int) -> Segment:
        place = self.place
        if segment.type == fmt.PT_PHDR and self.moves_headers:
            return replace(
                segment, offset=place.offset, vaddr=place.vaddr, paddr=place.vaddr,
                filesz=headers, memsz=headers,
            )  # fmt: skip
        if segment.type == fmt.PT_DYNAMIC and self.moves_dynamic:
            start = place.vaddr + headers
            return replace(
                segment, offset=place.offset + headers, vaddr=start, paddr=start, filesz=table, memsz=table
            )
        return segment

    def _section_edits(self, headers: int, table: int, strings_at: int) -> list[tuple[int, bytes]]:
        old_strings = self.elf.dynamic_value(fmt.DT_STRTAB)
        edits = []
        for section in self.elf.section_table:
            if section.type == fmt.SHT_STRTAB and section.addr == old_strings:
                edits.append(self._section_edit(section, strings_at, len(self.strings)))
            elif section.type == fmt.SHT_DYNAMIC and self.moves_dynamic:
                edits.append(self._section_edit(section, headers, table))
        return edits

    def _section_edit(self, section: Section, at: int, size: int) -> tuple[int, bytes]:
        """sh_addr, sh_offset and sh_size lie side by side from byte 16 of a section header."""
        values = (self.place.vaddr + at, self.place.offset + at, size)
        where = self.elf.shoff + section.index * fmt.SHDR.size + 16
        return where, b"".join(value.to_bytes(8, "little") for value in values)

    def _symbol_edits(self, new_address: int) -> list[tuple[int, bytes]]:
        """Point `_DYNAMIC`, where a symbol table has it, at the moved table."""
        old = self.elf.segments_of(fmt.PT_DYNAMIC)[0].vaddr
        edits = []
        for section in self.elf.section_table:
            if section.type not in (fmt.SHT_SYMTAB, fmt.SHT_DYNSYM) or section.entsize != fmt.SYM.size:
                continue
            names = self.elf.section_table[section.link]
            table = self.elf.source.read_at(section.offset, section.size // fmt.SYM.size * fmt.SYM.size)
            for index, (name, _, _, _, value, _) in enumerate(fmt.SYM.iter_unpack(table)):
                if value == old and self.elf.source.read_at(names.offset + name, 9) == b"_DYNAMIC\0":
                    where = section.offset + index * fmt.SYM.size + 8
                    edits.append((where, new_address.to_bytes(8, "little")))
        return edits


def _pack(segment: Segment) -> bytes:
    return fmt.PHDR.pack(
        segment.type, segment.flags, segment.offset, segment.vaddr, segment.paddr,
        segment.filesz, segment.memsz, segment.align,
    )  # fmt: skip


def _expendable(elf: Elf) -> Segment | None:
    """A program header whose slot the new segment may take, so that the table need not grow.

    GNU strip and objcopy write the table back behind the ELF header and shift the first sections when it
    has become longer. PT_GNU_PROPERTY repeats what a PT_NOTE says (on x86-64 glibc reads either); PT_PHDR
    has a meaning only for programs.
    """
    notes = {(note.offset, note.filesz) for note in elf.segments_of(fmt.PT_NOTE)}
    for segment in elf.segments:
        repeated = segment.type == fmt.PT_GNU_PROPERTY and (segment.offset, segment.filesz) in notes
        if repeated and elf.machine == fmt.EM_X86_64:
            return segment
        if segment.type == fmt.PT_PHDR and elf.kind == "dyn" and elf.interp is None:
            return segment
    return None
