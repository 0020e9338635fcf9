"""What systems bring of their own, and the libraries that are known by name: which packages bring them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import msgspec

from rocwright.model.patterns import fits

# What wheels are built for.
Platform = Literal["linux", "windows"]
PLATFORMS = ("linux", "windows")
_MANYLINUX = re.compile(r"manylinux(?:_(?P<glibc>[0-9]+_[0-9]+)|(?P<year>[0-9]+))_(?P<machine>.+)")
_SYMBOL = re.compile(r"(?P<prefix>[A-Z]+)_(?P<number>[0-9]+(?:\.[0-9]+)*)")


def platform_named(text: str) -> Platform:
    """What `sys.platform` says, or people write: `win32` and `windows`; everything else is Linux."""
    return "windows" if text.startswith("win") else "linux"


def this_platform() -> Platform:
    """The platform of this machine."""
    return platform_named(sys.platform)


class LinuxRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Linux: patterns over names of libraries that the system brings.

    `runtime` are those of which a process has one copy. `foreign` are patterns over paths where libraries for
    other machines are no mistake, `bundled` is the regular expression of names that only a repaired wheel
    has, `machines` are ELF machine numbers by the end of a platform tag; `bits_32` and `big_endian` are those
    whose libraries are not 64-bit, or not little-endian.
    """

    runtime: tuple[str, ...]
    drivers: tuple[str, ...]
    interpreter: tuple[str, ...]
    foreign: tuple[str, ...]
    bundled: str
    machines: dict[str, int]
    bits_32: tuple[str, ...] = ()
    big_endian: tuple[str, ...] = ()

    def form(self, machine: int) -> tuple[int, str]:
        """Bits, and `little` or `big`, of the libraries for a machine number."""
        names = {name for name, number in self.machines.items() if number == machine}
        return 64 - 32 * bool(names & set(self.bits_32)), "big" if names & set(self.big_endian) else "little"


class WindowsMachines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machine number of DLLs that fit a tag, and those of programs that run there."""

    libraries: int
    programs: tuple[int, ...]


class WindowsRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Windows: patterns over names of DLLs that the system brings, in lower case.

    `bundled` is the regular expression of names that only a repaired wheel has.
    """

    system: tuple[str, ...]
    runtime: tuple[str, ...]
    drivers: tuple[str, ...]
    interpreter: tuple[str, ...]
    bundled: str
    machines: dict[str, WindowsMachines]


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Packages that hold libraries which are known by their names, and what brings these packages.

    `packages` and `through` are patterns over canonical names: requiring one of them brings the libraries:
    those of the group `rocm` in packages.toml and any that fit `libraries` or `dlls`.
    """

    name: str
    packages: tuple[str, ...]
    through: tuple[str, ...] = ()
    rocm: str | None = None
    libraries: tuple[str, ...] = ()
    dlls: tuple[str, ...] = ()


class ManylinuxRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One manylinux, which `glibc` names; `symbols` are the newest versions by machine and prefix.

    `libraries` and `names`, symbol versions without a number, are there from this row on.
    """

    glibc: str
    aliases: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    symbols: dict[str, dict[str, str]] = {}


class Policy(msgspec.Struct, frozen=True):
    """What a platform tag of manylinux promises: `newest` by prefix, numbers as tuples."""

    tag: str
    machine: str
    libraries: frozenset[str]
    names: frozenset[str]
    newest: dict[str, tuple[int, ...]]

    def admits(self, symbol: str) -> bool:
        """Whether a symbol version such as `GLIBC_2.34` is there; prefixes without a limit are not judged."""
        prefix = symbol.partition("_")[0]
        if prefix not in self.newest or symbol in self.names:
            return True
        match = _SYMBOL.fullmatch(symbol)
        return match is not None and numbers(match["number"]) <= self.newest[prefix]


