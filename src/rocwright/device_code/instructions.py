"""Which addresses a piece of code makes and what it calls, for the two kinds of hosts: no disassembler is
needed, since only a few kinds of instructions do.

Encodings follow the instruction set manuals of x86-64 and of the Arm A64, calls through linkage tables the
psABIs of both.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from rocwright.binary import elf as fmt

LONGEST_STUB = 20  # bytes of an entry of a linkage table
_WORD, _SIGNED = struct.Struct("<I"), struct.Struct("<i")


class Call(NamedTuple):
    """An instruction that calls code at an address, or `through` the word there.

    `place` and `after` are the addresses of the instruction and of the next one; `made` tells the addresses
    that are made between the call before it and this one.
    """

    through: bool
    place: int
    after: int
    target: int
    made: Callable[[], Sequence[int]] = tuple


def calls(machine: int, code: bytes, at: int, *, fixed: bool = False) -> Iterator[Call]:
    """The calls in code that lies at an address, in order; none for a machine that is not known.

    `fixed` is a program at a fixed address, in whose instructions addresses stand as they are.
    """
    if machine == fmt.EM_X86_64:
        return _calls_x86(code, at, _OF_PROGRAM if fixed else _OF_LIBRARY)
    return _calls_a64(code, at) if machine == fmt.EM_AARCH64 else iter(())


def jump_of(machine: int, code: bytes, at: int) -> Call | None:
    """Where the entry of a linkage table at an address leads; None for other code."""
    if machine == fmt.EM_X86_64:
        found = _JUMP.match(code[:LONGEST_STUB])
        return found and Call(True, at, 0, at + found.end() + _SIGNED.unpack(found[1])[0])
    return next(_jumps_a64(code[:LONGEST_STUB], at), None) if machine == fmt.EM_AARCH64 else None


# x86-64

# `call rel32` and `call [rip + rel32]`; `lea reg, [rip + rel32]`, and `mov reg32, imm32` of programs at a
# fixed address; each before its 32 bits. `re` is fast where every alternative begins with one certain byte.
_CALL = re.compile(rb"\xe8(?=.{4})|\xff\x15(?=.{4})", re.DOTALL)
_THROUGH, _MOVE = 0xFF, range(0xB8, 0xC0)
_LEA = rb"\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=.{4})"
_LEAS = (rb"\x48" + _LEA, rb"\x4c" + _LEA)
_OF_LIBRARY = re.compile(b"|".join(_LEAS), re.DOTALL)
_OF_PROGRAM = re.compile(b"|".join((*_LEAS, *(rb"\x%x(?=.{4})" % opcode for opcode in _MOVE))), re.DOTALL)
_LONGEST = 7
# `jmp [rip + rel32]` of a linkage table's entry, behind `endbr64` and `bnd` where those are used.
_JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(.{4})", re.DOTALL)


def _calls_x86(code: bytes, at: int, addresses: re.Pattern[bytes]) -> Iterator[Call]:
    behind = 0
    for found in _CALL.finditer(code):
        start, end = found.span()
        (value,) = _SIGNED.unpack_from(code, end)
        after = at + end + 4
        made = partial(_made_x86, code, at, addresses, behind, start)
        yield Call(code[start] == _THROUGH, at + start, after, after + value, made)
        behind = end


def _made_x86(code: bytes, at: int, addresses: re.Pattern[bytes], start: int, stop: int) -> list[int]:
    """The addresses that instructions make which begin there, even if they end inside of what is a call."""
    made = []
    for found in addresses.finditer(code, start, stop + _LONGEST - 1):
        first, end = found.span()
        (value,) = _SIGNED.unpack_from(code, end)
        if first < stop:
            made.append(value & 0xFFFFFFFF if code[first] in _MOVE else at + end + 4 + value)
    return made


# AArch64: an address takes two instructions, one for its page and one for the rest.


def _calls_a64(code: bytes, at: int) -> Iterator[Call]:
    registers: dict[int, int] = {}
    loaded: dict[int, int] = {}
    made: list[int] = []
    for number, (word,) in enumerate(_WORD.iter_unpack(code[: len(code) & ~3])):
        place = at + 4 * number
        first, second = word & 31, word >> 5 & 31
        called: tuple[bool, int] | None = None
        if word & 0x1F000000 == 0x10000000:  # adr, adrp
            registers[first] = _page_a64(word, place)
            if not word >> 31:
                made.append(registers[first])
        elif word & 0xFF800000 == 0x91000000 and second in registers:  # add
            registers[first] = registers[second] + ((word >> 10 & 0xFFF) << (word >> 22 & 1) * 12)
            made.append(registers[first])
        elif word & 0xFFC00000 == 0xF9400000 and second in registers:  # ldr
            loaded[first] = registers[second] + (word >> 10 & 0xFFF) * 8
            registers.pop(first, None)
        elif word & 0xFC000000 == 0x94000000:  # bl
            called = False, place + (_signed(word, 26) << 2)
        elif word & 0xFFFFFC1F == 0xD63F0000 and second in loaded:  # blr
            called = True, loaded[second]
        if called is not None:
            yield Call(called[0], place, place + 4, called[1], made.copy)
            made = []


def _jumps_a64(code: bytes, at: int) -> Iterator[Call]:
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
                yield Call(True, at, 0, loaded[second])
            elif second in registers:
                yield Call(False, at, 0, registers[second])
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
