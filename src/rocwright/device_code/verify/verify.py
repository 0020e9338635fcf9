"""Verify split device code: libraries, archives, trees and wheels, on their own or against the originals.

Everything is read once: archives' tables first, then one library after the other, whose code objects are
unpacked, judged and compared on several threads. Nothing that is malformed stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.device_code.fatbin import Bundle, CodeObject, device_code
from rocwright.device_code.verify.archive import Shelf, Unpacker, UnpackJob, UnpackOutcome, read_shelf
from rocwright.device_code.verify.launches import Kernels, gather
from rocwright.device_code.verify.library import SplitLibrary, check_library, is_host_elf
from rocwright.device_code.verify.original import Fat, Original, compare_trees, host_differences, stand_ins
from rocwright.device_code.verify.origins import check_origins
from rocwright.device_code.verify.report import FindingLog, KpackReport
from rocwright.device_code.verify.sources import Tree, directory_trees, file_tree
from rocwright.device_code.verify.together import Known, Spots, by_name, check_together
from rocwright.device_code.verify.wheels import ENDING, check_parts, wheel_trees, wheels_in
from rocwright.device_code.wrappers import Unsplittable
from rocwright.errors import InvalidInput
from rocwright.model.gpu import base_targets
from rocwright.model.machines import Machines
from rocwright.system.parallel import in_order
from rocwright.system.progress import counted

# What waits for a thread, in bytes; an object that lies in a mapped file counts as little.
_WINDOW = 24 << 20
_LIGHT = 1 << 20


def verify(
    paths: Iterable[Path],
    *,
    against: Sequence[Path] = (),
    targets: Iterable[str] | None = None,
    threads: int = 2,
) -> KpackReport:
    """Verify split libraries, archives, directories and wheels; offline.

    A library brings the archives that its search path leads to. Directories `generic` and those of targets
    beside it make one tree, and so do all wheels. `against` is what was split, a tree or fat libraries or
    wheels: then every code object is compared with it both ways, and the host files besides. `targets` are
    those that are meant to be here, of all that a host was split into (features do not count). Malformed
    files become findings; raises `InvalidInput` for a path that does not exist, for an `against` that cannot
    be read, and for several that are not of one set.
    """
    with ExitStack() as stack:
        wanted = None if targets is None else frozenset(base_targets(targets))
        run = _Verification(against, wanted, threads, stack)
        for tree in _trees(list(paths), run.log, stack, threads):
            run.tree(tree)
        return run.report()


def _trees(paths: Sequence[Path], log: FindingLog, stack: ExitStack, threads: int) -> Iterator[Tree]:
    for path in paths:
        if not path.exists():
            raise InvalidInput(
                f"{path} does not exist",
                where=path,
                next_step="name a file or directory that is there: `ls` shows them",
            )
    folders = [path for path in paths if path.is_dir()]
    inside = {folder: wheels_in(folder) for folder in folders}
    files = [path for path in paths if not path.is_dir()]
    wheels = [path for path in files if path.name.endswith(ENDING)]
    others = [path for path in files if path not in wheels]
    if others:
        yield file_tree(others)
    together = [*wheels, *(wheel for found in inside.values() for wheel in found)]
    yield from wheel_trees(together, log, stack, threads)
    yield from directory_trees([folder for folder in folders if not inside[folder]], log)


class _Verification:
    """One call of `verify`."""

    def __init__(
        self, against: Sequence[Path], wanted: frozenset[str] | None, threads: int, stack: ExitStack
    ) -> None:
        self.wanted = wanted
        self.log = FindingLog()
        self.threads = threads
        self.unpacker = Unpacker(load_table("machines", Machines))
        self.original = Original(against, stack, self.log) if against else None
        self.libraries: list[Known] = []
        self.shelves: list[Shelf] = []
        self.parts: dict[str, None] = {}
        self.total = UnpackOutcome()
        self.objects = 0

    def tree(self, tree: Tree) -> None:
        """Verify what is installed together."""
        archives = [source for source in tree.sources if source.is_archive]
        shelves = [shelf for source in archives if (shelf := read_shelf(source, self.log)) is not None]
        work = _Tree(self, tree, shelves)
        kernels: Kernels = {}
        total = sum(len(shelf.by_ordinal) for shelf in shelves)
        with (
            counted("verifying", total, "code objects") as count,
            closing(in_order(self.unpacker, work.jobs(), threads=self.threads, window=_WINDOW)) as outcomes,
        ):
            for outcome in outcomes:
                self._count(outcome)
                gather(kernels, outcome.kernels)
                count.add(bool(outcome.unpacked))
        check_together(work.libraries, shelves, kernels, tree, self.log)
        check_origins(tree, shelves, self.wanted, self.log)
        check_parts(tree, shelves, self.unpacker.machines, self.log)
        if self.original is not None and self.original.whole and tree.whole:
            split = {library.source.installed for library in work.libraries}
            compare_trees(self.original, tree, split, self.log)
        if tree.parts:
            self.parts.update((source.owner, None) for source in tree.sources)
        self.libraries += work.libraries
        self.shelves += shelves

    def _count(self, outcome: UnpackOutcome) -> None:
        for fault in outcome.faults:
            self.log.add(*fault)
        self.objects += bool(outcome.unpacked)
        self.total.unpacked += outcome.unpacked
        self.total.identical += outcome.identical

    def report(self) -> KpackReport:
        """All that was found."""
        if not (self.libraries or self.shelves or self.parts or self.log.findings):
            self.log.add("kpack-nothing", "", "there is no split library and no archive")
        for target in sorted({s.parsed.base for s in self.shelves} - set(self.unpacker.machines.machines)):
            self.log.add(
                "kpack-unknown-target", target, "its machine number is unknown, so it was not compared"
            )
        findings, notes = self.log.all()
        return KpackReport(
            libraries=tuple(library.source.name for library in self.libraries),
            archives=tuple(shelf.source.name for shelf in self.shelves),
            parts=tuple(self.parts),
            targets=tuple(sorted({shelf.target for shelf in self.shelves})),
            objects=self.objects,
            unpacked=self.total.unpacked,
            identical=self.total.identical,
            findings=findings,
            notes=notes,
            compared=self.original is not None,
        )


class _Tree:
    """The libraries of one tree on their way past the archives."""

    def __init__(self, run: _Verification, tree: Tree, shelves: Sequence[Shelf]) -> None:
        self.run, self.sources, self.shelves = run, tree.sources, shelves
        self.log = run.log
        self.libraries: list[Known] = []
        self.done: set[tuple[int, int, int]] = set()
        self.unpacked = 0

    def jobs(self) -> Iterator[tuple[UnpackJob | None, int]]:
        """Every stored code object at least once, with the bytes of memory that each holds."""
        lost: list[tuple[SplitLibrary, Known]] = []
        original = self.run.original
        for source in self.sources:
            try:
                if source.is_archive or source.link is not None or not is_host_elf(source.head()):
                    continue
                file = source.open()
            except InvalidInput as error:
                self.log.add("kpack-readable", source.name, error.what)
                continue
            library = check_library(source, file, self.log)
            if library is not None:
                known = Known(source, library.marker, len(library.wrappers))
                self.libraries.append(known)
                its = known.shelves(self.shelves)
                if original is not None and any(map(known.finds, its)):
                    yield from self._compare(original, library, known, its)
                elif original is not None:
                    lost.append((library, known))
        # Which archives could be theirs is known when all libraries are.
        called = by_name(self.libraries)
        for library, known in lost:
            assert original is not None
            yield from self._compare(
                original, library, known, known.shelves(self.shelves, called[known.kernel])
            )
        yield from self._others()

    def _compare(
        self, original: Original, library: SplitLibrary, known: Known, its: Sequence[Shelf]
    ) -> Iterator[tuple[UnpackJob | None, int]]:
        name = library.source.name
        try:
            fat_file = original.of(library.source)
            if fat_file is None:
                self.log.add("kpack-original", name, "there is no original to compare it with")
                return
            fat = Fat(fat_file)
        except (InvalidInput, Unsplittable) as error:
            self.log.add("kpack-original", name, f"it cannot be compared with its original: {error}")
            return
        for text in host_differences(fat, library.elf, library.file, library.wrappers):
            self.log.add("kpack-host", name, text)
        yield from self._code(fat, known, known.spots(its))

    def _code(self, fat: Fat, known: Known, spots: Spots) -> Iterator[tuple[UnpackJob | None, int]]:
        wanted: set[tuple[int, str]] = set()
        for bundle, indices in fat.bundles:
            if not indices:
                self.log.add(
                    "kpack-lost", known.source.name, f"no wrapper leads to the bundle at {bundle.offset:#x}"
                )
                continue
            # One unpacked bundle at a time, unless both are small: wait for the threads first.
            if bundle.memory and self.unpacked + bundle.memory > _WINDOW:
                yield None, _WINDOW
            self.unpacked = bundle.memory
            try:
                codes = device_code(fat.file, bundle)
            except InvalidInput as error:
                self.log.add("kpack-original", known.source.name, error.what)
                continue
            repeated = stand_ins([code.target for code, _ in codes], {target for _, target in spots})
            for code, data in codes:
                wanted.update((index, code.target) for index in indices)
                yield from self._weighed(self._jobs_of(spots, known, indices, code, data), code, bundle)
                for target in repeated.get(code.target, ()):
                    again = msgspec.structs.replace(code, target=target, size=0)
                    wanted.update((index, target) for index in indices)
                    yield from self._weighed(self._jobs_of(spots, known, indices, again, data), code, bundle)
        for number, target in sorted(set(spots) - wanted):
            shelf, _ = spots[number, target]
            self.log.add(
                "kpack-invented",
                shelf.source.name,
                f"the original of {known.source.name} has no code for {target} for wrapper {number}",
            )

    @staticmethod
    def _weighed(
        jobs: Iterable[UnpackJob], code: CodeObject, bundle: Bundle
    ) -> Iterator[tuple[UnpackJob, int]]:
        return ((job, code.size if bundle.memory else _LIGHT) for job in jobs)

    def _jobs_of(
        self, spots: Spots, known: Known, indices: tuple[int, ...], code: CodeObject, data: memoryview
    ) -> Iterator[UnpackJob]:
        """The stored objects that must equal one of the original's: one, unless they were stored apart."""
        stored: dict[tuple[int, int, int], UnpackJob] = {}
        for number in indices:
            spot = spots.get((number, code.target))
            if spot is None:
                if code.size:
                    self.log.add(
                        "kpack-lost",
                        known.source.name,
                        f"no archive has code for {code.target} for wrapper {number}",
                    )
                continue
            shelf, entry = spot
            key = (id(shelf), entry.ordinal, entry.size)
            before = stored[key].entries if key in stored else ()
            stored[key] = UnpackJob(shelf, entry.ordinal, (*before, entry), data)
        self.done.update(stored)
        yield from stored.values()

    def _others(self) -> Iterator[tuple[UnpackJob, int]]:
        """Stored objects that no original was compared with."""
        for shelf in self.shelves:
            for ordinal, entries in shelf.by_ordinal.items():
                for size in dict.fromkeys(entry.size for entry in entries):
                    if (id(shelf), ordinal, size) not in self.done:
                        same = tuple(entry for entry in entries if entry.size == size)
                        yield UnpackJob(shelf, ordinal, same), _LIGHT
