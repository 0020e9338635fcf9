"""Which file of ROCm belongs into which Python package: the table, its lookups, and the decision for a tree.
What is in no runtime package belongs to devel alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from rocwright.data import load_table
from rocwright.model.patterns import any_pattern
from rocwright.model.platforms import LibraryRow, file_pattern
from rocwright.sdk.intake.tree import RocmTree, is_linker_script

DEVEL = "devel"
RUNTIME_PACKAGES = ("core", "libraries", "profiler")


class PathRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"exclude": "except"}):
    """Paths that go to one package: any of `paths`, none of `exclude`."""

    package: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()


class ArtifactRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"exclude": "except"}):
    """What one package takes out of artifacts.

    Of artifacts called any of `names`, in any of `components`, the paths that match `only` (empty: all) and
    not `exclude`. Without all of `required` the package cannot be made. `device` are the names whose parts
    for single targets become device packages.
    """

    package: str
    names: tuple[str, ...]
    components: tuple[str, ...]
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    device: tuple[str, ...] = ()


class Artifacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which further artifacts devel has, the components that exist, and those without use in a split ROCm."""

    devel: tuple[str, ...]
    components: tuple[str, ...]
    not_when_split: tuple[str, ...]


class CompilerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"exclude": "except"}):
    """The compiler's files: any of `paths`, none of `exclude`."""

    paths: tuple[str, ...]
    exclude: tuple[str, ...]


class Commands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Console commands of core, by what they need: the compiler's tree or only the runtime's."""

    compiler: tuple[str, ...]
    system: tuple[str, ...]


class OpenedRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns of a library, and of another that opens it by its name without a version, if it has that."""

    library: str
    by: str

    def is_library(self, path: str) -> bool:
        """Whether the library lies at that path of a package."""
        return bool(any_pattern((self.library,)).fullmatch(path))

    def opens(self, path: str) -> bool:
        """Whether the one that opens it may lie there."""
        return bool(any_pattern((self.by,)).fullmatch(path))


class PackageTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The whole table `data/packages.toml`."""

    artifact: tuple[ArtifactRow, ...]
    artifacts: Artifacts
    rule: tuple[PathRule, ...]
    compiler: CompilerRow
    aliases: dict[str, tuple[str, ...]]
    opened: tuple[OpenedRow, ...]
    library: tuple[LibraryRow, ...]
    commands: Commands
    not_loadable: dict[str, str]

    @cached_property
    def _rules(self) -> tuple[tuple[str, _Paths], ...]:
        return tuple((rule.package, _Paths(rule.paths, rule.exclude)) for rule in self.rule)

    @cached_property
    def _artifacts(self) -> tuple[tuple[ArtifactRow, _Paths], ...]:
        return tuple((row, _Paths(row.only or ("**",), row.exclude)) for row in self.artifact)

    @cached_property
    def _compiler(self) -> _Paths:
        return _Paths(self.compiler.paths, self.compiler.exclude)

    def package_of(self, path: str) -> str:
        """The package of a path of an installed ROCm: `core`, `libraries`, `profiler` or `devel`."""
        return next((package for package, paths in self._rules if path in paths), DEVEL)

    def knows_artifact(self, name: str, component: str) -> bool:
        """Whether any package takes something from artifacts of that name and component."""
        return component in self.artifacts.components and name in self._artifact_names

    @cached_property
    def _artifact_names(self) -> frozenset[str]:
        return frozenset(self.artifacts.devel).union(*(row.names for row in self.artifact))

    def package_in_artifact(self, name: str, component: str, path: str) -> str | None:
        """The package of a path in an artifact that is known.

        None for what no package has: all that the profiler's artifacts hold besides the profiler.
        """
        mine = [pair for pair in self._artifacts if name in pair[0].names]
        for row, paths in mine:
            if component in row.components and path in paths:
                return row.package
        return None if mine and all(row.package == "profiler" for row, _ in mine) else DEVEL

    @cached_property
    def device_artifacts(self) -> frozenset[str]:
        """Names of the artifacts whose parts for single targets become device packages."""
        return frozenset(name for row in self.artifact for name in row.device)

    def needed_artifacts(self, package: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names and components without which there is no such package.

        Of a package with required artifacts, their libraries, all of them; of another, any that it takes.
        """
        rows = [row for row in self.artifact if row.package == package]
        required = [name for row in rows for name in row.required]
        if required:
            return tuple(required), ("lib",)
        names = [name for row in rows for name in row.names]
        return tuple(names), tuple({component for row in rows for component in row.components})

    def is_compiler(self, path: str) -> bool:
        """Whether a file of core belongs to the compiler."""
        return path in self._compiler

    def aliases_of(self, package: str, path: str) -> tuple[str, ...]:
        """Further names, ever less of a version, by which a shared library of a package is opened."""
        if not any_pattern(self.aliases.get(package, ())).fullmatch(path):
            return ()
        stem, dot, version = path.rpartition(".so.")
        parts = version.split(".")
        return tuple(f"{stem}{dot}{'.'.join(parts[:count])}".rstrip(".") for count in range(len(parts))[::-1])

    def is_core_library(self, path: str) -> bool:
        """Whether the table knows the library at `path` by name as one of core."""
        return any(
            path.startswith(f"{row.directory}/lib{row.file or name}.so")
            for row in self.library
            if row.package == "core"
            for name in row.names
        )

    @property
    def known_libraries(self) -> dict[str, str]:
        """All short names, with the package that has them."""
        return {name: row.package for row in self.library for name in row.names}

    def libraries(self, package: str, shipped: Iterable[str], *, windows: bool = False) -> dict[str, str]:
        """Short names of the shared libraries among `shipped`, the paths of one package's tree."""
        paths = sorted(shipped)
        found: dict[str, str] = {}
        for row in self.library:
            if row.package != package or ("windows" if windows else "linux") not in row.platforms:
                continue
            for name in row.names:
                pattern = _library_file(row.directory, row.file or name, windows=windows)
                path = next((path for path in paths if pattern.fullmatch(path)), None)
                if path is not None:
                    found[name] = path
        return found


