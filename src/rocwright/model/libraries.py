"""ROCm's libraries by short name: what their files are called, and which package has them."""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

PLATFORMS = ("linux", "windows")


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
