"""The parts of a build: their wheels, verified, and the device code of a library merged out of all of them.

Parts that cannot belong together are refused before any library is compared. A merged library has one bundle
for each wrapper, and in it each target once. A wrapper leads to the same unit in every part; that it does is
told by the names of the kernels.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from rocwright.binary.elf import Elf, read_elf
from rocwright.binary.view import Mapped
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import (
    PAGE,
    Bundle,
    NewEntry,
    device_code,
    header_version,
    packed_bundle,
    raw_bundle,
    scan_bundles,
)
from rocwright.device_code.kernels import defined_kernels
from rocwright.device_code.refill import Refilled, plan_refill
from rocwright.device_code.split import wrapped_bundles
from rocwright.device_code.wheel.device_wheel import offered
from rocwright.device_code.wheel.scan import Scan, scan_wheel
from rocwright.device_code.wrappers import Unsplittable, Wrapper, read_wrappers
from rocwright.errors import IntegrityError, InvalidInput, UsageError
from rocwright.model.gpu import parse_target
from rocwright.system.files import CHUNK
from rocwright.wheel.read import Wheel, open_wheel
from rocwright.wheel.stream import WheelStream, opened

AGAIN = "build every part from the same sources, with rocwright build --device-part"


class Part(msgspec.Struct, frozen=True):
    """A wheel with device code for some targets; `targets` are those it must have (empty: what it has)."""

    path: Path
    targets: tuple[str, ...] = ()


class ReadPart(msgspec.Struct, frozen=True):
    """A part whose members were all verified; `label` tells it from the others in messages."""

    part: Part
    label: str
    wheel: Wheel
    source: WheelStream
    scan: Scan


def open_parts(parts: Sequence[Part]) -> list[Wheel]:
    """The wheels of the parts; raises unless they are several files of one name."""
    if not parts:
        raise UsageError("nothing to merge", next_step="give the wheel of each part")
    seen: dict[Path, Part] = {}
    for part in parts:
        if seen.setdefault(part.path.resolve(), part) is not part:
            raise UsageError(f"{part.path} is given twice", next_step="give the wheel of each part once")
    wheels = [open_wheel(part.path) for part in parts]
    first = wheels[0]
    for wheel in wheels[1:]:
        if wheel.path.name != first.path.name:
            raise InvalidInput(
                f"{wheel.path.name} is not a part of {first.path.name}: {_what_differs(first, wheel)}",
                where=wheel.path,
                next_step="give the parts of one build: one project, version, Python and platform",
            )
    for wheel in wheels:
        if offered(wheel):
            raise InvalidInput(
                f"{wheel.path} was split into host and device wheels",
                where=wheel.path,
                next_step="merge the parts as they were built, and split the result",
            )
    return wheels


def _what_differs(first: Wheel, other: Wheel) -> str:
    if first.name != other.name:
        return f"another project, {other.name}, not {first.name}"
    if first.version != other.version:
        return f"another version, {other.version}, not {first.version}"
    tags = ["-".join(wheel.path.stem.split("-")[2:]) for wheel in (first, other)]
    return f"for another Python or platform, {tags[1]}, not {tags[0]}"


def read_parts(
    parts: Sequence[Part], wheels: Sequence[Wheel], work: Path, stack: ExitStack, *, threads: int
) -> list[ReadPart]:
    """Verify every member of every part; `work` takes libraries that are too large for memory.

    Raises `InvalidWheel` and `InvalidElf` for one that is damaged, `InvalidInput` for one without device code
    or without that for the targets it must have.
    """
    found = []
    for part, wheel in zip(parts, wheels, strict=True):
        source = stack.enter_context(opened(wheel))
        scan = scan_wheel(source, work, threads=threads)
        if not scan.fat and len(parts) > 1:
            raise InvalidInput(
                f"{part.path} has no device code" + _reasons(scan), where=part.path, next_step=AGAIN
            )
        found.append(ReadPart(part, str(part.path.parent), wheel, source, scan))
    return found


def _reasons(scan: Scan) -> str:
    return "".join(f"; {name}: {reason}" for name, reason in sorted(scan.kept.items())[:3])


def missing_targets(wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """Base names of the targets that nothing is there for."""
    have = {parse_target(text).base for text in there}
    return sorted({parse_target(text).base for text in wanted} - have)


_MOST_NAMED = 3


class PartLibrary(msgspec.Struct, frozen=True):
    """A library in one part: which bundle each wrapper leads to."""

    part: ReadPart
    file: Mapped
    elf: Elf
    wrappers: tuple[Wrapper, ...]
    bundles: tuple[Bundle, ...]


class Census(msgspec.Struct):
    """What there is: objects by target, those in several parts, wrappers without code for every target.

    `apart` kernels are not in all parts, `same` objects lie in libraries that are the same in all of them.
    """

    objects: Counter[str] = msgspec.field(default_factory=Counter)
    shared: int = 0
    partial: int = 0
    apart: int = 0
    same: int = 0

    def take(self, file: Mapped, parts: int) -> None:
        """Count a library that is the same in all parts, each bundle once."""
        found = [entry.target for bundle in _scanned(file) for entry in bundle.entries if entry.target]
        self.objects.update(found)
        self.same += len(found)
        self.shared += len(found) if parts > 1 else 0


class _Bundle(msgspec.Struct, frozen=True):
    """A merged bundle: the wrappers that lead to it, and each part's bundle."""

    wrappers: tuple[int, ...]
    sources: tuple[Bundle, ...]


