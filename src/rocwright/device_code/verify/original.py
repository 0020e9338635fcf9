"""Compare what was split with its original: single libraries, and whole trees.

Of a split library, its device code is that of the fat one, and so is everything else in it. `Original` finds
the file before the split for each one after it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section, read_elf
from rocwright.binary.view import Mapped
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import Bundle, scan_bundles
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.origin import is_origin
from rocwright.device_code.source import Source, on_disk
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.verify.sources import Tree, directory_trees
from rocwright.device_code.verify.wheels import ENDING, wheel_sources, wheels_in
from rocwright.device_code.wrappers import RESERVED_AT, SECTION, WRAPPER, Unsplittable, Wrapper, read_wrappers
from rocwright.errors import InvalidBundle, InvalidInput
from rocwright.model.gpu import is_target, less_specific, parse_target
from rocwright.wheel.read import open_wheel

_CHUNK = 1 << 20
_RELA_SIZE = 24
_SHT_NULL, _SHT_RELA = 0, 4
_PT_TLS, _PT_GNU_EH_FRAME = 7, 0x6474E550
# Sections that a split changes, or writes anew.
_TOUCHED = frozenset({fatbin.SECTION, MARKER_SECTION, SECTION, ".shstrtab"})
_KEPT_SEGMENTS = {
    fmt.PT_DYNAMIC: "PT_DYNAMIC",
    _PT_TLS: "PT_TLS",
    _PT_GNU_EH_FRAME: "PT_GNU_EH_FRAME",
    fmt.PT_GNU_STACK: "PT_GNU_STACK",
}


class Fat:
    """An original library, opened: its wrappers and the bundles that they lead to."""

    def __init__(self, file: Mapped) -> None:
        """Raises `InvalidElf`, `InvalidBundle` or `Unsplittable` for one that cannot have been split."""
        self.file = file
        self.elf = read_elf(file)
        self.wrappers = read_wrappers(self.elf, file)
        section = fatbin.fat_section(self.elf)
        if section is None:
            raise Unsplittable("it holds no device code")
        self.section = section
        self.bundles = self._bundles(section)

    def _bundles(self, section: Section) -> tuple[tuple[Bundle, tuple[int, ...]], ...]:
        found = scan_bundles(self.file, section.offset, section.offset + section.size)
        owners: dict[int, list[int]] = {bundle.offset: [] for bundle in found}
        for wrapper in self.wrappers:
            place = wrapper.pointer - section.addr + section.offset
            if place not in owners:
                raise InvalidBundle(
                    f"{self.file.path.name}: wrapper {wrapper.index} does not lead to the start of a bundle",
                    where=self.file.path,
                )
            owners[place].append(wrapper.index)
        return tuple((bundle, tuple(owners[bundle.offset])) for bundle in found)


def stand_ins(own: Sequence[str], archived: Iterable[str]) -> dict[str, list[str]]:
    """Target of a bundle → more specific ones of archives, for which the bundle has nothing better.

    Runtimes that open the archive for `gfx90a:xnack-` and then look nowhere else must find code for plain
    `gfx90a` there (ROCm/TheRock 7081), so a split may repeat it.
    """
    found: dict[str, list[str]] = {}
    for text in sorted(filter(is_target, set(archived) - set(own))):
        fitting = less_specific(parse_target(text), map(parse_target, filter(is_target, own)))
        if fitting:
            found.setdefault(str(fitting[0]), []).append(text)
    return found


def host_differences(old: Fat, elf: Elf, file: Mapped, wrappers: tuple[Wrapper, ...]) -> Iterator[str]:
    """What a split library has that differs from its original and is none of what a split changes."""
    yield from _headers(old.elf, elf)
    yield from _wrappers(old, file, wrappers)
    yield from _sections(old, elf, file, wrappers)


def _headers(old: Elf, new: Elf) -> Iterator[str]:
    for word, was, now in (
        ("type", old.kind, new.kind),
        ("machine", old.machine, new.machine),
        ("entry point", old.entry, new.entry),
        ("SONAME", old.soname, new.soname),
        ("needed libraries", old.needed, new.needed),
        ("RPATH", old.rpath, new.rpath),
        ("RUNPATH", old.runpath, new.runpath),
    ):
        if was != now:
            yield f"its {word} was {_short(was)} and is {_short(now)}"
    for kind, name in _KEPT_SEGMENTS.items():
        before, after = (
            [(s.vaddr, s.filesz, s.memsz, s.flags) for s in elf.segments_of(kind)] for elf in (old, new)
        )
        if before != after:
            yield f"its {name} is not the original's"


def _short(value: object) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _wrappers(old: Fat, file: Mapped, wrappers: tuple[Wrapper, ...]) -> Iterator[str]:
    if len(wrappers) != len(old.wrappers):
        yield f"it has {len(wrappers)} wrappers, the original {len(old.wrappers)}"
        return
    for before, after in zip(old.wrappers, wrappers, strict=True):
        if before.vaddr != after.vaddr:
            yield f"wrapper {after.index} was at {before.vaddr:#x} and is at {after.vaddr:#x}"
        if before.reserved >> 32 != after.reserved >> 32:
            yield f"the upper half of word {RESERVED_AT} of wrapper {after.index} changed"
    end = wrappers[-1].offset + WRAPPER.size if wrappers else 0
    gaps = [(b.offset + WRAPPER.size, a.offset) for b, a in pairwise(wrappers)]
    if any(file.read_at(a, b - a) for a, b in gaps) or end > file.size:
        yield "its wrappers do not follow each other"


def _sections(old: Fat, elf: Elf, file: Mapped, wrappers: tuple[Wrapper, ...]) -> Iterator[str]:
    """Every other section must be there, at its address, with its bytes."""
    there: dict[str, list[Section]] = {}
    for section in elf.section_table:
        there.setdefault(section.name, []).append(section)
    for before in old.elf.section_table:
        if before.type == _SHT_NULL or before.name in _TOUCHED:
            continue
        if not there.get(before.name):
            yield f"section {before.name} is lost"
            continue
        after = there[before.name].pop(0)
        yield from _section(old, before, after, file, wrappers)
    for name in sorted(name for name, left in there.items() if left and name not in _TOUCHED and name):
        yield f"section {name} is new"


def _section(
    old: Fat, before: Section, after: Section, file: Mapped, wrappers: tuple[Wrapper, ...]
) -> Iterator[str]:
    name = before.name
    moved = before.addr != after.addr
    if (before.type, before.flags, before.size) != (after.type, after.flags, after.size):
        yield f"section {name} has another type, other flags or another size"
        return
    # Program headers alone refer to these: a split may move them where device code was.
    if moved and not (before.type == fmt.SHT_NOTE or name == ".interp"):
        yield f"section {name} was at {before.addr:#x} and is at {after.addr:#x}"
    if before.type in (fmt.SHT_NOBITS, fmt.SHT_SYMTAB):
        return
    if before.type == _SHT_RELA and before.flags & fmt.SHF_ALLOC:
        same = _relocations(old.file, before, old.wrappers) == _relocations(file, after, wrappers)
    else:
        same = _equal(old.file, before.offset, file, after.offset, before.size)
    if not same:
        yield f"the bytes of section {name} changed"


def _relocations(file: Mapped, section: Section, wrappers: tuple[Wrapper, ...]) -> bytes:
    """A relocation table without what fills the wrappers' pointers."""
    data = bytearray(file.read_at(section.offset, section.size))
    for wrapper in wrappers:
        at = -1 if wrapper.rela is None else wrapper.rela - section.offset
        if 0 <= at <= len(data) - _RELA_SIZE:
            data[at + 16 : at + _RELA_SIZE] = bytes(8)
    return bytes(data)


