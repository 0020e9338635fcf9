"""Check libraries together with archives: every wrapper finds its code, and all code has its library."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from rocwright.binary.elf import read_elf
from rocwright.device_code.kernels import kernels_of_wrappers
from rocwright.device_code.kpack import PLACEHOLDER, Entry, Marker
from rocwright.device_code.source import Source, installed_at
from rocwright.device_code.verify.archive import Shelf, label
from rocwright.device_code.verify.launches import Kernels, check_launches
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.verify.sources import Tree
from rocwright.errors import InvalidInput

# (wrapper, target) → where the code is.
Spots = dict[tuple[int, str], tuple[Shelf, Entry]]


class Known(msgspec.Struct, frozen=True, dict=True):
    """What is kept of a split library: its place, its marker, the number of its wrappers."""

    source: Source
    marker: Marker
    wrappers: int

    @cached_property
    def launches(self) -> Mapping[int, frozenset[str]]:
        """The kernels that it registers, by wrapper; none where they cannot be told."""
        file = self.source.open()
        try:
            return kernels_of_wrappers(read_elf(file), file) or {}
        except InvalidInput:
            return {}

    @property
    def kernel(self) -> str:
        """Its name in archives, as their reader spells it."""
        return self.marker.kernel.replace("\\", "/")

    def places(self, target: str) -> list[str]:
        """Where it looks for code for a target, by installed path."""
        return [
            installed_at(self.source.installed, path.replace(PLACEHOLDER, target, 1))
            for path in self.marker.search_paths
        ]

    def finds(self, shelf: Shelf) -> bool:
        """Whether it looks where this archive is."""
        return shelf.source.installed in self.places(shelf.target)

    def shelves(self, shelves: Iterable[Shelf], called: Iterable[Known] = ()) -> list[Shelf]:
        """Archives with its code: those that it finds, or else those that none of the `called` finds.

        Those are the libraries of its name: several wheels may have a `_C.so`, each with archives of its own.
        """
        named = [shelf for shelf in shelves if self.kernel in shelf.by_library]
        found = [shelf for shelf in named if self.finds(shelf)]
        return found or [shelf for shelf in named if not any(other.finds(shelf) for other in called)]

    def spots(self, shelves: Iterable[Shelf]) -> Spots:
        """Its code in archives, that of the first where several have it."""
        found: Spots = {}
        for shelf in shelves:
            for entry in shelf.by_library[self.kernel]:
                found.setdefault((entry.index, entry.target), (shelf, entry))
        return found


def by_name(libraries: Iterable[Known]) -> Mapping[str, Sequence[Known]]:
    """Libraries that archives know by one name."""
    called: defaultdict[str, list[Known]] = defaultdict(list)
    for library in libraries:
        called[library.kernel].append(library)
    return called


def check_together(
    libraries: Sequence[Known],
    shelves: Sequence[Shelf],
    kernels: Kernels,
    tree: Tree,
    log: FindingLog,
) -> None:
    """Report what the runtime would not find and, when all libraries are seen, code that none asks for.

    In a tree that was merged for some targets it is no error when something has no code for any of these.
    """
    missing = "kpack-partial" if tree.merged and shelves else "kpack-missing"
    targets = sorted({shelf.target for shelf in shelves})
    called = by_name(libraries)
    for library in libraries:
        its = library.shelves(shelves, called[library.kernel])
        _own_name(library, its, called[library.kernel], shelves, log)
        if not its:
            log.add(missing, library.source.name, f"no archive has code for {library.kernel}")
            continue
        for shelf in its:
            _require_same_build(library, shelf, log)
        unnamed = [shelf.source.name for shelf in its if library.kernel not in shelf.archive.builds]
        if unnamed:
            check_launches((library.source.name, library.kernel), library.launches, unnamed, kernels, log)
        spots = library.spots(its)
        _complete(library, spots, targets, missing, log)
        _no_more(library, spots, log)
    _twice(shelves, called, log)
    for shelf in shelves:
        for kernel in shelf.by_library:
            _reachable(shelf, called.get(kernel, ()), shelves, log)
        for kernel in sorted(set(shelf.by_library) - set(called)) if tree.whole and libraries else ():
            log.add(
                "kpack-orphan",
                shelf.source.name,
                f"it has device code for {kernel}, a library that is not here",
            )


def _own_name(
    library: Known, its: Sequence[Shelf], called: Sequence[Known], shelves: Sequence[Shelf], log: FindingLog
) -> None:
    """No archive may know two libraries by one name."""
    names = {shelf.source.name for shelf in its}
    for other in called[: called.index(library)]:
        shared = names.intersection(shelf.source.name for shelf in other.shelves(shelves, called))
        if shared and not _copies(other.source, library.source):
            log.add(
                "kpack-same-name",
                library.source.name,
                f"archives know both it and {other.source.name} as {library.kernel}",
            )
            return


def _twice(shelves: Sequence[Shelf], called: Mapping[str, Sequence[Known]], log: FindingLog) -> None:
    """Archives that lie together or that one library finds must not have the same code."""
    having: defaultdict[tuple[str, int, str], list[Shelf]] = defaultdict(list)
    for shelf in shelves:
        for entry in shelf.archive.entries:
            before = having[entry.kernel, entry.index, entry.target]
            known = called.get(entry.kernel, ())
            first = next((one for one in before if _together(one, shelf, known)), None)
            if first is not None:
                log.add("kpack-twice", shelf.source.name, f"{label(entry)} is in {first.source.name} too")
            before.append(shelf)


def _together(one: Shelf, other: Shelf, libraries: Iterable[Known]) -> bool:
    if one is other:
        return False
    folders = {posixpath.dirname(shelf.source.installed) for shelf in (one, other)}
    return len(folders) == 1 or any(library.finds(one) and library.finds(other) for library in libraries)


def _copies(first: Source, second: Source) -> bool:
    """Whether two files are the same: a library under two names is one library."""
    if first.size != second.size:
        return False
    a, b = first.open(), second.open()
    step = 1 << 20
    return all(a.read_at(at, step) == b.read_at(at, step) for at in range(0, first.size, step))


def _require_same_build(library: Known, shelf: Shelf, log: FindingLog) -> None:
    """By the identity of the host file, where the archive names one."""
    build, own = shelf.archive.builds.get(library.kernel), library.marker.build
    if build is not None and build != own:
        here = f"{library.source.name} is build {own or 'none'}"
        log.add(
            "kpack-stranger", shelf.source.name, f"its code of {library.kernel} is of build {build}, {here}"
        )


def _reachable(shelf: Shelf, called: Sequence[Known], shelves: Sequence[Shelf], log: FindingLog) -> None:
    """Libraries whose code is in an archive have to find it, each copy of a library too."""
    finders = [library for library in called if library.finds(shelf)]
    for library in called:
        if library in finders or (finders and not _is_copy(library, finders, shelf.target, shelves)):
            continue
        log.add(
            "kpack-unreachable",
            library.source.name,
            f"for {shelf.target} it looks at {', '.join(library.places(shelf.target))}; "
            f"its code is in {shelf.source.installed}",
        )


def _is_copy(library: Known, finders: Sequence[Known], target: str, shelves: Sequence[Shelf]) -> bool:
    """Whether it is a copy of one of these, and has no archive for the target where it is."""
    own = any(shelf.target == target and library.finds(shelf) for shelf in library.shelves(shelves))
    return not own and any(_copies(finder.source, library.source) for finder in finders)


def _complete(library: Known, spots: Spots, targets: Sequence[str], missing: str, log: FindingLog) -> None:
    there: defaultdict[int, set[str]] = defaultdict(set)
    for number, target in spots:
        there[number].add(target)
    none = [number for number in range(library.wrappers) if not there[number]]
    if none:
        log.add(missing, library.source.name, f"no archive has code for {_some(none)}")
    lacking: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for target in targets:
        lacking[tuple(n for n in range(library.wrappers) if there[n] and target not in there[n])].append(
            target
        )
    for numbers, without in lacking.items():
        if numbers:
            said = "all wrappers" if len(numbers) == library.wrappers else _some(numbers)
            log.add("kpack-partial", library.source.name, f"no code for {', '.join(without)} for {said}")


def _some(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"wrapper {numbers[0]}"
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"wrappers {', '.join(map(str, numbers[:5]))}{more}"


def _no_more(library: Known, spots: Spots, log: FindingLog) -> None:
    for (number, _), (shelf, entry) in spots.items():
        if number >= library.wrappers:
            log.add(
                "kpack-orphan",
                shelf.source.name,
                f"it has {label(entry)}; {library.source.name} has {library.wrappers} wrappers",
            )
