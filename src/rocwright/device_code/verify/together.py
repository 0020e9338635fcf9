"""Check libraries and archives together: every wrapper finds its code, and all code has its library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rocwright.device_code.kpack import PLACEHOLDER, Entry, Marker
from rocwright.device_code.search import installed_at
from rocwright.device_code.source import Source
from rocwright.device_code.verify.archive import Shelf, label
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.verify.sources import Tree

# (wrapper, target) → where the code is.
Spots = dict[tuple[int, str], tuple[Shelf, Entry]]


@dataclass(frozen=True)
class Known:
    """What is kept of a split library: its place, its marker, the number of its wrappers."""

    source: Source
    marker: Marker
    wrappers: int

    @property
    def kernel(self) -> str:
        """Its name in archives, as their reader spells it."""
        return self.marker.kernel.replace("\\", "/")


def index_code(shelves: Sequence[Shelf], log: FindingLog) -> dict[str, Spots]:
    """Library name → its code in all archives; code that is in two of them is reported."""
    index: defaultdict[str, Spots] = defaultdict(dict)
    for shelf in shelves:
        for entry in shelf.archive.entries:
            first = index[entry.kernel].setdefault((entry.index, entry.target), (shelf, entry))
            if first[0] is not shelf:
                log.add("kpack-twice", shelf.source.name, f"{label(entry)} is in {first[0].source.name} too")
    return dict(index)


def check_together(
    libraries: Sequence[Known], shelves: Sequence[Shelf], index: dict[str, Spots], tree: Tree, log: FindingLog
) -> None:
    """Report what the runtime would not find and, when all libraries are seen, code that none asks for.

    In a tree that was merged for some targets it is no error when something has no code for any of these.
    """
    missing = "kpack-partial" if tree.merged and shelves else "kpack-missing"
    targets = sorted({shelf.target for shelf in shelves})
    owners: dict[str, Known] = {}
    for library in libraries:
        first = owners.setdefault(library.kernel, library)
        if first is not library and not _copies(first.source, library.source):
            log.add(
                "kpack-same-name",
                library.source.name,
                f"archives know it as {library.kernel}, like {first.source.name}",
            )
        spots = index.get(library.kernel, {})
        if not spots:
            log.add(missing, library.source.name, f"no archive has code of {library.kernel}")
            continue
        _reachable(library, [shelf for shelf in shelves if library.kernel in shelf.kernels], log)
        _complete(library, spots, targets, missing, log)
        _no_more(library, spots, log)
    if tree.whole and libraries:
        for shelf in shelves:
            for kernel in sorted(shelf.kernels - set(owners)):
                log.add("kpack-orphan", shelf.source.name, f"it has code of {kernel}, and no library is it")


def _copies(first: Source, second: Source) -> bool:
    """Whether two files are the same: a library under two names is one library."""
    if first.size != second.size:
        return False
    a, b = first.open(), second.open()
    step = 1 << 20
    return all(a.read_at(at, step) == b.read_at(at, step) for at in range(0, first.size, step))


def _reachable(library: Known, shelves: Sequence[Shelf], log: FindingLog) -> None:
    for shelf in shelves:
        places = [
            installed_at(library.source.installed, path.replace(PLACEHOLDER, shelf.target, 1))
            for path in library.marker.search_paths
        ]
        if shelf.source.installed not in places:
            log.add(
                "kpack-unreachable",
                library.source.name,
                f"for {shelf.target} it looks at {', '.join(places)}; "
                f"its code is in {shelf.source.installed}",
            )


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
