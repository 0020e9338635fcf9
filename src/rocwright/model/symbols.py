"""Symbols that are known without a file: those of a system's runtimes, of CPython, and of its stable ABI."""

from __future__ import annotations

import base64
import datetime
import lzma
from functools import cached_property

import msgspec

from rocwright.model.patterns import fits


class RuntimeRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """What the libraries `names` of one package define on a machine; `symbols` are packed, see `defined`.

    `needed` are libraries that these load themselves.
    """

    machine: str
    package: str
    names: tuple[str, ...]
    needed: tuple[str, ...]
    count: int
    symbols: str

    @cached_property
    def defined(self) -> tuple[str, ...]:
        """`name`, or `name@version`, of each symbol."""
        return _unpacked(self.symbols)


class InterpreterRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """What CPython defines of its own, by minor versions of Python 3; `symbols` are packed, see `names`.

    Builds for debugging, and those without the lock, have others besides.
    """

    source: str
    checked: datetime.date
    minors: tuple[int, ...]
    count: int
    symbols: str

    @cached_property
    def names(self) -> dict[int, frozenset[str]]:
        """The names by minor version."""
        found: dict[int, set[str]] = {minor: set() for minor in self.minors}
        for line in _unpacked(self.symbols):
            name, _, minors = line.partition(" ")
            for minor in minors.split(","):
                found[int(minor)].add(name)
        return {minor: frozenset(names) for minor, names in found.items()}


def _unpacked(symbols: str) -> tuple[str, ...]:
    return tuple(lzma.decompress(base64.b64decode(symbols)).decode().split("\n"))


class RuntimeSymbols(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/platform_symbols.toml`."""

    source: str
    checked: datetime.date
    library: tuple[RuntimeRow, ...]
    interpreter: InterpreterRow

    def row(self, library: str, machine: str) -> RuntimeRow | None:
        """The row of a library by its SONAME and the end of a platform tag (`x86_64`)."""
        rows = (row for row in self.library if row.machine == machine and fits(library, row.names))
        return next(rows, None)


class StableAbi(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The table `data/stable_abi.toml`.

    Names by the minor version of Python that added them to the stable ABI.
    """

    source: str
    checked: datetime.date
    added: dict[str, tuple[str, ...]]

    @cached_property
    def since(self) -> dict[str, int]:
        """The minor version of Python 3 for each name."""
        return {name: int(version[2:]) for version, names in self.added.items() for name in names}
