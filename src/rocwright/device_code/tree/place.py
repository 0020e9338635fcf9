"""Decide where each path of a tree goes when it is split: to all GPUs, or to those of one target."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rocwright.binary.view import mapped
from rocwright.device_code.kpack import DIRECTORY, SUFFIX, read_archive
from rocwright.device_code.origin import is_origin, origin_at
from rocwright.device_code.tree.names import (
    GENERIC,
    MANIFEST,
    Artifact,
    is_artifact,
    printable,
    read_artifact,
    served,
    tables,
)
from rocwright.device_code.tree.tree import Node, read_tree
from rocwright.model.device_files import DeviceFile, Unplaced, classify
from rocwright.model.gpu import InvalidTarget, base_targets

_UNSAFE = re.compile(r"[^0-9A-Za-z.+-]+")


class Input(msgspec.Struct, frozen=True):
    """A tree to split, and the prefixes in it that an installation lays over each other."""

    root: Path
    prefixes: tuple[str, ...]


class Group(msgspec.Struct, frozen=True):
    """Trees that become one set of directories, called `<lead><word>`; `name` begins its archives."""

    name: str
    lead: str
    inputs: tuple[Input, ...]


def find_artifacts(source: Path) -> tuple[list[Artifact], tuple[str, ...]]:
    """The artifacts that a directory is or holds, and its other entries; nothing for a prefix."""
    if is_artifact(source):
        return [read_artifact(source)], ()
    entries = sorted(source.iterdir())
    chosen = [path for path in entries if path.is_dir() and is_artifact(path)]
    return [read_artifact(p) for p in chosen], tuple(printable(p.name) for p in entries if p not in chosen)


def grouped(artifacts: Sequence[Artifact]) -> list[Group]:
    """One group for each name and component; its parts (generic, a family, targets) are split together."""
    inputs: dict[str, list[Input]] = {}
    for artifact in artifacts:
        inputs.setdefault(artifact.stem, []).append(Input(artifact.root, artifact.prefixes))
    return [Group(stem, f"{stem}_", tuple(items)) for stem, items in sorted(inputs.items())]


def safe_name(name: str) -> str:
    """A name that archives can begin with: no separators, and no `@`, which the runtime expands."""
    return _UNSAFE.sub("-", name).strip("-.") or "rocm"


class Placed(msgspec.Struct, frozen=True):
    """A node, the prefix it lies in (None: in none), the word of its directory, and why it got none."""

    node: Node
    prefix: str | None
    word: str
    unplaced: str | None = None

    @property
    def inside(self) -> str:
        """Its path from the prefix."""
        return self.node.path[len(self.prefix) + 1 :] if self.prefix else self.node.path


def place_all(group: Group) -> list[Placed]:
    """Everything in the inputs, with its place; raises `InvalidInput` for what cannot be read."""
    return [_place(node, item) for item in group.inputs for node in _kept_nodes(item)]


def _kept_nodes(item: Input) -> Iterator[Node]:
    """Files, links, empty directories and prefixes; other directories come with what they hold."""
    nodes = read_tree(item.root)
    # A directory stands before its contents.
    for node, following in zip(nodes, [*nodes[1:], None], strict=True):
        empty = following is None or not following.path.startswith(node.path + "/")
        if node.is_directory and not empty and node.path not in item.prefixes:
            continue
        if node.path != MANIFEST or item.prefixes == ("",):
            yield node


def _place(node: Node, item: Input) -> Placed:
    holding = [p for p in item.prefixes if not p or node.path.startswith(p + "/")]
    prefix = max(holding, key=len, default=None)
    placed = Placed(node, prefix, GENERIC)
    if prefix is None or node.is_directory:
        return placed
    above, _, name = placed.inside.rpartition("/")
    if above.rpartition("/")[2] == DIRECTORY and name.endswith(SUFFIX) and not node.is_link:
        word = _archived(node)
        told = {"word": word} if word else {"unplaced": "serves no single target"}
        return msgspec.structs.replace(placed, **told)
    if is_origin(placed.inside) and not node.is_link:
        return msgspec.structs.replace(placed, word=_part(node))
    found = classify(placed.inside, tables().device_files, tables().targets)
    if isinstance(found, Unplaced):
        return msgspec.structs.replace(placed, unplaced=f"{found.word} {found.reason}")
    return msgspec.structs.replace(placed, word=_word(found)) if found else placed


def _word(found: DeviceFile) -> str:
    word = found.target or found.group
    assert word is not None  # one of the two is set
    return word


def _archived(node: Node) -> str | None:
    """The base target of an archive from an earlier split, None if it has several or unknown ones."""
    with mapped(node.source) as file:
        try:
            bases = base_targets(read_archive(file).targets)
        except InvalidTarget:
            return None
    return bases[0] if len(bases) == 1 else None


def _part(node: Node) -> str:
    """The part that says with this file what it is of; the generic one for any other file."""
    origin = origin_at(node.source)
    return origin.part if origin is not None and served(origin.part) else GENERIC


def kernel_name(path: str) -> str:
    """A path as the name of a library in archives: text, and without what readers change (`\\` to `/`)."""

    def escape(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in os.fsencode(match[0]))

    return re.sub(r"[\\%\udc80-\udcff]", escape, path)
