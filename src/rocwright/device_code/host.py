"""Plan the host file: a library without its device code, which finds that code through a marker.

The section `.hip_fatbin` becomes `.rocm_kpack_ref`, under its index and inside its addresses, and holds the
marker; the rest of its addresses is left as a hole between two load segments. Nothing else moves in memory.
What lay behind in the file moves forward by a multiple of the segments' alignment, and the load segment that
held the code is cut, as `cut` decides.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.dynamic import pack_segment, up
from rocwright.binary.elf import Elf, Section, Segment, read_elf
from rocwright.binary.new_segment import expendable
from rocwright.binary.patch import BytePatch, Copy, Splice
from rocwright.binary.soundness import problems
from rocwright.binary.view import View
from rocwright.device_code.cut import JOIN, SLOT, Cut, next_load, plan_cut, unit
from rocwright.device_code.wrappers import RELATIVE, SPLIT_MAGIC, WRAPPER, Unsplittable, Wrapper
from rocwright.errors import InvalidElf

MARKER_SECTION = ".rocm_kpack_ref"
_SHOFF_FIELD, _PHNUM_FIELD = 40, 56  # in the ELF header
_INFO_AT = 8  # in a RELA entry; the addend follows


def plan_host(elf: Elf, file: View, fat: Section, wrappers: tuple[Wrapper, ...], marker: bytes) -> Splice:
    """The host file of a library whose device code in section `fat` is reached by exactly these wrappers.

    Raises `Unsplittable` when the file has no room for what is needed, `InvalidElf` when its headers
    contradict each other.
    """
    cut = plan_cut(elf, fat, len(marker))
    try:
        host = _Host(elf, file, cut, wrappers, marker).splice()
    except (ValueError, struct.error) as error:
        raise contradicting(elf, error) from error
    before = problems(elf)
    if worse := [problem for problem in problems(read_elf(host)) if problem not in before]:
        raise Unsplittable(f"it would not be sound: {worse[0]}")
    return host


def contradicting(elf: Elf, error: Exception) -> InvalidElf:
    """The error for a file whose numbers fit together in no layout."""
    return InvalidElf(f"{elf.path.name}: its headers contradict each other: {error}", where=elf.path)


class _Host:
    """Works out one file; every method only computes."""

    def __init__(self, elf: Elf, file: View, cut: Cut, wrappers: tuple[Wrapper, ...], marker: bytes) -> None:
        self.elf, self.file, self.cut, self.wrappers, self.marker = elf, file, cut, wrappers, marker
        self.following = next_load(elf, cut.load) if cut.room == JOIN else None
        self.dropped = expendable(elf) if cut.room == SLOT else None
        self.old_end, self.names = self._trailer()
        self.block_end = cut.marker + len(marker)
        self.moves = self._moves()
        self.starts = [source for source, _, _ in self.moves]

    def splice(self) -> Splice:
        copies = tuple(
            Copy(source + shift, source, stop - source) for source, stop, shift in self.moves if stop > source
        )
        names_at = max(self.new_offset(self.old_end), copies[-1].offset + copies[-1].length)
        headers_at = up(names_at + len(self.names), 8)
        headers = self._section_headers(names_at)
        edits = [
            (_SHOFF_FIELD, headers_at.to_bytes(8, "little")),
            *self._program_headers(),
            *self._wrapper_edits(),
            (self.offset_of(self.cut.block), self._block()),
            (names_at, self.names),
            (headers_at, headers),
        ]
        return Splice(self.file, copies, BytePatch(tuple(sorted(edits)), headers_at + len(headers)))

    # The file: what is copied from where to where.

    def _trailer(self) -> tuple[int, bytes]:
        """Where the old file's content ends, and the section names with the marker's among them.

        The section headers, and the names before them, are left out when they are the last in the file.
        """
        elf = self.elf
        table = elf.section_table
        header = fmt.EHDR.unpack(self.file.read_at(0, fmt.EHDR.size))
        index = header[13] if header[13] != 0xFFFF else self._raw_sections()[0][6]
        names = table[index]
        self.names_index = names.index
        text = self.file.read_at(names.offset, names.size)
        end = elf.size
        if elf.shoff + len(table) * fmt.SHDR.size == end:
            end = elf.shoff
            if end - 8 < names.offset + names.size <= end:
                end = names.offset
        self.name_at = len(text)
        return end, text + MARKER_SECTION.encode() + b"\0"

    def _moves(self) -> list[tuple[int, int, int]]:
        """Ranges of the old file and by how much each moves: `(start, stop, shift)`, sorted."""
        cut, fat, end = self.cut, self.cut.fat, self.old_end
        fat_end = fat.offset + fat.size
        step = unit(self.elf)
        before = (0, fat.offset, 0)
        if cut.tail == cut.marker:
            return [before, (fat_end, end, -((fat.size - len(self.marker)) // step * step))]
        block_end = fat.offset + self.block_end - fat.addr
        if cut.tail is None:
            keeps_size = self._ends_behind_code()
            shift = 0 if keeps_size else -((fat_end - block_end) // step * step)
            return [before, (fat_end, end, shift)]
        tail_at = cut.tail - fat.addr + fat.offset
        shift = -((tail_at - block_end) // step * step)
        if self.following is None:
            return [before, (tail_at, end, shift)]
        # Congruent to its address for both segments, whose alignments may differ.
        new = block_end + (cut.tail - block_end) % step
        stop = cut.load.offset + cut.load.filesz
        following = self.following
        there = new + following.vaddr - cut.tail - following.offset
        return [before, (tail_at, stop, new - tail_at), (following.offset, end, there)]

    def _ends_behind_code(self) -> bool:
        """Whether the segment goes on behind the code, which then can only be overwritten by zeros."""
        load, fat = self.cut.load, self.cut.fat
        return load.vaddr + load.memsz > fat.addr + fat.size

    def new_offset(self, old: int) -> int:
        """Where a byte of the old file is in the new one."""
        index = max(0, bisect_right(self.starts, old) - 1)
        return old + self.moves[index][2]

    # Memory: the load segments.

    def _loads(self) -> dict[Segment, tuple[Segment, ...]]:
        """What becomes of the load segments that change."""
        cut, load = self.cut, self.cut.load
        if cut.tail is None and self._ends_behind_code():
            return {}
        if cut.tail == cut.marker:
            size = load.vaddr + load.memsz - cut.marker
            filesz = load.vaddr + load.filesz - cut.marker
            at = self.new_offset(cut.fat.offset + cut.fat.size) - len(self.marker)
            return {load: (_placed(load, cut.marker, at, filesz, size),)}
        size = self.block_end - load.vaddr
        front = msgspec.structs.replace(load, filesz=size, memsz=size)
        if cut.tail is None:
            return {load: (front,)}
        at = self.new_offset(cut.tail - cut.fat.addr + cut.fat.offset)
        if self.following is not None:
            return {load: (front,), self.following: (self._begun_earlier(self.following, cut.tail, at),)}
        skipped = cut.tail - load.vaddr
        return {load: (front, _placed(load, cut.tail, at, load.filesz - skipped, load.memsz - skipped))}

    def _begun_earlier(self, segment: Segment, vaddr: int, offset: int) -> Segment:
        earlier = segment.vaddr - vaddr
        return _placed(segment, vaddr, offset, segment.filesz + earlier, segment.memsz + earlier)

    def _program_headers(self) -> list[tuple[int, bytes]]:
        changed = self._loads()
        segments: list[Segment] = []
        for segment in self.elf.segments:
            if segment is not self.dropped:
                segments += changed.get(segment) or (self._moved(segment),)
        if len(segments) > len(self.elf.segments):
            size = len(segments) * fmt.PHDR.size
            segments = [
                msgspec.structs.replace(s, filesz=size, memsz=size) if s.type == fmt.PT_PHDR else s
                for s in segments
            ]
        table = b"".join(pack_segment(segment) for segment in segments)
        table = table.ljust(len(self.elf.segments) * fmt.PHDR.size, b"\0")
        return [(_PHNUM_FIELD, len(segments).to_bytes(2, "little")), (self.elf.phoff, table)]

    def _moved(self, segment: Segment) -> Segment:
        if segment.type == fmt.PT_GNU_RELRO and self.following is not None and self.cut.tail is not None:
            at = self.new_offset(self.cut.tail - self.cut.fat.addr + self.cut.fat.offset)
            return self._begun_earlier(segment, self.cut.tail, at)
        if segment.type != fmt.PT_LOAD and self._in_notes(segment.vaddr) and segment.filesz:
            shift = self.cut.block - self._notes[0]
            vaddr = segment.vaddr + shift
            return _placed(segment, vaddr, self.offset_of(vaddr), segment.filesz, segment.memsz)
        if segment.offset == 0 and segment.filesz == 0:
            return segment
        return msgspec.structs.replace(segment, offset=self.new_offset(segment.offset))

    @property
    def _notes(self) -> tuple[int, int]:
        return self.cut.notes or (0, 0)

    def _in_notes(self, vaddr: int) -> bool:
        return self._notes[0] <= vaddr < self._notes[1]

    def offset_of(self, vaddr: int) -> int:
        """New file offset of an address in the block that takes the code's place."""
        fat = self.cut.fat
        if self.cut.tail == self.cut.marker:
            return self.new_offset(fat.offset + fat.size) - len(self.marker) + vaddr - self.cut.marker
        return fat.offset + vaddr - fat.addr

    # Contents.

    def _block(self) -> bytes:
        start, end = self._notes
        notes = self.file.read_at(self.elf.offset_of(start), end - start) if end > start else b""
        return notes + self.marker

    def _wrapper_edits(self) -> list[tuple[int, bytes]]:
        edits = []
        for wrapper in self.wrappers:
            at = self.new_offset(wrapper.offset)
            _, version, in_place, reserved = WRAPPER.unpack(self.file.read_at(wrapper.offset, WRAPPER.size))
            # Some linkers store the value in the file as well, although the loader takes it from the entry.
            value = 0 if wrapper.rela is not None and in_place == 0 else self.cut.marker
            reserved = reserved >> 32 << 32 | wrapper.index
            edits.append((at, WRAPPER.pack(SPLIT_MAGIC, version, value, reserved)))
            if wrapper.rela is not None:
                entry = struct.pack("<QQ", RELATIVE[self.elf.machine], self.cut.marker)
                edits.append((self.new_offset(wrapper.rela) + _INFO_AT, entry))
        return edits

    def _raw_sections(self) -> list[tuple[int, ...]]:
        size = len(self.elf.section_table) * fmt.SHDR.size
        return list(fmt.SHDR.iter_unpack(self.file.read_at(self.elf.shoff, size)))

    def _section_headers(self, names_at: int) -> bytes:
        rows = []
        for index, row in enumerate(self._raw_sections()):
            name, kind, flags, addr, offset, size, link, info, align, entsize = row
            if index == self.cut.fat.index:
                name, kind, flags, align, entsize = self.name_at, fmt.SHT_PROGBITS, fmt.SHF_ALLOC, 1, 0
                addr, offset, size = self.cut.marker, self.offset_of(self.cut.marker), len(self.marker)
            elif index == self.names_index:
                offset, size = names_at, len(self.names)
            elif flags & fmt.SHF_ALLOC and self._in_notes(addr) and size:
                addr += self.cut.block - self._notes[0]
                offset = self.offset_of(addr)
            elif index:
                offset = self.new_offset(offset)
            rows.append((name, kind, flags, addr, offset, size, link, info, align, entsize))
        return b"".join(fmt.SHDR.pack(*row) for row in rows)


def _placed(segment: Segment, vaddr: int, offset: int, filesz: int, memsz: int) -> Segment:
    paddr = vaddr + segment.paddr - segment.vaddr
    return msgspec.structs.replace(
        segment, vaddr=vaddr, paddr=paddr, offset=offset, filesz=filesz, memsz=memsz
    )
