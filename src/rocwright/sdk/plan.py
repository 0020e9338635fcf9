"""Decide the Python packages of a ROCm prefix: pure, from what was read to what will be written.

Runtime packages hold no symbolic links: a shared library is shipped once, under its SONAME; a link to a
program becomes a native launcher; a link to a data file a copy; a link to a directory is left out. The
devel package brings the original layout back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from rocwright.binary.elf import Elf
from rocwright.binary.patch import PatchedFile
from rocwright.binary.rpath import plan_rpath
from rocwright.errors import InvalidInput, InvalidPrefix
from rocwright.sdk.launcher import launcher
from rocwright.sdk.links import relative_link
from rocwright.sdk.packages import RUNTIME_PACKAGES, PackageTable
from rocwright.sdk.prefix import Prefix
from rocwright.sdk.rpaths import Providers, rpath_entries
from rocwright.wheel.source import BytesSource, Source


@dataclass(frozen=True)
class Shipped:
    """One file of a runtime package: where it lies in the package's tree and where its bytes come from.

    `origin` is the path in the prefix (of the real file), None for a launcher.
    """

    package: str
    path: str
    source: Source
    executable: bool
    origin: str | None


@dataclass(frozen=True)
class RuntimePlan:
    """All runtime packages of a prefix.

    `shipped` maps (package, path in its tree) order-stably; `home` tells for each real file of the prefix
    which shipped file holds it; `dropped` lists links that are in no runtime package, with the reason.
    """

    shipped: tuple[Shipped, ...]
    home: Mapping[str, Shipped]
    dropped: tuple[tuple[str, str], ...]
    rpath_edits: int

    def of(self, package: str) -> tuple[Shipped, ...]:
        """The files of one package."""
        return tuple(file for file in self.shipped if file.package == package)


def plan_runtime(prefix: Prefix, table: PackageTable, modules: Mapping[str, str]) -> RuntimePlan:
    """Assign every runtime file; `modules` maps package to the directory name in site-packages.

    Raises `InvalidPrefix` when two files would be shipped under one name, or core is empty.
    """
    places = _places(prefix, table)
    sonames = [
        (package, path, elf.soname)
        for origin, (package, path) in places.items()
        if (elf := prefix.elves.get(origin)) is not None and elf.soname is not None
    ]
    providers = Providers.of((f"{modules[package]}/{path}", soname) for package, path, soname in sonames)
    # The devel tree has everything in one layout, one level deeper; a file that is linked into it must find
    # there what it needs, too.
    tree = Providers.of((path, soname) for _, path, soname in sonames)
    core_lib = f"{modules['core']}/lib"
    home: dict[str, Shipped] = {}
    edits = 0
    for origin, (package, path) in places.items():
        elf = prefix.elves.get(origin)
        patch = None
        if elf is not None and elf.dynamic:
            also = (core_lib,) if package != "core" else ()
            entries = rpath_entries(f"{modules[package]}/{path}", elf, providers, also=also)
            entries = tuple(dict.fromkeys((*entries, *rpath_entries(path, elf, tree))))
            patch = plan_rpath(elf, entries)
            edits += patch is not None
        source = PatchedFile(prefix.root / origin, patch)
        home[origin] = Shipped(package, path, source, prefix.executable(origin), origin)
    links, dropped = _plan_links(prefix, table, home)
    shipped = sorted([*home.values(), *links], key=lambda file: (file.package, file.path))
    if not any(file.package == "core" for file in shipped):
        raise InvalidPrefix("no file of the prefix belongs to rocm-sdk-core", where=prefix.root)
    return RuntimePlan(tuple(shipped), home, tuple(dropped), edits)


def _places(prefix: Prefix, table: PackageTable) -> dict[str, tuple[str, str]]:
    """Prefix path to (package, path in the package's tree) for every file of a runtime package."""
    places: dict[str, tuple[str, str]] = {}
    taken: dict[tuple[str, str], str] = {}
    for origin in sorted(prefix.files):
        package = table.package_of(origin)
        if package not in RUNTIME_PACKAGES:
            continue
        if origin in prefix.device_code and not table.is_core_library(origin):
            # A library that no rule names: core serves every target, so code for some has no place in it.
            package = "libraries"
        place = (package, shipped_path(origin, prefix.elves.get(origin)))
        if place in taken:
            raise InvalidPrefix(
                f"{origin} and {taken[place]} would both be shipped as {place[1]}",
                where=prefix.root / origin,
                next_step="remove the copy that is not used; both claim the same SONAME",
            )
        taken[place] = origin
        places[origin] = place
    return places


def shipped_path(origin: str, elf: Elf | None) -> str:
    """Where a file lies in a runtime tree: shared libraries under their SONAME, the rest unchanged."""
    if elf is None or elf.soname is None or ".so" not in PurePosixPath(origin).name:
        return origin
    if "/" in elf.soname:
        raise InvalidInput(f"the SONAME of {origin} is a path: {elf.soname}", where=elf.path)
    return str(PurePosixPath(origin).with_name(elf.soname))


def _plan_links(
    prefix: Prefix, table: PackageTable, home: Mapping[str, Shipped]
) -> tuple[list[Shipped], list[tuple[str, str]]]:
    made: list[Shipped] = []
    dropped: list[tuple[str, str]] = []
    taken = {(file.package, file.path) for file in home.values()}
    for path, link in sorted(prefix.links.items()):
        package = table.package_of(path)
        if link.kind != "file":
            dropped.append((path, f"{link.kind} link"))
            continue
        target = home.get(link.target)
        if package not in RUNTIME_PACKAGES or (package, path) in taken:
            continue
        elf = prefix.elves.get(link.target)
        if target is None:
            dropped.append((path, f"leads to {link.target}, which only the devel package has"))
        elif elf is not None and elf.soname is not None:
            dropped.append((path, "alias of a library that is shipped under its SONAME"))
        elif not _is_program(prefix, link.target):
            made.append(Shipped(package, path, target.source, target.executable, link.target))
        elif target.package == package:
            program = launcher(relative_link(path, target.path))
            made.append(Shipped(package, path, BytesSource(program), True, None))
        else:
            dropped.append((path, f"link into package {target.package}"))
    return made, dropped


def _is_program(prefix: Prefix, path: str) -> bool:
    """Whether a file can be started: a program or a script, not a library or data marked executable."""
    if not prefix.executable(path):
        return False
    elf = prefix.elves.get(path)
    if elf is not None:
        return elf.kind == "exec" or elf.interp is not None or ".so" not in PurePosixPath(path).name
    with (prefix.root / path).open("rb") as stream:
        return stream.read(2) == b"#!"
