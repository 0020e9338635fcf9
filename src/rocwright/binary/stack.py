"""Decide the edit after which an ELF file no longer asks for an executable stack.

One object file from assembly source without a `.note.GNU-stack` section makes the linker ask for one for the
whole library. glibc from 2.41 on refuses to open such a library, and hardened systems always did. Code that
really runs on the stack (nested functions of GCC) does not occur in C++ or HIP.
"""

from __future__ import annotations

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf
from rocwright.binary.patch import BytePatch

_FLAGS_AT = 4  # of a program header: behind its type


def plan_stack(elf: Elf) -> BytePatch | None:
    """The edit that takes the right to execute from PT_GNU_STACK; None when it is not asked for."""
    edits = [
        (elf.phoff + index * fmt.PHDR.size + _FLAGS_AT, (segment.flags & ~fmt.PF_X).to_bytes(4, "little"))
        for index, segment in enumerate(elf.segments)
        if segment.type == fmt.PT_GNU_STACK and segment.flags & fmt.PF_X
    ]
    return BytePatch(tuple(edits), elf.size) if edits else None
