"""Read the headers and the dynamic table of an ELF file without reading the rest of it.

The project handles libraries of more than a gigabyte, of which a few kilobytes say what they need and
where they look for it. Layouts and numbers follow the System V gABI and the GNU extensions (`elf.h`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.binary.patch import PatchedFile
from rocwright.binary.view import View
from rocwright.errors import InvalidElf, see_who_may_read

MAGIC = b"\x7fELF"
# The section of a library that holds its device code; nothing may be written over it, whoever edits the file.
HIP_FATBIN = ".hip_fatbin"
# A linker's digest of the whole file.
BUILD_ID = ".note.gnu.build-id"
SUPPORTED = MAGIC + b"\2\1"  # 64-bit, little-endian
EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
PHDR = struct.Struct("<IIQQQQQQ")
SHDR = struct.Struct("<IIQQQQIIQQ")
DYN = struct.Struct("<qQ")
SYM = struct.Struct("<IBBHQQ")

EM_X86_64, EM_AARCH64, EM_AMDGPU = 62, 183, 224
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_PHDR = 1, 2, 3, 4, 6
PT_GNU_STACK, PT_GNU_RELRO, PT_GNU_PROPERTY = 0x6474E551, 0x6474E552, 0x6474E553
PF_X, PF_W, PF_R = 1, 2, 4
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 1, 2, 3, 6, 7, 8, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
DT_NULL, DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_RPATH, DT_RUNPATH = 0, 1, 5, 10, 14, 15, 29
DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF

_KINDS = {1: "rel", 2: "exec", 3: "dyn", 4: "core"}
_EXTENDED = 0xFFFF
_MOST_HEADERS = 1 << 16  # far above any real table; keeps a broken count from reading the whole file
_LONGEST_STRING = 1 << 20
_LONGEST_NAME = 1 << 12


class Segment(msgspec.Struct, frozen=True):
    """A program header; offsets, addresses and sizes in bytes."""

    type: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int


class Section(msgspec.Struct, frozen=True):
    """A section header; `index` is its place in the table."""

    index: int
    name: str
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    addralign: int
    entsize: int


class Dynamic(msgspec.Struct, frozen=True):
    """An entry of the dynamic table."""

    tag: int
    value: int


class Elf(msgspec.Struct, frozen=True, dict=True):
    """What the headers of a 64-bit little-endian ELF file say.

    `kind` is `rel`, `exec`, `dyn` (libraries and position-independent programs) or `core`. `sections` is
    empty for a file without section headers. `dynamic` ends before the first DT_NULL; `spare_nulls` counts
    the DT_NULL entries beyond the terminating one. `versions` maps a needed library to the symbol versions
    required of it (`libc.so.6` → `GLIBC_2.34`, …).
    """

    source: View
    size: int
    kind: str
    machine: int
    entry: int
    phoff: int
    shoff: int
    segments: tuple[Segment, ...]
    section_table: tuple[Section, ...]
    dynamic: tuple[Dynamic, ...]
    spare_nulls: int
    interp: str | None
    soname: str | None
    needed: tuple[str, ...]
    rpath: str | None
    runpath: str | None
    versions: Mapping[str, tuple[str, ...]]

    @property
    def path(self) -> Path:
        """The file these headers were read from."""
        return self.source.path

    @cached_property
    def sections(self) -> Mapping[str, Section]:
        """Sections by name; the first one where a name occurs twice."""
        return {section.name: section for section in reversed(self.section_table)}

    def dynamic_value(self, tag: int) -> int | None:
        """Value of the first dynamic entry with this tag."""
        return next((entry.value for entry in self.dynamic if entry.tag == tag), None)

    def segments_of(self, kind: int) -> tuple[Segment, ...]:
        """The program headers of one type, in file order."""
        return tuple(segment for segment in self.segments if segment.type == kind)

    def offset_of(self, vaddr: int) -> int:
        """File offset of a virtual address; raises `InvalidElf` when no load segment holds it."""
        return _offset_of(self.segments, vaddr, self.path)


def is_elf(path: Path) -> bool:
    """Whether a regular file starts with the ELF magic."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(4) == MAGIC


