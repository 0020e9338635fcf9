"""The payload of rocm-sdk-devel: what no runtime package has, and how to bring the original layout back.

The archive holds only real files; links and the files that a runtime package ships are entries of the
manifest, made on first use (format: runtime/README.md). So nothing is shipped twice. The archive is never
written to disk: its headers are in memory, file contents are read where they lie.
"""

from __future__ import annotations

import hashlib
import tarfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec

from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.sdk.intake.tree import Link, RocmTree
from rocwright.sdk.links import relative_link
from rocwright.sdk.plan.runtime import RuntimePlan, Shipped, programs_of
from rocwright.system.files import CHUNK
from rocwright.system.parallel import in_order
from rocwright.wheel.source import BytesSource, FileSource, Source

_THREADS = 2  # reading and hashing; more wait for the disk

# Stands for the libraries package in use, whichever family it is of.
LIBRARIES = "@libraries@"


class DevelPayload(msgspec.Struct, frozen=True):
    """`archive` becomes `_devel.tar`, `manifest` `_devel.json`; `files` are what the archive holds.

    `paths` are all of the expanded tree, `programs` those of them that can be started and that no runtime
    package has, links included.
    """

    archive: TarSource
    manifest: bytes
    files: tuple[Shipped, ...]
    paths: tuple[str, ...]
    programs: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def plan_devel(tree: RocmTree, runtime: RuntimePlan, modules: Mapping[str, str]) -> DevelPayload:
    """Decide the devel tree. Reads the files that only devel ships, for their sha256.

    The tree has every path of the ROCm that was read; where the runtime ships a library under another name
    (its SONAME), that name is a sibling and the names of the tree are links to it. What device packages
    bring is linked as directories where these hold nothing else, so that it comes and goes with them.
    """
    places = {package: module for package, module in modules.items() if package != "libraries"}
    # A split ROCm has one libraries package, whatever the GPU.
    places["libraries"] = modules["libraries"] if tree.split else LIBRARIES
    plan = _Entries(places)
    for path in sorted(tree.host.files):
        shipped = runtime.home.get(path)
        if shipped is None:
            there = tree.host.files[path]
            source = runtime.rest.get(path) or FileSource(there.place)
            plan.files.append(Shipped("devel", path, source, there.executable, path, there.artifact))
        elif shipped.package != "profiler":
            plan.sibling(path, shipped)
    for file, digest in zip(plan.files, _digests(plan.files), strict=True):
        plan.entries[file.path] = ("file", digest)
    for file in runtime.of("libraries"):
        if file.origin is not None and file.origin not in tree.host.files:
            plan.sibling(file.path, file)  # several targets have it alike
    home = dict(runtime.home)
    if not tree.split:
        home.update(plan.families(runtime))
        for layer in tree.parts.values():
            plan.links(layer.links, tree.host.files, home)
    plan.links(tree.host.links, tree.host.files, home)
    if tree.split:
        plan.overlays({file.path for files in runtime.parts.values() for file in files})
    rows = [[path, kind, value] for path, (kind, value) in sorted(plan.entries.items())]
    manifest = msgspec.json.encode({"files": len(rows), "entries": rows}) + b"\n"
    archive = TarSource(TarEntry(file.path, file.source, file.executable) for file in plan.files)
    programs = programs_of(plan.files)
    programs += [
        path
        for path, link in tree.host.links.items()
        if link.kind == "file" and link.target not in runtime.home and tree.host.files[link.target].executable
    ]
    return DevelPayload(
        archive=archive,
        manifest=manifest,
        files=tuple(plan.files),
        paths=tuple(plan.entries),
        programs=tuple(programs),
        left_out=tuple(plan.left_out),
    )


def _digests(files: Sequence[Shipped]) -> Iterable[str]:
    """sha256 of what is shipped, in hex."""
    jobs = ((file.source, 0) for file in files)
    return in_order(_sha256, jobs, threads=_THREADS, window=1)


def _sha256(source: Source) -> str:
    digest = hashlib.sha256()
    for offset in range(0, source.size, CHUNK):
        digest.update(source.read_at(offset, CHUNK))
    return digest.hexdigest()


