"""Decide what becomes of a fat library: the host file and the code that leaves it, or why it stays whole.

Reads headers, bundles and relocations; writes nothing.
"""

from __future__ import annotations

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Section, read_elf
from rocwright.binary.patch import Splice
from rocwright.binary.view import Mapped
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import Bundle, scan_bundles
from rocwright.device_code.host import MARKER_SECTION, plan_host
from rocwright.device_code.identity import host_identity
from rocwright.device_code.kpack import Marker, pack_marker
from rocwright.device_code.wrappers import (
    FAT_MAGIC,
    SPLIT_MAGIC,
    Unsplittable,
    Wrapper,
    exported_between,
    foreign_references,
    read_wrappers,
)
from rocwright.model.gpu import InvalidTarget, parse_target

_LARGEST_CODE = (4 << 30) - 1  # what AMD's runtime unpacks


class LibraryPlan(msgspec.Struct, frozen=True):
    """One library's split: its name in the archives, the host file and its identity, and each bundle with
    the numbers of the wrappers that lead to it."""

    kernel: str
    build: str
    file: Mapped
    host: Splice
    bundles: tuple[tuple[Bundle, tuple[int, ...]], ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """Device targets it has code for, sorted."""
        return tuple(sorted({e.target for bundle, _ in self.bundles for e in bundle.entries if e.target}))

    @property
    def objects(self) -> int:
        """Code objects as the runtime counts them: one for each wrapper and target."""
        return sum(
            len(indices) * sum(1 for e in bundle.entries if e.target) for bundle, indices in self.bundles
        )


class Kept(msgspec.Struct, frozen=True):
    """A library with device code that stays as it is; `already` when it was split before."""

    reason: str
    already: bool = False


def plan_library(file: Mapped, marker: Marker) -> LibraryPlan | Kept | None:
    """What becomes of a file: a plan, the reason why its device code stays inside, or None without any.

    Raises `InvalidElf` and `InvalidBundle` for a file that is damaged.
    """
    if file.read_at(0, len(fmt.MAGIC)) != fmt.MAGIC:
        return None
    elf = read_elf(file)
    if not _is_text(marker):
        return Kept("its name is not UTF-8, as markers must be")
    if MARKER_SECTION in elf.sections:
        return Kept("it is already split", already=True)
    fat = elf.sections.get(fatbin.SECTION)
    if fat is None:
        return _unnamed(elf)
    if fat.size == 0:
        return None
    if elf.kind not in ("dyn", "exec"):
        return Kept("only linked libraries and programs can be split")
    try:
        return _plan(elf, file, fat, marker)
    except Unsplittable as reason:
        return Kept(str(reason))


def _is_text(marker: Marker) -> bool:
    try:
        "".join((marker.kernel, *marker.search_paths)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unnamed(elf: Elf) -> Kept | None:
    """Without section headers nothing says where device code is; the wrappers' magic betrays it."""
    if elf.section_table:
        return None
    for load in elf.segments_of(fmt.PT_LOAD):
        data = elf.source.read_at(load.offset, load.filesz) if load.flags & fmt.PF_W else b""
        if FAT_MAGIC.to_bytes(4, "little") + b"\1\0\0\0" in data:
            return Kept("it has device code, but no section headers that say where")
    return None


def _plan(elf: Elf, file: Mapped, fat: Section, marker: Marker) -> LibraryPlan | Kept:
    wrappers = read_wrappers(elf, file)
    if wrappers and all(wrapper.magic == SPLIT_MAGIC for wrapper in wrappers):
        return Kept("it is already split", already=True)
    if fat.type == fmt.SHT_NOBITS:
        return Kept(f"its section {fatbin.SECTION} is empty")
    bundles = wrapped_bundles(elf, file, fat, wrappers)
    if not any(entry.target for bundle, _ in bundles for entry in bundle.entries):
        return Kept("its bundles hold no code for any target")
    build = host_identity(elf, file, wrappers)
    host = plan_host(elf, file, fat, wrappers, pack_marker(msgspec.structs.replace(marker, build=build)))
    return LibraryPlan(marker.kernel, build, file, host, bundles)


def wrapped_bundles(
    elf: Elf, file: Mapped, fat: Section, wrappers: tuple[Wrapper, ...]
) -> tuple[tuple[Bundle, tuple[int, ...]], ...]:
    """The bundles of a library with the numbers of the wrappers that lead to each, in file order.

    Raises `Unsplittable` unless only these wrappers lead to the code and a runtime finds each entry by its
    target; `InvalidBundle` for damaged ones.
    """
    bundles = scan_bundles(file, fat.offset, fat.offset + fat.size)
    if not any(entry.target for bundle in bundles for entry in bundle.entries):
        return tuple((bundle, ()) for bundle in bundles)
    owners = _owners(wrappers, bundles, fat)
    _require_own_references(elf, file, fat, wrappers)
    for bundle in bundles:
        _require_plain(bundle)
    return tuple((bundle, tuple(owners[bundle.offset])) for bundle in bundles)


def _owners(wrappers: tuple[Wrapper, ...], bundles: tuple[Bundle, ...], fat: Section) -> dict[int, list[int]]:
    """File offset of each bundle → numbers of the wrappers that point to it."""
    owners: dict[int, list[int]] = {bundle.offset: [] for bundle in bundles}
    for wrapper in wrappers:
        if wrapper.magic != FAT_MAGIC or wrapper.version != 1 or wrapper.reserved:
            raise Unsplittable(f"wrapper {wrapper.index} is of an unknown kind")
        place = wrapper.pointer - fat.addr + fat.offset
        if place not in owners:
            raise Unsplittable(f"wrapper {wrapper.index} does not point to the start of a bundle")
        owners[place].append(wrapper.index)
    alone = sum(1 for indices in owners.values() if not indices)
    if alone:
        raise Unsplittable(f"no wrapper leads to {alone} of its {len(bundles)} bundles")
    return owners


def _require_own_references(elf: Elf, file: Mapped, fat: Section, wrappers: tuple[Wrapper, ...]) -> None:
    start, end = fat.addr, fat.addr + fat.size
    foreign = foreign_references(elf, file, wrappers, start, end)
    if foreign:
        raise Unsplittable(f"{len(foreign)} pointers other than the wrappers' lead into its device code")
    if exported_between(elf, file, start, end):
        raise Unsplittable("it exports symbols inside its device code")


def _require_plain(bundle: Bundle) -> None:
    """Only what the runtime finds again in an archive may leave: one object with code for each ISA."""
    seen = set()
    for entry in bundle.entries:
        if not entry.target:
            if entry.size:
                raise Unsplittable(f"the bundle at {bundle.offset:#x} holds host code")
            continue
        try:
            target = parse_target(entry.target)
        except InvalidTarget:
            raise Unsplittable(f"the entry {entry.id!r} names no known kind of target") from None
        if str(target) != entry.target or list(target.features) != sorted(target.features):
            raise Unsplittable(f"{entry.target} is spelled in a way that no runtime looks for")
        if target.is_spirv:
            raise Unsplittable("it holds SPIR-V, which AMD's runtime does not look for in archives")
        if entry.target in seen:
            raise Unsplittable(f"a bundle has two entries for {entry.target}")
        if not 0 < entry.size <= _LARGEST_CODE:
            raise Unsplittable(f"its code object for {entry.target} has {entry.size} bytes")
        seen.add(entry.target)
