"""The dynamic symbols of an ELF file, as the loader sees them: what it defines and what it wants of others.

A large library has hundreds of thousands of names. They are kept as sorted 64-bit hashes, which hold for one
process only; the text is kept, packed, of what the file wants and does not define. Layouts: the System V
gABI,
and the GNU extensions for versions and hash tables.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from sys import byteorder, intern

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf
from rocwright.errors import InvalidElf, InvalidInput

_DT_HASH, _DT_SYMTAB, _DT_GNU_HASH = 4, 6, 0x6FFFFEF5
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_STB_LOCAL, _STB_WEAK = 0, 0x20  # above the four bits of the type
_CELLS = fmt.SYM.size // 4
_HIDDEN, _FIRST_VERSION = 0x8000, 2
_VISIBLE = (0, 3)  # default and protected
_MOST_SYMBOLS = 4 << 20
_MOST_STRINGS = 1 << 30
_MOST_VERSIONS = 1 << 14
_PIECE = 1 << 20
_LONGEST = 1 << 16
_INTERPRETER = (b"Py", b"_Py")
_INIT = b"PyInit"


class Names:
    """A set of names, kept as hashes."""

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self.hashes = array("q", sorted({hash(name) for name in names}))

    def __contains__(self, value: int) -> bool:
        at = bisect_left(self.hashes, value)
        return at < len(self.hashes) and self.hashes[at] == value

    def __len__(self) -> int:
        return len(self.hashes)


class Want(msgspec.Struct, frozen=True):
    """A symbol that a file wants; `version` and the `library` that it is expected of may be empty."""

    name: str
    version: str = ""
    library: str = ""

    @property
    def versioned(self) -> bytes:
        """Name and version as `Symbols.defined` has them."""
        return _raw(f"{self.name}@{self.version}")


class Symbols(msgspec.Struct, frozen=True):
    """Dynamic symbols of one file.

    `defined` are the names that others can use, and `name@version` where it has versions, all of which
    `versions` tells. `packed` are the wanted ones that no weak reference covers, `python` those that the
    interpreter's names begin like, `inits` the entries of extension modules (`PyInit_x`).
    """

    defined: Names
    versions: frozenset[str] = frozenset()
    packed: bytes = b""
    python: frozenset[str] = frozenset()
    inits: frozenset[str] = frozenset()

    @property
    def wanted(self) -> Iterator[Want]:
        """What other files must define, without the names of the interpreter."""
        for line in _text(zlib.decompress(self.packed)).split("\0") if self.packed else ():
            yield Want(*line.split("\t"))


def known_symbols(
    defined: Iterable[str], wanted: Iterable[Want] = (), *, versions: Iterable[str] = ()
) -> Symbols:
    """Symbols that are told, not read: `defined` are `name` and `name@version`."""
    wants = list(wanted)
    python = frozenset(want.name for want in wants if _raw(want.name).startswith(_INTERPRETER))
    names = [_raw(name) for name in defined]
    return Symbols(
        Names(names),
        frozenset(versions),
        _packed([want for want in wants if want.name not in python]),
        python,
        frozenset(_text(name) for name in names if name.startswith(_INIT)),
    )


def read_symbols(elf: Elf) -> Symbols | None:
    """The dynamic symbols of a file, None when it has none or does not tell how many.

    Reads the two tables in pieces. Raises `InvalidElf` where they lead out of the file or are larger
    than any.
    """
    table, strings = elf.dynamic_value(_DT_SYMTAB), elf.dynamic_value(fmt.DT_STRTAB)
    if table is None or strings is None:
        return None
    count = _count(elf, table)
    if count is None:
        return None
    if count > _MOST_SYMBOLS:
        raise _invalid(elf, f"{count} dynamic symbols are more than any real file has")
    size = elf.dynamic_value(fmt.DT_STRSZ) or 0
    if size > _MOST_STRINGS:
        raise _invalid(elf, f"a dynamic string table of {size} bytes is larger than that of any real file")
    return _SymbolTable(elf, table, elf.offset_of(strings), size).read(count)


class _SymbolTable:
    """Goes through the names in the order in which they lie in the string table, a piece at a time."""

    def __init__(self, elf: Elf, table: int, strings: int, size: int) -> None:
        self.elf, self.table, self.strings, self.size = elf, table, strings, size

    def read(self, count: int) -> Symbols:
        data = _pieces(self.elf, self.elf.offset_of(self.table), count * fmt.SYM.size, "symbol table")
        versions = self._versions(count)
        order: list[int] = []  # offset of the name, index, and whether it is defined, in one number
        index = -1
        for piece in data:
            cells = array("I", piece)
            if byteorder == "big":
                cells.byteswap()
            # The name, then binding, visibility and section in one number; addresses and sizes tell nothing.
            for name, told in zip(cells[0::_CELLS], cells[1::_CELLS], strict=True):
                index += 1
                bind = told & 0xF0
                if not name or bind == _STB_LOCAL:
                    continue
                if told >> 16:
                    if told >> 8 & 3 in _VISIBLE:
                        order.append(name << 33 | index << 1 | 1)
                elif bind != _STB_WEAK:
                    order.append(name << 33 | index << 1)
        order.sort()
        needs, own = self._tables() if versions else ({}, {})
        return self._sorted(order, versions, needs, own)

    def _sorted(
        self,
        order: list[int],
        versions: Sequence[int],
        needs: dict[int, tuple[str, str]],
        own: dict[int, bytes],
    ) -> Symbols:
        defined, wanted = array("q"), list[tuple[bytes, int]]()
        inits = set[str]()
        text, start = b"", 0
        find, put, has_inits = text.find, defined.append, False
        for packed in order:
            offset = packed >> 33
            # In an empty text nothing is found.
            end = find(b"\0", offset - start)
            if end < 0:
                start, text = offset, self._string_piece(offset)
                find, has_inits = text.find, _INIT in text
                end = find(b"\0")
                if end < 0:
                    raise _invalid(self.elf, f"the name of a dynamic symbol at {offset:#x} has no end")
            name = text[offset - start : end]
            number = versions[packed >> 1 & 0xFFFFFFFF] & ~_HIDDEN if versions else 0
            if not packed & 1:
                wanted.append((name, number))
                continue
            put(hash(name))
            if number in own:
                put(hash(name + b"@" + own[number]))
            if has_inits and name.startswith(_INIT):
                inits.add(_text(name))
        names = Names()
        names.hashes = array("q", sorted(set(defined)))
        others = [(name, number) for name, number in wanted if hash(name) not in names]
        python = frozenset(intern(_text(name)) for name, _ in others if name.startswith(_INTERPRETER))
        wants = [
            Want(_text(name), *needs.get(number, ("", "")))
            for name, number in others
            if not name.startswith(_INTERPRETER)
        ]
        return Symbols(names, frozenset(map(_text, own.values())), _packed(wants), python, frozenset(inits))

    def _string_piece(self, offset: int) -> bytes:
        if offset >= self.size:
            raise _invalid(self.elf, f"the name of a dynamic symbol at {offset:#x} lies outside the table")
        return self.elf.source.read_at(self.strings + offset, min(_PIECE, self.size - offset))

    def _string(self, offset: int) -> bytes:
        if offset >= self.size:
            raise _invalid(self.elf, f"the name of a version at {offset:#x} lies outside the table")
        data = self.elf.source.read_at(self.strings + offset, min(_LONGEST, self.size - offset))
        return data.split(b"\0", 1)[0]

    def _versions(self, count: int) -> Sequence[int]:
        at = self.elf.dynamic_value(_DT_VERSYM)
        if at is None:
            return ()
        found = array("H")
        for piece in _pieces(self.elf, self.elf.offset_of(at), count * 2, "symbol versions"):
            found.frombytes(piece)
        return found

    def _tables(self) -> tuple[dict[int, tuple[str, str]], dict[int, bytes]]:
        """Versions by their number: those wanted, with their library, and those that the file has."""
        needs: dict[int, tuple[str, str]] = {}
        for _, aux, at, (_, count, file, *_) in self._records(fmt.DT_VERNEED, fmt.DT_VERNEEDNUM, "<HHIII"):
            library = _text(self._string(file))
            for _ in range(min(count, _MOST_VERSIONS - len(needs))):
                _, _, number, name, step = struct.unpack("<IHHII", _take(self.elf, at + aux, 16))
                needs[number & ~_HIDDEN] = (_text(self._string(name)), library)
                aux += step
                if not step:
                    break
        own: dict[int, bytes] = {}
        for _, aux, at, (_, _, number, *_) in self._records(_DT_VERDEF, _DT_VERDEFNUM, "<HHHHIII"):
            if number & ~_HIDDEN >= _FIRST_VERSION:
                own[number & ~_HIDDEN] = self._string(struct.unpack("<II", _take(self.elf, at + aux, 8))[0])
        return needs, own

    def _records(
        self, tag: int, count_tag: int, layout: str
    ) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
        """Records of a list: their number, where what belongs to each lies, where it starts.

        And its fields.
        """
        address = self.elf.dynamic_value(tag)
        if address is None:
            return
        at = self.elf.offset_of(address)
        for number in range(min(self.elf.dynamic_value(count_tag) or 0, _MOST_VERSIONS)):
            fields = struct.unpack(layout, _take(self.elf, at, struct.calcsize(layout)))
            yield number, fields[-2], at, fields
            if not fields[-1]:
                return
            at += fields[-1]


def _count(elf: Elf, table: int) -> int | None:
    """How many dynamic symbols there are: the section says it, or the loader's own tables."""
    for section in elf.section_table:
        if section.type == fmt.SHT_DYNSYM and section.addr == table:
            return section.size // fmt.SYM.size
    at = elf.dynamic_value(_DT_HASH)
    if at is not None:
        return int(struct.unpack("<II", _take(elf, elf.offset_of(at), 8))[1])
    at = elf.dynamic_value(_DT_GNU_HASH)
    return None if at is None else _gnu_count(elf, elf.offset_of(at))


