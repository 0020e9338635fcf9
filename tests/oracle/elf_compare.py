"""Says whether a split library still is the library that it was, apart from what a split must change.

`compare` loads both files the way kernel and dynamic loader would (`elf_image`) and judges by meaning: which
bytes lie at which address with which rights, what is relocated to what. How the program headers are cut does
not matter, as long as the result is well formed.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

from oracle.elf_image import (
    ALLOC,
    DYNAMIC,
    EXEC,
    INTERP,
    LOAD,
    NOBITS,
    NOTE,
    PAGE,
    PHDR,
    PROPERTY,
    RELR,
    RELRO,
    WRITE,
    Image,
    R,
    Section,
    Segment,
    W,
    X,
    read_image,
    up,
)
from oracle.kpack_reader import parse_marker

FATBIN, MARKER, WRAPPERS = ".hip_fatbin", ".rocm_kpack_ref", ".hipFatBinSegment"
SPLIT_MAGIC = 0x4B504948
# Per e_machine: types of relocations that add the base, and that take a symbol's address.
RELATIVE = {62: 8, 183: 1027}
SYMBOLIC = {62: {1, 6, 7}, 183: {257, 1025, 1026}}


def compare(original: Path | str, split: Path | str, *, allow_moved_notes: bool = False) -> list[str]:
    """All violations of what a split may change in a library or program; an empty list is a good split.

    With `allow_moved_notes`, `.interp` and `.note*` may have moved into the address range of `.hip_fatbin`.
    """
    try:
        old, new = read_image(original), read_image(split)
        fatbin, marker = _changed_section(old, new)
        moved = _moved(old, new) if allow_moved_notes else set()
    except ValueError as error:
        return [str(error)]
    checks = [
        _headers(old, new, moved),
        _well_formed(old, new),
        _other_segments(old, new, moved),
        _contents(old, new, moved),
        _rights(old, new, moved),
        _relro(old, new),
        _marker(old, new, fatbin, marker),
        _hole(old, new, fatbin, marker),
        _relocations(old, new, fatbin, marker),
        _wrappers(old, new, marker),
        _file_ranges(old, new),
        _readelf(old, new),
    ]
    return [finding for check in checks for finding in _guarded(check)]


def faults(image: Path | str) -> list[str]:
    """What is wrong with a file whatever was done to it: what `compare` says of it and itself."""
    try:
        one = read_image(image)
    except ValueError as error:
        return [str(error)]
    checks = [
        _well_formed(one, one),
        _other_segments(one, one, set()),
        _contents(one, one, set()),
        _rights(one, one, set()),
        _relro(one, one),
        _relocations(one, one, *[Section(FATBIN, 0, 0, 0, 0, 0, 0, 0, 0, 0)] * 2),
    ]
    return [finding for check in checks for finding in _guarded(check)]


def _guarded(check: Iterator[str]) -> Iterator[str]:
    try:
        yield from check
    except (ValueError, KeyError, struct.error) as error:
        yield f"{check.__name__.lstrip('_')}: {error!r}"


def _only(image: Image, name: str) -> Section:
    found = [section for section in image.sections if section.name == name]
    if len(found) != 1:
        raise ValueError(f"{image.path.name} has {len(found)} sections {name}")
    return found[0]


def _names(image: Image) -> Section:
    """The section with the sections' names, which gets one more."""
    return image.sections[image.header[-1]]


def _changed_section(old: Image, new: Image) -> tuple[Section, Section]:
    fatbin, marker = _only(old, FATBIN), _only(new, MARKER)
    if len(old.sections) != len(new.sections):
        raise ValueError(f"{len(new.sections)} sections instead of {len(old.sections)}")
    if old.sections.index(fatbin) != new.sections.index(marker):
        raise ValueError(f"{MARKER} does not have the section index of {FATBIN}")
    return fatbin, marker


def _moved(old: Image, new: Image) -> set[str]:
    """Names of the notes and `.interp` that lie elsewhere now, inside the range that `.hip_fatbin` had."""
    fatbin = _only(old, FATBIN)
    moved = set()
    for before, after in zip(old.sections, new.sections, strict=True):
        may = before.name == ".interp" or before.name.startswith(".note")
        if may and before.flags & ALLOC and before.addr != after.addr:
            if not fatbin.addr <= after.addr <= after.addr + after.size <= fatbin.addr + fatbin.size:
                raise ValueError(f"{before.name} moved to {after.addr:#x}, outside the old {FATBIN}")
            moved.add(before.name)
    return moved


