"""Read the headers of a Windows program or DLL (PE) without reading the rest of it.

What a package needs to know of one: for which machine it is, whether it is a program or a DLL, and which
DLLs it asks for. Layouts and numbers follow the PE format specification of Microsoft.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rocwright.binary.patch import PatchedFile
from rocwright.binary.view import View
from rocwright.errors import InvalidPe, see_who_may_read

MACHINE_AMD64 = 0x8664

_DOS_MAGIC, _SIGNATURE = b"MZ", b"PE\0\0"
_DOS_HEADER_SIZE, _PE_OFFSET_AT = 64, 60
_COFF = struct.Struct("<HHIIIHH")
_SECTION = struct.Struct("<8sIIIIIIHHI")
_DIRECTORY = struct.Struct("<II")
# The magic number of the optional header: the layout of what stands before its data directories.
_PE32, _PE32_PLUS = 0x10B, 0x20B
_IMAGE_BASE = {_PE32: struct.Struct("<28xI"), _PE32_PLUS: struct.Struct("<24xQ")}
_HEADERS_SIZE_AT = 60
_DIRECTORIES_AT = {_PE32: 96, _PE32_PLUS: 112}
_EXPORTS, _IMPORTS, _DELAY_IMPORTS, _CLR_RUNTIME = 0, 1, 13, 14
_EXPORT_NAME = struct.Struct("<12xI")
_IMPORT = struct.Struct("<12xI4x")
_DELAY_IMPORT = struct.Struct("<II24x")
_NAMES_ARE_OFFSETS = 1
# ECMA-335, II.25.3.3, and corhdr.h: flags of the CLI header. What only prefers 32 bits has the flag of what
# requires them, too; what is for one machine of 64 bits is an image of PE32+.
_CLI_FLAGS = struct.Struct("<16xI")
_IL_ONLY, _32_BIT_REQUIRED, _32_BIT_PREFERRED = 1, 2, 0x20000
_PORTABLE = (_IL_ONLY, _IL_ONLY | _32_BIT_REQUIRED | _32_BIT_PREFERRED)
_IS_EXECUTABLE, _IS_DLL = 0x0002, 0x2000
_SYMBOL_SIZE = 18
# Far above any real file; a forged table must not be walked for long.
_MOST_SECTIONS, _MOST_IMPORTS, _LONGEST_NAME = 4096, 4096, 4096


class PeSection(msgspec.Struct, frozen=True):
    """A section: `address` relative to the image, `offset` and `size` of its bytes in the file."""

    name: str
    address: int
    offset: int
    size: int


class Pe(msgspec.Struct, frozen=True):
    """What the headers of a PE image say; names of DLLs stand as they are written in the file.

    `imports` are loaded with the image, `delay_imports` at the first call into them. `export_name` is the
    name that a DLL gives itself; other images bind to it, whatever the file is called. `portable`: it is an
    assembly of .NET without machine code, which runs on any machine whatever `machine` says.
    """

    path: Path
    size: int
    machine: int
    is_dll: bool
    is_program: bool
    imports: tuple[str, ...]
    delay_imports: tuple[str, ...]
    export_name: str | None
    portable: bool
    sections: tuple[PeSection, ...]


def is_pe(path: Path) -> bool:
    """Whether a regular file starts as a PE image does."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        head = stream.read(_DOS_HEADER_SIZE)
        if len(head) < _DOS_HEADER_SIZE or not head.startswith(_DOS_MAGIC):
            return False
        stream.seek(int.from_bytes(head[_PE_OFFSET_AT:], "little"))
        return stream.read(len(_SIGNATURE)) == _SIGNATURE


def read_pe(source: Path | View) -> Pe:
    """Read the headers of a PE image, 32 or 64 bits.

    Raises `InvalidPe` naming what is wrong: no PE image, an object file, truncated, or tables that point
    outside the file.
    """
    view = PatchedFile(source) if isinstance(source, Path) else source
    try:
        return _PeReader(view).pe()
    except OSError as error:
        raise InvalidPe(
            f"cannot read {view.path.name}: {error.strerror}",
            where=view.path,
            next_step=see_who_may_read(view.path),
        ) from error


