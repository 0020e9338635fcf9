"""Read an installed ROCm: a prefix as it is, or the directories into which its device code was split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rocwright.device_code.tree.names import GENERIC, served
from rocwright.device_code.tree.place import Group, Input, place_all
from rocwright.errors import InvalidPrefix
from rocwright.sdk.intake.tree import (
    GatheredTree,
    Layer,
    RocmTree,
    device_code,
    is_windows,
    readable,
    rocm_version,
)


def is_split_prefix(root: Path) -> bool:
    """Whether a directory is what splitting a prefix made: `generic` and a directory for each target."""
    return (root / GENERIC).is_dir() and not (root / "lib").exists() and bool(_targets_in(root))


def read_prefix(root: Path, *, version: str | None = None) -> RocmTree:
    """Read the installation at `root`, split or not; headers and names only, no file is read whole.

    `version` overrides what the prefix says of itself (`.info/version`, else `hip_version.h`). Raises
    `InvalidPrefix` for a directory that holds no HIP runtime, has no version, or cannot be read.
    """
    if not root.is_dir():
        raise InvalidPrefix(
            f"{root} is no directory", where=root, next_step="give the root of a ROCm installation"
        )
    root = root.resolve()
    with readable(root):
        if is_split_prefix(root):
            host, parts = _layer(root / GENERIC), {word: _layer(root / word) for word in _targets_in(root)}
            left_out = _others(root)
        else:
            host, parts, left_out = _layer(root), {}, ()
            if any(host.is_split(path) for path in host.elves):
                host, parts = _by_target(root)
        _require_hip(root, host.files)
        return RocmTree(
            root=root,
            version=version or _version(root, host),
            host=host,
            parts=parts,
            split=bool(parts),
            owners=None,
            code=device_code(host),
            left_out=left_out,
        )


def _by_target(root: Path) -> tuple[Layer, dict[str, Layer]]:
    """A tree into which split libraries, archives and device files were installed together."""
    found: dict[str, GatheredTree] = {}
    for item in place_all(Group("rocm", "", (Input(root, ("",)),))):
        if not item.node.is_directory:
            word = item.word if item.word == GENERIC or served(item.word) else GENERIC
            found.setdefault(word, GatheredTree.empty()).put(item.node.source, item.node.path, None)
    host = found.pop(GENERIC)
    return host.layer(), {word: part.layer(beside=host.files) for word, part in sorted(found.items())}


def _layer(root: Path) -> Layer:
    gathered = GatheredTree.empty()
    gathered.add(root)
    return gathered.layer()


def _targets_in(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and served(entry.name))


def _others(root: Path) -> tuple[tuple[str, str], ...]:
    known = {GENERIC, *_targets_in(root)}
    return tuple(
        (entry.name, "neither the generic directory nor that of a target")
        for entry in sorted(root.iterdir())
        if entry.name not in known
    )


def _require_hip(root: Path, files: Mapping[str, object]) -> None:
    if is_windows(files) or _has_hip(files):
        return
    raise InvalidPrefix(
        f"{root} is no ROCm installation: it has no lib/libamdhip64.so*",
        where=root,
        next_step="give the directory that holds bin/, include/ and lib/ of a ROCm, such as /opt/rocm",
    )


def _has_hip(paths: Iterable[str]) -> bool:
    return any(re.fullmatch(r"lib(64)?/(x86_64-linux-gnu/)?libamdhip64\.so.*", path) for path in paths)


def _version(root: Path, host: Layer) -> str:
    found = rocm_version(host.files)
    if found is None:
        raise InvalidPrefix(
            "the prefix does not say its version (.info/version, include/hip/hip_version.h)",
            where=root,
            next_step="give it with --version",
        )
    return found
