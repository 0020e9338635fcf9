"""Decide the Python packages of a ROCm: pure, from what was read to what will be written.

Runtime packages hold no symbolic links: a shared library is shipped once, under its SONAME, and again by
names without a version where the table asks for them; where another library opens it by such a name, a small
one of that name leads to it; a link to a program becomes a native launcher; a link
to a data file a copy; a link to a directory is left out. The devel package brings the original layout back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from rocwright.binary.elf import Elf
from rocwright.binary.elf_edits import plan_rpath
from rocwright.binary.patch import PatchedFile
from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.sdk.intake.tree import Layer, RocmTree, TreeFile, same_content
from rocwright.sdk.links import Providers, relative_link, rpath_entries
from rocwright.sdk.plan.compiled import launcher, library_of
from rocwright.sdk.table import DEVEL, PackageTable, runtime_roles
from rocwright.system.files import CHUNK
from rocwright.wheel.source import BytesSource, Source


class Shipped(msgspec.Struct, frozen=True):
    """One file of a runtime package: where it lies in the package's tree and where its bytes come from.

    `origin` is the path in the tree that was read (of the real file), None for what was compiled here;
    `artifact` where it comes from, if that is known.
    """

    package: str
    path: str
    source: Source
    executable: bool
    origin: str | None
    artifact: str | None = None


class RuntimePlan(msgspec.Struct, frozen=True):
    """All runtime packages of a ROCm.

    `shipped` maps (package, path in its tree) order-stably, for what all GPUs share; `parts` has the same for
    each family or target. `home` tells for each real file of the host layer which shipped file holds it;
    `rest` has the edited form of those that only devel ships. `dropped` lists links that are in no runtime
    package, with the reason.
    """

    shipped: tuple[Shipped, ...]
    parts: Mapping[str, tuple[Shipped, ...]]
    home: Mapping[str, Shipped]
    rest: Mapping[str, PatchedFile]
    dropped: tuple[tuple[str, str], ...]
    rpath_edits: int

    def of(self, package: str) -> tuple[Shipped, ...]:
        """The shared files of one package."""
        return tuple(file for file in self.shipped if file.package == package)


def plan_runtime(
    tree: RocmTree, table: PackageTable, modules: Mapping[str, str], *, split_compiler: bool = False
) -> RuntimePlan:
    """Assign every runtime file; `modules` maps package to the directory name in site-packages.

    With `split_compiler`, the compiler is not among them: devel has it. Raises `InvalidPrefix` when two
    files would be shipped under one name, when two packages would own one path, when a shared library is
    none, or when core is empty.
    """
    roles = runtime_roles(tree, table, split_compiler=split_compiler)
    # With several families, core cannot know which one's libraries will be there.
    hidden = () if tree.split or len(tree.parts) < 2 else (modules["libraries"],)
    search = _Search(tree.host, roles, modules, hidden)
    if not tree.split:
        # Shared files may need libraries that each family has, at the same place whatever the family.
        for layer in tree.parts.values():
            search = search.with_part(layer, _part_roles(layer))
    home, edits = search.place_files(tree.host, roles)
    owners = tree.owners or {path: table.package_of(path) for path in tree.host.links}
    links, dropped = _links(tree.host, (), home, {path: owners[path] for path in tree.host.links})
    parts: dict[str, tuple[Shipped, ...]] = {}
    for word, layer in tree.parts.items():
        parts[word], more, left = _plan_part(tree, layer, search, home)
        edits += more
        dropped += [(f"{word}: {path}", reason) for path, reason in left]
    shipped = [*home.values(), *links]
    shipped += _aliases(shipped, table)
    shared, parts = _disjoint(shipped, parts, layers=tree.parts, split=tree.split)
    if not any(file.package == "core" for file in shared):
        raise InvalidPrefix("no file of the prefix belongs to rocm-sdk-core", where=tree.root)
    shared += _opened(tree, shared, parts, table)
    ordered = sorted(shared, key=lambda file: (file.package, file.path))
    rest = _rest(tree.host, home)
    return RuntimePlan(tuple(ordered), parts, home, rest, tuple(dropped), edits)


class _Search:
    """Where libraries are found, and hence what the RPATH of each file is."""

    def __init__(
        self, layer: Layer, roles: Mapping[str, str], modules: Mapping[str, str], hidden: tuple[str, ...]
    ) -> None:
        self._modules = modules
        self._hidden = hidden
        self._set(_sonames(layer, roles))

    def _set(self, sonames: list[tuple[str, str, str]]) -> None:
        self._sonames = sonames
        self._providers = Providers.of((f"{self._modules[p]}/{path}", name) for p, path, name in sonames)
        # The devel tree has everything in one layout, and may be anywhere; a file that is linked into it must
        # find there what it needs, too.
        self._tree = Providers.of((path, name) for _, path, name in sonames)

    def with_part(self, layer: Layer, roles: Mapping[str, str]) -> _Search:
        """The same, with the libraries of a part."""
        other = _Search(layer, roles, self._modules, self._hidden)
        other._set([*self._sonames, *other._sonames])
        return other

    def place_files(self, layer: Layer, roles: Mapping[str, str]) -> tuple[dict[str, Shipped], int]:
        """The files of a layer by path, with RPATHs decided, and how many RPATHs change."""
        home: dict[str, Shipped] = {}
        taken: dict[tuple[str, str], str] = {}
        edits = 0
        for origin, package in roles.items():
            file, elf = layer.files[origin], layer.elves.get(origin)
            path = shipped_path(origin, elf)
            other = taken.get((package, path), path if path != origin and path in layer.files else None)
            if other is not None:
                raise InvalidPrefix(
                    f"{origin} and {other} would both be shipped as {path}",
                    where=file.place,
                    next_step="remove the copy that is not used; both claim the same SONAME",
                )
            taken[package, path] = origin
            source = self._source(package, path, file, elf)
            edits += source.patch is not None
            home[origin] = Shipped(package, path, source, file.executable, origin, file.artifact)
        return home, edits

    def _source(self, package: str, path: str, file: TreeFile, elf: Elf | None) -> PatchedFile:
        if elf is None or not elf.dynamic:
            return PatchedFile(file.place, expected=file.facts.st_size)
        also = (f"{self._modules['core']}/lib",) if package != "core" else ()
        entries = rpath_entries(f"{self._modules[package]}/{path}", elf, self._providers, also=also)
        if package != "libraries":
            entries = tuple(entry for entry in entries if not self._hidden or self._hidden[0] not in entry)
        entries = tuple(dict.fromkeys((*entries, *rpath_entries(path, elf, self._tree))))
        return PatchedFile(file.place, plan_rpath(elf, entries), file.facts.st_size)


def _rest(layer: Layer, home: Mapping[str, Shipped]) -> dict[str, PatchedFile]:
    """Programs and libraries that only devel has, without the paths of the machine that built them."""
    places = {path: home[path].path if path in home else path for path in layer.elves}
    names = [(places[path], elf.soname) for path, elf in layer.elves.items() if elf.soname is not None]
    tree = Providers.of(names)
    found: dict[str, PatchedFile] = {}
    for path, elf in layer.elves.items():
        patch = plan_rpath(elf, rpath_entries(path, elf, tree)) if path not in home and elf.dynamic else None
        if patch is not None:
            found[path] = PatchedFile(layer.files[path].place, patch, layer.files[path].facts.st_size)
    return found


def _sonames(layer: Layer, roles: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(package, shipped path, SONAME) of the libraries of a layer."""
    return [
        (package, shipped_path(origin, elf), elf.soname)
        for origin, package in roles.items()
        if (elf := layer.elves.get(origin)) is not None and elf.soname is not None
    ]


