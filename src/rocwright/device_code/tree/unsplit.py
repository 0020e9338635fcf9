"""Set split trees back: one tree with fat libraries, from the parts of a split or from what is installed."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.device_code.kpack import DIRECTORY, SUFFIX, Archive, read_archive
from rocwright.device_code.origin import (
    SplitOrigin,
    is_origin,
    named_archives,
    origin_at,
    require_named,
    unlike_named,
)
from rocwright.device_code.source import archives_among, not_beside, open_path
from rocwright.device_code.split_file import read_split
from rocwright.device_code.tree.merge import same_parts
from rocwright.device_code.tree.names import (
    GENERIC,
    MANIFEST,
    in_order,
    is_artifact,
    printable,
    read_artifact,
    served,
)
from rocwright.device_code.tree.tree import Node, Part, TreeWriter, read_tree, require_apart, whole_tree
from rocwright.device_code.unsplit import FatPlan, TargetChoice, plan_fat, prove_fat
from rocwright.device_code.unsplit_library import LibraryUnsplit, not_split, told
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import base_targets
from rocwright.system.files import sha256_file

WORD = "fat"


class TreeUnsplit(msgspec.Struct, frozen=True):
    """What was written: directory name → what it holds, nothing after a dry run.

    `libraries` were set back; `orphans` are archives with code of libraries that are not there.
    """

    parts: Mapping[str, Part]
    libraries: tuple[LibraryUnsplit, ...]
    orphans: tuple[str, ...]

    @property
    def objects(self) -> int:
        """Code objects in all libraries."""
        return sum(one.objects for one in self.libraries)

    @property
    def identical(self) -> int:
        """Those of them that were read back and compared."""
        return sum(one.identical for one in self.libraries)


class _Root(msgspec.Struct, frozen=True):
    """A directory of a tree, with the prefixes that an installation lays over each other."""

    word: str
    path: Path
    prefixes: tuple[str, ...]

    def inside(self, path: str) -> str:
        """Where something in it is installed."""
        holding = [p for p in self.prefixes if p and path.startswith(f"{p}/")]
        longest = max(holding, key=len, default="")
        return path[len(longest) + 1 :] if longest else path


class _FatTree(msgspec.Struct):
    """One tree to be: its name, its parts, and what becomes of the libraries in them, by path."""

    name: str
    roots: list[_Root]
    plans: dict[Path, FatPlan] = msgspec.field(default_factory=dict)
    orphans: list[str] = msgspec.field(default_factory=list)

    def chosen(self, targets: Collection[str]) -> list[_Root]:
        """The parts for these targets (none: all)."""
        wanted = set(base_targets(targets))
        return [
            r for r in self.roots if r.word == GENERIC or not wanted or wanted.intersection(served(r.word))
        ]


def unsplit_tree(
    sources: Sequence[Path],
    dest: Path,
    *,
    targets: Collection[str] = (),
    dry_run: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> TreeUnsplit:
    """Write one tree with fat libraries for these targets (none: all that archives are at hand for).

    `sources` are directories with the parts of a split, taken together as `merge_trees` does, or one
    directory in which libraries and archives are installed. The first become `<dest>/fat` (a prefix) and
    `<dest>/<name>_<component>_fat`, and hold the databases of these targets' parts; the second becomes
    `<dest>/fat`, with every file but the archives. Links, modes and times stay.

    Each directory appears whole or not at all, and replaces an earlier one. With `dry_run` all is read and
    decided, and nothing written. Raises `InvalidInput` and its children where nothing is split, an archive is
    damaged, of another build, or missing for a library or a target; `UsageError` when a source would be
    overwritten; `NoSpace`.
    """
    trees = _trees(sources)
    require_apart(dest, [dest / tree.name for tree in trees], sources)
    choice = TargetChoice(targets)
    for tree in trees:
        _plan(tree, choice)
    if not any(tree.plans for tree in trees):
        raise not_split(printable(sources[0]), sources[0])
    choice.require_all(" ".join(printable(source) for source in sources))
    written: dict[str, Part] = {}
    libraries: list[LibraryUnsplit] = []
    for tree in trees:
        if dry_run:
            libraries += [told(plan, 0) for plan in tree.plans.values()]
            continue
        with whole_tree(dest / tree.name, tree.roots[0].path) as writer:
            libraries += _write(tree, writer, targets, note)
        written[tree.name] = writer.part
    orphans = tuple(path for tree in trees for path in tree.orphans)
    return TreeUnsplit(written, tuple(libraries), orphans)


def _trees(sources: Sequence[Path]) -> list[_FatTree]:
    for source in sources:
        if not source.is_dir():
            raise InvalidInput(
                f"{printable(source)} is not a directory",
                where=printable(source),
                next_step="name a directory that `rocwright kpack split` wrote",
            )
    if not all(map(_is_layout, sources)):
        if len(sources) > 1:
            raise UsageError(
                "several directories are given that are no parts of a split",
                next_step="set one after another back",
            )
        return [_installed(sources[0].resolve())]
    trees = []
    for lead, words in same_parts(sources).items():
        roots = [_Root(word, words[word][0], _prefixes(words[word][0])) for word in in_order(words)]
        trees.append(_FatTree(lead + WORD, roots))
    return trees


def _is_layout(source: Path) -> bool:
    """Whether a directory holds the parts of a split and nothing else."""
    entries = sorted(source.iterdir())
    return bool(entries) and all(
        path.is_dir() and (path.name == GENERIC or served(path.name) or is_artifact(path)) for path in entries
    )


def _installed(root: Path) -> _FatTree:
    lead = f"{read_artifact(root).stem}_" if is_artifact(root) else ""
    return _FatTree(lead + WORD, [_Root(GENERIC, root, _prefixes(root))])


def _prefixes(root: Path) -> tuple[str, ...]:
    return read_artifact(root).prefixes if is_artifact(root) else ("",)


# What becomes of each file.


def _plan(tree: _FatTree, choice: TargetChoice) -> None:
    archives = {inside: read_archive(open_path(node.source)) for inside, node in _archives(tree)}
    _require_one_build(tree)
    claimed: set[str] = set()
    for root, node in _libraries(tree):
        name = printable(node.path)
        split = read_split(name, open_path(node.source))
        if split is None:
            continue
        its = archives_among(root.inside(node.path), split.marker, archives)
        if not its:
            raise not_beside(name)
        tree.plans[node.source] = plan_fat(split, [archives[path] for path in its], choice)
        claimed.add(split.kernel)
    tree.orphans = [printable(path) for path, found in archives.items() if not _kernels(found) <= claimed]
    _require_named(tree, {path for path, found in archives.items() if any(map(choice.wants, found.targets))})


def _kernels(archive: Archive) -> set[str]:
    return {entry.kernel for entry in archive.entries}


def _archives(tree: _FatTree) -> Iterator[tuple[str, Node]]:
    """Where each archive is installed, by the place from which libraries look."""
    for root in tree.roots:
        for node in read_tree(root.path):
            if _is_archive(node) and not node.is_link:
                yield root.inside(node.path), node


def _is_archive(node: Node) -> bool:
    above, name = posixpath.split(node.path)
    return posixpath.basename(above) == DIRECTORY and name.endswith(SUFFIX) and not node.is_directory


def _libraries(tree: _FatTree) -> Iterator[tuple[_Root, Node]]:
    """What may be a library, each file under one of its names only."""
    seen: set[tuple[int, int]] = set()
    for root in tree.roots:
        for node in read_tree(root.path):
            if node.is_directory or node.is_link or _is_archive(node) or not node.facts.st_size:
                continue
            if node.identity is not None:
                if node.identity in seen:
                    continue
                seen.add(node.identity)
            yield root, node


def _require_one_build(tree: _FatTree) -> None:
    """Databases belong to no archive: each part says which build it is of."""
    said = [(node, origin) for root in tree.roots for node, origin in _origins(root)]
    hosts = {origin.group: origin.build for _, origin in said if not origin.part}
    for node, origin in said:
        own = hosts.get(origin.group, origin.build)
        if origin.build != own:
            raise InvalidInput(
                f"{printable(node.path)} is of build {origin.build[:12]}, the host files are of {own[:12]}",
                where=node.source,
                next_step="give the parts of one split",
            )


def _require_named(tree: _FatTree, wanted: Collection[str]) -> None:
    """Archives, by where they are installed, are those that their parts name."""
    said = [(root.inside(node.path), origin) for root in tree.roots for node, origin in _origins(root)]
    named = named_archives(said)
    for inside, node in _archives(tree):
        if inside in wanted and inside in named:
            unlike = unlike_named(sha256_file(node.source), named[inside])
            require_named(printable(node.path), node.source, unlike)


def _origins(root: _Root) -> Iterator[tuple[Node, SplitOrigin]]:
    for node in read_tree(root.path):
        if is_origin(node.path) and not node.is_link and (origin := origin_at(node.source)):
            yield node, origin


# Writing.


def _write(
    tree: _FatTree, writer: TreeWriter, targets: Collection[str], note: Callable[[str], None]
) -> Iterator[LibraryUnsplit]:
    roots = tree.chosen(targets)
    with_manifest = is_artifact(roots[0].path)
    for root in roots:
        gone = {node.path for node, _ in _origins(root)}
        for node in read_tree(root.path):
            if _is_archive(node) or node.path in gone or (with_manifest and node.path == MANIFEST):
                continue
            if node.is_directory and posixpath.basename(node.path) == DIRECTORY:
                continue  # made again where something else lies there
            plan = tree.plans.get(node.source)
            if plan is None:
                writer.copy(node)
                continue
            note(f"{plan.split.name}: {plan.objects} code objects")
            writer.write(node, plan.pieces())
            yield told(plan, prove_fat(plan, open_path(writer.root / node.path)))
    if with_manifest:
        writer.manifest(dict.fromkeys(prefix for root in roots for prefix in root.prefixes))
