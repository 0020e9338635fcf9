"""What a build asks of a machine, as data (programs and their packages, Pythons, space), and the problems
that stand in its way, told all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rocwright.data import load_table
from rocwright.errors import CommandFailed, NotReady, RocwrightError


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


# How many of the last lines of a command a finding shows.
_SAID = 3


class Problem(msgspec.Struct, frozen=True):
    """One thing to put right: what it is, the file or directory it is about, what to do."""

    what: str
    next_step: str
    where: str = ""

    def __str__(self) -> str:
        place = f"\n    in: {self.where}" if self.where and self.where not in self.what else ""
        return f"{self.what}{place}\n    next: {self.next_step}"


def problem_of(error: RocwrightError) -> Problem:
    """An error met while facts were gathered, as one finding among others."""
    what = error.what
    if isinstance(error, CommandFailed) and error.tail:
        # The command alone does not say what is wrong.
        what += "".join(f"\n      {line}" for line in error.tail.splitlines()[-_SAID:])
    return Problem(what, error.next_step or "put it right and run again", error.where or "")


def require_none(problems: Sequence[Problem], *, work: str) -> None:
    """Raise `NotReady` naming every problem; `work` is what was to begin, such as "the build"."""
    if not problems:
        return
    count = (
        "one thing is missing or wrong"
        if len(problems) == 1
        else f"{len(problems)} things are missing or wrong"
    )
    raise NotReady(f"{work} has not begun: {count}", found=[str(problem) for problem in problems])