class _Entries(msgspec.Struct):
    """Entries of the manifest so far: path to (kind, value)."""

    places: Mapping[str, str]
    entries: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    files: list[Shipped] = msgspec.field(default_factory=list)
    left_out: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def _value(self, package: str, path: str) -> str:
        return f"../{self.places[package]}/{path}"

    def sibling(self, path: str, shipped: Shipped) -> None:
        """A runtime package's file under the name it is shipped by, and its name in the tree."""
        self.entries[shipped.path] = ("sibling", self._value(shipped.package, shipped.path))
        if shipped.path != path:
            self.entries[path] = ("link", relative_link(path, shipped.path))

    def links(
        self, links: Mapping[str, Link], files: Mapping[str, object], home: Mapping[str, Shipped]
    ) -> None:
        """The links of a layer, led to where their targets are now."""
        for path, link in sorted(links.items()):
            if link.kind == "dangling":
                self.left_out.append((path, f"leads nowhere: {link.text}"))
            elif link.kind == "file" and link.target not in home and link.target not in files:
                self.left_out.append((path, f"leads to {link.target}, which not every family has"))
            elif path not in self.entries and not self._is_profilers(link, home):
                shipped = home.get(link.target)
                target = shipped.path if shipped is not None else link.target
                kind = "dirlink" if link.kind == "directory" else "link"
                self.entries[path] = (kind, relative_link(path, target))

    @staticmethod
    def _is_profilers(link: Link, home: Mapping[str, Shipped]) -> bool:
        """The profiler is no development file; its package may be absent where devel is installed."""
        inside = f"{link.target}/"
        shipped = [home.get(link.target)]
        if link.kind == "directory":
            shipped = [file for path, file in home.items() if path.startswith(inside)]
        return any(file is not None and file.package == "profiler" for file in shipped)

    def families(self, runtime: RuntimePlan) -> dict[str, Shipped]:
        """What the libraries packages of the families have: those of all as siblings, others as overlays.

        Returns the files that all have, by their path in the tree.
        """
        paths = [{file.path: file for file in files} for files in runtime.parts.values()]
        every = set.intersection(*(set(files) for files in paths)) if paths else set()
        common: dict[str, Shipped] = {}
        for files in paths:
            for path, file in files.items():
                value = self._value("libraries", path)
                self._claim(path, ("sibling" if path in every else "overlay", value))
                if path in every and file.origin is not None:
                    common[file.origin] = file
                    if file.origin != path:
                        self._claim(file.origin, ("link", relative_link(file.origin, path)))
        return common

    def _claim(self, path: str, entry: tuple[str, str]) -> None:
        if self.entries.setdefault(path, entry) != entry:
            raise _claimed_twice(path)

    def overlays(self, paths: Iterable[str]) -> None:
        """What device packages bring: whole directories where only the libraries package has anything."""
        foreign = {
            parent
            for path, entry in self.entries.items()
            if entry != ("sibling", self._value("libraries", path))
            for parent in _parents(path)
        }
        directories: set[str] = set()
        for path in sorted(paths):
            if path in self.entries:
                raise _claimed_twice(path)
            found = next((parent for parent in _parents(path) if parent not in foreign), path)
            if found != path:
                directories.add(found)
        inside = [path for path in self.entries if not directories.isdisjoint(_parents(path))]
        for path in inside:
            del self.entries[path]
        single = (path for path in paths if directories.isdisjoint(_parents(path)))
        for path in (*directories, *single):
            self.entries[path] = ("overlay", self._value("libraries", path))


def _claimed_twice(path: str) -> InvalidPrefix:
    return InvalidPrefix(
        f"{path} is in what all GPUs share and, with other content, in what some GPUs need",
        next_step="only one of them can be installed; this is a bug in the build of ROCm",
    )


def _parents(path: str) -> Iterator[str]:
    """The directories above a path, the outermost first."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


# -- The archive


_BLOCK = 512


class TarEntry(msgspec.Struct, frozen=True):
    """One entry: a file with content, or (with `link`) a symbolic link. `name` is relative, with `/`."""

    name: str
    source: Source | None = None
    executable: bool = False
    link: str | None = None


class TarSource:
    """An uncompressed tar (PAX format, no owners, no times) as a `wheel.Source`.

    The same entries give the same bytes on every machine.
    """

    def __init__(self, entries: Iterable[TarEntry]) -> None:
        pieces: list[Source] = []
        for entry in entries:
            pieces.append(BytesSource(_header(entry)))
            if entry.source is not None:
                pieces.append(entry.source)
                padding = -entry.source.size % _BLOCK
                if padding:
                    pieces.append(BytesSource(b"\0" * padding))
        pieces.append(BytesSource(b"\0" * (2 * _BLOCK)))
        self._pieces = pieces
        self._starts = [0, *accumulate(piece.size for piece in pieces)]

    @property
    def size(self) -> int:
        """Bytes of the archive."""
        return self._starts[-1]

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        end = min(offset + length, self.size)
        number = bisect_right(self._starts, offset) - 1
        parts: list[bytes] = []
        while offset < end:
            start = self._starts[number]
            wanted = min(end, self._starts[number + 1]) - offset
            piece = self._pieces[number].read_at(offset - start, wanted)
            if len(piece) != wanted:
                raise InvalidInput(
                    f"a file became shorter while it was packed: {self._pieces[number]}",
                    next_step="nothing else may write into the prefix meanwhile; run again",
                )
            parts.append(piece)
            offset += wanted
            number += 1
        return b"".join(parts)


def _header(entry: TarEntry) -> bytes:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o755 if entry.executable else 0o644
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    elif entry.source is not None:
        info.size = entry.source.size
    return info.tobuf(tarfile.PAX_FORMAT)