# -- the tables --------------------------------------------------------------------------------------------


def _headers(old: Image, new: Image, moved: set[str]) -> Iterator[str]:
    if old.data[:16] != new.data[:16]:
        yield "e_ident differs"
    names = "type machine version entry phoff shoff flags ehsize phentsize phnum shentsize shnum shstrndx"
    for name, was, now in zip(names.split(), old.header, new.header, strict=True):
        if was != now and name not in ("phoff", "shoff", "phnum"):
            yield f"e_{name}: {was:#x} became {now:#x}"
    for before, after in zip(old.sections, new.sections, strict=True):
        if before.name == FATBIN:
            continue
        if before.name != after.name:
            yield f"section {before.name} became {after.name}"
        for key in ("type", "flags", "addr", "size", "link", "info", "align", "entsize"):
            a, b = getattr(before, key), getattr(after, key)
            free = (key == "addr" and before.name in moved) or (key == "size" and before is _names(old))
            if a != b and not free:
                yield f"section {before.name}: {key} {a:#x} became {b:#x}"
        if after.align > 1 and after.addr % after.align and not before.addr % before.align:
            yield f"section {after.name}: {after.addr:#x} is not aligned to {after.align}"


def _well_formed(old: Image, new: Image) -> Iterator[str]:
    """The rules that kernel, loader and the usual tools expect of program headers."""
    size = len(new.data)
    for segment in new.segments:
        what = _name(segment)
        if segment.offset + segment.filesz > size and segment.filesz:
            yield f"{what} ends outside the file"
        if segment.filesz > segment.memsz:
            yield f"{what}: filesz {segment.filesz:#x} > memsz {segment.memsz:#x}"
    for load in new.loads():
        unit = max(load.align, PAGE)
        if unit & (unit - 1):
            yield f"{_name(load)}: alignment {load.align:#x} is no power of two"
        elif (load.offset - load.vaddr) % unit:
            yield f"{_name(load)}: offset {load.offset:#x} is not congruent modulo {unit:#x}"
        if not load.memsz:
            yield f"{_name(load)} is empty"
    for a, b in pairwise(new.loads()):
        if b.vaddr < a.vaddr:
            yield f"{_name(b)} lies before {_name(a)}"
        elif b.vaddr < a.end:
            yield f"{_name(b)} overlaps {_name(a)} in memory"
    yield from _sharing(old, new)
    yield from _span(old, new)
    yield from _header_table(old, new)


def _sharing(old: Image, new: Image) -> Iterator[str]:
    known = {tuple(sorted((a.flags, b.flags))) for a, b in _page_mates(old)}
    for a, b in _page_mates(new):
        if a.flags != b.flags and tuple(sorted((a.flags, b.flags))) not in known:
            yield f"{_name(a)} and {_name(b)} share a page with different rights"
        elif a.offset - a.vaddr != b.offset - b.vaddr:
            yield f"{_name(a)} and {_name(b)} share a page from different places of the file"
    for a, b in combinations(new.loads(), 2):
        if a.offset < b.offset + b.filesz and b.offset < a.offset + a.filesz and a.filesz and b.filesz:
            yield f"{_name(a)} and {_name(b)} overlap in the file"
        if a.offset == b.offset and not (a.filesz and b.filesz):
            yield f"{_name(a)} and {_name(b)} have the same offset, one of them is empty in the file"


def _page_mates(image: Image) -> list[tuple[Segment, Segment]]:
    pairs = combinations(image.loads(), 2)
    return [(a, b) for a, b in pairs if a.pages[0] < b.pages[1] and b.pages[0] < a.pages[1]]