def _equal(old: Mapped, old_at: int, new: Mapped, new_at: int, size: int) -> bool:
    return all(
        old.read_at(old_at + at, min(_CHUNK, size - at)) == new.read_at(new_at + at, min(_CHUNK, size - at))
        for at in range(0, size, _CHUNK)
    )


def same_bytes(old: Mapped, new: Mapped) -> bool:
    """Whether two files are equal."""
    return old.size == new.size and _equal(old, 0, new, 0, old.size)


class Original:
    """What was split: libraries, a tree, or wheels that are installed together."""

    def __init__(self, paths: Sequence[Path], stack: ExitStack, log: FindingLog) -> None:
        """Raises `InvalidInput` for what cannot be read, and for originals that do not belong together."""
        paths = [each for path in paths for each in (path.is_dir() and wheels_in(path)) or [path]]
        folders = [path for path in paths if path.is_dir()]
        wheels = [path for path in paths if path.name.endswith(ENDING) and path not in folders]
        if len(paths) > 1 and (folders or 0 < len(wheels) < len(paths)):
            odd = folders[0] if folders else wheels[0]
            raise InvalidInput(
                f"{odd} cannot be an original beside others: these are wheels of one set, or libraries",
                where=odd,
                next_step="verify each against its own original, one after another",
            )
        self.whole = bool(folders or wheels)
        if folders:
            self.sources = [source for tree in directory_trees(folders, log) for source in tree.sources]
        elif wheels:
            self.sources = [source for path in wheels for source in wheel_sources(open_wheel(path), stack)]
        else:
            self.sources = [on_disk(path, path.name, path.name) for path in paths]
        self.by_path: dict[str, Source] = {}
        for source in self.sources:
            before = self.by_path.setdefault(source.installed, source)
            if before is not source and not folders:
                raise InvalidInput(
                    f"{source.name} and {before.name} have one place, so they are not originals of one set",
                    next_step="verify each against its own original, one after another",
                )

    def source_of(self, source: Source) -> Source | None:
        """The original of a file: the only one, that at the same place, or the only one of its name."""
        if not self.whole and len(self.sources) == 1:
            return self.sources[0]
        found = self.by_path.get(source.installed)
        if found is None and source.installed.startswith("/"):
            name = posixpath.basename(source.installed)
            named = [
                item for item in self.sources if posixpath.basename(item.installed) == name and not item.link
            ]
            found = named[0] if len(named) == 1 else None
        return found

    def of(self, source: Source) -> Mapped | None:
        """The original of a split file, opened; None without one. Raises `InvalidInput`."""
        found = self.source_of(source)
        return None if found is None or found.link is not None else found.open()


