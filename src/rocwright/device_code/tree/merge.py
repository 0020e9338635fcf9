"""Put split trees together again: parts of several builds in one layout, or one tree for a GPU family."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.binary.elf import is_elf, read_elf
from rocwright.device_code import fatbin
from rocwright.device_code.origin import (
    SplitOrigin,
    is_origin,
    limited,
    origin_at,
    pack_origin,
    united,
)
from rocwright.device_code.tree.names import (
    GENERIC,
    MANIFEST,
    in_order,
    is_artifact,
    printable,
    read_artifact,
    served,
    tables,
)
from rocwright.device_code.tree.tree import (
    Node,
    Part,
    Remark,
    TreeWriter,
    read_tree,
    require_apart,
    split_layout,
    whole_tree,
)
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import base_targets, expand
from rocwright.system.files import CHUNK

_MOST_NAMED = 10


class TreeMerge(msgspec.Struct, frozen=True):
    """What was written: directory name → what it holds.

    `absent` names, for a family's directory, targets that other artifacts have code for and this one has not.
    """

    parts: Mapping[str, Part]
    absent: tuple[Remark, ...] = ()


def merge_trees(
    sources: Sequence[Path],
    dest: Path,
    *,
    families: Mapping[str, Iterable[str]] | Iterable[str] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> TreeMerge:
    """Merge directories that `split_tree` wrote, each with parts of one or several artifacts or of a prefix.

    A part that several sources have, above all the generic one, must be the same in all: names, kinds,
    contents, modes, links. Without `families` the result has the split layout, with the parts of all.
    With families, a mapping to base targets or names out of the built-in table, each becomes one tree,
    `<dest>/<name>_<component>_<family>` or `<dest>/<family>`: the generic part and under it the parts of
    exactly these targets, groups that serve one of them included, chosen by directory.

    Every output directory appears whole or not at all. Raises `InvalidInput` when sources differ (naming the
    files, and where a library was not split), when a part has no generic one, when a file is in two parts,
    when no source has a family's target; `UsageError` when a source would be overwritten.
    """
    if not sources:
        raise UsageError("nothing to merge", next_step="give directories that a split wrote")
    parts = same_parts(sources)
    chosen = {lead: {word: roots[0] for word, roots in words.items()} for lead, words in parts.items()}
    hosts = {lead: _hosts(words) for lead, words in parts.items()}
    inputs = [root for words in parts.values() for roots in words.values() for root in roots]
    if families is None:
        return _combined(chosen, hosts, dest, inputs, note)
    members = _members(families)
    require_apart(dest, [dest / (lead + family) for lead in chosen for family in members], inputs)
    for family, targets in members.items():
        _require_present(family, targets, chosen)
    return _by_family(chosen, hosts, dest, members, note)


# Which parts there are. A lead (`rand_lib_`, empty for a prefix) and a word make the name of a directory.

_Parts = dict[str, dict[str, Path]]


def same_parts(sources: Sequence[Path]) -> dict[str, dict[str, list[Path]]]:
    """Lead → word → the directories of all sources with these, which hold the same.

    Raises `InvalidInput` for what is no part of a split tree, without a generic one, where sources differ.
    """
    parts = _gather([source.resolve() for source in sources])
    for lead, words in parts.items():
        for word, roots in words.items():
            _require_same(lead + word, roots)
    return parts


def _gather(sources: Sequence[Path]) -> dict[str, dict[str, list[Path]]]:
    """Lead → word → the directories of all sources with these."""
    found: dict[str, dict[str, list[Path]]] = {}
    for source in sources:
        for lead, word, root in _parts_of(source):
            found.setdefault(lead, {}).setdefault(word, []).append(root)
    for lead, words in found.items():
        if GENERIC not in words:
            raise InvalidInput(
                f"no source has {lead}{GENERIC}, only parts for {' '.join(in_order(words))}",
                next_step="give the generic part as well, from any of the builds",
            )
    return dict(sorted(found.items()))


def _parts_of(source: Path) -> list[tuple[str, str, Path]]:
    if not source.is_dir():
        raise InvalidInput(
            f"{printable(source)} is not a directory",
            where=printable(source),
            next_step="name a directory that `rocwright kpack split` wrote",
        )
    found = []
    for path in sorted(source.iterdir()):
        lead, word = "", path.name
        if path.is_dir() and is_artifact(path):
            artifact = read_artifact(path)
            lead, word = f"{artifact.stem}_", artifact.target
        if not path.is_dir() or not (word == GENERIC or served(word)):
            raise InvalidInput(
                f"{printable(path.name)} is not a part of a split tree",
                where=printable(source),
                next_step="give directories that a split wrote, with nothing else in them",
            )
        found.append((lead, word, path))
    if not found:
        raise InvalidInput(
            f"{printable(source)} is empty",
            where=printable(source),
            next_step="name a directory that `rocwright kpack split` wrote",
        )
    return found


def _members(families: Mapping[str, Iterable[str]] | Iterable[str]) -> dict[str, tuple[str, ...]]:
    if isinstance(families, Mapping):
        return {name: base_targets(targets) for name, targets in families.items()}
    table = tables().families.families
    return {name: expand([name], table) for name in families}


# Whether parts of several builds are the same.


def _require_same(name: str, roots: Sequence[Path]) -> None:
    first, *others = roots
    for other in others:
        differing = list(_differences(first, other))
        if differing:
            shown = differing[:_MOST_NAMED]
            shown += [f"and {len(differing) - _MOST_NAMED} more"] * (len(differing) > _MOST_NAMED)
            places = f"{printable(first.parent)} and {printable(other.parent)}"
            raise InvalidInput(
                "\n    ".join([f"{name} differs between {places}:", *shown]),
                next_step="split all builds with the same options and name, or leave one of them out",
            )


def _differences(first: Path, other: Path) -> Iterable[str]:
    """One line for each path that differs."""
    mine = {node.path: node for node in read_tree(first)}
    theirs = {node.path: node for node in read_tree(other)}
    links = _first_names(mine.values()), _first_names(theirs.values())
    for path in sorted(mine.keys() | theirs.keys()):
        if path not in mine or path not in theirs:
            yield f"{printable(path)}: only in {printable((first if path in mine else other).parent)}"
        elif reason := _difference(mine[path], theirs[path]):
            yield f"{printable(path)}: {reason}"
        elif links[0].get(path) != links[1].get(path):
            yield f"{printable(path)}: hard links differ"


def _first_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Path of each file with several names → the first of them in this tree."""
    first: dict[tuple[int, int], str] = {}
    return {n.path: first.setdefault(n.identity, n.path) for n in nodes if n.identity}