def _gnu_count(elf: Elf, at: int) -> int:
    """The last chain of a GNU hash table ends with the last symbol."""
    buckets, first, bloom, _ = struct.unpack("<IIII", _take(elf, at, 16))
    if max(buckets, bloom) > _MOST_SYMBOLS:
        raise _invalid(elf, f"a hash table with {buckets} buckets is larger than that of any real file")
    at += 16 + bloom * 8
    table = array("I")
    for piece in _pieces(elf, at, buckets * 4, "hash table"):
        table.frombytes(piece)
    last = max(table, default=0)
    if last < first:
        return int(first)
    at += buckets * 4
    while last <= _MOST_SYMBOLS:
        piece = elf.source.read_at(at + (last - first) * 4, 4096)
        if len(piece) < 4:
            raise _invalid(elf, "the hash table of its symbols has no end")
        for (value,) in struct.iter_unpack("<I", piece[: len(piece) // 4 * 4]):
            last += 1
            if value & 1:
                return int(last)
    return int(last)


def _pieces(elf: Elf, offset: int, size: int, what: str) -> Iterator[bytes]:
    """A table in pieces of whole entries."""
    if offset + size > elf.size:
        raise _invalid(elf, f"the {what} at {offset:#x} + {size:#x} lies outside the file")
    step = _PIECE // fmt.SYM.size * fmt.SYM.size
    for at in range(0, size, step):
        yield elf.source.read_at(offset + at, min(step, size - at))


def _take(elf: Elf, offset: int, length: int) -> bytes:
    data = elf.source.read_at(offset, length)
    if len(data) < length:
        raise _invalid(elf, f"a table at {offset:#x} ends outside the file")
    return data


def _invalid(elf: Elf, what: str) -> InvalidInput:
    return InvalidElf(f"{elf.path.name}: {what}", where=elf.path)


def _packed(wants: Iterable[Want]) -> bytes:
    lines = [f"{want.name}\t{want.version}\t{want.library}" for want in wants]
    return zlib.compress(_raw("\0".join(lines)), 1) if lines else b""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
