"""Set a split library back to a fat one, for runtimes that do not look into archives.

The host file keeps every address. Code objects come out of the archives bit for bit, into one raw bundle for
each wrapper, behind everything else in the file, as the merge of parts lays it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from rocwright.binary.dynamic import up
from rocwright.binary.elf import read_elf
from rocwright.binary.view import Mapped, View
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import (
    PAGE,
    Bundle,
    NewEntry,
    device_code,
    entry_target,
    raw_bundle,
    raw_size,
)
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.identity import host_identity
from rocwright.device_code.kernels import defined_kernels, kernels_of_wrappers, strange_wrapper
from rocwright.device_code.kpack import Archive, Entry, code_object
from rocwright.device_code.refill import Refilled, plan_return
from rocwright.device_code.split import wrapped_bundles
from rocwright.device_code.split_file import SplitFile, unreturnable
from rocwright.device_code.tree.names import printable
from rocwright.device_code.wrappers import Unsplittable, read_wrappers
from rocwright.errors import IntegrityError, InvalidArchive, InvalidInput
from rocwright.model.gpu import in_order, is_target, parse_target
from rocwright.system.files import CHUNK

_SAME_SPLIT = "give the archives of the split that the host file is of"


class Returned(msgspec.Struct, frozen=True):
    """A code object that goes back: the id of its bundle entry, and where it is now."""

    id: str
    archive: Archive
    entry: Entry

    @property
    def code(self) -> bytes:
        """Its bytes."""
        return code_object(self.archive, self.entry)


class _NewBundle(msgspec.Struct, frozen=True):
    """A bundle to be: `start` in the room for code, the numbers of its wrappers by place, what it holds."""

    start: int
    wrappers: tuple[int, ...]
    code: tuple[Returned, ...]


class FatPlan(msgspec.Struct, frozen=True):
    """A library as it will be, a source of bytes that never holds more than one bundle."""

    split: SplitFile
    host_id: str
    refilled: Refilled
    bundles: tuple[_NewBundle, ...]

    @property
    def size(self) -> int:
        """Bytes of the fat library."""
        return self.refilled.file.size

    @property
    def targets(self) -> tuple[str, ...]:
        """Targets that it will have code for, in the hardware's order."""
        return in_order({entry_target(one.id) for bundle in self.bundles for one in bundle.code})

    @property
    def objects(self) -> int:
        """Code objects as the runtime counts them: one for each wrapper and target."""
        return sum(len(bundle.wrappers) * len(bundle.code) for bundle in self.bundles)

    def pieces(self) -> Iterator[bytes]:
        """The file from its start; raises `InvalidArchive` for code that cannot be unpacked."""
        file, start = self.refilled.file, self.refilled.offset
        yield from _range(file, 0, start)
        place = 0
        for bundle in self.bundles:
            yield bytes(bundle.start - place)
            host = NewEntry(self.host_id, b"")
            data = raw_bundle([host, *(NewEntry(one.id, one.code) for one in bundle.code)])
            yield data
            place = bundle.start + len(data)
        yield from _range(file, start + place, file.size)


def _range(file: View, start: int, end: int) -> Iterator[bytes]:
    for offset in range(start, end, CHUNK):
        yield file.read_at(offset, min(CHUNK, end - offset))


class TargetChoice(msgspec.Struct):
    """Which targets are wanted (none: all that there are), and which were seen.

    A target without features stands for all of its variants.
    """

    wanted: Collection[str] = ()
    there: set[str] = msgspec.field(default_factory=set)

    def takes(self, target: str) -> bool:
        """Whether code for this target is wanted; it is at hand in any case."""
        self.there.add(target)
        return self.wants(target)

    def wants(self, target: str) -> bool:
        """Whether code for this target is wanted."""
        return not self.wanted or not {target, _base(target)}.isdisjoint(self.wanted)

    def require_all(self, name: str) -> None:
        """Raise `InvalidInput` for a wanted target that no archive was for, with those that there are."""
        have = self.there | {_base(target) for target in self.there}
        lacking = [target for target in self.wanted if target not in have]
        if lacking:
            raise InvalidInput(
                f"no archive at hand has code of {name} for {' '.join(in_order(lacking))}",
                next_step=f"there are: {' '.join(in_order(self.there)) or 'none'}; "
                "add the missing archives, or leave these targets out",
            )


def _base(target: str) -> str:
    return parse_target(target).base if is_target(target) else target


def plan_fat(split: SplitFile, archives: Sequence[Archive], choice: TargetChoice) -> FatPlan:
    """How a split library gets the code of these archives for the targets that are wanted.

    Raises `InvalidInput` for archives of another build, code that two of them have differently, and where the
    file has no room for code; `InvalidArchive` for damaged ones.
    """
    found = _gathered(split, archives, choice)
    host_id = fatbin.HOST_IDS[split.elf.machine]
    groups: dict[object, list[int]] = {}
    for number, codes in enumerate(found):
        key = tuple((one.id, one.archive.file.path, one.entry.ordinal) for one in codes)
        groups.setdefault(key, []).append(number)
    place, bundles, starts = 0, [], [0] * len(split.wrappers)
    for numbers in groups.values():
        codes = found[numbers[0]]
        place = up(place, PAGE)
        bundles.append(_NewBundle(place, tuple(numbers), codes))
        for number in numbers:
            starts[number] = place
        place += raw_size([(host_id, 0), *((one.id, one.entry.size) for one in codes)])
    try:
        refilled = plan_return(split.elf, split.file, place, starts)
    except Unsplittable as reason:
        raise unreturnable(split.name, split.file, str(reason)) from reason
    return FatPlan(split, host_id, refilled, tuple(bundles))


