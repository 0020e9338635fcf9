"""What a build asks of a machine, as data: programs and their packages, Pythons, space."""

from __future__ import annotations

import msgspec

from rocwright.data import load_table


class Pythons(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first and the last version that wheels are built for."""

    first: str
    last: str

    def has(self, version: str) -> bool:
        """Whether `3.12` is among them."""
        return _numbers(self.first) <= _numbers(version) <= _numbers(self.last)


class SpaceRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of the size of the sources that a build takes on the disk, and bytes for what else there is."""

    objects: float
    staged: float
    wheel: float
    environment: int
    requirement: int
    unpacked: float
    temporary: int


class NinjaRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ninja that builds flash attention on Windows."""

    windows_flash_attention: str
    page: str


class ProgramRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program: what for, and how to get it."""

    name: str
    purpose: str = "build"
    debian: str = ""
    fedora: str = ""
    suse: str = ""
    windows: str = ""


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table `data/host.toml`."""

    pythons: Pythons
    space: SpaceRow
    ninja: NinjaRow
    no_spaces: dict[str, str]
    headers: dict[str, str]
    program: tuple[ProgramRow, ...]

    def get(self, name: str) -> ProgramRow:
        """The row of a program; one that only has its name where there is none."""
        return next((row for row in self.program if row.name == name), ProgramRow(name))


def needs() -> Needs:
    """The built-in table."""
    return load_table("host", Needs)


_INSTALL = {"debian": "apt install", "fedora": "dnf install", "suse": "zypper install"}


def how_to_get(row: ProgramRow, system: str) -> str:
    """The next step for a missing program on `debian`, `fedora`, `suse`, `windows`, or elsewhere (empty)."""
    if system == "windows":
        return row.windows or f"install {row.name} and open a new command prompt"
    if system not in _INSTALL:
        return f"install {row.name}"
    return f"{_INSTALL[system]} {getattr(row, system) or row.name}"


def how_to_get_headers(table: Needs, version: str, system: str) -> str:
    """The next step for missing headers of a distribution's own Python."""
    if system not in table.headers:
        return f"install the development package of Python {version}"
    return f"{_INSTALL[system]} {table.headers[system].format(version=version)}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
