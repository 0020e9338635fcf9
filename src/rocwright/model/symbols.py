"""Symbols that are known without a file: those of a system's C and C++ runtimes.

And of CPython's stable ABI.
"""

from __future__ import annotations

import base64
import datetime
import lzma
from functools import cached_property

import msgspec

from rocwright.model.patterns import fits


class RuntimeRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """What the libraries `names` of one package define on a machine; `symbols` are packed, see `defined`."""

    machine: str
    package: str
    names: tuple[str, ...]
    count: int
    symbols: str

    @cached_property
    def defined(self) -> tuple[str, ...]:
        """`name`, or `name@version`, of each symbol."""
        return tuple(lzma.decompress(base64.b64decode(self.symbols)).decode().split("\n"))


class RuntimeSymbols(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/platform_symbols.toml`."""

    source: str
    checked: datetime.date
    library: tuple[RuntimeRow, ...]

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
