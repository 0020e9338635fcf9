"""What of ROCm a fat wheel has, as data."""

from __future__ import annotations

import msgspec

from rocwright.data import load_table
from rocwright.model.patterns import fits


class FatWindows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything but `exclude`; `programs` is the directory that holds the DLLs."""

    programs: str
    exclude: tuple[str, ...]


class Opens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the libraries with SONAMEs `names` open while they run: `libraries` by SONAME, and `files`."""

    names: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class FatLinux(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is needed and opened; libraries at `no_libraries` are none that a process may load."""

    no_libraries: tuple[str, ...]
    opens: tuple[Opens, ...]

    def opened_by(self, soname: str) -> tuple[Opens, ...]:
        """The rows for a library."""
        return tuple(row for row in self.opens if fits(soname, row.names))


class FatTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/fat.toml`; `directory` is where ROCm lies, as installed."""

    directory: str
    needless: tuple[str, ...]
    licences: tuple[str, ...]
    windows: FatWindows
    linux: FatLinux


def fat_table() -> FatTable:
    """The built-in table."""
    return load_table("fat", FatTable)
