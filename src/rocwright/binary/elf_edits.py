"""Decide the edits of ELF files that packaging needs: an RPATH, and no executable stack.

Strings in `.dynstr` share suffixes with symbol names, so nothing in it is overwritten for an RPATH: a copy
with the new string at its end goes to the end of the memory image. Three ways, the first that fits:

1. a new load segment in the program header slot of an entry that nobody needs,
2. the end of the last load segment, made longer,
3. a new load segment, with the program header table moved into it.

DT_RPATH rather than DT_RUNPATH: it also holds for libraries that a dependency opens or needs, and a RUNPATH
in the same file would make the loader ignore it (ld.so(8)).

One object file from assembly source without a `.note.GNU-stack` section makes the linker ask for an
executable stack for the whole library. glibc from 2.41 on refuses to open such a library, and hardened
systems always did. Code that really runs on the stack (nested functions of GCC) does not occur in C++ or HIP.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.binary import elf as fmt
from rocwright.binary.dynamic import new_tables, pack_dynamic, slots
from rocwright.binary.elf import Elf
from rocwright.binary.last_segment import has_extensible_end, in_last_segment
from rocwright.binary.new_segment import expendable, in_new_segment
from rocwright.binary.patch import BytePatch
from rocwright.errors import InvalidElf, InvalidInput

_ORIGIN = "$ORIGIN"
_MOST_SEGMENTS = 0xFFF0  # near 0xFFFF, e_phnum changes its meaning
_FLAGS_AT = 4  # of a program header: behind its type


def plan_rpath(elf: Elf, entries: Sequence[str]) -> BytePatch | None:
    """The edit after which DT_RPATH is exactly `':'.join(entries)` and DT_RUNPATH is gone.

    Entries are `$ORIGIN` or start with `$ORIGIN/`; an empty sequence removes both tags. None when the file
    is already so. Reads the string table of the file and at most 64 MiB behind its last load segment.
    Raises `InvalidInput` for entries that are absolute, repeated or contain `:`, `InvalidElf` for a file
    without a dynamic table.
    """
    wanted = _joined(entries)
    if _is_so(elf, wanted):
        return None
    if not elf.dynamic or not elf.segments_of(fmt.PT_LOAD):
        raise InvalidElf(
            f"{elf.path.name} is not dynamically linked, it cannot have an RPATH", where=elf.path
        )
    if len(elf.segments) > _MOST_SEGMENTS:
        raise InvalidElf(f"{elf.path.name} has {len(elf.segments)} program headers", where=elf.path)
    if wanted is None:
        kept = [entry for entry in elf.dynamic if entry.tag not in (fmt.DT_RPATH, fmt.DT_RUNPATH)]
        place = elf.segments_of(fmt.PT_DYNAMIC)[0].offset
        return BytePatch(((place, pack_dynamic(kept, slots(elf))),), elf.size)
    tables = new_tables(elf, wanted)
    # The slot of a dispensable header is worth more to a split of device code, which may come later.
    dropped = None if fmt.HIP_FATBIN in elf.sections and has_extensible_end(tables) else expendable(elf)
    if dropped is None and has_extensible_end(tables):
        return in_last_segment(tables)
    return in_new_segment(tables, dropped)


def _joined(entries: Sequence[str]) -> str | None:
    for entry in entries:
        if entry != _ORIGIN and not entry.startswith(_ORIGIN + "/"):
            raise InvalidInput(
                f"RPATH entry {entry!r} does not start with $ORIGIN",
                next_step="give a path relative to the library; absolute ones hold on one machine only",
            )
        if ":" in entry or "\0" in entry:
            raise InvalidInput(f"RPATH entry {entry!r} contains a separator")
    if len(set(entries)) != len(entries):
        raise InvalidInput(f"RPATH entries repeat: {':'.join(entries)}")
    return ":".join(entries) or None


def _is_so(elf: Elf, wanted: str | None) -> bool:
    tags = [entry.tag for entry in elf.dynamic]
    has_one_or_none = tags.count(fmt.DT_RPATH) == (wanted is not None)
    return elf.rpath == wanted and fmt.DT_RUNPATH not in tags and has_one_or_none


def plan_stack(elf: Elf) -> BytePatch | None:
    """The edit that takes the right to execute from PT_GNU_STACK; None when it is not asked for."""
    edits = [
        (elf.phoff + index * fmt.PHDR.size + _FLAGS_AT, (segment.flags & ~fmt.PF_X).to_bytes(4, "little"))
        for index, segment in enumerate(elf.segments)
        if segment.type == fmt.PT_GNU_STACK and segment.flags & fmt.PF_X
    ]
    return BytePatch(tuple(edits), elf.size) if edits else None