def _span(old: Image, new: Image) -> Iterator[str]:
    for name, pick in (("start", min), ("end", max)):
        index = 0 if name == "start" else 1
        before, after = (pick(load.pages[index] for load in image.loads()) for image in (old, new))
        fatbin, marker = _only(old, FATBIN), _only(new, MARKER)
        # Where the device code was the last in memory, the image may end with the marker.
        ends = before == up(fatbin.addr + fatbin.size) and after == up(marker.addr + marker.size)
        if before != after and not (name == "end" and ends):
            yield f"the {name} of the image moved from {before:#x} to {after:#x}"
    if old.loads()[0].vaddr - old.loads()[0].offset != new.loads()[0].vaddr - new.loads()[0].offset:
        yield "the first PT_LOAD moved in the file: kernels take the load address from it"


def _header_table(old: Image, new: Image) -> Iterator[str]:
    start, size = new.phoff, 56 * len(new.segments)
    kinds = [segment.type for segment in new.segments]
    first_load = kinds.index(LOAD)
    for kind in (PHDR, INTERP):
        if kind in kinds and kinds.index(kind) > first_load:
            yield f"program header type {kind} stands behind a PT_LOAD"
    for table in new.of(PHDR):
        if (table.offset, table.filesz, table.memsz) != (start, size, size):
            yield f"PT_PHDR says {table.offset:#x}+{table.filesz:#x}, the table is {start:#x}+{size:#x}"
        if new.offset_of(table.vaddr) != table.offset or new.offset_of(table.vaddr + size - 1) is None:
            yield "PT_PHDR's address is not mapped to the table"
    # Its slot may go to another segment in a library, where nobody reads it.
    spare = old.kind == 3 and not old.of(INTERP)
    if len(old.of(PHDR)) != len(new.of(PHDR)) and not (spare and not new.of(PHDR)):
        yield "PT_PHDR was lost or added"
    if new.of(INTERP):
        load = new.loads()[0]
        vaddr = load.vaddr - load.offset + start
        if new.offset_of(vaddr) != start:
            yield f"kernels before 5.18 look for the program headers at {vaddr:#x}; they are not there"


def _name(segment: Segment) -> str:
    kind = "PT_LOAD" if segment.type == LOAD else f"program header of type {segment.type:#x}"
    return f"{kind} at {segment.vaddr:#x}"


def _other_segments(old: Image, new: Image, moved: set[str]) -> Iterator[str]:
    """Everything but PT_LOAD, PT_PHDR and PT_GNU_RELRO must say the same of the same bytes."""
    for segment in new.segments:
        if segment.filesz and segment.type != LOAD and new.offset_of(segment.vaddr) != segment.offset:
            yield f"{_name(segment)}: offset {segment.offset:#x} is not where its address is mapped from"
    movable = {INTERP, NOTE, PROPERTY} if moved else set()

    def facts(image: Image) -> Counter[tuple[object, ...]]:
        found: Counter[tuple[object, ...]] = Counter()
        for item in image.segments:
            if item.type in {0, LOAD, PHDR, RELRO}:
                continue
            data = image.read(item.vaddr, item.filesz) if item.filesz else b""
            if item.type in movable - {INTERP}:
                found += Counter({(item.type, note): 1 for note in _notes(data)})
            else:
                place = "elsewhere" if item.type in movable else f"at {item.vaddr:#x}"
                found[(item.type, place, item.flags, item.memsz, item.align, data)] += 1
        return found

    before, after = facts(old), facts(new)
    for fact in before - after:
        if fact[0] == PROPERTY and _repeated(old, new):
            continue
        yield f"program header lost or changed: type {fact[0]:#x} {str(fact[1:])[:80]}"
    for fact in after - before:
        yield f"program header new or changed: type {fact[0]:#x} {str(fact[1:])[:80]}"
    for segment in new.of(DYNAMIC):
        if any(W & ~load.flags for load in new.loads() if load.vaddr <= segment.vaddr < load.end) and all(
            load.flags & W for load in old.loads() if load.vaddr <= segment.vaddr < load.end
        ):
            yield "the dynamic section is not writable any more"


def _repeated(old: Image, new: Image) -> bool:
    """Whether PT_GNU_PROPERTY was lost, and a PT_NOTE still says the same (which is enough on x86-64)."""
    places = {(item.vaddr, item.filesz) for item in old.of(PROPERTY)}
    notes = {(item.vaddr, item.filesz) for item in new.of(NOTE)}
    return old.header[1] == 62 and not new.of(PROPERTY) and places <= notes