def _difference(mine: Node, theirs: Node) -> str | None:
    if (mine.is_directory, mine.is_link) != (theirs.is_directory, theirs.is_link):
        return "of another kind"
    if mine.is_link:
        return None if mine.link == theirs.link else "leads elsewhere"
    if mine.mode != theirs.mode:
        return f"mode {mine.mode:o} and {theirs.mode:o}"
    if mine.is_directory or _same_bytes(mine, theirs) or _same_origin(mine, theirs):
        return None
    whole = [node for node in (mine, theirs) if _is_fat(node)]
    if len(whole) == 1:
        place = str(whole[0].root.parent)
        return f"not split in {printable(place)}"
    return "other contents"


def _same_bytes(mine: Node, theirs: Node) -> bool:
    if mine.facts.st_size != theirs.facts.st_size:
        return False
    with mine.source.open("rb") as first, theirs.source.open("rb") as other:
        while piece := first.read(CHUNK):
            if piece != other.read(CHUNK):
                return False
    return True


def _same_origin(mine: Node, theirs: Node) -> bool:
    """Whether hosts of one build say that they were split into other targets."""
    one, other = _origin(mine), _origin(theirs)
    return (
        one is not None
        and other is not None
        and not one.part
        and united((one, other)) == united((other, one))
    )


def _origin(node: Node) -> SplitOrigin | None:
    """What a file beside archives says; None for any other, and for one that says nothing."""
    plain = is_origin(node.path) and not node.is_link and not node.is_directory
    return origin_at(node.source) if plain else None


