"""Which kernels a library or program registers at start, and so can launch; and which a code object defines.

The compiler makes one constructor for each translation unit: it hands the unit's wrapper to
`__hipRegisterFatBinary` and then every kernel, by name, to `__hipRegisterFunction`. Constructors stand in
`.init_array`, and calls of these functions lead through the procedure linkage table or the GOT, so the names
can be read out of the code without a disassembler. Source: clang's CGCUDANV.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section, Segment, read_elf
from rocwright.binary.view import View
from rocwright.device_code.instructions import LONGEST_STUB, Call, calls, jump_of
from rocwright.device_code.wrappers import (
    SECTION,
    WRAPPER,
    Unsplittable,
    relative_places,
    relocations,
    word_at,
)
from rocwright.errors import InvalidElf

_T = TypeVar("_T")
_OPENS, _REGISTERS = b"__hipRegisterFatBinary", b"__hipRegisterFunction"
_JUMP_SLOTS = (23, 2)  # DT_JMPREL, DT_PLTRELSZ
_SHT_INIT_ARRAY = 14
_NAME = re.compile(rb"[A-Za-z_.$][0-9A-Za-z_.$]*\Z")
# Between two registrations lie some dozens of bytes; where none follows for so long, the constructor is over.
_SILENCE = 1 << 10
_LONGEST_NAME = 1 << 16
_NAME_STEPS = (1 << 8, 1 << 12, _LONGEST_NAME)  # how much is read for a name: most are short
_MOST_SYMBOLS = 1 << 17  # of a code object: the largest real ones have some ten thousand
_UNKNOWN = -1  # the number of a wrapper that cannot be told
_DESCRIPTOR = b".kd"  # what the symbol of a kernel's descriptor ends with


def kernels_of_wrappers(elf: Elf, file: View) -> dict[int, frozenset[str]] | None:
    """Number of each wrapper → names of the kernels that constructors register with it, -1 where unknown.

    A wrapper without a kernel is left out. None where nothing can be told: for machines other than x86-64 and
    aarch64, for files without section headers, and where wrappers are handed over and no name is understood.
    Raises `InvalidElf` for tables outside of the file.
    """
    if elf.machine not in (fmt.EM_X86_64, fmt.EM_AARCH64) or not elf.section_table:
        return None
    found: dict[int, set[str]] = {}
    try:
        reader = _Constructors(elf, file)
        for number, name in reader.names():
            found.setdefault(number, set()).add(name)
    except Unsplittable:
        return None
    return {k: frozenset(v) for k, v in sorted(found.items())} if found or not reader.opened else None


class _Constructors:
    """The constructors of one file, and what they hand over."""

    def __init__(self, elf: Elf, file: View) -> None:
        self.elf, self.file = elf, file
        self.opened = False
        self.seen: set[int] = set()

    def names(self) -> Iterator[tuple[int, str]]:
        """Number of a wrapper and each name registered with it, in order; the same may come several times."""
        if not self._functions:
            return
        for start in self._starts():
            yield from self._registered(start)

    @cached_property
    def _functions(self) -> dict[int, bytes]:
        """Address of a word that the loader fills with one of the two functions → its name."""
        table = next((s for s in self.elf.section_table if s.type == fmt.SHT_DYNSYM), None)
        if table is None or table.link >= len(self.elf.section_table):
            return {}
        names = enumerate(word for word, _ in _symbols(self.elf, self.file, table))
        wanted = {number: name for number, name in names if name in (_OPENS, _REGISTERS)}
        if not wanted:
            return {}
        tables = (relocations(self.elf, self.file), relocations(self.elf, self.file, tags=_JUMP_SLOTS))
        entries = chain.from_iterable(zip(table.places, table.infos, strict=True) for table in tables)
        return {place: wanted[info >> 32] for place, info in entries if info >> 32 in wanted}

    def _starts(self) -> list[int]:
        """Addresses of the constructors."""
        array = [s for s in self.elf.section_table if s.type == _SHT_INIT_ARRAY and s.size]
        inside = [(s.addr, s.addr + s.size) for s in array]
        starts = {
            place: word_at(self.elf, self.file, place)
            for start, end in inside
            for place in range(start, end - end % 8, 8)
        }
        relative = set(relative_places(self.elf, self.file))
        table = relocations(self.elf, self.file)
        for place, addend in zip(table.places, table.addends, strict=True):
            if place in starts and place not in relative:
                starts[place] = addend
        return sorted({value for value in starts.values() if value})

    def _registered(self, start: int, wrapper: int | None = None) -> Iterator[tuple[int, str]]:
        """What the code from `start` registers, until it is silent; calls are followed once.

        `wrapper` is the number of one that was handed over before, by the caller of this code.
        """
        if start in self.seen:
            return
        self.seen.add(start)
        inner: dict[int, int] = {}
        at, opened = start, wrapper
        made: list[int] = []  # addresses, of which those count that were not there at the last call
        named = handed = 0
        while (code := self._code(at)) is not None:
            end = at
            waiting: list[Call] = []
            for call in calls(self.elf.machine, code, at, fixed=self.elf.kind == "exec"):
                if call.place - end > _SILENCE:
                    break
                waiting.append(call)
                called = self._called(call)
                if called is None:
                    if opened is not None and not call.through:
                        inner.setdefault(call.target, opened)
                    continue
                made += chain.from_iterable(one.made() for one in waiting)
                waiting.clear()
                end = call.after
                if called == _REGISTERS:
                    name = _last(self._string, made[named:])
                    if name is not None:
                        yield _UNKNOWN if opened is None else opened, name
                    named = len(made)
                else:
                    number = _last(self._wrapper, made[handed:])
                    opened = _UNKNOWN if number is None else number
                    handed, self.opened = len(made), True
            if end == at:
                break
            at = end
        for called_at, its in inner.items() if wrapper is None else ():
            yield from self._registered(called_at, its)

    def _wrapper(self, vaddr: int) -> int | None:
        """The number of the wrapper at an address."""
        return self._wrappers.index(vaddr) if vaddr in self._wrappers else None

    @cached_property
    def _wrappers(self) -> range:
        """Addresses of wrappers."""
        section = self.elf.sections.get(SECTION)
        return range(0) if section is None else range(section.addr, section.addr + section.size, WRAPPER.size)

    def _code(self, vaddr: int, length: int = 4 * _SILENCE) -> bytes | None:
        """Some code from there; None outside of it."""
        for segment in self._programs:
            if 0 <= vaddr - segment.vaddr < segment.filesz:
                start = vaddr - segment.vaddr
                return self.file.read_at(segment.offset + start, min(length, segment.filesz - start))
        return None

    @cached_property
    def _programs(self) -> list[Segment]:
        return [s for s in self.elf.segments_of(fmt.PT_LOAD) if s.flags & fmt.PF_X]

    def _called(self, call: Call) -> bytes | None:
        """Which of the two functions is called, at a place in the code or through a word."""
        if call.through:
            return self._functions.get(call.target)
        if call.target not in self._stubs:
            jump = self._jump(call.target)
            if jump and not jump.through:
                jump = self._jump(jump.target)
            self._stubs[call.target] = self._functions.get(jump.target) if jump and jump.through else None
        return self._stubs[call.target]

    def _jump(self, vaddr: int) -> Call | None:
        code = self._code(vaddr, LONGEST_STUB)
        return jump_of(self.elf.machine, code, vaddr) if code else None

    @cached_property
    def _stubs(self) -> dict[int, bytes | None]:
        """Places that were called → the function behind them."""
        return {}

    def _string(self, vaddr: int) -> str | None:
        """The name that lies at an address of data that nothing writes to."""
        for section in self._constants:
            if section.addr <= vaddr < section.addr + section.size:
                at = vaddr - section.addr
                for most in _NAME_STEPS:
                    text = self.file.read_at(section.offset + at, min(most, section.size - at))
                    name, end, _ = text.partition(b"\0")
                    if end:
                        return name.decode("ascii") if _NAME.match(name) else None
        return None

    @cached_property
    def _constants(self) -> list[Section]:
        barred = fmt.SHF_WRITE | fmt.SHF_EXECINSTR
        return [
            s
            for s in self.elf.section_table
            if s.flags & fmt.SHF_ALLOC
            and not s.flags & barred
            and s.type == fmt.SHT_PROGBITS
            and s.name != fmt.HIP_FATBIN
        ]


def _last(tell: Callable[[int], _T | None], addresses: Sequence[int]) -> _T | None:
    """What is told of the last address that anything is told of."""
    return next((told for told in map(tell, reversed(addresses)) if told is not None), None)


class Strange(NamedTuple):
    """A wrapper that has another's code: its number, a kernel that is launched, and one that is defined."""

    number: int
    launched: str
    defined: str