def _gathered(
    split: SplitFile, archives: Iterable[Archive], choice: TargetChoice
) -> list[tuple[Returned, ...]]:
    """The code of each wrapper, by the ids of entries in order."""
    found: list[dict[str, Returned]] = [{} for _ in split.wrappers]
    for archive in archives:
        its = [entry for entry in archive.entries if entry.kernel == split.kernel]
        chosen = [entry for entry in its if choice.takes(entry.target)]
        if chosen:
            _require_build(split, archive)
        for entry in chosen:
            if entry.index >= len(found):
                raise _stranger(split, archive, f"it has code for wrapper {entry.index} of {len(found)}")
            one = Returned(_id(archive, entry), archive, entry)
            known = found[entry.index].setdefault(one.id, one)
            # A split repeats code for fewer features in more specific archives.
            if known is not one and known.code != one.code:
                raise _stranger(
                    split,
                    archive,
                    f"it has other code for {entry_target(one.id)} of wrapper {entry.index} than "
                    f"{printable(known.archive.file.path.name)}",
                )
    _require_launched(split, found)
    return [tuple(codes[key] for key in sorted(codes)) for codes in found]


def _id(archive: Archive, entry: Entry) -> str:
    """The id of the bundle entry that code came from; the compiler's for its target where none is told."""
    if entry.id is None:
        return f"{fatbin.DEVICE_ID}{entry.target}"
    told = entry_target(entry.id)
    if is_target(told) and is_target(entry.target):
        origin, target = parse_target(told), parse_target(entry.target)
        if origin.base == target.base and set(origin.features) <= set(target.features):
            return entry.id
    raise InvalidArchive(
        f"{archive.file.path.name}: its code for {entry.target} was built for {entry.id[:80]}",
        where=archive.file.path,
        next_step="split again from the original",
    )


def _require_build(split: SplitFile, archive: Archive) -> None:
    build, own = archive.builds.get(split.kernel), split.marker.build
    if build is not None and build != own:
        here = own[:12] or "one that is not named"
        raise _stranger(split, archive, f"its code is of build {build[:12]}, {split.name} of {here}")


def _stranger(split: SplitFile, archive: Archive, what: str) -> InvalidInput:
    return InvalidInput(
        f"{printable(archive.file.path.name)} is not of {split.name}: {what}",
        where=archive.file.path,
        next_step=_SAME_SPLIT,
    )


def _require_launched(split: SplitFile, found: Sequence[dict[str, Returned]]) -> None:
    """Where archives name no build, by kernels: a wrapper that launches none of its code has another's."""
    unnamed = {
        number: [one for one in codes.values() if split.kernel not in one.archive.builds]
        for number, codes in enumerate(found)
    }
    if not any(unnamed.values()):
        return
    launches = kernels_of_wrappers(split.elf, split.file) or {}
    defined = {
        number: [defined_kernels(Mapped(one.archive.file.path, one.code)) or None for one in codes]
        for number, codes in unnamed.items()
    }
    strange = strange_wrapper(launches, defined)
    if strange is not None:
        archive = unnamed[strange.number][0].archive
        what = f"wrapper {strange.number} launches {strange.launched}, and its code is {strange.defined}"
        raise _stranger(split, archive, what)


def prove_fat(plan: FatPlan, file: Mapped) -> int:
    """Read a fat library again and compare all code objects with the archives'; how many there are.

    Raises `IntegrityError` where one is lost, invented or changed, or the host code is not what it was.
    """
    split = plan.split
    elf = read_elf(file)
    try:
        wrappers = read_wrappers(elf, file)
        found = wrapped_bundles(elf, file, elf.sections[fatbin.SECTION], wrappers)
    except (Unsplittable, InvalidInput) as reason:
        raise IntegrityError(f"{split.name}: its device code was put back, but {reason}") from reason
    wanted = {number: bundle.code for bundle in plan.bundles for number in bundle.wrappers}
    if MARKER_SECTION in elf.sections or len(wrappers) != len(wanted):
        raise IntegrityError(f"{split.name} is still split")
    for bundle, numbers in found:
        there = {code.id: data for code, data in device_code(file, bundle)}
        for number in numbers:
            codes = {one.id: one for one in wanted[number]}
            odd = [key for key in there.keys() | codes.keys() if not _same(there.get(key), codes.get(key))]
            if odd:
                what = f"code of wrapper {number} for {entry_target(min(odd))}"
                raise IntegrityError(f"{split.name}: {what} was not put back")
    if plan.objects != sum(len(numbers) * _objects(bundle) for bundle, numbers in found):
        raise IntegrityError(f"{split.name}: {plan.objects} code objects were not put back")
    # Not that in the marker: others may have given the host file a run path since.
    before = host_identity(split.elf, split.file, split.wrappers)
    if host_identity(elf, file, wrappers) != before:
        raise IntegrityError(f"{split.name}: its host code did not survive")
    return plan.objects


def _same(data: memoryview | None, one: Returned | None) -> bool:
    if data is None or one is None or len(data) != one.entry.size:
        return False
    # startswith compares any buffer without copying it.
    return one.code.startswith(data)


def _objects(bundle: Bundle) -> int:
    return sum(1 for entry in bundle.entries if entry.target)