class Joined(msgspec.Struct, frozen=True):
    """The merged library as a source of bytes: the refilled host with the bundles of `code` in their room."""

    host: Refilled
    code: Path

    @property
    def size(self) -> int:
        """Bytes of the library."""
        return self.host.file.size

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        data = bytearray(self.host.file.read_at(offset, length))
        start, end = max(offset, self.host.offset), min(offset + len(data), self.host.offset + self.host.room)
        if start < end:
            with self.code.open("rb") as stream:
                stream.seek(start - self.host.offset)
                data[start - offset : end - offset] = stream.read(end - start)
        return bytes(data)

    def pieces(self) -> Iterator[bytes]:
        """The library from its start, in 1 MiB pieces."""
        for offset in range(0, self.size, CHUNK):
            yield self.read_at(offset, CHUNK)


def merge_library(name: str, parts: Sequence[ReadPart], code: Path, census: Census) -> Joined:
    """Merge the device code of one library, whose hosts are known to be the same; `code` takes the bundles.

    Raises `InvalidInput` where device code cannot be taken out, where wrappers of one number register other
    kernels, and where a target's code differs between parts.
    """
    libraries = [_read(name, part) for part in parts]
    first = libraries[0]
    for other in libraries[1:]:
        if len(other.wrappers) != len(first.wrappers):
            raise InvalidInput(
                f"{name} registers device code {len(other.wrappers)} times in {other.part.label} and "
                f"{len(first.wrappers)} times in {first.part.label}",
                where=other.part.wheel.path,
                next_step=AGAIN,
            )
    targets = {e.target for library in libraries for b in library.bundles for e in b.entries if e.target}
    starts = [0] * len(first.wrappers)
    with code.open("wb") as stream:
        for bundle in _bundles(libraries):
            stream.write(b"\0" * (-stream.tell() % PAGE))
            for index in bundle.wrappers:
                starts[index] = stream.tell()
            stream.write(_merged(name, libraries, bundle, targets, census))
        room = stream.tell()
    fat = first.elf.sections[fatbin.SECTION]
    try:
        refilled = plan_refill(first.elf, first.file, fat, first.wrappers, room, starts)
    except Unsplittable as reason:
        raise _unmergeable(name, first.part, str(reason)) from reason
    return Joined(refilled, code)


def _read(name: str, part: ReadPart) -> PartLibrary:
    file = part.scan.fat[name]
    elf = read_elf(file)
    try:
        wrappers = read_wrappers(elf, file)
        found = wrapped_bundles(elf, file, elf.sections[fatbin.SECTION], wrappers)
    except Unsplittable as reason:
        raise _unmergeable(name, part, str(reason)) from reason
    leads = {index: bundle for bundle, indices in found for index in indices}
    if not leads:
        raise _unmergeable(name, part, "no wrapper leads to code for a target")
    return PartLibrary(part, file, elf, wrappers, tuple(leads[index] for index in sorted(leads)))


def _unmergeable(name: str, part: ReadPart, reason: str) -> InvalidInput:
    return InvalidInput(
        f"the device code of {name} in {part.label} cannot be merged: {reason}",
        where=part.wheel.path,
        next_step="build that wheel for all targets at once",
    )