def is_loadable(path: Path) -> bool:
    """Whether a file is a 64-bit ELF program or shared library (not an object file, not 32-bit)."""
    with path.open("rb") as stream:
        head = stream.read(18)
    kind = _KINDS.get(int.from_bytes(head[16:], "little"))
    return len(head) == 18 and head.startswith(SUPPORTED) and kind in ("exec", "dyn")


def foreign(head: bytes) -> tuple[str, int] | None:
    """Kind and machine of an ELF file that is 32-bit or big-endian, from its first bytes; else None.

    `read_elf` refuses such a file; it may be a good one all the same, for another machine.
    """
    if not head.startswith(MAGIC) or head.startswith(SUPPORTED) or len(head) < 20:
        return None
    if head[4] not in (1, 2) or head[5] not in (1, 2):
        return None
    order: Literal["little", "big"] = "little" if head[5] == 1 else "big"
    kind = _KINDS.get(int.from_bytes(head[16:18], order))
    return None if kind is None else (kind, int.from_bytes(head[18:20], order))


def read_elf(source: Path | View) -> Elf:
    """Read the headers of an ELF file, or of one as it will be after an edit.

    Costs milliseconds and little memory for a file of any size. Raises `InvalidElf` naming what is wrong:
    not ELF, 32-bit, big-endian, truncated, or tables that point outside the file.
    """
    view = PatchedFile(source) if isinstance(source, Path) else source
    try:
        reader = _ElfReader(view)
    except OSError as error:
        raise InvalidElf(
            f"cannot read {view.path.name}: {error.strerror}",
            where=view.path,
            next_step=see_who_may_read(view.path),
        ) from error
    return reader.elf()


def _offset_of(segments: tuple[Segment, ...], vaddr: int, path: Path) -> int:
    for segment in segments:
        if segment.type == PT_LOAD and 0 <= vaddr - segment.vaddr < segment.filesz:
            return vaddr - segment.vaddr + segment.offset
    raise InvalidElf(f"address {vaddr:#x} lies in no load segment of {path.name}", where=path)


