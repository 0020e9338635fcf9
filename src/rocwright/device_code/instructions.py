"""Which addresses a piece of code makes and what it calls, for the two kinds of hosts: no disassembler is
needed, since only a few kinds of instructions do.

Encodings follow the instruction set manuals of x86-64 and of the Arm A64, calls through linkage tables the
psABIs of both.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

from rocwright.binary import elf as fmt

LONGEST_STUB = 20  # bytes of an entry of a linkage table
_WORD = struct.Struct("<I")


class CodeReference(NamedTuple):
    """What an instruction does: it calls code at an address or through the word there, or makes the address.

    `place` and `after` are the addresses of the instruction and of the next one.
    """

    kind: Literal["call", "through", "address"]
    place: int
    after: int
    target: int


def steps(machine: int, code: bytes, at: int, *, fixed: bool = False) -> Iterator[CodeReference]:
    """The steps of code that lies at an address, in order; none for a machine that is not known.

    `fixed` is a program at a fixed address, in whose instructions addresses stand as they are.
    """
    if machine == fmt.EM_X86_64:
        yield from _steps_x86(code, at, fixed=fixed)
    elif machine == fmt.EM_AARCH64:
        yield from _steps_a64(code, at)


def jump_of(machine: int, code: bytes, at: int) -> CodeReference | None:
    """Where the entry of a linkage table at an address leads; None for other code."""
    if machine == fmt.EM_X86_64:
        found = _JUMP.match(code[:LONGEST_STUB])
        return found and CodeReference("through", at, 0, at + found.end() + struct.unpack("<i", found[1])[0])
    return next(_jumps_a64(code[:LONGEST_STUB], at), None) if machine == fmt.EM_AARCH64 else None


# x86-64

# `call rel32`, `call [rip + rel32]`, `lea reg, [rip + rel32]`, and `mov reg32, imm32` of programs at a fixed
# address; each with its 32 bits.
_INSTRUCTION = re.compile(
    rb"(?:(\xe8)|(\xff\x15)|([\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d])|([\xb8-\xbf]))(?=(.{4}))",
    re.DOTALL,
)
# `jmp [rip + rel32]` of a linkage table's entry, behind `endbr64` and `bnd` where those are used.
_JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(.{4})", re.DOTALL)


def _steps_x86(code: bytes, at: int, *, fixed: bool) -> Iterator[CodeReference]:
    for found in _INSTRUCTION.finditer(code):
        (value,) = struct.unpack("<i", found[5])
        place, after = at + found.start(), at + found.end() + 4
        if found[1]:
            yield CodeReference("call", place, after, after + value)
        elif found[2]:
            yield CodeReference("through", place, after, after + value)
        elif found[3]:
            yield CodeReference("address", place, after, after + value)
        elif fixed:
            yield CodeReference("address", place, after, value & 0xFFFFFFFF)


# AArch64: an address takes two instructions, one for its page and one for the rest.


def _steps_a64(code: bytes, at: int) -> Iterator[CodeReference]:
    registers: dict[int, int] = {}
    loaded: dict[int, int] = {}
    for number, (word,) in enumerate(_WORD.iter_unpack(code[: len(code) & ~3])):
        place = at + 4 * number
        first, second = word & 31, word >> 5 & 31
        if word & 0x1F000000 == 0x10000000:  # adr, adrp
            registers[first] = _page_a64(word, place)
            if not word >> 31:
                yield CodeReference("address", place, place + 4, registers[first])
        elif word & 0xFF800000 == 0x91000000 and second in registers:  # add
            registers[first] = registers[second] + ((word >> 10 & 0xFFF) << (word >> 22 & 1) * 12)
            yield CodeReference("address", place, place + 4, registers[first])
        elif word & 0xFFC00000 == 0xF9400000 and second in registers:  # ldr
            loaded[first] = registers[second] + (word >> 10 & 0xFFF) * 8
            registers.pop(first, None)
        elif word & 0xFC000000 == 0x94000000:  # bl
            yield CodeReference("call", place, place + 4, place + (_signed(word, 26) << 2))
        elif word & 0xFFFFFC1F == 0xD63F0000 and second in loaded:  # blr
            yield CodeReference("through", place, place + 4, loaded[second])


def _jumps_a64(code: bytes, at: int) -> Iterator[CodeReference]:
    """The jump through a word whose address is made before, or to that address where it is far away."""
    registers: dict[int, int] = {}
    loaded: dict[int, int] = {}
    for number, (word,) in enumerate(_WORD.iter_unpack(code[: len(code) & ~3])):
        first, second = word & 31, word >> 5 & 31
        if word & 0x9F000000 == 0x90000000:  # adrp
            registers[first] = _page_a64(word, at + 4 * number)
        elif word & 0xFFC00000 == 0xF9400000 and second in registers:  # ldr
            loaded[first] = registers[second] + (word >> 10 & 0xFFF) * 8
        elif word & 0xFF800000 == 0x91000000 and second in registers:  # add
            registers[first] = registers[second] + (word >> 10 & 0xFFF)
        elif word & 0xFFFFFC1F == 0xD61F0000:  # br
            if second in loaded:
                yield CodeReference("through", at, 0, loaded[second])
            elif second in registers:
                yield CodeReference("call", at, 0, registers[second])
            return
        elif word != 0xD503245F:  # bti
            return


def _page_a64(word: int, place: int) -> int:
    """What `adrp` makes, or `adr`."""
    value = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
    return (place & ~0xFFF) + (value << 12) if word >> 31 else place + value


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