def _bundles(libraries: Sequence[PartLibrary]) -> list[_Bundle]:
    """The merged bundles, in the order in which the first part has them."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index in range(len(libraries[0].wrappers)):
        key = tuple(library.bundles[index].offset for library in libraries)
        groups.setdefault(key, []).append(index)
    return [
        _Bundle(tuple(wrappers), tuple(library.bundles[wrappers[0]] for library in libraries))
        for _, wrappers in sorted(groups.items())
    ]


def _merged(
    name: str, libraries: Sequence[PartLibrary], bundle: _Bundle, targets: set[str], census: Census
) -> bytes:
    """One bundle's bytes: the host's entry, then the targets' by their ids, as the compiler writes them."""
    found: dict[str, tuple[PartLibrary, memoryview, str]] = {}
    kernels: list[frozenset[str]] = []
    for library, source in zip(libraries, bundle.sources, strict=True):
        own: set[str] = set()
        for code, data in device_code(library.file, source):
            digest = hashlib.sha256(data).hexdigest()
            own |= defined_kernels(Mapped(Path(name), bytes(data)))
            known = found.setdefault(code.id, (library, data, digest))
            if known[0] is library:
                census.objects[code.target] += len(bundle.wrappers)
                continue
            if known[2] != digest:
                raise _other_code(name, bundle, code.target, (known[0], library), (known[2], digest))
            census.shared += len(bundle.wrappers)
        kernels.append(frozenset(own))
    _require_same_kernels(name, libraries, bundle, kernels)
    census.apart += len(frozenset().union(*kernels) - frozenset.intersection(*kernels))
    have = {entry.target for source in bundle.sources for entry in source.entries if entry.target}
    census.partial += len(bundle.wrappers) * (have < targets)
    host = [NewEntry(entry.id, b"") for entry in bundle.sources[0].entries if not entry.target]
    raw = raw_bundle([*host, *(NewEntry(key, found[key][1]) for key in sorted(found))])
    version = max((header_version(source) or 0 for source in bundle.sources), default=0)
    return packed_bundle(raw, version) if version else raw


def _other_code(
    name: str, bundle: _Bundle, target: str, libraries: Sequence[PartLibrary], digests: Sequence[str]
) -> InvalidInput:
    where = " and ".join(
        f"{digest[:16]}… in {library.part.label}" for library, digest in zip(libraries, digests, strict=True)
    )
    return InvalidInput(
        f"{name}: two parts have different code for {target} of wrapper {bundle.wrappers[0]}: sha256 {where}",
        where=libraries[1].part.wheel.path,
        next_step=f"{AGAIN}, each target in one part",
    )


def _require_same_kernels(
    name: str, libraries: Sequence[PartLibrary], bundle: _Bundle, kernels: Sequence[frozenset[str]]
) -> None:
    """A unit may have kernels for some targets only; units that share none are two units."""
    for library, names in zip(libraries[1:], kernels[1:], strict=True):
        if names and kernels[0] and not names & kernels[0]:
            shown = [" ".join(sorted(each)[:_MOST_NAMED]) for each in (kernels[0], names)]
            raise InvalidInput(
                f"{name}: wrapper {bundle.wrappers[0]} belongs to another unit in {library.part.label}: "
                f"kernels {shown[1]}, and {shown[0]} in {libraries[0].part.label}",
                where=library.part.wheel.path,
                next_step=AGAIN,
            )


def prove_library(name: str, parts: Sequence[ReadPart], file: Mapped) -> int:
    """Compare every code object of the merged library with its part's; how many there are.

    Raises `IntegrityError` where one is lost, invented or changed.
    """
    there = _digests(file)
    wanted: dict[tuple[int, str], str] = {}
    for part in parts:
        wanted |= _digests(part.scan.fat[name])
    if there != wanted:
        odd = sorted(key for key in there.keys() | wanted.keys() if there.get(key) != wanted.get(key))
        raise IntegrityError(f"{name}: code of wrapper {odd[0][0]} for {odd[0][1]} did not survive merging")
    return len(there)


def targets_of(file: Mapped) -> frozenset[str]:
    """Device targets that a library of a part has code for."""
    return frozenset(entry.target for bundle in _scanned(file) for entry in bundle.entries if entry.target)


def _scanned(file: Mapped) -> tuple[Bundle, ...]:
    section = read_elf(file).sections[fatbin.SECTION]
    return scan_bundles(file, section.offset, section.offset + section.size)


def _digests(file: Mapped) -> dict[tuple[int, str], str]:
    """Number of a wrapper and bundle entry id → sha256 of its code."""
    elf = read_elf(file)
    section = elf.sections[fatbin.SECTION]
    found = {}
    by_place = {bundle.offset: bundle for bundle in _scanned(file)}
    for wrapper in read_wrappers(elf, file):
        bundle = by_place[wrapper.pointer - section.addr + section.offset]
        for code, data in device_code(file, bundle):
            found[wrapper.index, code.id] = hashlib.sha256(data).hexdigest()
    return found
