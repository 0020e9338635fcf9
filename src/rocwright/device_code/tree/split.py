"""Split trees of fat libraries and device databases: one directory for all GPUs, one more for each target.

Every path is placed first: a file that serves one target goes there whole, all else is generic. Then files
are copied, fat libraries are written without their code, and that goes into one archive for each target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.binary.elf import SUPPORTED
from rocwright.binary.view import mapped
from rocwright.device_code.archives import DEFAULT_LEVEL, Stored, store
from rocwright.device_code.kpack import DIRECTORY, PLACEHOLDER, SUFFIX, Marker
from rocwright.device_code.origin import SplitOrigin, joint_build, pack_origin
from rocwright.device_code.split import Kept, LibraryPlan, plan_library
from rocwright.device_code.tree.names import GENERIC, MANIFEST, printable, served
from rocwright.device_code.tree.place import (
    Group,
    Input,
    Placed,
    find_artifacts,
    grouped,
    kernel_name,
    place_all,
    safe_name,
)
from rocwright.device_code.tree.tree import (
    Outputs,
    Part,
    Remark,
    require_apart,
    split_layout,
)
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import base_targets, parse_target
from rocwright.system.files import sha256_file


class GroupSplit(msgspec.Struct, frozen=True):
    """What became of one artifact or prefix.

    `name` begins the file names of its archives. `parts` maps a directory in the output to what it holds.
    `targets` are those with archives, in full. `objects` counts code objects as the runtime does, one for
    each wrapper and target; `identical` those proven to come back from the archives bit for bit. `kept` are
    libraries that stay whole, `unplaced` database files of unknown targets: both are in the generic part.
    `already` had been split before. `dropped` counts, by target, the code objects and database files that
    were not wanted.
    """

    name: str
    parts: Mapping[str, Part]
    targets: tuple[str, ...]
    objects: int
    identical: int
    kept: tuple[Remark, ...]
    unplaced: tuple[Remark, ...]
    already: tuple[str, ...]
    dropped: Mapping[str, int]


class TreeSplit(msgspec.Struct, frozen=True):
    """What became of a tree: one group for a prefix or an artifact, several for a directory of artifacts.

    `ignored` are entries of a directory of artifacts that are none; they are in no output.
    """

    groups: tuple[GroupSplit, ...]
    ignored: tuple[str, ...] = ()

    @property
    def objects(self) -> int:
        """Code objects of all groups."""
        return sum(group.objects for group in self.groups)

    @property
    def identical(self) -> int:
        """Those of them that were proven bit for bit."""
        return sum(group.identical for group in self.groups)

    @property
    def parts(self) -> dict[str, Part]:
        """All directories in the output."""
        return {name: part for group in self.groups for name, part in group.parts.items()}


def split_tree(
    source: Path,
    dest: Path,
    *,
    targets: Iterable[str] | None = None,
    name: str | None = None,
    level: int = DEFAULT_LEVEL,
    threads: int = 2,
    note: Callable[[str], None] = lambda _: None,
) -> TreeSplit:
    """Split an artifact directory, a directory of several, or any other tree as a ROCm prefix.

    An artifact becomes `<dest>/<name>_<component>_<generic, target or group>`, a prefix
    `<dest>/<generic, target or group>`. Targets are base targets; all feature variants of one go into its
    directory. Archives lie in `.kpack` at the root of a prefix, in an artifact in the alphabetically first
    of its prefixes that has code for the target.

    `targets` limits the device side (features do not count); what is left out is reported. `name` begins
    the archives' file names of a prefix (default: the directory's name); parts that are to be merged need
    the same. `threads` changes no byte. Each group's directories appear whole, the generic one last, or not
    at all; a new run replaces them. The source is only read, and no output is linked to it.

    Raises `InvalidElf`, `InvalidBundle`, `InvalidArchive` for damaged files; `InvalidInput` for a tree that
    cannot be read or a library without code for any wanted target; `UsageError`; `NoSpace`.
    """
    if not source.is_dir():
        raise InvalidInput(
            f"{printable(source)} is not a directory",
            where=printable(source),
            next_step="name the directory of a ROCm, or of its artifacts",
        )
    source = source.resolve()
    wanted = None if targets is None else frozenset(base_targets(targets))
    artifacts, ignored = find_artifacts(source)
    if not artifacts:
        group = Group(safe_name(name or source.name), "", (Input(source, ("",)),))
        return TreeSplit((_split(group, dest, wanted, level, threads, note),))
    if name is not None:
        raise UsageError("artifacts already have names", next_step="leave the name out")
    for path in ignored:
        note(f"{path} is not an artifact; left out")
    groups = grouped(artifacts)
    require_apart(dest, [], [source])
    return TreeSplit(tuple(_split(g, dest, wanted, level, threads, note) for g in groups), ignored)


def _split(
    group: Group,
    dest: Path,
    wanted: frozenset[str] | None,
    level: int,
    threads: int,
    note: Callable[[str], None],
) -> GroupSplit:
    placed = place_all(group)
    with split_layout(dest, group.lead, [item.root for item in group.inputs]) as outputs:
        work = _Work(group, outputs, placed, wanted, note)
        scratch = outputs.writer(GENERIC).root / f"{DIRECTORY}.partial"
        stored = store(
            work.plans(), lambda t: scratch / (t + SUFFIX), group.name, level=level, threads=threads
        )
        work.deliver(stored, scratch)
    return GroupSplit(
        name=group.name,
        parts=outputs.parts,
        targets=tuple(sorted(stored.packed)),
        objects=work.objects,
        identical=stored.identical,
        kept=tuple(work.kept),
        unplaced=tuple(Remark(printable(p.node.path), p.unplaced) for p in placed if p.unplaced),
        already=tuple(work.already),
        dropped=dict(sorted(work.dropped.items())),
    )


class _Work(msgspec.Struct):
    """One run over the placed nodes, and what it found."""

    group: Group
    outputs: Outputs
    placed: Sequence[Placed]
    wanted: frozenset[str] | None
    note: Callable[[str], None]
    objects: int = 0
    kept: list[Remark] = msgspec.field(default_factory=list)
    already: list[str] = msgspec.field(default_factory=list)
    dropped: Counter[str] = msgspec.field(default_factory=Counter)
    homes: dict[str, tuple[str, Path]] = msgspec.field(default_factory=dict)
    """Full target → the prefix for its archive and the tree this prefix is in."""
    builds: dict[str, str] = msgspec.field(default_factory=dict)
    databases: dict[str, tuple[str, Path]] = msgspec.field(default_factory=dict)
    """Word of a part with databases → the first prefix that they are in, and its tree."""

    def plans(self) -> Iterator[LibraryPlan]:
        """Put every node where it belongs; yields the plans of libraries whose host files are written."""
        aliases = self._aliases()
        generic = self.outputs.writer(GENERIC)
        for item in self.placed:
            node = item.node
            if item.word != GENERIC:
                self._device_file(item)
            elif node.is_directory or node.is_link or item.unplaced:
                generic.copy(node)
            elif not generic.linked(node):
                names = aliases.get(node.identity, [item]) if node.identity else [item]
                plan = self._plan(item, names)
                if plan is None:
                    generic.copy(node)
                else:
                    generic.write(node, plan.host.pieces())
                    yield self._counted(item, plan)

    def _aliases(self) -> dict[tuple[int, int] | None, list[Placed]]:
        """All generic names of each file that has several."""
        found: dict[tuple[int, int] | None, list[Placed]] = {}
        for item in self.placed:
            if item.node.identity and item.word == GENERIC:
                found.setdefault(item.node.identity, []).append(item)
        return found

    def _device_file(self, item: Placed) -> None:
        if self.wanted is None or self.wanted.intersection(served(item.word) or (item.word,)):
            self.outputs.writer(item.word).copy(item.node)
            home = (item.prefix or "", item.node.root)
            self.databases[item.word] = min(home, self.databases.get(item.word, home))
        else:
            self.dropped[item.word] += 1

    def _plan(self, item: Placed, names: Sequence[Placed]) -> LibraryPlan | None:
        """What a regular file is split into; None leaves it as it is, remembered if it has device code."""
        # The runtime sees the name that was opened: each depth at which the file has one needs its own path.
        depths = sorted({name.inside.count("/") for name in names})
        paths = tuple(f"{'../' * n}{DIRECTORY}/{self.group.name}_{PLACEHOLDER}{SUFFIX}" for n in depths)
        with mapped(item.node.source) as file:
            # Compilers bring objects for other machines with them.
            if file.read_at(0, len(SUPPORTED)) != SUPPORTED:
                return None
            plan = plan_library(file, Marker(paths, kernel_name(item.node.path)))
        path = printable(item.node.path)
        if isinstance(plan, LibraryPlan) and any(name.prefix is None for name in names):
            plan = Kept(f"it lies in no directory that {MANIFEST} names")
        if isinstance(plan, Kept):
            if plan.already:
                self.already.append(path)
            else:
                self.kept.append(Remark(path, plan.reason))
                self.note(f"{path} stays whole: {plan.reason}")
            return None
        return self._limited(plan) if plan else None

    def _limited(self, plan: LibraryPlan) -> LibraryPlan:
        """The plan without code for targets that are not wanted."""
        if self.wanted is None:
            return plan
        bundles = []
        for bundle, indices in plan.bundles:
            entries = [e for e in bundle.entries if e.target and parse_target(e.target).base in self.wanted]
            for entry in bundle.entries:
                if entry.target and entry not in entries:
                    self.dropped[entry.target] += len(indices)
            if entries:
                bundles.append((msgspec.structs.replace(bundle, entries=tuple(entries)), indices))
        if not bundles:
            raise InvalidInput(
                f"{plan.file.path.name} has no code for {' '.join(sorted(self.wanted))}",
                where=printable(plan.file.path),
                next_step=f"it has code for {' '.join(plan.targets)}: ask for one of them, or leave it out",
            )
        return msgspec.structs.replace(plan, bundles=tuple(bundles))

    def _counted(self, item: Placed, plan: LibraryPlan) -> LibraryPlan:
        self.note(f"splitting {printable(item.node.path)}: {plan.objects} code objects")
        self.objects += plan.objects
        self.builds[plan.kernel] = plan.build
        home = (item.prefix or "", item.node.root)
        for target in plan.targets:
            self.homes[target] = min(home, self.homes.get(target, home))
        return plan

    def deliver(self, stored: Stored, scratch: Path) -> None:
        """Move the archives to their directories, and write what they are of and the manifests."""
        digests: dict[str, str] = {}
        for target in sorted(stored.packed):
            prefix, root = self.homes[target]
            path = f"{prefix}/" * bool(prefix) + f"{DIRECTORY}/{self.group.name}_{target}{SUFFIX}"
            writer = self.outputs.writer(parse_target(target).base)
            digests[target] = sha256_file(scratch / (target + SUFFIX))
            writer.adopt(scratch / (target + SUFFIX), root, path)
        if scratch.exists():
            scratch.rmdir()
        self._origins(digests)
        prefixes = tuple(dict.fromkeys(p for item in self.group.inputs for p in item.prefixes))
        if prefixes == ("",):
            return
        for word, writer in self.outputs.writers.items():
            writer.manifest(p for p in prefixes if word == GENERIC or (writer.root / p).is_dir())

    def _origins(self, digests: Mapping[str, str]) -> None:
        """Say in each part which build it is of; a tree without a library that was split has none.

        `digests` are the hex sha256 of the archives by target.
        """
        if not self.builds:
            return
        own = SplitOrigin(self.group.name, joint_build(self.builds), targets=tuple(digests))
        homes = dict(self.databases)
        for target, home in self.homes.items():
            base = parse_target(target).base
            homes[base] = min(home, homes.get(base, home))
        origins = {GENERIC: (own, min(self.homes.values()))}
        for word, home in homes.items():
            its = {target: said for target, said in digests.items() if parse_target(target).base == word}
            origins[word] = (own.of_part(word, its), home)
        for word, (origin, (prefix, root)) in origins.items():
            path = f"{prefix}/" * bool(prefix) + f"{DIRECTORY}/{origin.name}"
            self.outputs.writer(word).put(pack_origin(origin), root, path)
