"""The forms in which a ROCm comes, each with how it is read: a tree (as it is, or the directories into which
its device code was split), artifacts, archives, a tarball, Debian packages.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rocwright.data.overlay import Overlay
from rocwright.device_code.tree.names import GENERIC, served
from rocwright.device_code.tree.place import Group, Input, place_all
from rocwright.errors import InvalidInput, InvalidPrefix, UsageError
from rocwright.sdk.intake.archives import TARBALLS, find_archives, unpack_artifacts, unpack_installation
from rocwright.sdk.intake.artifacts import has_artifacts, read_artifacts
from rocwright.sdk.intake.deb_import import holds_packages, unpack_packages
from rocwright.sdk.intake.tree import (
    GatheredTree,
    Layer,
    RocmTree,
    device_code,
    is_windows,
    readable,
    rocm_version,
)
from rocwright.sdk.table import package_table
from rocwright.system.files import make_directory, remove_tree, rocm_root

# Where archives are unpacked; a killed run's is replaced by the next one.
_UNPACKED = ".rocwright-unpacked"
_LOG = ".rocwright-unpacked.log"


class Reading(msgspec.Struct, frozen=True):
    """How a ROCm is read.

    `version` overrides what it says of itself, `without` are packages that will not be made of it, `overlay`
    may tell of further distributions; archives are unpacked `threads` at once, below `scratch`.
    """

    scratch: Path
    version: str | None = None
    without: tuple[str, ...] = ()
    overlay: Overlay | None = None
    threads: int = 2

    @contextmanager
    def place(self) -> Iterator[Path]:
        """Where to unpack to; nothing of it stays, and what a killed run left is replaced."""
        place = self.scratch / _UNPACKED
        make_directory(self.scratch)
        try:
            yield place
        finally:
            remove_tree(place)
            (self.scratch / _LOG).unlink(missing_ok=True)
            with suppress(OSError):
                self.scratch.rmdir()  # unless something was made in it


@dataclass(frozen=True)
class Form(ABC):
    """A ROCm as somebody gives it: files and directories of one kind."""

    paths: tuple[Path, ...]

    @abstractmethod
    def read(self, how: Reading) -> Iterator[RocmTree]:
        """Yield the one ROCm that it is; what had to be unpacked is removed when the generator ends."""

    @contextmanager
    def opened(self, how: Reading) -> Iterator[RocmTree]:
        """The ROCm, for as long as it is open; raises as its reader."""
        yield from self.read(how)


class _Prefix(Form):
    def read(self, how: Reading) -> Iterator[RocmTree]:
        yield read_prefix(self.paths[0], version=how.version)


class _Artifacts(Form):
    def read(self, how: Reading) -> Iterator[RocmTree]:
        yield read_artifacts(self.paths[0], package_table(), version=how.version, without=how.without)


class _Archives(Form):
    def read(self, how: Reading) -> Iterator[RocmTree]:
        with how.place() as place:
            unpack_artifacts(self.paths, place, threads=how.threads)
            yield from _Artifacts((place,)).read(how)


class _Tarball(Form):
    def read(self, how: Reading) -> Iterator[RocmTree]:
        with how.place() as place:
            yield read_prefix(unpack_installation(self.paths[0], place), version=how.version)


class _Packages(Form):
    def read(self, how: Reading) -> Iterator[RocmTree]:
        with how.place() as place:
            log = how.scratch / _LOG
            made = unpack_packages(self.paths[0], place, log=log, threads=how.threads, overlay=how.overlay)
            left_out = [(name, "not a ROCm package") for name in made.left_out]
            left_out += [
                (name, f"a package of {made.origin}'s ROCm that is not there") for name in made.missing
            ]
            yield msgspec.structs.replace(read_prefix(place, version=how.version), left_out=tuple(left_out))


def form_of(paths: Sequence[Path]) -> Form:
    """What these are: a directory of any form, a tarball of an installation, or archives of artifacts.

    Raises `UsageError` for none, and for several that are not all archives.
    """
    given = tuple(paths)
    if not given:
        raise UsageError("there is no ROCm to package", next_step="name its directory")
    if len(given) == 1 and has_artifacts(given[0]):
        return _Artifacts(given)
    if all(_holds_archives(path) for path in given):
        return _Archives(given)
    if len(given) > 1:
        raise UsageError(
            "several inputs must all be archives of artifacts",
            next_step="name one ROCm installation, one directory of artifacts, or archives",
        )
    if given[0].name.endswith(TARBALLS) and given[0].is_file():
        return _Tarball(given)
    return _Packages(given) if holds_packages(given[0]) else _Prefix(given)


def artifacts_in(directory: Path) -> Form:
    """Artifacts, as directories or archives; raises `InvalidInput` where the directory holds none."""
    if has_artifacts(directory):
        return _Artifacts((directory,))
    find_archives([directory])  # says what is wrong with it
    return _Archives((directory,))


def _holds_archives(path: Path) -> bool:
    try:
        find_archives([path])
    except InvalidInput:
        return False
    return True


# -- An installation as it is, split or not


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
            f"{root} is not a directory", where=root, next_step="give the root of a ROCm installation"
        )
    root = rocm_root(root).resolve()
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
        f"{root} is not a ROCm installation: it has no lib/libamdhip64.so*",
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