def _notes(data: bytes) -> list[bytes]:
    """Each note of a note segment, without the padding around it (4 or 8 bytes)."""
    at, notes = 0, []
    while at + 12 <= len(data):
        name, size, _ = struct.unpack_from("<III", data, at)
        if not name:
            at += 4
            continue
        length = 12 + -(-name // 4) * 4 + -(-size // 4) * 4
        notes.append(data[at : at + length])
        at += length
    return notes


# -- memory ------------------------------------------------------------------------------------------------


def _stays(section: Section, moved: set[str]) -> bool:
    """Whether a section must keep both its place and its bytes."""
    relocations = section.type in (4, 19) and bool(section.flags & ALLOC)  # judged by meaning
    return section.name not in {FATBIN, WRAPPERS} | moved and not relocations


def _contents(old: Image, new: Image, moved: set[str]) -> Iterator[str]:
    for before, after in zip(old.sections, new.sections, strict=True):
        if before.type == 0 or before.name == FATBIN or before is _names(old):
            continue
        same = before.name in moved or _stays(before, moved)
        mapped = after.type != NOBITS and after.size and before.in_memory
        if mapped and new.offset_of(after.addr) != after.offset:
            yield f"section {after.name}: offset {after.offset:#x} is not where its address is mapped"
        if before.in_memory and same:
            memory = old.read(before.addr, before.size), new.read(after.addr, after.size)
            if memory[0] != memory[1]:
                yield f"section {before.name}: its memory at {after.addr:#x} differs"
        if before.type == NOBITS or not same:
            continue
        a = old.data[before.offset : before.offset + before.size]
        b = new.data[after.offset : after.offset + after.size]
        if a != b and not (moved and before.type == 2 and _symbols_moved(old, new, a, b, moved)):
            yield f"section {before.name}: its bytes in the file differ"


def _symbols_moved(old: Image, new: Image, a: bytes, b: bytes, moved: set[str]) -> bool:
    """Whether two symbol tables differ only in values of symbols of sections that moved."""
    if len(a) != len(b):
        return False
    for before, after in zip(struct.iter_unpack("<IBBHQQ", a), struct.iter_unpack("<IBBHQQ", b), strict=True):
        if before == after:
            continue
        index = before[3]
        if index >= len(old.sections) or old.sections[index].name not in moved:
            return False
        shift = new.sections[index].addr - old.sections[index].addr
        if after != (*before[:4], before[4] + shift, before[5]):
            return False
    return True


def _rights(old: Image, new: Image, moved: set[str]) -> Iterator[str]:
    """No page may gain rights; W and X may go where the section does not need them."""
    for before, after in zip(old.sections, new.sections, strict=True):
        if not before.in_memory or before.name == FATBIN or not before.size:
            continue
        had, has = old.rights(before.addr, before.size), new.rights(after.addr, after.size)
        most, least = max(had, key=int.bit_count), min(had, key=int.bit_count)
        needed = least & (R | (W if before.flags & WRITE else 0) | (X if before.flags & EXEC else 0))
        for rights in has:
            if rights & ~_union(had):
                yield f"section {before.name}: rights {_rwx(rights)}, had at most {_rwx(most)}"
            if needed & ~rights:
                yield f"section {before.name}: rights {_rwx(rights)}, needs {_rwx(needed)}"


def _union(rights: set[int]) -> int:
    total = 0
    for item in rights:
        total |= item
    return total


def _rwx(rights: int) -> str:
    return "".join(letter if rights & bit else "-" for letter, bit in (("r", R), ("w", W), ("x", X)))


def _relro(old: Image, new: Image) -> Iterator[str]:
    before, after = old.of(RELRO), new.of(RELRO)
    if len(before) != len(after):
        yield f"{len(after)} PT_GNU_RELRO instead of {len(before)}"
        return
    for a, b in zip(before, after, strict=True):
        if a.end != b.end:
            yield f"PT_GNU_RELRO ends at {b.end:#x} instead of {a.end:#x}"
        if b.vaddr > a.vaddr:
            yield f"PT_GNU_RELRO starts at {b.vaddr:#x}, behind {a.vaddr:#x}"
        if not any(load.vaddr <= b.vaddr and b.end <= load.pages[1] for load in new.loads()):
            yield f"PT_GNU_RELRO {b.vaddr:#x}..{b.end:#x} lies in no PT_LOAD"
        if new.offset_of(b.vaddr) != b.offset:
            yield f"PT_GNU_RELRO: offset {b.offset:#x} is not where its address is mapped from"


# -- the device code's place -------------------------------------------------------------------------------


def _marker(old: Image, new: Image, fatbin: Section, marker: Section) -> Iterator[str]:
    if any(section.name == FATBIN for section in new.sections):
        yield f"{FATBIN} is still there"
    if (marker.type, marker.flags) != (1, ALLOC):
        yield f"{MARKER} has type {marker.type}, flags {marker.flags:#x}; PROGBITS, ALLOC expected"
    if not fatbin.addr <= marker.addr < marker.addr + marker.size <= fatbin.addr + fatbin.size:
        yield f"{MARKER} {marker.addr:#x}+{marker.size:#x} lies outside the old {FATBIN}"
    # Where the code lay among instructions or writable data, the marker stays in that segment.
    if new.rights(marker.addr, marker.size) not in ({R}, old.rights(fatbin.addr, fatbin.size)):
        yield f"{MARKER} has the rights {[_rwx(item) for item in new.rights(marker.addr, marker.size)]}"
    raw = new.data[marker.offset : marker.offset + marker.size]
    if new.offset_of(marker.addr) != marker.offset or new.read(marker.addr, marker.size) != raw:
        yield f"{MARKER} is not mapped from its place in the file"
    if not any(item.vaddr <= marker.addr and marker.addr + marker.size <= item.end for item in new.loads()):
        yield f"{MARKER} does not lie in one PT_LOAD"
    parse_marker(raw)


def _hole(old: Image, new: Image, fatbin: Section, marker: Section) -> Iterator[str]:
    """Of the old range only the marker, what moved beside it, and broken pages at its ends may be mapped."""
    unit = max([PAGE, *(load.align for load in new.loads())])
    start, end = fatbin.addr, fatbin.addr + fatbin.size
    mapped = sum(max(0, min(item.end, end) - max(item.start, start)) for item in new.memory)
    allowed = marker.size + 3 * unit + 2 * PAGE
    if mapped > allowed:
        yield f"{mapped} bytes of the old {FATBIN} are still mapped, at most {allowed} expected"
    added = (W | X) & ~_union(old.rights(fatbin.addr, fatbin.size))
    inside = [load for load in new.loads() if start <= load.vaddr and load.end <= end and load.flags & added]
    yield from (f"{_name(load)} is writable or executable inside the old {FATBIN}" for load in inside)


def _slots(image: Image) -> list[int]:
    section = _only(image, WRAPPERS)
    return [section.addr + at + 8 for at in range(0, section.size, 24)]


def _relocations(old: Image, new: Image, fatbin: Section, marker: Section) -> Iterator[str]:
    slots, base = set(_slots(old)), RELATIVE[old.header[1]]
    before, after = old.relocations(), new.relocations()
    if len(before) != len(after):
        yield f"{len(after)} relocations instead of {len(before)}"
    for a, b in zip(before, after, strict=False):
        if a != b and (b[0] not in slots or b != (a[0], base, 0, marker.addr)):
            yield f"relocation {_relocation(a)} became {_relocation(b)}"
    if old.packed() != new.packed() or old.table(RELR) != new.table(RELR):
        yield "the packed relative relocations differ"
    count = new.dynamic().get(0x6FFFFFF9, 0)
    if any(item[1] != base for item in after[:count]):
        yield f"not all of the first {count} relocations (DT_RELACOUNT) are relative"
    start, end = fatbin.addr, fatbin.addr + fatbin.size
    values: dict[int, int] = {}
    for at, kind, symbol, addend in after:
        value = addend if kind == base else None
        if kind in SYMBOLIC[old.header[1]] and symbol:
            values[symbol] = values[symbol] if symbol in values else new.symbol_value(symbol)
            value = values[symbol] + (addend if kind in (1, 257) else 0)
        yield from _into_hole(at, value, start, end, at in slots and value == marker.addr)
    for at in new.packed():
        (value,) = struct.unpack("<Q", new.read(at, 8))
        if at not in slots and old.read(at, 8) != new.read(at, 8):
            continue  # no pointer: judged as content
        yield from _into_hole(at, value, start, end, at in slots and value == marker.addr)


def _into_hole(at: int, value: int | None, start: int, end: int, good: bool) -> Iterator[str]:
    if start <= at < end:
        yield f"a relocation changes {at:#x}, which was device code"
    if value is not None and start <= value < end and not good:
        yield f"the relocation at {at:#x} leads to {value:#x}, which was device code"


def _relocation(item: tuple[int, int, int, int]) -> str:
    return f"at {item[0]:#x} type {item[1]} symbol {item[2]} addend {item[3]:#x}"


def _wrappers(old: Image, new: Image, marker: Section) -> Iterator[str]:
    base = RELATIVE[old.header[1]]
    fixed = {at: addend for at, kind, _, addend in new.relocations() if kind == base}
    packed = set(new.packed())
    section = _only(old, WRAPPERS)
    if section.size % 24:
        yield f"{WRAPPERS} has {section.size} bytes"
    for index, slot in enumerate(_slots(old)):
        a = struct.unpack("<IIQII", old.read(slot - 8, 24))
        b = struct.unpack("<IIQII", new.read(slot - 8, 24))
        if b[0] != SPLIT_MAGIC:
            yield f"wrapper {index}: magic {b[0]:#x}"
        if b[1] != a[1]:
            yield f"wrapper {index}: version {a[1]} became {b[1]}"
        if (b[3], b[4]) != (index, a[4]):
            yield f"wrapper {index}: reserved words {b[3]:#x} {b[4]:#x}, {index:#x} {a[4]:#x} expected"
        if slot in fixed:
            pointer = fixed[slot]
            if b[2] not in (0, marker.addr):
                yield f"wrapper {index}: the file holds {b[2]:#x} under a relocation"
        elif slot in packed or new.kind == 2:
            pointer = b[2]
        else:
            yield f"wrapper {index}: its pointer has no relocation"
            continue
        if pointer != marker.addr:
            yield f"wrapper {index} points to {pointer:#x}, the marker lies at {marker.addr:#x}"


# -- the file ----------------------------------------------------------------------------------------------


def _file_ranges(old: Image, new: Image) -> Iterator[str]:
    """No two things may lie on each other in the file, unless they did before."""

    def overlaps(image: Image) -> set[tuple[str, str]]:
        ranges = [("ELF header", 0, 64), ("program headers", image.phoff, 56 * len(image.segments))]
        ranges.append(("section headers", image.shoff, 64 * len(image.sections)))
        ranges += [(s.name, s.offset, s.size) for s in image.sections if s.type not in (0, NOBITS) and s.size]
        ranges.sort(key=lambda item: item[1])
        found, last = set(), ranges[0]
        for item in ranges[1:]:
            if item[1] < last[1] + last[2]:
                found.add((last[0], item[0]))
            last = max(last, item, key=lambda each: each[1] + each[2])
        return found

    for a, b in sorted(overlaps(new) - overlaps(old)):
        yield f"{a} and {b} overlap in the file"
    if new.shoff % 8 and not old.shoff % 8:
        yield f"the section headers at {new.shoff:#x} are not aligned"
    if os.stat(old.path).st_mode != os.stat(new.path).st_mode:  # noqa: PTH116
        yield "the mode bits of the file differ"


def _readelf(old: Image, new: Image) -> Iterator[str]:
    yield from (f"readelf: {line}" for line in sorted(_complaints(new.path) - _complaints(old.path)))


def _complaints(path: Path) -> set[str]:
    """The lines of `readelf -aW` that are warnings or errors."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        ["readelf", "-aW", str(path)], capture_output=True, text=True, errors="replace", env=environment
    )
    lines = done.stderr.splitlines()
    lines += [line for line in done.stdout.splitlines() if "arning:" in line or "rror:" in line]
    return {line.strip().replace(str(path), "FILE") for line in lines if line.strip()}