def shipped_path(origin: str, elf: Elf | None) -> str:
    """Where a file lies in a runtime tree: shared libraries under their SONAME, the rest unchanged."""
    if elf is None or elf.soname is None or ".so" not in PurePosixPath(origin).name:
        return origin
    if "/" in elf.soname:
        raise InvalidInput(f"the SONAME of {origin} is a path: {elf.soname}", where=elf.path)
    return str(PurePosixPath(origin).with_name(elf.soname))


def _plan_part(
    tree: RocmTree, layer: Layer, search: _Search, shared: Mapping[str, Shipped]
) -> tuple[tuple[Shipped, ...], int, list[tuple[str, str]]]:
    """What one family's libraries, or one target's device package, ship besides the shared files."""
    roles = _part_roles(layer)
    home, edits = search.with_part(layer, roles).place_files(layer, roles)
    owners = dict.fromkeys(layer.links, "libraries")
    links, dropped = _links(layer, (tree.host,), {**shared, **home}, owners)
    return tuple(sorted([*home.values(), *links], key=lambda file: file.path)), edits, dropped


def _part_roles(layer: Layer) -> dict[str, str]:
    return dict.fromkeys(sorted(layer.files), "libraries")


def _disjoint(
    shipped: list[Shipped],
    parts: Mapping[str, tuple[Shipped, ...]],
    *,
    layers: Mapping[str, Layer],
    split: bool,
) -> tuple[list[Shipped], dict[str, tuple[Shipped, ...]]]:
    """No path has two owners: uninstalling one package would take the other's file away.

    What several targets have alike belongs to all GPUs, hence to the libraries package.
    """
    shared = {file.path: file for file in shipped if file.package == "libraries"}
    seen: dict[str, tuple[str, Shipped]] = {}
    common: dict[str, Shipped] = {}
    for word, files in parts.items():
        for file in files:
            before = ("all GPUs", shared[file.path]) if file.path in shared else None
            if split:
                before = before or seen.setdefault(file.path, (word, file))
            if before is None or before[1] is file:
                continue
            if not _alike(file, before[1], layers[word]):
                raise InvalidPrefix(
                    f"{file.path} of {word} and of {before[0]} differ, and only one of them can be installed",
                    where=layers[word].files[file.origin].place if file.origin else None,
                    next_step="device files need names of their own; this is a bug in the build of ROCm",
                )
            common[file.path] = msgspec.structs.replace(before[1], package="libraries")
    kept = {word: tuple(f for f in files if f.path not in common) for word, files in parts.items()}
    return [*shipped, *(file for path, file in common.items() if path not in shared)], kept