class Platforms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The table `data/platforms.toml`."""

    linux: LinuxRow
    windows: WindowsRow
    provider: tuple[Provider, ...]
    manylinux: tuple[ManylinuxRow, ...]

    @cached_property
    def system_libraries(self) -> tuple[str, ...]:
        """Patterns of what no wheel for Linux has to hold, whichever tag it has."""
        expected = tuple(name for row in self.manylinux for name in row.libraries)
        return (*self.linux.runtime, *self.linux.drivers, *self.linux.interpreter, *expected)

    @cached_property
    def system_dlls(self) -> tuple[str, ...]:
        """Patterns of what no wheel for Windows has to hold."""
        row = self.windows
        return (*row.system, *row.runtime, *row.drivers, *row.interpreter)

    def on_every(self, library: str, *, windows: bool = False) -> bool:
        """Whether a system brings this library of its own."""
        patterns = self.system_dlls if windows else self.system_libraries
        return fits(library.lower() if windows else library, patterns)

    def policy(self, tag: str) -> Policy | None:
        """What a platform tag (`manylinux_2_28_x86_64`) promises; None for another tag or an unknown machine.

        A glibc between two rows has the symbols of the lower one; one newer than all rows is compared with
        nothing but its own number.
        """
        match = _MANYLINUX.fullmatch(tag)
        if match is None:
            return None
        claimed = self._glibc(match)
        machine = match["machine"]
        rows = [row for row in self.manylinux if claimed and numbers(row.glibc) <= claimed]
        described = [row for row in rows if machine in row.symbols]
        if claimed is None or not described:
            return None
        newest = {"GLIBC": claimed}
        if claimed <= max(numbers(row.glibc) for row in self.manylinux):
            limits = described[-1].symbols[machine]
            newest.update({prefix: numbers(number) for prefix, number in limits.items()})
            newest["GLIBC"] = max(claimed, newest["GLIBC"])
        return Policy(
            tag,
            machine,
            frozenset(name for row in rows for name in row.libraries),
            frozenset(name for row in rows for name in row.names),
            newest,
        )

    def policies(self, machine: str) -> Iterator[Policy]:
        """Every manylinux of a machine, the oldest first."""
        for row in self.manylinux:
            policy = self.policy(f"manylinux_{row.glibc.replace('.', '_')}_{machine}")
            if policy is not None:
                yield policy

    def _glibc(self, match: re.Match[str]) -> tuple[int, ...] | None:
        if match["glibc"]:
            return numbers(match["glibc"].replace("_", "."))
        alias = f"manylinux{match['year']}"
        return next((numbers(row.glibc) for row in self.manylinux if alias in row.aliases), None)

    def machine(self, tag: str) -> int | None:
        """The ELF machine number of a platform tag; None for a tag that is not for Linux, or not known."""
        if not tag.startswith(("linux_", "manylinux", "musllinux_")):
            return None
        return next(
            (number for name, number in self.linux.machines.items() if tag.endswith(f"_{name}")), None
        )


def numbers(text: str) -> tuple[int, ...]:
    """`3.4.29` as numbers that compare as versions do."""
    return tuple(int(part) for part in text.split("."))


class LibraryRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Short names of libraries that lie in one directory of one package, on `platforms`."""

    names: tuple[str, ...]
    package: str
    directory: str
    file: str | None = None
    platforms: tuple[str, ...] = PLATFORMS


class RocmLibraries(msgspec.Struct, frozen=True, dict=True):
    """The rows `library` of the table `data/packages.toml`; its other rows say how packages are made."""

    library: tuple[LibraryRow, ...]

    @cached_property
    def _files(self) -> tuple[tuple[re.Pattern[str], str, str, str], ...]:
        return tuple(
            (_file_name(row.file or name, platform), platform, name, row.package)
            for row in self.library
            for platform in row.platforms
            for name in row.names
        )

    def short_name(self, file: str, platform: str) -> tuple[str, str] | None:
        """Short name and package of a library by the name of its file; None for one without a short name.

        `platform` is `linux` or `windows`; hiprtc is no hiprtc-builtins, hipblas no hipblaslt.
        """
        for pattern, where, name, package in self._files:
            if where == platform and pattern.fullmatch(file):
                return name, package
        return None


def file_pattern(stem: str, *, windows: bool) -> str:
    """What the file of a library may be called, as a regular expression; in any case on Windows."""
    if windows:
        return rf"(lib)?{re.escape(stem)}([-_.]?[0-9][0-9_.]*)?\.dll"
    return rf"lib{re.escape(stem)}\.so(\..*)?"


def _file_name(stem: str, platform: str) -> re.Pattern[str]:
    windows = platform == "windows"
    return re.compile(file_pattern(stem, windows=windows), re.IGNORECASE if windows else 0)