def strange_wrapper(
    launches: Mapping[int, frozenset[str]], defined: Mapping[int, Sequence[frozenset[str] | None]]
) -> Strange | None:
    """The first wrapper none of whose kernels is in its code in any archive; None where all may be its code.

    `launches` are as of `kernels_of_wrappers`; `defined` are the kernels in the code of each wrapper, of one
    archive after the other, None where they cannot be read. Some kernels may be left out of some targets.
    """
    for number, names in sorted(launches.items()):
        held = defined.get(number, ())
        known = [each for each in held if each]
        if number >= 0 and known and len(known) == len(held) and not names & frozenset().union(*known):
            return Strange(number, min(names), min(known[0]))
    return None


def defined_kernels(file: View) -> frozenset[str]:
    """Mangled names of the kernels that a code object defines; none for one that cannot be read."""
    try:
        elf = read_elf(file)
    except InvalidElf:
        return frozenset()
    table = next((s for s in elf.section_table if s.type == fmt.SHT_DYNSYM), None)
    if elf.machine != fmt.EM_AMDGPU or table is None or table.link >= len(elf.section_table):
        return frozenset()
    if table.size > _MOST_SYMBOLS * fmt.SYM.size:
        return frozenset()
    words = (word for word, section in _symbols(elf, file, table) if section and word.endswith(_DESCRIPTOR))
    return frozenset(word.removesuffix(_DESCRIPTOR).decode("utf-8", "replace") for word in words)


def _symbols(elf: Elf, file: View, table: Section) -> Iterator[tuple[bytes, int]]:
    """Name and section of each dynamic symbol, in order."""
    strings = elf.section_table[table.link]
    text = file.read_at(strings.offset, strings.size)
    rows = file.read_at(table.offset, table.size - table.size % fmt.SYM.size)
    for name, _, _, section, _, _ in fmt.SYM.iter_unpack(rows):
        end = text.find(b"\0", name, name + _LONGEST_NAME)
        yield text[name : max(name, end)], section
