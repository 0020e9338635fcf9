"""Find the wrappers through which a program registers its device code, and what fills their pointers.

HIP's compiler makes one wrapper of 24 bytes for each translation unit, in the section `.hipFatBinSegment`:
magic, version, pointer to the bundle, and a reserved word. The runtime knows a wrapper by its number in
that section, so device code is found by following the pointer, never by counting bundles.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator
from sys import byteorder
from typing import NamedTuple

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section
from rocwright.binary.view import View
from rocwright.errors import InvalidElf

SECTION = ".hipFatBinSegment"
FAT_MAGIC = 0x48495046  # "FPIH": the pointer leads to a bundle
SPLIT_MAGIC = 0x4B504948  # "HIPK": the pointer leads to a marker that names archives
WRAPPER = struct.Struct("<IIQQ")
POINTER_AT, RESERVED_AT = 8, 16

_RELA = struct.Struct("<QQq")
_WORD = struct.Struct("<Q")
RELATIVE = {fmt.EM_X86_64: 8, fmt.EM_AARCH64: 1027}
_ABSOLUTE = {fmt.EM_X86_64: 1, fmt.EM_AARCH64: 257}
_OWN_VISIBILITY = (1, 2, 3)  # internal, hidden, protected: no other library can replace the symbol
_DT_RELA, _DT_RELASZ, _DT_RELR, _DT_RELRSZ = 7, 8, 36, 35
_BITS = 63  # addresses that one bitmap word of DT_RELR covers


class Unsplittable(Exception):
    """Device code that is there but cannot be taken out safely; the text says why."""


class Wrapper(msgspec.Struct, frozen=True):
    """One wrapper.

    `offset` is its place in the file; `pointer` the address that the loader stores into it, relative to the
    load base. `rela` is the file offset of the relocation entry whose addend that is, None where the value
    lies in the wrapper itself (DT_RELR, or a program at a fixed address).
    """

    index: int
    vaddr: int
    offset: int
    magic: int
    version: int
    pointer: int
    reserved: int
    rela: int | None


def read_wrappers(elf: Elf, file: View) -> tuple[Wrapper, ...]:
    """All wrappers of a library or program, in the runtime's order.

    Raises `Unsplittable` when the section or a pointer is not as the compiler makes it, `InvalidElf` when the
    section lies outside the file.
    """
    section = elf.sections.get(SECTION)
    if section is None or section.size == 0:
        return ()
    if section.type == fmt.SHT_NOBITS or section.size % WRAPPER.size:
        raise Unsplittable(
            f"section {SECTION} of {section.size} bytes does not hold a whole number of wrappers"
        )
    _require_inside(file, section)
    slots = _pointer_slots(elf, file, section)
    wrappers = []
    for index, at in enumerate(range(0, section.size, WRAPPER.size)):
        offset, vaddr = section.offset + at, section.addr + at
        magic, version, value, reserved = WRAPPER.unpack(file.read_at(offset, WRAPPER.size))
        rela, pointer = slots.get(vaddr + POINTER_AT, (None, value))
        wrappers.append(Wrapper(index, vaddr, offset, magic, version, pointer, reserved, rela))
    return tuple(wrappers)


def foreign_references(
    elf: Elf, file: View, wrappers: tuple[Wrapper, ...], start: int, end: int
) -> list[int]:
    """Addresses of pointers, other than the wrappers', that lead between `start` and `end`, and of relocated
    places there."""
    own = {wrapper.vaddr + POINTER_AT for wrapper in wrappers}
    relative = RELATIVE.get(elf.machine)
    symbols = {number for number, symbol in enumerate(_symbols(elf, file)) if symbol.lies_in(start, end)}
    places, infos, addends, _ = relocations(elf, file)
    into = {number for number, place in enumerate(places) if start <= place < end}
    into |= {n for n, addend in enumerate(addends) if start <= addend < end and infos[n] == relative}
    if symbols:
        into |= {number for number, info in enumerate(infos) if info >> 32 in symbols}
    found = [places[number] for number in sorted(into)]
    found += [
        p for p in relative_places(elf, file) if start <= p < end or start <= word_at(elf, file, p) < end
    ]
    if elf.kind == "exec":
        found += _words_between(elf, file, start, end)
    return [place for place in found if place not in own]


def _words_between(elf: Elf, file: View, start: int, end: int) -> Iterator[int]:
    """Addresses of data words with a value between two addresses: a program at a fixed address needs no
    relocation to point somewhere."""
    for section in elf.section_table:
        is_data = section.flags & fmt.SHF_ALLOC and not section.flags & fmt.SHF_EXECINSTR
        if not is_data or section.type == fmt.SHT_NOBITS or start <= section.addr < end:
            continue
        skip = -section.addr % _WORD.size
        raw = _section_bytes(file, section, max(0, section.size - skip) // _WORD.size * _WORD.size, skip)
        for number, (value,) in enumerate(_WORD.iter_unpack(raw)):
            if start <= value < end:
                yield section.addr + skip + number * _WORD.size


# What clang calls the bundle of a translation unit whose device code is linked with others': by a hash of the
# unit, so that another library's symbol of that name is the same unit's.
_OF_A_UNIT = re.compile(rb"__hip_fatbin_[0-9a-f]{8,16}\0")


class _Symbol(msgspec.Struct, frozen=True):
    """What matters of a dynamic symbol; `of_a_unit`: it is the compiler's name for a unit's bundle."""

    value: int
    section: int
    other: int
    of_a_unit: bool

    def lies_in(self, start: int, end: int) -> bool:
        """Whether it is defined here, with its value between two addresses."""
        return self.section != 0 and start <= self.value < end

    @property
    def is_own(self) -> bool:
        """Whether the loader takes this definition, or one of the same content."""
        return self.section != 0 and (self.of_a_unit or self.other & 3 in _OWN_VISIBILITY)


def exported_between(elf: Elf, file: View, start: int, end: int) -> int:
    """How many dynamic symbols with a value between two addresses other libraries could refer to or replace.

    Code compiled as relocatable device code exports its one bundle under a name for each unit, which only
    that unit's wrapper refers to; that does not count.
    """
    return sum(1 for s in _symbols(elf, file) if s.lies_in(start, end) and not s.is_own)


def _symbols(elf: Elf, file: View) -> list[_Symbol]:
    table = next((s for s in elf.section_table if s.type == fmt.SHT_DYNSYM), None)
    if table is None:
        return []
    raw = _section_bytes(file, table, table.size // fmt.SYM.size * fmt.SYM.size)
    names = b""
    if table.link < len(elf.section_table):
        strings = elf.section_table[table.link]
        names = _section_bytes(file, strings, strings.size)
    return [
        _Symbol(value, section, other, bool(_OF_A_UNIT.match(names, name)))
        for name, _, other, section, value, _ in fmt.SYM.iter_unpack(raw)
    ]


def _pointer_slots(elf: Elf, file: View, section: Section) -> dict[int, tuple[int | None, int]]:
    """Address of each relocated word in the section → file offset of its RELA entry, and its value."""
    end = section.addr + section.size
    slots: dict[int, tuple[int | None, int]] = {}
    symbols: list[_Symbol] = []
    places, infos, addends, first = relocations(elf, file)
    for number in [number for number, place in enumerate(places) if section.addr <= place < end]:
        value = addends[number]
        if infos[number] != RELATIVE.get(elf.machine):
            symbols = symbols or _symbols(elf, file)
            value += _value(elf, infos[number], symbols)
        slots[places[number]] = (first + number * _RELA.size, value)
    for place in relative_places(elf, file):
        if section.addr <= place < end:
            slots[place] = (None, word_at(elf, file, place))
    wanted = set(range(section.addr + POINTER_AT, end, WRAPPER.size))
    if elf.kind != "exec" and set(slots) != wanted:
        raise Unsplittable("its relocations do not match the pointers of the wrappers")
    return slots


def _value(elf: Elf, info: int, symbols: list[_Symbol]) -> int:
    """The value that a relocation with a symbol adds its addend to."""
    kind, number = info & 0xFFFFFFFF, info >> 32
    if kind != _ABSOLUTE.get(elf.machine) or number >= len(symbols) or not symbols[number].is_own:
        raise Unsplittable(f"a wrapper is filled by a relocation of type {kind}")
    return symbols[number].value


class Relocations(NamedTuple):
    """A RELA table by column, since there may be millions of entries: addresses, `r_info`, addends.

    `r_info` is the bare type where an entry names no symbol; `start` is the file offset of the first entry.
    """

    places: array[int]
    infos: array[int]
    addends: array[int]
    start: int


def relocations(elf: Elf, file: View, *, tags: tuple[int, int] = (_DT_RELA, _DT_RELASZ)) -> Relocations:
    """Every RELA entry; `tags` are of the table's address and size. Raises `Unsplittable` for a cut table."""
    table, size = (elf.dynamic_value(tag) for tag in tags)
    if table is None or not size:
        return Relocations(array("Q"), array("Q"), array("q"), 0)
    start = elf.offset_of(table)
    raw = file.read_at(start, size)
    if len(raw) < size or size % _RELA.size:
        raise Unsplittable("the relocation table is cut")
    words, signed = array("Q", raw), array("q", raw)
    if byteorder == "big":  # pragma: no cover
        words.byteswap()
        signed.byteswap()
    return Relocations(words[0::3], words[1::3], signed[2::3], start)


