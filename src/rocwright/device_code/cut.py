"""Decide how device code is cut out of a library: where the marker goes, and what keeps the rest loaded.

Where other sections follow the code in its load segment, they need a program header. `_room` says where
that comes from; the header table itself never moves, since GNU strip and patchelf cannot lay out a file again
whose table is elsewhere.
"""

from __future__ import annotations

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section, Segment
from rocwright.binary.new_segment import expendable
from rocwright.device_code.wrappers import Unsplittable

_PAGE = 0x1000


class Cut(msgspec.Struct, frozen=True):
    """What leaves the file and where the rest goes.

    `fat` is the section with the device code, `load` its segment. `marker` is the marker's address; `block`
    the first address of what is put there (the marker, or program notes and then the marker), `notes` those
    notes as a range of addresses. `tail` is the address from which `load` goes on behind the code, None when
    it ends there. `room` says where the tail's program header comes from.
    """

    fat: Section
    load: Segment
    marker: int
    block: int
    tail: int | None
    room: str
    notes: tuple[int, int] | None = None


# Where the program header of the part behind the device code comes from.
NOT_NEEDED = "not needed"  # nothing lies behind, nothing lies before, or nothing can be cut
SLOT = "slot"  # another program header is dispensable
JOIN = "join"  # the next, writable segment begins earlier; RELRO makes that part read-only again
NOTES = "notes"  # interpreter and notes behind the header table make room and move beside the marker


def unit(elf: Elf) -> int:
    """What the file may be shortened by: offset and address of every segment stay congruent."""
    return max(_PAGE, *(load.align for load in elf.segments_of(fmt.PT_LOAD)))


def plan_cut(elf: Elf, fat: Section, length: int) -> Cut:
    """How the code in section `fat` is cut out for a marker of `length` bytes; raises `Unsplittable`."""
    loads = elf.segments_of(fmt.PT_LOAD)
    start, end = fat.addr, fat.addr + fat.size
    load = next((s for s in loads if s.vaddr <= start and end <= s.vaddr + s.filesz), None)
    if load is None or start - load.vaddr + load.offset != fat.offset:
        raise Unsplittable("its device code lies in no load segment")
    if fat.size < length:
        raise Unsplittable(f"its device code of {fat.size} bytes leaves no room for a marker of {length}")
    tail = _tail(elf, load, end)
    kept = Cut(fat, load, start, start, tail, NOT_NEEDED)
    if tail is None:
        return kept
    if tail - (start + length) < unit(elf):
        return msgspec.structs.replace(kept, tail=None)
    if load.vaddr == start:
        return msgspec.structs.replace(kept, marker=end - length, block=end - length, tail=end - length)
    return _room(elf, kept, length)


def _tail(elf: Elf, load: Segment, end: int) -> int | None:
    """Where the segment goes on behind `end`: at its next section, or at once where none is described."""
    stop = load.vaddr + load.memsz
    if stop <= end:
        return None
    behind = [
        s.addr for s in elf.section_table if s.flags & fmt.SHF_ALLOC and s.size and end <= s.addr < stop
    ]
    first = min(behind, default=end)
    return first if first < load.vaddr + load.filesz and first - end < _PAGE else end


def _room(elf: Elf, cut: Cut, length: int) -> Cut:
    if expendable(elf) is not None:
        return msgspec.structs.replace(cut, room=SLOT)
    if _can_join(elf, cut):
        return msgspec.structs.replace(cut, room=JOIN)
    # Notes are read-only, so they move to nowhere else.
    notes = _notes_behind_headers(elf) if cut.load.flags == fmt.PF_R else None
    if notes is not None:
        base = cut.fat.addr + notes[0] % 16
        block_end = base + notes[1] - notes[0]
        if block_end + length <= cut.fat.addr + cut.fat.size:
            return msgspec.structs.replace(cut, room=NOTES, notes=notes, block=base, marker=block_end)
    raise Unsplittable("its program header table has no room for one more segment")


def next_load(elf: Elf, load: Segment) -> Segment | None:
    """The load segment that follows in memory."""
    later = [s for s in elf.segments_of(fmt.PT_LOAD) if s.vaddr > load.vaddr]
    return min(later, key=lambda s: s.vaddr, default=None)


def _can_join(elf: Elf, cut: Cut) -> bool:
    """Whether the next load segment may begin earlier, in memory and in the file.

    Behind the device code lies read-only data. In a writable segment it stays read-only when RELRO, which
    the loader protects after relocation, starts with that segment and can start earlier too.
    """
    load, following = cut.load, next_load(elf, cut.load)
    if following is None or not following.flags & fmt.PF_W or following.filesz == 0:
        return False
    end = load.offset + load.filesz
    between = [
        s
        for s in elf.section_table
        if s.type != fmt.SHT_NOBITS and s.offset < following.offset and end < s.offset + s.size
    ]
    if between or load.memsz != load.filesz or following.offset < end:
        return False
    if load.flags & ~following.flags & fmt.PF_X and not (
        cut.tail and _is_described_data(elf, load, cut.tail)
    ):
        return False
    relro = elf.segments_of(fmt.PT_GNU_RELRO)
    gap = following.vaddr - (load.vaddr + load.memsz)
    return (
        (bool(load.flags & fmt.PF_W) or (len(relro) == 1 and relro[0].vaddr == following.vaddr))
        and gap < cut.fat.size // 2
        and not any(end <= s.offset < following.offset for s in elf.segments_of(fmt.PT_LOAD) if s != load)
    )


def _is_described_data(elf: Elf, load: Segment, tail: int) -> bool:
    """Whether sections say that nothing behind the device code is run as a program."""
    stop = load.vaddr + load.memsz
    behind = [s for s in elf.section_table if s.flags & fmt.SHF_ALLOC and tail <= s.addr < stop]
    return bool(behind) and not any(s.flags & fmt.SHF_EXECINSTR for s in behind)


def _notes_behind_headers(elf: Elf) -> tuple[int, int] | None:
    """Addresses of the interpreter's name and the notes right behind the header table, when moving them
    makes room for one more header. Nothing but program headers refers to them."""
    first = elf.segments_of(fmt.PT_LOAD)[0]
    free = first.vaddr + elf.phoff - first.offset + len(elf.segments) * fmt.PHDR.size
    start = end = free
    sections = sorted((s for s in elf.section_table if s.flags & fmt.SHF_ALLOC), key=lambda s: s.addr)
    for section in sections:
        if section.addr < free:
            continue
        if not (section.type == fmt.SHT_NOTE or section.name == ".interp"):
            return (start, end) if section.addr >= free + fmt.PHDR.size and end > start else None
        start = section.addr if start == free and end == free else start
        end = section.addr + section.size
    return None