class _PeReader:
    """Reads pieces of one image with bounds checked; addresses are relative to the image."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.path = view.path
        self.size = view.size
        coff_at = self._coff_offset()
        self.machine, count, _, symbols, symbol_count, optional_size, self.flags = _COFF.unpack(
            self.take(coff_at, _COFF.size, "file header")
        )
        if count > _MOST_SECTIONS:
            raise self.invalid(f"{count} sections are more than any real file has")
        optional_at = coff_at + _COFF.size
        self.optional = self.take(optional_at, optional_size, "optional header")
        self.magic = int.from_bytes(self.optional[:2], "little")
        if self.magic not in _DIRECTORIES_AT or optional_size < _DIRECTORIES_AT[self.magic]:
            raise self.invalid("its optional header is of no known kind (0x10b, 0x20b)")
        self.headers_size = int.from_bytes(self.optional[_HEADERS_SIZE_AT : _HEADERS_SIZE_AT + 4], "little")
        table = self.take(optional_at + optional_size, count * _SECTION.size, "section table")
        # Names of more than eight bytes stand behind the symbols, where there are any.
        long_names_at = symbols + symbol_count * _SYMBOL_SIZE if symbols else None
        self.sections = tuple(
            PeSection(self._section_name(name, long_names_at), address, offset, size)
            for name, _, address, size, offset, *_ in _SECTION.iter_unpack(table)
        )

    def invalid(self, what: str) -> InvalidPe:
        return InvalidPe(f"{self.path.name}: {what}", where=self.path)

    def take(self, offset: int, length: int, what: str) -> bytes:
        data = self.view.read_at(offset, length) if offset + length <= self.size else b""
        if len(data) != length:
            raise self.invalid(f"{what} at {offset:#x} + {length:#x} lies outside the file")
        return data

    def string(self, offset: int, what: str) -> str:
        """The NUL-terminated string at a file offset."""
        data, end, _ = self.view.read_at(offset, _LONGEST_NAME).partition(b"\0")
        if not end:
            raise self.invalid(f"{what} at {offset:#x} has no end")
        return data.decode("utf-8", "surrogateescape")

    def pe(self) -> Pe:
        is_dll = bool(self.flags & _IS_DLL)
        return Pe(
            path=self.path,
            size=self.size,
            machine=self.machine,
            is_dll=is_dll,
            is_program=bool(self.flags & _IS_EXECUTABLE) and not is_dll,
            imports=tuple(self._imports()),
            delay_imports=tuple(self._delay_imports()),
            export_name=self._export_name(),
            portable=self._is_portable(),
            sections=self.sections,
        )

    def _coff_offset(self) -> int:
        dos = self.view.read_at(0, _DOS_HEADER_SIZE)
        if not dos.startswith(_DOS_MAGIC):
            raise self.invalid("this is not a PE image")
        if len(dos) < _DOS_HEADER_SIZE:
            raise self.invalid("the file ends inside the DOS header")
        start = int.from_bytes(dos[_PE_OFFSET_AT:], "little")
        if self.take(start, len(_SIGNATURE), "PE signature") != _SIGNATURE:
            raise self.invalid("this is a DOS program, not a PE image")
        return start + len(_SIGNATURE)

    def _section_name(self, name: bytes, long_names_at: int | None) -> str:
        text = name.rstrip(b"\0").decode("utf-8", "surrogateescape")
        if long_names_at is None or not (text.startswith("/") and text[1:].isdecimal()):
            return text
        return self.string(long_names_at + int(text[1:]), "section name")

    def _directory(self, index: int) -> int:
        """Address of a data directory's contents; 0 for none."""
        at = _DIRECTORIES_AT[self.magic]
        count = int.from_bytes(self.optional[at - 4 : at], "little")
        end = at + (index + 1) * _DIRECTORY.size
        if index >= count or end > len(self.optional):
            return 0
        address: int = _DIRECTORY.unpack(self.optional[end - _DIRECTORY.size : end])[0]
        return address

    def _offset(self, address: int, what: str) -> int:
        """File offset of an address; sections without bytes in the file hold none."""
        for section in self.sections:
            if 0 <= address - section.address < section.size:
                return address - section.address + section.offset
        if 0 <= address < self.headers_size:
            return address
        raise self.invalid(f"{what}: address {address:#x} lies in no section")

    def _name(self, address: int, what: str) -> str:
        return self.string(self._offset(address, what), what)

    def _rows(self, index: int, row: struct.Struct, what: str) -> Iterator[tuple[int, ...]]:
        """The rows of a table of imports up to the empty one that ends it."""
        address = self._directory(index)
        if not address:
            return
        start = self._offset(address, what)
        for number in range(_MOST_IMPORTS):
            fields = row.unpack(self.take(start + number * row.size, row.size, what))
            if not fields[-1]:  # the address of the name
                return
            yield fields
        raise self.invalid(f"it imports from more than {_MOST_IMPORTS} DLLs")

    def _imports(self) -> Iterator[str]:
        for (name,) in self._rows(_IMPORTS, _IMPORT, "import table"):
            yield self._name(name, "name of an imported DLL")

    def _delay_imports(self) -> Iterator[str]:
        (base,) = _IMAGE_BASE[self.magic].unpack_from(self.optional)
        for attributes, name in self._rows(_DELAY_IMPORTS, _DELAY_IMPORT, "delay import table"):
            # Compilers of before 2000 wrote the address that the image prefers.
            address = name if attributes & _NAMES_ARE_OFFSETS else name - base
            yield self._name(address, "name of a delay-loaded DLL")

    def _export_name(self) -> str | None:
        address = self._directory(_EXPORTS)
        if not address:
            return None
        start = self._offset(address, "export table")
        (name,) = _EXPORT_NAME.unpack(self.take(start, _EXPORT_NAME.size, "export table"))
        return self._name(name, "name of the DLL")

    def _is_portable(self) -> bool:
        address = self._directory(_CLR_RUNTIME)
        if not address:
            return False
        start = self._offset(address, "CLI header")
        flags: int
        (flags,) = _CLI_FLAGS.unpack(self.take(start, _CLI_FLAGS.size, "CLI header"))
        kind = flags & (_IL_ONLY | _32_BIT_REQUIRED | _32_BIT_PREFERRED)
        return self.magic == _PE32 and kind in _PORTABLE
