"""What is wrong with the layout of a linked library or program, seen on its own.

An editor that moves parts of a file can leave headers that contradict each other in ways that one loader
forgives and the next does not. The rules are those of the System V gABI and of what glibc, the Linux kernel
and GNU binutils require besides; nothing here needs the file as it was before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section, Segment

PAGE = 0x1000
_PT_TLS, _PT_GNU_EH_FRAME = 7, 0x6474E550
_SHT_NULL, _SHF_EXECINSTR = 0, 4
# Segments that describe bytes which a load segment must bring into memory.
_PARTS = {
    fmt.PT_DYNAMIC: "PT_DYNAMIC",
    fmt.PT_INTERP: "PT_INTERP",
    fmt.PT_NOTE: "PT_NOTE",
    fmt.PT_PHDR: "PT_PHDR",
    _PT_TLS: "PT_TLS",
    _PT_GNU_EH_FRAME: "PT_GNU_EH_FRAME",
    fmt.PT_GNU_PROPERTY: "PT_GNU_PROPERTY",
}


def problems(elf: Elf) -> list[str]:
    """Every contradiction in program and section headers, one sentence each; empty for a sound file.

    Only for libraries and programs (`dyn`, `exec`): other files have no load segments. Reads nothing but
    `elf`.
    """
    loads = elf.segments_of(fmt.PT_LOAD)
    if not loads:
        return ["it has no load segment"]
    checks = (
        _each_load(elf, loads),
        _order(loads),
        _memory(loads),
        _file(loads),
        _header_table(elf, loads),
        _parts(elf, loads),
        _dynamic(elf, loads),
        _relro(elf, loads),
        _sections(elf, loads),
        _section_table(elf),
    )
    return [problem for check in checks for problem in check]


def _name(load: Segment) -> str:
    return f"the load segment at {load.vaddr:#x}"


def _each_load(elf: Elf, loads: Iterable[Segment]) -> Iterator[str]:
    for load in loads:
        if load.filesz > load.memsz:
            yield f"{_name(load)} has {load.filesz:#x} bytes in the file and {load.memsz:#x} in memory"
        if load.offset + load.filesz > elf.size:
            yield f"{_name(load)} ends behind the file"
        if load.align & (load.align - 1) if load.align else False:
            yield f"{_name(load)} has the alignment {load.align:#x}, which is not a power of two"
            continue
        # glibc before 2.35 compares modulo p_align, later ones modulo the page.
        unit = max(load.align, PAGE)
        if (load.offset - load.vaddr) % unit:
            yield f"{_name(load)}: offset {load.offset:#x} and address differ modulo {unit:#x}"


def _order(loads: tuple[Segment, ...]) -> Iterator[str]:
    for before, after in pairwise(loads):
        if after.vaddr < before.vaddr:
            yield f"{_name(after)} stands behind that at {before.vaddr:#x}; they must ascend"


def _memory(loads: tuple[Segment, ...]) -> Iterator[str]:
    for before, after in pairwise(sorted(loads, key=lambda load: load.vaddr)):
        end = before.vaddr + before.memsz
        if after.vaddr < end:
            yield f"{_name(after)} overlaps in memory that at {before.vaddr:#x}, which ends at {end:#x}"
        elif before.filesz and after.filesz and after.vaddr // PAGE == (end - 1) // PAGE:
            # The later one is mapped over the whole page, so the page must hold both. Of a segment without
            # bytes in the file, which takes the place of device code, nothing is needed there.
            same = before.offset - before.vaddr == after.offset - after.vaddr
            if not same or before.memsz != before.filesz:
                yield f"{_name(after)} takes a page from that at {before.vaddr:#x}"


def _file(loads: tuple[Segment, ...]) -> Iterator[str]:
    filled = sorted((load for load in loads if load.filesz), key=lambda load: load.offset)
    for before, after in pairwise(filled):
        if after.offset < before.offset + before.filesz:
            yield f"{_name(after)} overlaps in the file that at {before.vaddr:#x}"
    for empty in loads:
        # GNU strip and patchelf take such a pair for one segment.
        if empty.filesz == 0 and any(load.offset == empty.offset for load in loads if load is not empty):
            yield f"{_name(empty)} has no bytes in the file and the offset {empty.offset:#x} of another one"


def _header_table(elf: Elf, loads: tuple[Segment, ...]) -> Iterator[str]:
    size = len(elf.segments) * fmt.PHDR.size
    kinds = [segment.type for segment in elf.segments]
    # glibc takes the load base of a program from PT_PHDR before it looks at load segments.
    if fmt.PT_PHDR in kinds and kinds.index(fmt.PT_PHDR) > kinds.index(fmt.PT_LOAD):
        yield "PT_PHDR stands behind a load segment"
    for segment in elf.segments_of(fmt.PT_PHDR):
        if (segment.offset, segment.filesz, segment.memsz) != (elf.phoff, size, size):
            yield (
                f"PT_PHDR says {segment.offset:#x} + {segment.filesz:#x}, "
                f"the table is at {elf.phoff:#x} + {size:#x}"
            )
    if fmt.PT_INTERP in kinds:
        # Kernels before 5.18 look for a program's headers at e_phoff behind the first load address.
        first = min(loads, key=lambda load: load.vaddr)
        if _offset(loads, first.vaddr - first.offset + elf.phoff, size) != elf.phoff:
            yield "its program header table is not in memory where older kernels look for it"


def _parts(elf: Elf, loads: tuple[Segment, ...]) -> Iterator[str]:
    for segment in elf.segments:
        name = _PARTS.get(segment.type)
        if name and segment.filesz and _offset(loads, segment.vaddr, segment.filesz) != segment.offset:
            yield f"{name} at {segment.vaddr:#x} is not what a load segment brings from {segment.offset:#x}"


def _dynamic(elf: Elf, loads: tuple[Segment, ...]) -> Iterator[str]:
    """The dynamic loader writes into the table."""
    for segment in elf.segments_of(fmt.PT_DYNAMIC):
        flags = [load.flags for load in _holding(loads, segment.vaddr, segment.vaddr + segment.memsz)]
        if not all(flag & fmt.PF_W for flag in flags):
            yield "PT_DYNAMIC lies in a load segment that is not writable"


def _relro(elf: Elf, loads: tuple[Segment, ...]) -> Iterator[str]:
    writable = [load for load in loads if load.flags & fmt.PF_W]
    for segment in elf.segments_of(fmt.PT_GNU_RELRO):
        if not segment.memsz:
            continue
        end = segment.vaddr + segment.memsz
        # Linkers round its end up to a page.
        if not _covered(
            ((load.vaddr, _up(load.vaddr + load.memsz)) for load in writable), segment.vaddr, end
        ):
            yield f"PT_GNU_RELRO {segment.vaddr:#x} to {end:#x} lies outside the writable load segments"
        elif segment.filesz and _offset(loads, segment.vaddr, 1) != segment.offset:
            yield f"PT_GNU_RELRO is not what a load segment brings from {segment.offset:#x}"


def _sections(elf: Elf, loads: tuple[Segment, ...]) -> Iterator[str]:
    for section in elf.section_table:
        if not section.flags & fmt.SHF_ALLOC or not section.size:
            continue
        empty = section.type == fmt.SHT_NOBITS
        if empty and section.flags & fmt.SHF_TLS:
            continue  # it has a size for each thread and none in the image
        end = section.addr + section.size
        ranges = ((load.vaddr, load.vaddr + load.memsz) for load in loads)
        if not _covered(ranges, section.addr, end):
            yield f"section {section.name} at {section.addr:#x} is not in memory"
        elif not empty and _offset(loads, section.addr, section.size) != section.offset:
            yield f"section {section.name} is not what a load segment brings from {section.offset:#x}"
        yield from _rights(section, _holding(loads, section.addr, end))


def _rights(section: Section, loads: list[Segment]) -> Iterator[str]:
    for flag, right, word in (
        (fmt.SHF_WRITE, fmt.PF_W, "writable"),
        (_SHF_EXECINSTR, fmt.PF_X, "executable"),
    ):
        if section.flags & flag and not all(load.flags & right for load in loads):
            yield f"section {section.name} must be {word} and its load segment is not"


def _section_table(elf: Elf) -> Iterator[str]:
    start, end = elf.shoff, elf.shoff + len(elf.section_table) * fmt.SHDR.size
    table_end = elf.phoff + len(elf.segments) * fmt.PHDR.size
    if start < table_end and elf.phoff < end and elf.section_table:
        yield "section and program headers overlap in the file"
    for section in elf.section_table:
        if section.type in (_SHT_NULL, fmt.SHT_NOBITS) or not section.size:
            continue
        stop = section.offset + section.size
        if stop > elf.size:
            yield f"section {section.name} ends behind the file"
        if section.offset < end and start < stop:
            yield f"section {section.name} and the section headers overlap in the file"


def _offset(loads: tuple[Segment, ...], vaddr: int, size: int) -> int | None:
    """File offset from which one load segment brings `size` bytes to an address."""
    for load in loads:
        if load.vaddr <= vaddr and vaddr + size <= load.vaddr + load.filesz:
            return vaddr - load.vaddr + load.offset
    return None


def _holding(loads: tuple[Segment, ...], start: int, end: int) -> list[Segment]:
    return [load for load in loads if load.vaddr < end and start < load.vaddr + load.memsz]


def _covered(ranges: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    """Whether ranges together hold every address from `start` to `end`."""
    for low, high in sorted(ranges):
        if low <= start < high:
            start = high
    return start >= end


def _up(value: int) -> int:
    return -(-value // PAGE) * PAGE
