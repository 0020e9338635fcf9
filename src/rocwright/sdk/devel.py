"""The payload of rocm-sdk-devel: what no runtime package has, and how to bring the original layout back.

The archive holds only real files; links and the files that a runtime package ships are entries of the
manifest, made on first use (format: runtime/README.md). So nothing is shipped twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import msgspec

from rocwright.errors import InvalidPrefix
from rocwright.sdk.links import relative_link
from rocwright.sdk.plan import RuntimePlan, Shipped, programs_of
from rocwright.sdk.tar_source import TarEntry, TarSource
from rocwright.sdk.tree import Link, RocmTree
from rocwright.system.files import sha256_file
from rocwright.wheel.source import FileSource

# Stands for the libraries package in use, whichever family it is of.
LIBRARIES = "@libraries@"


@dataclass(frozen=True)
class DevelPayload:
    """`archive` becomes `_devel.tar`, `manifest` `_devel.json`; `files` are what the archive holds.

    `programs` are paths that can be started and that no runtime package has, links included.
    """

    archive: TarSource
    manifest: bytes
    files: tuple[Shipped, ...]
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
            place = tree.host.files[path]
            source = FileSource(place.place)
            plan.files.append(Shipped("devel", path, source, place.executable, path, place.artifact))
            plan.entries[path] = ("file", sha256_file(place.place))
        elif shipped.package != "profiler":
            plan.sibling(path, shipped)
    for file in runtime.of("libraries"):
        if file.origin is not None and file.origin not in tree.host.files:
            plan.sibling(file.path, file)  # several targets have it alike
    plan.links(tree.host.links, runtime.home)
    if tree.split:
        plan.overlays({file.path for files in runtime.parts.values() for file in files})
    else:
        plan.families(tree, runtime)
    rows = [[path, kind, value] for path, (kind, value) in sorted(plan.entries.items())]
    manifest = msgspec.json.encode({"files": len(rows), "entries": rows}) + b"\n"
    archive = TarSource(TarEntry(file.path, file.source, file.executable) for file in plan.files)
    programs = programs_of(plan.files)
    programs += [
        path
        for path, link in tree.host.links.items()
        if link.kind == "file" and link.target not in runtime.home and tree.host.files[link.target].executable
    ]
    return DevelPayload(archive, manifest, tuple(plan.files), tuple(programs), tuple(plan.left_out))


@dataclass
class _Entries:
    """Entries of the manifest so far: path to (kind, value)."""

    places: Mapping[str, str]
    entries: dict[str, tuple[str, str]] = field(default_factory=dict)
    files: list[Shipped] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def _value(self, package: str, path: str) -> str:
        return f"../{self.places[package]}/{path}"

    def sibling(self, path: str, shipped: Shipped) -> None:
        """A runtime package's file under the name it is shipped by, and its name in the tree."""
        self.entries[shipped.path] = ("sibling", self._value(shipped.package, shipped.path))
        if shipped.path != path:
            self.entries[path] = ("link", relative_link(path, shipped.path))

    def links(self, links: Mapping[str, Link], home: Mapping[str, Shipped]) -> None:
        """The links of a layer, led to where their targets are now."""
        for path, link in sorted(links.items()):
            if link.kind == "dangling":
                self.left_out.append((path, f"leads nowhere: {link.text}"))
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

    def families(self, tree: RocmTree, runtime: RuntimePlan) -> None:
        """What the libraries packages of the families have: those of all as siblings, others as overlays."""
        paths = [{file.path: file for file in files} for files in runtime.parts.values()]
        every = set.intersection(*(set(files) for files in paths)) if paths else set()
        for files in paths:
            for path, file in files.items():
                kind = "sibling" if path in every else "overlay"
                self.entries.setdefault(path, (kind, self._value("libraries", path)))
                origin = file.origin
                if kind == "sibling" and origin is not None and origin != path:
                    self.entries.setdefault(origin, ("link", relative_link(origin, path)))
        for word, layer in tree.parts.items():
            home = {file.origin: file for file in runtime.parts[word] if file.origin is not None}
            usable = {path: link for path, link in layer.links.items() if self._is_common(link, home, every)}
            self.links(usable, home)

    @staticmethod
    def _is_common(link: Link, home: Mapping[str, Shipped], every: set[str]) -> bool:
        return link.kind == "file" and link.target in home and home[link.target].path in every

    def overlays(self, paths: Iterable[str]) -> None:
        """What device packages bring: whole directories where only the libraries package has anything."""
        directories: set[str] = set()
        for path in sorted(paths):
            if any(parent in directories for parent in _parents(path)):
                continue
            if path in self.entries:
                raise InvalidPrefix(
                    f"{path} is a device file and also one for all GPUs",
                    next_step="only one of them can be installed; this is a fault of the build of ROCm",
                )
            found = next((parent for parent in _parents(path) if self._is_theirs(parent)), path)
            if found != path:
                directories.add(found)
                for inside in [entry for entry in self.entries if entry.startswith(f"{found}/")]:
                    del self.entries[inside]
            self.entries[found] = ("overlay", self._value("libraries", found))

    def _is_theirs(self, directory: str) -> bool:
        """Whether everything below a directory of the tree is the libraries package's, at the same place."""
        below = {path: entry for path, entry in self.entries.items() if path.startswith(f"{directory}/")}
        return all(entry == ("sibling", self._value("libraries", path)) for path, entry in below.items())


def _parents(path: str) -> Iterator[str]:
    """The directories above a path, the outermost first."""
    yield from (str(parent) for parent in reversed(PurePosixPath(path).parents) if parent.name)
