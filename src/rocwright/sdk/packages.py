"""Which file of a ROCm tree belongs into which Python package: the table and its lookups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import msgspec

from rocwright.data import load_table
from rocwright.sdk.distribution import compile_pattern

RUNTIME_PACKAGES = ("core", "libraries")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"exclude": "except"}):
    """Paths that go to one package: any of `paths`, none of `exclude`."""

    package: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()


class LibraryRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Short names of libraries that lie in one directory of one package."""

    names: tuple[str, ...]
    package: str
    directory: str
    file: str | None = None


class Commands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Console commands of core, by what they need: the compiler's tree or only the runtime's."""

    compiler: tuple[str, ...]
    system: tuple[str, ...]


class PackageTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The whole table `data/packages.toml`."""

    rule: tuple[Rule, ...]
    library: tuple[LibraryRow, ...]
    commands: Commands

    @cached_property
    def _compiled(self) -> tuple[tuple[str, re.Pattern[str], re.Pattern[str] | None], ...]:
        def either(patterns: Iterable[str]) -> re.Pattern[str] | None:
            joined = "|".join(f"(?:{compile_pattern(text, named=False).pattern})" for text in patterns)
            return re.compile(joined) if joined else None

        return tuple(
            (rule.package, wanted, either(rule.exclude))
            for rule in self.rule
            if (wanted := either(rule.paths)) is not None
        )

    def package_of(self, path: str) -> str:
        """`core`, `libraries` or `devel` for a path of a ROCm tree."""
        for package, wanted, excluded in self._compiled:
            if wanted.fullmatch(path) and not (excluded and excluded.fullmatch(path)):
                return package
        return "devel"

    def is_core_library(self, path: str) -> bool:
        """Whether the table knows the library at `path` by name as one of core."""
        return any(
            path.startswith(f"{row.directory}/lib{row.file or name}.so")
            for row in self.library
            if row.package == "core"
            for name in row.names
        )

    def libraries(self, shipped: Iterable[str]) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
        """Short names for the shared libraries among `shipped` (paths in the runtime trees).

        Returns (present: name to (package, path), absent: name to the package it would be in).
        """
        paths = sorted(shipped)
        present: dict[str, tuple[str, str]] = {}
        absent: dict[str, str] = {}
        for row in self.library:
            for name in row.names:
                stem = f"{row.directory}/lib{row.file or name}.so"
                # hiprtc must not match hiprtc-builtins, so the name ends where `.so` begins.
                found = next((path for path in paths if path == stem or path.startswith(stem + ".")), None)
                if found is None:
                    absent[name] = row.package
                else:
                    present[name] = (row.package, found)
        return present, absent


def package_table() -> PackageTable:
    """The built-in table."""
    return load_table("packages", PackageTable)
