"""Decide which runtime package each file of a ROCm belongs to; what is in none belongs to devel alone."""

from __future__ import annotations

from collections.abc import Mapping

from rocwright.sdk.intake.tree import RocmTree, is_linker_script
from rocwright.sdk.table import DEVEL, PackageTable


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
