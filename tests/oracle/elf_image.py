"""What the loader makes of an ELF file: its tables, its pages with their final rights, its relocations."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 4096
LOAD, DYNAMIC, INTERP, NOTE, PHDR, TLS = 1, 2, 3, 4, 6, 7
EH_FRAME, STACK, RELRO, PROPERTY = 0x6474E550, 0x6474E551, 0x6474E552, 0x6474E553
R, W, X = 4, 2, 1
WRITE, ALLOC, EXEC, TLS_FLAG = 1, 2, 4, 0x400
NOBITS = 8
# Tags of the dynamic section: table, size in bytes.
RELA, JMPREL, RELR = (7, 8), (23, 2), (36, 35)


@dataclass(frozen=True)
class Segment:
    """A program header."""

    type: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.vaddr + self.memsz

    @property
    def pages(self) -> tuple[int, int]:
        """The whole pages that it touches, as addresses."""
        return self.vaddr & -PAGE, up(self.end)


@dataclass(frozen=True)
class Section:
    """A section header with its name."""

    name: str
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int

    @property
    def in_memory(self) -> bool:
        """Whether it has addresses of its own (`.tbss` has not)."""
        return bool(self.flags & ALLOC) and not (self.type == NOBITS and self.flags & TLS_FLAG)


@dataclass(frozen=True)
class Piece:
    """Addresses start..end as mapped: from `offset` of the file, or zeroes (None), with R, W, X rights."""

    start: int
    end: int
    offset: int | None
    rights: int


@dataclass
class Image:
    """An ELF file as the loader sees it; `memory` is sorted and free of overlaps."""

    path: Path
    data: mmap.mmap
    header: tuple[int, ...]
    segments: list[Segment]
    sections: list[Section]
    memory: list[Piece] = field(default_factory=list)

    def loads(self) -> list[Segment]:
        """The PT_LOAD headers in their order."""
        return self.of(LOAD)

    def of(self, kind: int) -> list[Segment]:
        """All program headers of one type."""
        return [segment for segment in self.segments if segment.type == kind]

    @property
    def kind(self) -> int:
        """e_type: 2 = fixed address, 3 = shared object or PIE."""
        return self.header[0]

    @property
    def phoff(self) -> int:
        """e_phoff."""
        return self.header[4]

    @property
    def shoff(self) -> int:
        """e_shoff."""
        return self.header[5]

    def read(self, vaddr: int, size: int) -> bytes:
        """Memory after loading, before relocation; `ValueError` where nothing is mapped."""
        parts, at = [], vaddr
        for piece in self.memory:
            if piece.start <= at < piece.end and at < vaddr + size:
                stop = min(piece.end, vaddr + size)
                if piece.offset is None:
                    parts.append(bytes(stop - at))
                else:
                    start = piece.offset + at - piece.start
                    parts.append(self.data[start : start + stop - at].ljust(stop - at, b"\0"))
                at = stop
        if at != vaddr + size:
            raise ValueError(f"{at:#x} is not mapped")
        return b"".join(parts)

    def rights(self, vaddr: int, size: int) -> set[int]:
        """The rights of the pages of a range once RELRO is applied; 0 where nothing is mapped."""
        found, at = set(), vaddr
        for piece in self.memory:
            if piece.end <= at or piece.start >= vaddr + size:
                continue
            found |= {piece.rights} | ({0} if piece.start > at else set())
            at = piece.end
        return found | ({0} if at < vaddr + size or not size else set())

    def offset_of(self, vaddr: int) -> int | None:
        """Where a PT_LOAD keeps this address in the file."""
        for load in self.loads():
            if load.vaddr <= vaddr < load.vaddr + load.filesz:
                return load.offset + vaddr - load.vaddr
        return None

    def dynamic(self) -> dict[int, int]:
        """The dynamic section; of a tag that occurs more than once, the last."""
        raw = b"".join(self.read(segment.vaddr, segment.filesz) for segment in self.of(DYNAMIC))
        table: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<qQ", raw):
            if tag == 0:
                break
            table[tag] = value
        return table

    def table(self, tags: tuple[int, int]) -> bytes:
        """The bytes of a table of the dynamic section, such as `RELA`."""
        dynamic = self.dynamic()
        return self.read(dynamic[tags[0]], dynamic[tags[1]]) if tags[0] in dynamic else b""

    def relocations(self) -> list[tuple[int, int, int, int]]:
        """(address, type, symbol, addend) of DT_RELA and DT_JMPREL, in their order."""
        raw = self.table(RELA) + self.table(JMPREL)
        return [(at, info & 0xFFFFFFFF, info >> 32, add) for at, info, add in struct.iter_unpack("<QQq", raw)]

    def packed(self) -> list[int]:
        """The addresses that DT_RELR relocates."""
        places: list[int] = []
        at = 0
        for (word,) in struct.iter_unpack("<Q", self.table(RELR)):
            if word & 1:
                places += [at + 8 * bit for bit in range(63) if word >> (bit + 1) & 1]
                at += 63 * 8
            else:
                places.append(word)
                at = word + 8
        return places

    def symbol_value(self, number: int) -> int:
        """st_value of a dynamic symbol."""
        raw = self.read(self.dynamic()[6] + 24 * number, 24)
        return int(struct.unpack_from("<Q", raw, 8)[0])


def up(value: int) -> int:
    """Round up to whole pages."""
    return -(-value // PAGE) * PAGE


def read_image(path: Path | str) -> Image:
    """Read the tables of a 64-bit little-endian ELF file; `ValueError` if a table lies outside the file."""
    with Path(path).open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    header = struct.unpack_from("<HHIQQQIHHHHHH", data, 16)
    phoff, shoff, phentsize, phnum, shentsize, shnum, shstrndx = *header[4:6], *header[8:13]
    if phentsize != 56 or shentsize != 64:
        raise ValueError(f"e_phentsize {phentsize}, e_shentsize {shentsize}")
    if phoff + 56 * phnum > len(data) or shoff + 64 * shnum > len(data):
        raise ValueError("a header table lies outside the file")
    segments = []
    for at in range(phoff, phoff + 56 * phnum, 56):
        kind, flags, *rest = struct.unpack_from("<IIQQQQQQ", data, at)
        segments.append(Segment(kind, flags, *rest))
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, at) for at in range(shoff, shoff + 64 * shnum, 64)]
    names = data[raw[shstrndx][4] : raw[shstrndx][4] + raw[shstrndx][5]]
    sections = [Section(_text(names, row[0]), *row[1:]) for row in raw]
    image = Image(Path(path), data, header, segments, sections)
    image.memory = _load(image)
    return image


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode("utf-8", "surrogateescape")


def _load(image: Image) -> list[Piece]:
    """Map the segments as kernel and glibc do: whole pages, later ones over earlier ones, then RELRO."""
    memory: list[Piece] = []
    for load in image.loads():
        first = load.vaddr & -PAGE
        back = load.vaddr - first
        stop = load.vaddr + load.filesz
        if load.filesz:
            _map(memory, Piece(first, up(stop), load.offset - back, load.flags & 7))
        if load.memsz > load.filesz:
            _map(memory, Piece(stop, up(load.end), None, load.flags & 7))
    for relro in image.of(RELRO):
        start, end = relro.vaddr & -PAGE, relro.end & -PAGE
        for piece in [piece for piece in memory if piece.start < end and start < piece.end]:
            inner = _cut(piece, max(piece.start, start), min(piece.end, end))
            _map(memory, Piece(inner.start, inner.end, inner.offset, R))
    return sorted(memory, key=lambda piece: piece.start)


def _map(memory: list[Piece], new: Piece) -> None:
    for old in [old for old in memory if old.start < new.end and new.start < old.end]:
        memory.remove(old)
        if old.start < new.start:
            memory.append(_cut(old, old.start, new.start))
        if new.end < old.end:
            memory.append(_cut(old, new.end, old.end))
    memory.append(new)


def _cut(piece: Piece, start: int, end: int) -> Piece:
    offset = None if piece.offset is None else piece.offset + start - piece.start
    return Piece(start, end, offset, piece.rights)
