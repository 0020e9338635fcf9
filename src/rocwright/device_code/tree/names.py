"""How directories of split device code are called, and which GPU targets each of them serves."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.errors import InvalidInput
from rocwright.model.device_files import DeviceFiles, known_targets
from rocwright.model.gpu import Families, InvalidTarget, base_targets, parse_target

GENERIC = "generic"
MANIFEST = "artifact_manifest.txt"


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text; bytes that are no UTF-8 appear as `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class Tables(msgspec.Struct, frozen=True):
    """The facts that tell device files and their targets."""

    device_files: DeviceFiles
    families: Families
    targets: frozenset[str]


@functools.cache
def tables() -> Tables:
    """The built-in tables."""
    files, families = load_table("device_files", DeviceFiles), load_table("families", Families)
    return Tables(files, families, known_targets(files, families))


@functools.cache
def served(word: str) -> tuple[str, ...]:
    """The base targets that a directory `<word>` or `..._<word>` serves: one, a group's members, or none."""
    try:
        target = parse_target(word)
    except InvalidTarget:
        return _members(word)
    return () if target.features or target.base != word else (word,)


def package_of(word: str) -> str:
    """The target whose device package has the code of this base target, mostly itself; a group as it is."""
    return tables().families.owners.get(word, word)


def packages_of(targets: Iterable[str]) -> tuple[str, ...]:
    """The targets whose device packages have the code of these, features dropped, in the hardware's order."""
    return base_targets(map(package_of, base_targets(targets)))


def also_runs(word: str) -> tuple[str, ...]:
    """The base targets on whose GPUs code for `<word>` runs besides: those of a generic target."""
    return tables().families.generic.get(word, ())


def _members(word: str) -> tuple[str, ...]:
    known = tables()
    wildcards = {name: wildcard for wildcard, name in known.device_files.group_names.items()}
    # An x behind a digit stands for one hexadecimal digit; the one in front of all digits is the name's own.
    text = re.escape(wildcards.get(word, word))
    pattern = re.sub(r"(?<=[0-9x])x", "[0-9a-f]", text)
    if pattern == text:
        return ()
    return base_targets(target for target in known.targets if re.fullmatch(pattern, target))


class Artifact(msgspec.Struct, frozen=True):
    """An artifact directory `<name>_<component>_<target>`; `stem` is the name and component."""

    root: Path
    stem: str
    target: str
    prefixes: tuple[str, ...]


def is_artifact(path: Path) -> bool:
    """Whether a directory is an artifact: it has a manifest."""
    return (path / MANIFEST).is_file()


def read_artifact(root: Path) -> Artifact:
    """Name and manifest of an artifact directory; raises `InvalidInput` naming what is wrong with them."""
    name, _, rest = root.name.partition("_")
    component, _, target = rest.partition("_")
    if not (name and component and target):
        raise InvalidInput(
            f"{printable(root.name)} is not an artifact name",
            where=root,
            next_step="call the directory <name>_<component>_<target>, such as rand_lib_generic",
        )
    text = os.fsdecode((root / MANIFEST).read_bytes())
    if text and not text.endswith("\n"):
        raise InvalidInput(
            f"{MANIFEST} of {printable(root.name)} is cut off: its last line does not end",
            where=root / MANIFEST,
            next_step="fetch the artifact again",
        )
    lines = text.splitlines()
    prefixes = tuple(dict.fromkeys(line.strip().rstrip("/") for line in lines if line.strip()))
    for prefix in prefixes:
        if prefix.startswith("/") or any(part in ("", ".", "..") for part in prefix.split("/")):
            raise InvalidInput(
                f"{MANIFEST} names {printable(prefix)!r}, which is not a plain relative directory",
                where=root / MANIFEST,
            )
    return Artifact(root, f"{name}_{component}", target, prefixes)


def manifest(prefixes: Iterable[str]) -> bytes:
    """The text of a manifest."""
    return b"".join(os.fsencode(prefix) + b"\n" for prefix in prefixes)


def in_order(words: Iterable[str]) -> list[str]:
    """The generic word first, then targets in the hardware's order, a group beside its first member."""
    found = list(words)
    hardware = base_targets(target for word in found for target in served(word)[:1])

    def place(word: str) -> tuple[int, str]:
        return (hardware.index(served(word)[0]) if served(word) else -1, word)

    return sorted(found, key=place)