def compare_trees(original: Original, tree: Tree, split: set[str], log: FindingLog) -> None:
    """Report files that were lost, invented or changed; `split` are paths of split libraries."""
    there = {source.installed: source for source in tree.sources}
    for path, before in original.by_path.items():
        after = there.get(path)
        if after is None:
            log.add("kpack-lost", before.name, "it is in no part")
            continue
        _compare(before, after, path in split, log)
    for path, after in there.items():
        if path not in original.by_path and not (after.is_archive or is_origin(path)):
            log.add("kpack-invented", after.name, "the original has no such file")


def _compare(before: Source, after: Source, split: bool, log: FindingLog) -> None:
    if before.link != after.link:
        log.add("kpack-differs", after.name, f"the original leads to {before.link}, this to {after.link}")
        return
    if before.link is not None:
        return
    if before.mode is not None and after.mode is not None and before.mode != after.mode:
        log.add("kpack-mode", after.name, f"its mode is {after.mode:o}, the original's {before.mode:o}")
    if split:
        return
    try:
        same = _same(before, after)
    except InvalidInput as error:
        log.add("kpack-readable", after.name, error.what)
        return
    if not same:
        log.add("kpack-differs", after.name, "it is not the original's file")


def _same(before: Source, after: Source) -> bool:
    if before.size != after.size:
        return False
    if before.crc is not None and after.crc is not None:
        return before.crc == after.crc
    return same_bytes(before.open(), after.open())