def _alike(file: Shipped, other: Shipped, layer: Layer) -> bool:
    if not (isinstance(file.source, PatchedFile) and isinstance(other.source, PatchedFile) and file.origin):
        return False
    here = layer.files[file.origin]
    there = TreeFile(other.source.path, other.source.path.stat())
    return file.source.patch == other.source.patch and same_content(here, there)


def _aliases(shipped: Sequence[Shipped], table: PackageTable) -> list[Shipped]:
    """Libraries again, by the names without a version that the table wants for them."""
    taken = {(file.package, file.path) for file in shipped}
    return [
        msgspec.structs.replace(file, path=path)
        for file in shipped
        for path in table.aliases_of(file.package, file.path)
        if (file.package, path) not in taken
    ]


def _opened(
    tree: RocmTree, shipped: Sequence[Shipped], parts: Mapping[str, tuple[Shipped, ...]], table: PackageTable
) -> list[Shipped]:
    """Small libraries of the names without a version by which others open what has one in its SONAME."""
    made: list[Shipped] = []
    taken = {file.path for file in shipped}
    files = [(file, tree.host) for file in shipped]
    files += [(file, tree.parts[word]) for word, of_part in parts.items() for file in of_part]
    for row in table.opened:
        libraries = [file for file in shipped if row.is_library(file.path)]
        if not libraries:
            continue
        path = libraries[0].path.partition(".so.")[0] + ".so"
        short = PurePosixPath(path).name
        # Of several the one that the ROCm itself means, which a link says, else the newest.
        meant = tree.host.links[path].target if path in tree.host.links else None
        real = max(libraries, key=lambda file: (file.origin == meant, _version(file.path)))
        openers = [layer.elves.get(file.origin or "") for file, layer in files if row.opens(file.path)]
        if path not in taken and any(_names(elf, short) for elf in openers):
            source = BytesSource(library_of(short, PurePosixPath(real.path).name))
            made.append(Shipped(real.package, path, source, real.executable, None, real.artifact))
    return made


def _version(path: str) -> list[int]:
    return [int(word) for word in path.partition(".so.")[2].split(".") if word.isdecimal()]


def _names(elf: Elf | None, name: str) -> bool:
    """Whether a library has a name among its constants, where texts lie."""
    if elf is None:
        return False
    wanted = name.encode() + b"\0"
    constants = [one for one in elf.section_table if one.name.startswith(".rodata")]
    return any(
        wanted in elf.source.read_at(start, min(CHUNK + len(wanted), one.offset + one.size - start))
        for one in constants
        for start in range(one.offset, one.offset + one.size, CHUNK)
    )


def _links(
    layer: Layer, beside: Sequence[Layer], home: Mapping[str, Shipped], owners: Mapping[str, str]
) -> tuple[list[Shipped], list[tuple[str, str]]]:
    made: list[Shipped] = []
    dropped: list[tuple[str, str]] = []
    taken = {(file.package, file.path) for file in home.values()}
    for path, package in sorted(owners.items()):
        link = layer.links[path]
        if link.kind != "file":
            dropped.append((path, f"{link.kind} link"))
            continue
        target = home.get(link.target)
        there = next((one for one in (layer, *beside) if link.target in one.files), layer)
        if package == DEVEL or (package, path) in taken:
            continue
        elf = there.elves.get(link.target)
        if target is None:
            dropped.append((path, f"leads to {link.target}, which only the devel package has"))
        elif elf is not None and elf.soname is not None:
            dropped.append((path, "alias of a library that is shipped under its SONAME"))
        elif not _is_program(there, link.target):
            made.append(msgspec.structs.replace(target, package=package, path=path))
        elif target.package == package:
            program = launcher(relative_link(path, target.path))
            made.append(Shipped(package, path, BytesSource(program), True, None, target.artifact))
        else:
            dropped.append((path, f"link into package {target.package}"))
    return made, dropped


def _is_program(layer: Layer, path: str) -> bool:
    """Whether a file can be started: a program or a script, not a library or data marked executable."""
    file = layer.files[path]
    if not file.executable:
        return False
    elf = layer.elves.get(path)
    if elf is not None:
        return elf.kind == "exec" or elf.interp is not None or ".so" not in PurePosixPath(path).name
    with file.place.open("rb") as stream:
        return stream.read(2) == b"#!"


def programs_of(shipped: Iterable[Shipped]) -> list[str]:
    """Paths of the files that can be started."""
    return [file.path for file in shipped if file.executable or file.path.endswith(".exe")]
