"""Compare the host code of two linked libraries whose device code differs in size.

What lies behind `.hip_fatbin` has other addresses then, so every reference to it has another value. A
difference counts as such a reference when its two values lead to the same place of the same section;
whatever is left is a real difference. Device code, build ids and padding are not compared.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section
from rocwright.binary.view import Mapped
from rocwright.device_code import fatbin

_SHT_RELA = 4
_PIECE = 1 << 16
_NOT_ZERO = re.compile(rb"[^\0]")
# Behind a 32-bit displacement an operand may follow; symbols may stand for the end of a section.
_SLACK = 64
_MOST = 100
_SHOWN = 48
# Names of the unit that clang makes of a hash; in .strtab nothing refers to them when a program runs.
_HASHED = re.compile(rb"__hip_(?:cuid|fatbin|fatbin_wrapper|gpubin_handle|module_[cd]tor)_[0-9A-Za-z_]*\Z")


class HostDifference(msgspec.Struct, frozen=True):
    """A place where host code differs: `offset` is in bytes from the start of `section`."""

    section: str
    offset: int
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.section}+{self.offset:#x}: {self.one} and {self.other}"


def host_differences(one: Elf, one_file: Mapped, other: Elf, other_file: Mapped) -> list[HostDifference]:
    """What differs between two libraries besides their device code, at most 100 places; empty when nothing.

    Needs section headers. Raises nothing for odd content: what cannot be explained is a difference.
    """
    headers = list(_headers(one, one_file, other, other_file))
    if headers:
        return headers
    found: list[HostDifference] = []
    comparison = _Comparison(one, one_file, other, other_file)
    for mine, theirs in zip(one.section_table, other.section_table, strict=True):
        for difference in comparison.section(mine, theirs):
            found.append(difference)
            if len(found) == _MOST:
                return found
    return found


def _headers(one: Elf, one_file: Mapped, other: Elf, other_file: Mapped) -> Iterator[HostDifference]:
    """What differs in kind, or in which sections there are and how large they are."""
    kinds = [(elf.kind, elf.machine) for elf in (one, other)]
    if kinds[0] != kinds[1]:
        yield HostDifference("the ELF header", 0, *(f"{kind} for machine {m}" for kind, m in kinds))
    segments = [[(s.type, s.flags, s.align) for s in elf.segments] for elf in (one, other)]
    if segments[0] != segments[1]:
        yield HostDifference("the program headers", 0, *(f"{len(table)} segments" for table in segments))
    names = [[section.name for section in elf.section_table] for elf in (one, other)]
    if names[0] != names[1]:
        gone = [" ".join(sorted({*a} - {*b})) or "the same in another order" for a, b in (names, names[::-1])]
        yield HostDifference("the section headers", 0, *gone)
        return
    for mine, theirs in zip(one.section_table, other.section_table, strict=True):
        rows = [(s.type, s.flags, s.link, s.info, s.addralign, s.entsize) for s in (mine, theirs)]
        if rows[0] != rows[1]:
            yield HostDifference(mine.name, 0, *(f"header {row}" for row in rows))
        elif mine.size != theirs.size and mine.name != fatbin.SECTION:
            at = _first(one_file, mine, other_file, theirs)
            pair = ((one_file, mine), (other_file, theirs))
            texts = [f"{s.size} bytes, here {_quoted(_shown(f, s, at)[0])}" for f, s in pair]
            yield HostDifference(mine.name, at, *texts)


def _first(one_file: Mapped, mine: Section, other_file: Mapped, theirs: Section) -> int:
    """Offset of the first byte that differs in two sections of different sizes."""
    size = min(mine.size, theirs.size)
    for at in range(0, size if mine.type != fmt.SHT_NOBITS else 0, _PIECE):
        length = min(_PIECE, size - at)
        pieces = [f.read_at(s.offset + at, length) for f, s in ((one_file, mine), (other_file, theirs))]
        if pieces[0] != pieces[1]:
            return at + next(n for n, (a, b) in enumerate(zip(*pieces, strict=True)) if a != b)
    return size


class _ShiftedRange(msgspec.Struct, frozen=True):
    """Addresses of the one library that are `shift` higher in the other."""

    start: int
    end: int
    shift: int


class _Comparison:
    """Two libraries with the same sections."""

    def __init__(self, one: Elf, one_file: Mapped, other: Elf, other_file: Mapped) -> None:
        self.one, self.other = one, other
        self.files = one_file, other_file
        self.runs = _runs(one, other)
        self.fat = [
            (s.addr, s.addr + s.size) for elf in (one, other) if (s := elf.sections.get(fatbin.SECTION))
        ]

    def section(self, mine: Section, theirs: Section) -> Iterator[HostDifference]:
        """The differences in one section; its content only, where that is not layout."""
        if mine.name in (fatbin.SECTION, fmt.BUILD_ID) or mine.type == fmt.SHT_NOBITS or not mine.size:
            return
        if mine.type == _SHT_RELA:
            yield from self._rows(mine, theirs, _RELA)
        elif mine.type in (fmt.SHT_SYMTAB, fmt.SHT_DYNSYM):
            yield from self._rows(mine, theirs, _SYMBOL)
        elif mine.type == fmt.SHT_DYNAMIC:
            yield from self._rows(mine, theirs, _DYNAMIC)
        else:
            yield from self._bytes(mine, theirs)

    def fits(self, mine: int, theirs: int, slack: int = _SLACK) -> bool:
        """Whether two addresses are the same place of the same section, or both in the device code."""
        if len(self.fat) == 2 and all(
            start <= value <= end for value, (start, end) in zip((mine, theirs), self.fat, strict=True)
        ):
            return True
        shift = theirs - mine
        return any(r.shift == shift and r.start - slack <= mine <= r.end + slack for r in self.runs)

    def _rows(self, mine: Section, theirs: Section, kind: _Rows) -> Iterator[HostDifference]:
        size = kind.layout.size
        data = [f.read_at(s.offset, s.size) for f, s in zip(self.files, (mine, theirs), strict=True)]
        for at in range(0, mine.size - mine.size % size, size):
            if data[0][at : at + size] == data[1][at : at + size]:
                continue
            rows = [kind.layout.unpack_from(each, at) for each in data]
            for field, (a, b) in enumerate(zip(*rows, strict=True)):
                if a != b and not (field in kind.addresses and self.fits(a, b)):
                    yield HostDifference(mine.name, at, *(kind.shown(row) for row in rows))
                    break

    def _bytes(self, mine: Section, theirs: Section) -> Iterator[HostDifference]:
        explained = 0
        for at in self._differing(mine, theirs):
            if at < explained:
                continue
            end = self._explained(mine, theirs, at)
            if end is not None:
                explained = end
                continue
            texts = [_shown(f, s, at) for f, s in zip(self.files, (mine, theirs), strict=True)]
            if mine.name == ".strtab" and all(_HASHED.match(text) for text, _ in texts):
                explained = at + min(len(text) - (at - start) for text, start in texts)
                continue
            explained = at + _SHOWN
            yield HostDifference(mine.name, at, *(_quoted(text) for text, _ in texts))

    def _differing(self, mine: Section, theirs: Section) -> Iterator[int]:
        """Offsets of the bytes that differ, in order."""
        for at in range(0, mine.size, _PIECE):
            length = min(_PIECE, mine.size - at)
            pair = [f.read_at(s.offset + at, length) for f, s in zip(self.files, (mine, theirs), strict=True)]
            if pair[0] == pair[1]:
                continue
            numbers = [int.from_bytes(piece.ljust(length, b"\0"), "little") for piece in pair]
            for match in _NOT_ZERO.finditer((numbers[0] ^ numbers[1]).to_bytes(length, "little")):
                yield at + match.start()

    def _explained(self, mine: Section, theirs: Section, at: int) -> int | None:
        """Where the reference ends that a differing byte is a part of; None when it is of none.

        A table's entries count from its start, which lies anywhere in its section; code counts from itself.
        A program at a fixed address has addresses of 32 bits in its code.
        """
        own = theirs.addr - mine.addr
        code = bool(mine.flags & fmt.SHF_EXECINSTR)
        slack = _SLACK if code else max(_SLACK, mine.size)
        for start in range(at, max(-1, at - 4), -1):
            a, b = (self._number(n, s, start, 4, signed=True) for n, s in enumerate((mine, theirs)))
            to = mine.addr + start + 4 + a
            if mine.flags & fmt.SHF_ALLOC and self.fits(to, to + b - a + own, slack):
                return start + 4
            if self.one.kind == "exec" and self.fits(a, b):
                return start + 4
        for start in range(at, max(-1, at - 8), -1):
            a, b = (self._number(n, s, start, 8, signed=False) for n, s in enumerate((mine, theirs)))
            if self.fits(a, b):
                return start + 8
        return None

    def _number(self, which: int, section: Section, start: int, size: int, *, signed: bool) -> int:
        if start + size > section.size:
            return -1 << 62
        data = self.files[which].read_at(section.offset + start, size)
        return int.from_bytes(data, "little", signed=signed)


def _shown(file: Mapped, section: Section, at: int) -> tuple[bytes, int]:
    """The text around a byte, as far as it is one, else some bytes from there; and where that starts."""
    if section.type == fmt.SHT_NOBITS or at >= section.size:
        return b"", at
    first = max(0, at - _SHOWN * 4)
    before = file.read_at(section.offset + first, at - first).rpartition(b"\0")[2]
    after = file.read_at(section.offset + at, min(_SHOWN * 4, section.size - at)).partition(b"\0")[0]
    text = before + after
    if text and all(32 <= byte < 127 for byte in text):
        return text, at - len(before)
    return file.read_at(section.offset + at, min(8, section.size - at)), at


def _quoted(text: bytes) -> str:
    if text and all(32 <= byte < 127 for byte in text):
        shown = text.decode("ascii")
        return repr(shown if len(shown) <= 2 * _SHOWN else shown[: 2 * _SHOWN] + "…")
    return text.hex(" ") or "its end"


def _runs(one: Elf, other: Elf) -> list[_ShiftedRange]:
    """Neighbouring sections that moved by the same length, as one; thread-local zeros have no room."""
    runs: list[_ShiftedRange] = []
    pairs = sorted(zip(one.section_table, other.section_table, strict=True), key=lambda pair: pair[0].addr)
    for mine, theirs in pairs:
        zeros_of_threads = mine.type == fmt.SHT_NOBITS and mine.flags & fmt.SHF_TLS
        if not mine.flags & fmt.SHF_ALLOC or mine.name == fatbin.SECTION or zeros_of_threads:
            continue
        shift, end = theirs.addr - mine.addr, mine.addr + mine.size
        if runs and runs[-1].shift == shift:
            runs[-1] = _ShiftedRange(runs[-1].start, max(runs[-1].end, end), shift)
        else:
            runs.append(_ShiftedRange(mine.addr, end, shift))
    return runs


class _Rows(msgspec.Struct, frozen=True):
    """A table of rows of one layout; `addresses` are the fields that may hold one."""

    layout: struct.Struct
    addresses: tuple[int, ...]

    def shown(self, row: tuple[int, ...]) -> str:
        """A row in a message."""
        return " ".join(f"{value:#x}" for value in row)


_RELA = _Rows(struct.Struct("<QQq"), (0, 2))
_SYMBOL = _Rows(fmt.SYM, (4,))
_DYNAMIC = _Rows(fmt.DYN, (1,))