def _library_file(directory: str, stem: str, *, windows: bool) -> re.Pattern[str]:
    """Where the file of a library may lie; a ROCm for Windows keeps its DLLs in `bin`."""
    name = file_pattern(stem, windows=windows)
    if not windows:
        return re.compile(rf"{re.escape(directory)}/{name}")
    own = re.escape(directory.removesuffix("lib") + "bin")
    return re.compile(rf"(bin|{own})/{name}", re.IGNORECASE)


class _Paths:
    """A set of paths given by patterns."""

    def __init__(self, wanted: Iterable[str], excluded: Iterable[str]) -> None:
        self._wanted, self._excluded = any_pattern(tuple(wanted)), any_pattern(tuple(excluded))

    def __contains__(self, path: str) -> bool:
        return bool(self._wanted.fullmatch(path)) and not self._excluded.fullmatch(path)


def package_table() -> PackageTable:
    """The built-in table."""
    return load_table("packages", PackageTable)


def runtime_roles(tree: RocmTree, table: PackageTable, *, split_compiler: bool = False) -> dict[str, str]:
    """Path to package, for every file of the host layer that a runtime package ships, in the paths' order.

    With `split_compiler`, the compiler's files are left to devel, except those that a remaining library or
    program needs. Raises `InvalidPrefix` for a file called like a shared library that is none.
    """
    roles: dict[str, str] = {}
    for path in sorted(tree.host.files):
        package = _package(tree, table, path)
        place = tree.host.files[path].place
        if package == DEVEL or (path not in tree.host.elves and is_linker_script(path, place)):
            continue
        roles[path] = package
    if split_compiler:
        for path in _compiler_files(tree, table, roles):
            del roles[path]
    return roles


def _package(tree: RocmTree, table: PackageTable, path: str) -> str:
    if tree.owners is not None:
        return tree.owners[path]
    package = table.package_of(path)
    has_code = path in tree.code or tree.host.is_split(path)
    if package == "core" and has_code and not table.is_core_library(path):
        # A library that no rule names: core serves every target, so code for some has no place in it.
        return "libraries"
    return package


def _compiler_files(tree: RocmTree, table: PackageTable, roles: Mapping[str, str]) -> set[str]:
    """The compiler's files of core that nothing outside them needs."""
    moving = {path for path, package in roles.items() if package == "core" and table.is_compiler(path)}
    providers = {
        elf.soname: path
        for path in moving
        if (elf := tree.host.elves.get(path)) is not None and elf.soname is not None
    }
    staying = [elf for path, elf in tree.host.elves.items() if path in roles and path not in moving]
    staying += [elf for part in tree.parts.values() for elf in part.elves.values()]
    while staying:
        for name in staying.pop().needed:
            path = providers.get(name)
            if path in moving and path is not None:
                moving.discard(path)
                staying.append(tree.host.elves[path])
    return moving