def _hosts(words: Mapping[str, Sequence[Path]]) -> dict[str, SplitOrigin]:
    """Path of each file in the generic part that names targets → what all sources say together."""
    found: dict[str, list[SplitOrigin]] = {}
    parts: list[SplitOrigin] = []
    for root in (root for roots in words.values() for root in roots):
        for node in read_tree(root):
            origin = _origin(node)
            if origin is not None and origin.part:
                parts.append(origin)
            elif origin is not None:
                found.setdefault(node.path, []).append(origin)
    return {path: united((*hosts, *_parts_of_host(hosts[0], parts))) for path, hosts in found.items()}


def _parts_of_host(host: SplitOrigin, parts: Iterable[SplitOrigin]) -> Iterator[SplitOrigin]:
    """The parts of a host, whose sources may lack the generic one; `verify` tells strangers."""
    return (part for part in parts if (part.group, part.build) == (host.group, host.build))


def _copy(writer: TreeWriter, node: Node, origins: Mapping[str, SplitOrigin]) -> None:
    if node.path in origins:
        writer.write(node, [pack_origin(origins[node.path])])
    else:
        writer.copy(node)


def _is_fat(node: Node) -> bool:
    """Whether a library still has device code inside."""
    try:
        return is_elf(node.source) and fatbin.fat_section(read_elf(node.source)) is not None
    except InvalidInput:
        return False


# Writing.


_Hosts = Mapping[str, Mapping[str, SplitOrigin]]
"""Lead → what its generic part says, by path."""


def _combined(
    chosen: _Parts, hosts: _Hosts, dest: Path, inputs: Sequence[Path], note: Callable[[str], None]
) -> TreeMerge:
    written: dict[str, Part] = {}
    for lead, words in chosen.items():
        with split_layout(dest, lead, inputs) as outputs:
            for word in in_order(words):
                note(f"copying {lead}{word}")
                writer = outputs.writer(word)
                for node in read_tree(words[word]):
                    _copy(writer, node, hosts[lead] if word == GENERIC else {})
        written |= outputs.parts
    return TreeMerge(written)


def _by_family(
    chosen: _Parts,
    hosts: _Hosts,
    dest: Path,
    members: Mapping[str, tuple[str, ...]],
    note: Callable[[str], None],
) -> TreeMerge:
    written: dict[str, Part] = {}
    absent = []
    for lead, words in chosen.items():
        for family, targets in members.items():
            name = lead + family
            note(f"merging {name}")
            within = [w for w in in_order(words) if w == GENERIC or set(targets).intersection(served(w))]
            with whole_tree(dest / name, words[GENERIC]) as writer:
                origins = {path: limited(origin, within) for path, origin in hosts[lead].items()}
                _overlay(writer, [words[word] for word in within], origins, with_manifest=bool(lead))
            written[name] = writer.part
            lacking = [target for target in targets if not _has(words, target)]
            if lacking and len(words) > 1:
                absent.append(Remark(name, "no device code for " + " ".join(lacking)))
    return TreeMerge(written, tuple(absent))


def _overlay(
    writer: TreeWriter, roots: Sequence[Path], origins: Mapping[str, SplitOrigin], *, with_manifest: bool
) -> None:
    for root in roots:
        for node in read_tree(root):
            if not (with_manifest and node.path == MANIFEST):
                _copy(writer, node, origins)
    if with_manifest:
        writer.manifest(dict.fromkeys(p for root in roots for p in read_artifact(root).prefixes))


def _has(words: Iterable[str], target: str) -> bool:
    """Whether there is a part for the target.

    A group counts when none of its members has a part of its own: then the tree has files for groups only.
    """
    own = set(words)
    return target in own or any(
        target in served(word) and not own.intersection(served(word)) for word in own - {target}
    )


def _require_present(family: str, targets: Sequence[str], chosen: _Parts) -> None:
    lacking = [target for target in targets if not any(_has(words, target) for words in chosen.values())]
    if lacking:
        there = in_order({word for words in chosen.values() for word in words} - {GENERIC})
        raise InvalidInput(
            f"family {family} needs {' '.join(lacking)}, which no source has a part for",
            next_step=f"there are: {' '.join(there) or 'none'}; add the missing build, or merge without it",
        )
