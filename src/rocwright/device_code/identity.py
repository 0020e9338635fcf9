"""Tell the build of a library's host code from that of any other, wherever its device code lies.

Device code of another size moves what lies behind it, and every reference across it has another value then.
So the identity is of what is the same in each layout: symbols, sizes of sections and functions, the kernels
that are registered, and bytes in which no such reference can be. A target that is built later, and parts that
were built apart and merged, have the identity of one build for all targets.
"""

from __future__ import annotations

import hashlib
import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section
from rocwright.binary.view import Mapped
from rocwright.device_code import fatbin
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.kernels import kernels_of_wrappers
from rocwright.device_code.kpack import NO_BUILD
from rocwright.device_code.wrappers import Wrapper
from rocwright.errors import InvalidElf

_FRAMES = ".eh_frame_hdr"
_FRAMES_HEAD = struct.Struct("<4BiI")
# Version 1, with a pointer of 4 bytes relative to itself, a count, and a table relative to the header: what
# every linker writes.
_FRAMES_FORM = (1, 0x1B, 0x03, 0x3B)
# ModRM of an operand that is relative to the instruction: the 32 bits behind it are of the layout.
_RELATIVE_OPERAND = re.compile(rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]")
_LENGTH = struct.Struct("<Q")
_SYMBOL_VALUE = range(8, 16)
# Tables of names and versions, which no address stands in.
_NAMES = (".dynstr", ".gnu.version", ".gnu.version_r", ".gnu.version_d")
_TEXTS = ".rodata"
_TOGETHER = 1 << 20


def host_identity(elf: Elf, file: Mapped, wrappers: tuple[Wrapper, ...]) -> str:
    """The identity of a library or program with device code: 32 hexadecimal digits.

    Equal for two that `host_differences` finds nothing in, however large their device code is, whether it is
    the linker's or was merged. A linker's build id does not count, nor what is not loaded.
    """
    digest = hashlib.sha256()
    for piece in _pieces(elf, file, wrappers):
        digest.update(_LENGTH.pack(len(piece)))
        digest.update(piece)
    for pieces in _functions(elf, file):
        digest.update(pieces)
    return digest.hexdigest()[: len(NO_BUILD)]


def _pieces(elf: Elf, file: Mapped, wrappers: tuple[Wrapper, ...]) -> Iterator[bytes | memoryview]:
    try:
        kernels = kernels_of_wrappers(elf, file) or {}
    except InvalidElf:
        kernels = {}
    yield repr((elf.kind, elf.machine, elf.soname, elf.needed, len(wrappers))).encode()
    yield repr([(number, sorted(names)) for number, names in kernels.items()]).encode()
    for section in _own(elf):
        yield repr((section.name, section.flags, section.size)).encode("utf-8", "surrogateescape")
        if section.type == fmt.SHT_DYNSYM:
            yield _symbols(elf, file, section)
        elif section.name in _NAMES or (section.name == _TEXTS and _near_code(elf, section)):
            yield file.slice(section.offset, section.size)


def _own(elf: Elf) -> Iterator[Section]:
    """The loaded sections that are the host's, in order."""
    for section in elf.section_table:
        if section.flags & fmt.SHF_ALLOC and not _is_device(section) and section.name != fmt.BUILD_ID:
            yield section


def _is_device(section: Section) -> bool:
    """Whether a section holds device code or a marker, or is the place that code had before it was moved."""
    named = section.name in (fatbin.SECTION, MARKER_SECTION)
    return named or section.name.startswith(f"{fatbin.SECTION}.")


def _near_code(elf: Elf, section: Section) -> bool:
    """Whether device code lies neither between a section and code, nor between two sections of code."""
    places = [section.addr, *(s.addr for s in _own(elf) if s.flags & fmt.SHF_EXECINSTR)]
    return not any(min(places) < s.addr < max(places) for s in elf.section_table if _is_device(s) and s.size)


def _symbols(elf: Elf, file: Mapped, table: Section) -> bytes:
    """The rows of a table of symbols, without values."""
    rows = bytearray(file.slice(table.offset, table.size))
    for at in _SYMBOL_VALUE:
        column = rows[at :: fmt.SYM.size]
        rows[at :: fmt.SYM.size] = bytes(len(column))
    return bytes(rows)


def _functions(elf: Elf, file: Mapped) -> Iterator[bytearray]:
    """Where each function starts in its section, and its bytes up to the first that may refer to data.

    Each behind its length, and many together: a large library has half a million.
    """
    starts = _starts(elf, file)
    for section in _own(elf):
        if not section.flags & fmt.SHF_EXECINSTR or section.type == fmt.SHT_NOBITS:
            continue
        first = bisect_left(starts, section.addr)
        its = [at - section.addr for at in starts[first : bisect_left(starts, section.addr + section.size)]]
        gathered = bytearray(_LENGTH.pack(8 * len(its)) + array("Q", its).tobytes())
        # Of fixed addresses, any 32 bits may be one; other machines have other instructions.
        if elf.kind == "dyn" and elf.machine == fmt.EM_X86_64 and _near_code(elf, section):
            code = file.slice(section.offset, section.size)
            for start, end in pairwise([*its, len(code)]):
                found = _RELATIVE_OPERAND.search(code, start, end)
                known = code[start : found.start() if found else end]
                gathered += _LENGTH.pack(len(known))
                gathered += known
                if len(gathered) >= _TOGETHER:
                    yield gathered
                    gathered = bytearray()
        yield gathered


def _starts(elf: Elf, file: Mapped) -> list[int]:
    """Addresses of all functions that can be unwound, sorted; none for an odd table."""
    section = elf.sections.get(_FRAMES)
    raw = b"" if section is None else file.read_at(section.offset, section.size)
    if section is None or section.type == fmt.SHT_NOBITS or len(raw) < _FRAMES_HEAD.size:
        return []
    *form, _, count = _FRAMES_HEAD.unpack_from(raw)
    rows = raw[_FRAMES_HEAD.size : _FRAMES_HEAD.size + 8 * count]
    if tuple(form) != _FRAMES_FORM or len(rows) != 8 * count:
        return []
    return sorted(section.addr + start for start, _ in struct.iter_unpack("<ii", rows))