class _ElfReader:
    """Reads pieces of one file with bounds checked."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.path = view.path
        self.size = view.size

    def invalid(self, what: str) -> InvalidElf:
        return InvalidElf(f"{self.path.name}: {what}", where=self.path)

    def take(self, offset: int, length: int, what: str) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self.invalid(f"{what} at {offset:#x} + {length:#x} lies outside the file")
        return self.view.read_at(offset, length)

    def string(self, offset: int, what: str) -> str:
        """The NUL-terminated string at a file offset."""
        data = b""
        while b"\0" not in data:
            piece = self.view.read_at(offset + len(data), 256)
            if not piece or len(data) > _LONGEST_STRING:
                raise self.invalid(f"{what} at {offset:#x} has no end")
            data += piece
        return data[: data.index(b"\0")].decode("utf-8", "surrogateescape")

    def elf(self) -> Elf:
        header = self._header()
        _, kind, machine, _, entry, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx = header
        if kind not in _KINDS:
            raise self.invalid(f"unknown ELF type {kind}")
        if shoff and (phnum == _EXTENDED or shnum == 0 or shstrndx == _EXTENDED):
            first = SHDR.unpack(self.take(shoff, SHDR.size, "first section header"))
            phnum = first[7] if phnum == _EXTENDED else phnum
            shnum = shnum or first[5]
            shstrndx = first[6] if shstrndx == _EXTENDED else shstrndx
        if phnum > _MOST_HEADERS or shnum > _MOST_HEADERS:
            raise self.invalid(f"{phnum} program and {shnum} section headers are more than any real file has")
        if (phnum and phentsize != PHDR.size) or (shoff and shnum and shentsize != SHDR.size):
            raise self.invalid("program or section headers are not of the 64-bit size")
        table = self.take(phoff, phnum * PHDR.size, "program header table") if phnum else b""
        segments = tuple(
            Segment(t, f, off, va, pa, fs, ms, al)
            for t, f, off, va, pa, fs, ms, al in PHDR.iter_unpack(table)
        )
        sections = self._sections(shoff, shnum, shstrndx) if shoff else ()
        dynamic, spare = self._dynamic(segments)
        interp = next((s for s in segments if s.type == PT_INTERP), None)
        strings = _DynamicStrings(self, segments, dynamic)
        return Elf(
            source=self.view,
            size=self.size,
            kind=_KINDS[kind],
            machine=machine,
            entry=entry,
            phoff=phoff,
            shoff=shoff,
            segments=segments,
            section_table=sections,
            dynamic=dynamic,
            spare_nulls=spare,
            interp=self.string(interp.offset, "interpreter") if interp else None,
            soname=strings.first(DT_SONAME),
            needed=strings.all(DT_NEEDED),
            rpath=strings.first(DT_RPATH),
            runpath=strings.first(DT_RUNPATH),
            versions=strings.versions(),
        )

    def _header(self) -> tuple[int, ...]:
        data = self.view.read_at(0, EHDR.size)
        if data[:4] != MAGIC:
            raise self.invalid("this is not an ELF file")
        if len(data) < EHDR.size:
            raise self.invalid("the file ends inside the ELF header")
        if not data.startswith(SUPPORTED):
            raise self.invalid("only 64-bit little-endian ELF is supported")
        return EHDR.unpack(data)

    def _sections(self, shoff: int, count: int, names_index: int) -> tuple[Section, ...]:
        rows = list(SHDR.iter_unpack(self.take(shoff, count * SHDR.size, "section header table")))
        names = b""
        if 0 < names_index < count:
            names = self.take(rows[names_index][4], rows[names_index][5], "section names")
        sections = []
        for index, (name, kind, flags, addr, offset, size, link, info, align, entsize) in enumerate(rows):
            # Bounded: a forged table of names without an end must not be searched for each section.
            text = names[name : name + _LONGEST_NAME].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            sections.append(Section(index, text, kind, flags, addr, offset, size, link, info, align, entsize))
        return tuple(sections)

    def _dynamic(self, segments: tuple[Segment, ...]) -> tuple[tuple[Dynamic, ...], int]:
        segment = next((s for s in segments if s.type == PT_DYNAMIC), None)
        if segment is None or segment.filesz == 0:
            return (), 0
        data = self.take(segment.offset, segment.filesz // DYN.size * DYN.size, "dynamic table")
        entries = [Dynamic(tag, value) for tag, value in DYN.iter_unpack(data)]
        used = next((i for i, entry in enumerate(entries) if entry.tag == DT_NULL), None)
        if used is None:
            raise self.invalid("the dynamic table has no DT_NULL at its end")
        return tuple(entries[:used]), len(entries) - used - 1


class _DynamicStrings:
    """Strings and version requirements that the dynamic table points to."""

    def __init__(
        self, reader: _ElfReader, segments: tuple[Segment, ...], dynamic: tuple[Dynamic, ...]
    ) -> None:
        self.reader, self.segments, self.dynamic = reader, segments, dynamic
        table = next((entry.value for entry in dynamic if entry.tag == DT_STRTAB), None)
        self.base = None if table is None else _offset_of(segments, table, reader.path)

    def _text(self, offset: int) -> str:
        if self.base is None:
            raise self.reader.invalid("the dynamic table has no string table")
        return self.reader.string(self.base + offset, "dynamic string")

    def all(self, tag: int) -> tuple[str, ...]:
        return tuple(self._text(entry.value) for entry in self.dynamic if entry.tag == tag)

    def first(self, tag: int) -> str | None:
        return next(iter(self.all(tag)), None)

    def versions(self) -> dict[str, tuple[str, ...]]:
        """Walk the Verneed records: (version, count, file, aux, next), each with its Vernaux list."""
        values = {entry.tag: entry.value for entry in self.dynamic}
        if DT_VERNEED not in values:
            return {}
        place = _offset_of(self.segments, values[DT_VERNEED], self.reader.path)
        needs: dict[str, tuple[str, ...]] = {}
        total = 0
        for _ in range(min(values.get(DT_VERNEEDNUM, 0), _MOST_HEADERS)):
            _, count, file, aux, following = struct.unpack(
                "<HHIII", self.reader.take(place, 16, "version needs")
            )
            names = []
            at = place + aux
            total += count
            if total > _MOST_HEADERS:
                raise self.reader.invalid(f"it needs more than {_MOST_HEADERS} symbol versions")
            for _ in range(count):
                _, _, _, name, step = struct.unpack("<IHHII", self.reader.take(at, 16, "version need"))
                names.append(self._text(name))
                at += step
            library = self._text(file)
            needs[library] = (*needs.get(library, ()), *names)
            if following == 0:
                break
            place += following
        return needs
