"""Check one split library on its own: headers, wrappers, marker, and what is left of its device code."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, read_elf
from rocwright.binary.soundness import PAGE, problems
from rocwright.binary.view import Mapped
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import scan_bundles
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.kpack import Marker, parse_marker
from rocwright.device_code.source import Source
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.wrappers import (
    SECTION,
    SPLIT_MAGIC,
    Unsplittable,
    Wrapper,
    exported_between,
    foreign_references,
    read_wrappers,
)
from rocwright.errors import InvalidInput

_SPLIT_WRAPPER = SPLIT_MAGIC.to_bytes(4, "little") + b"\1\0\0\0"
_MACHINE = slice(18, 20)
_LOW = 0xFFFFFFFF


class SplitLibrary(msgspec.Struct, frozen=True):
    """A split library: its marker, and how many wrappers ask for code."""

    source: Source
    file: Mapped
    elf: Elf
    marker: Marker
    wrappers: tuple[Wrapper, ...]


def is_host_elf(head: bytes) -> bool:
    """Whether these first bytes are of a library or program of a 64-bit host."""
    machine = int.from_bytes(head[_MACHINE], "little")
    return head.startswith(fmt.SUPPORTED) and len(head) >= fmt.EHDR.size and machine != fmt.EM_AMDGPU


def check_library(source: Source, file: Mapped, log: FindingLog) -> SplitLibrary | None:
    """Everything that is wrong with a split library; None for one that is not split or is beyond use.

    A library that still holds its device code is noted.
    """
    try:
        elf = read_elf(file)
    except InvalidInput as error:
        # Other damaged files are none of our business.
        if contains(file, _SPLIT_WRAPPER) or contains(file, MARKER_SECTION.encode()):
            log.add("kpack-elf", source.name, error.what)
        return None
    if not elf.section_table and contains(file, _SPLIT_WRAPPER):
        log.add("kpack-marker", source.name, "without section headers its marker cannot be found")
        return None
    if not {MARKER_SECTION, SECTION, fatbin.SECTION} & set(elf.sections):
        return None
    return _Check(source, file, elf, log).library()


def contains(file: Mapped, text: bytes) -> bool:
    """Whether bytes occur anywhere in a file."""
    step = 16 << 20
    return any(text in file.read_at(at, step + len(text)) for at in range(0, file.size, step))


class _Check:
    """One library."""

    def __init__(self, source: Source, file: Mapped, elf: Elf, log: FindingLog) -> None:
        self.source, self.file, self.elf, self.log = source, file, elf, log

    def add(self, rule: str, cause: str) -> None:
        self.log.add(rule, self.source.name, cause)

    def library(self) -> SplitLibrary | None:
        try:
            wrappers = read_wrappers(self.elf, self.file)
            problem = None
        except (Unsplittable, InvalidInput) as error:
            wrappers, problem = (), str(error)
        marked = MARKER_SECTION in self.elf.sections
        if not marked and not any(wrapper.magic == SPLIT_MAGIC for wrapper in wrappers):
            self._kept(problem)
            return None
        for text in problems(self.elf):
            self.add("kpack-elf", text)
        if problem is not None:
            self.add("kpack-wrapper", problem)
        marker = self._marker()
        self._left_over()
        if problem is None:
            self._wrappers(wrappers)
            self._references(wrappers)
        if marker is None:
            return None
        return SplitLibrary(self.source, self.file, self.elf, marker, wrappers)

    def _kept(self, problem: str | None) -> None:
        """A library that was left whole is no error: not every one can be split."""
        fat = fatbin.fat_section(self.elf)
        if fat is None:
            if problem is not None:
                self.add("kpack-kept", f"it is not split: {problem}")
            return
        try:
            bundles = scan_bundles(self.file, fat.offset, fat.offset + fat.size)
        except InvalidInput as error:
            self.add("kpack-kept", f"it holds device code that cannot be read: {error.what}")
            return
        targets = sorted({entry.target for bundle in bundles for entry in bundle.entries if entry.target})
        self.add("kpack-kept", f"it holds its device code itself, for {', '.join(targets) or 'no target'}")

    def _marker(self) -> Marker | None:
        section = self.elf.sections.get(MARKER_SECTION)
        if section is None:
            self.add("kpack-marker", f"its wrappers are split, but it has no section {MARKER_SECTION}")
            return None
        if section.type == fmt.SHT_NOBITS or not section.flags & fmt.SHF_ALLOC:
            self.add("kpack-marker", f"section {MARKER_SECTION} is not loaded into memory")
        try:
            return parse_marker(self.file.read_at(section.offset, section.size))
        except InvalidInput as error:
            self.add("kpack-marker", error.what)
            return None

    def _left_over(self) -> None:
        fat = fatbin.fat_section(self.elf)
        if fat is not None:
            self.add("kpack-leftover", f"section {fatbin.SECTION} still has {fat.size} bytes in the file")

    def _wrappers(self, wrappers: tuple[Wrapper, ...]) -> None:
        if not wrappers:
            self.add("kpack-wrapper", "it has a marker, but no wrapper leads to it")
        section = self.elf.sections.get(MARKER_SECTION)
        for wrapper in wrappers:
            if wrapper.magic != SPLIT_MAGIC:
                self.add("kpack-wrapper", f"wrapper {wrapper.index} has the magic {wrapper.magic:#x}")
            if wrapper.version != 1:
                self.add("kpack-wrapper", f"wrapper {wrapper.index} has version {wrapper.version}")
            if wrapper.reserved & _LOW != wrapper.index:
                number = wrapper.reserved & _LOW
                self.add("kpack-wrapper", f"wrapper {wrapper.index} says that it is number {number}")
            if section is not None and wrapper.pointer != section.addr:
                self.add(
                    "kpack-wrapper",
                    f"wrapper {wrapper.index} leads to {wrapper.pointer:#x}, not to the marker",
                )

    def _references(self, wrappers: tuple[Wrapper, ...]) -> None:
        for start, end in self._holes():
            try:
                places = foreign_references(self.elf, self.file, wrappers, start, end)
                symbols = exported_between(self.elf, self.file, start, end)
            except (Unsplittable, InvalidInput) as error:
                self.add("kpack-reference", str(error))
                continue
            if places:
                self.add(
                    "kpack-reference",
                    f"{len(places)} relocations, the first at {places[0]:#x}, lead to where device code was",
                )
            if symbols:
                self.add("kpack-reference", f"it exports {symbols} symbols where device code was")

    def _holes(self) -> list[tuple[int, int]]:
        """Addresses where device code was: an empty section, or the gaps beside the marker's segment.

        The first address is left out: an end of what lies before may be named by it.
        """
        fat = self.elf.sections.get(fatbin.SECTION)
        if fat is not None and fat.type == fmt.SHT_NOBITS:
            return [(fat.addr, fat.addr + fat.size)]
        section = self.elf.sections.get(MARKER_SECTION)
        loads = sorted(self.elf.segments_of(fmt.PT_LOAD), key=lambda load: load.vaddr)
        holes = []
        for before, after in pairwise(loads):
            start, end = before.vaddr + before.memsz, after.vaddr
            beside = section is not None and any(
                load.vaddr <= section.addr < load.vaddr + load.memsz for load in (before, after)
            )
            if beside and end - start >= PAGE:
                holes.append((start + 1, end))
        return holes