def relative_places(elf: Elf, file: View) -> Iterator[int]:
    """Addresses in DT_RELR: an even word is one, an odd one a bitmap over the words that follow it."""
    table, size = elf.dynamic_value(_DT_RELR), elf.dynamic_value(_DT_RELRSZ)
    if table is None or not size:
        return
    raw = file.read_at(elf.offset_of(table), size)
    if len(raw) < size or size % _WORD.size:
        raise Unsplittable("the relative relocation table is cut")
    where = 0
    for (word,) in _WORD.iter_unpack(raw):
        if word & 1 == 0:
            yield word
            where = word + _WORD.size
        else:
            yield from (where + bit * _WORD.size for bit in range(_BITS) if word >> (bit + 1) & 1)
            where += _BITS * _WORD.size


def _section_bytes(file: View, section: Section, length: int, skip: int = 0) -> bytes:
    _require_inside(file, section)
    return file.read_at(section.offset + skip, length)


def _require_inside(file: View, section: Section) -> None:
    if section.offset + section.size > file.size:
        what = (
            f"{file.path.name}: section {section.name} at {section.offset:#x} ends beyond the end of the file"
        )
        raise InvalidElf(what, where=file.path)


def word_at(elf: Elf, file: View, vaddr: int) -> int:
    """The 8 bytes at an address, as a number."""
    raw = file.read_at(elf.offset_of(vaddr), _WORD.size)
    return int.from_bytes(raw, "little")
