"""The files of a ROCm, wherever it is (an installed prefix, or its Python packages in an environment), and
the table of those that a fat wheel has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, read_elf
from rocwright.data import load_table
from rocwright.errors import InvalidPrefix
from rocwright.model.patterns import any_pattern, fits
from rocwright.system.files import rocm_root
from rocwright.system.venv import package_directories


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


_RUNTIME = {
    "linux": re.compile(r"(.*/)?libamdhip64\.so(\.[0-9]+)*"),
    "windows": re.compile(r"bin/amdhip64\w*\.dll", re.IGNORECASE),
}
# LLVM's ends in `.so.19.0git`.
_LIBRARY = re.compile(r"(?!.*\.debug$)[^/]+\.so(\.[0-9][^/]*)?")
# How the directories of ROCm's packages begin; devel is last, since it holds the others again by links.
_PACKAGES = ("_rocm_sdk_core", "_rocm_sdk_libraries", "_rocm_sdk_devel")
_DIST_INFO = re.compile(r"(?P<name>rocm(_sdk)?(_[a-z0-9_]+)?)-(?P<version>[^-]+)\.dist-info")
_SKIPPED = ("__pycache__",)


class TreeEntry(msgspec.Struct, frozen=True):
    """A file of a tree: `place` is the real file, `link` says that a link leads to it."""

    place: Path
    link: bool


class RocmFiles(msgspec.Struct, frozen=True):
    """A ROCm as read; `files` by path from its root, `licences` and `boms` by the path they get in a wheel.

    `boms` are bills of materials. `version` is empty where the tree does not say it.
    """

    root: Path
    files: Mapping[str, TreeEntry]
    version: str
    licences: Mapping[str, Path]
    boms: Mapping[str, Path]


def read_rocm(directory: Path, platform: str, table: FatTable) -> RocmFiles:
    """Read the names of all files of a ROCm.

    `directory` is a prefix, what `rocm-sdk path --root` prints, an environment with ROCm's packages, or its
    site-packages directory. Raises `InvalidPrefix` when it is no directory, holds no HIP, or one for the
    other platform.
    """
    if not directory.is_dir():
        raise InvalidPrefix(
            f"{directory} is not a directory",
            where=directory,
            next_step="give the directory of an installed ROCm, or what `rocm-sdk path --root` prints",
        )
    directory = rocm_root(directory)
    site = _site_packages(directory)
    roots = [directory] if site is None else _package_roots(site)
    files: dict[str, TreeEntry] = {}
    for root in roots:
        for path, found in _walk(root):
            files.setdefault(path, found)
    _require_hip(directory, files, platform)
    infos = [] if site is None else _dist_infos(site)
    if infos:
        licences = {
            f"{info.name}/{path}": found.place for info in infos for path, found in _below(info, "licenses")
        }
        boms = {f"{info.name}/{path}": found.place for info in infos for path, found in _below(info, "sboms")}
    else:
        wanted = any_pattern(table.licences)
        licences = {path: found.place for path, found in files.items() if wanted.fullmatch(path)}
        boms = {}
    return RocmFiles(directory, files, _version(files, infos), licences, boms)


def _site_packages(directory: Path) -> Path | None:
    """The site-packages directory with ROCm: this one, that of this environment, or that of the package
    which this is or lies in."""
    if (directory / _PACKAGES[0]).is_dir():
        return directory
    for site in package_directories(directory):
        if (site / _PACKAGES[0]).is_dir():
            return site
    for parent in (directory, *directory.absolute().parents):
        if parent.name.startswith(_PACKAGES) and (parent.parent / _PACKAGES[0]).is_dir():
            return parent.parent
    return None


def _package_roots(site: Path) -> list[Path]:
    return [path for name in _PACKAGES for path in sorted(site.glob(f"{name}*")) if path.is_dir()]


def _walk(root: Path) -> Iterator[tuple[str, TreeEntry]]:
    """Files below a directory; links are followed, each real directory is entered once, by its own name if
    it has one in the tree."""
    pending = [("", root)]
    linked: list[tuple[str, Path]] = []
    entered: set[str] = set()
    while pending or linked:
        below, directory = pending.pop() if pending else linked.pop(0)
        real = os.path.realpath(directory)
        if real in entered:
            continue
        entered.add(real)
        for entry in _entries(directory):
            path = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    pending.append((f"{path}/", Path(entry.path)))
            elif entry.is_symlink() and entry.is_dir():
                linked.append((f"{path}/", Path(entry.path)))
            elif entry.is_file():
                yield path, TreeEntry(Path(os.path.realpath(entry.path)), entry.is_symlink())


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise InvalidPrefix(
            f"cannot list {directory}: {error.strerror}", where=directory, next_step="make it readable"
        ) from error


def _require_hip(directory: Path, files: Mapping[str, TreeEntry], platform: str) -> None:
    there = [name for name, runtime in _RUNTIME.items() if any(map(runtime.fullmatch, files))]
    if platform in there:
        return
    what = (
        f"is a ROCm for {there[0].title()}"
        if there
        else "holds no HIP runtime (libamdhip64.so, amdhip64.dll)"
    )
    raise InvalidPrefix(
        f"{directory} {what}, and the wheel is for {platform.title()}",
        where=directory,
        next_step=f"give the directory of an installed ROCm for {platform.title()}",
    )


def _dist_infos(site: Path) -> list[Path]:
    return [path for path in sorted(site.glob("rocm*.dist-info")) if _DIST_INFO.fullmatch(path.name)]


def _below(info: Path, name: str) -> list[tuple[str, TreeEntry]]:
    return list(_walk(info / name)) if (info / name).is_dir() else []


def _version(files: Mapping[str, TreeEntry], infos: Sequence[Path]) -> str:
    for info in infos:
        match = _DIST_INFO.fullmatch(info.name)
        if match is not None and match["name"] == "rocm_sdk_core":
            return match["version"]
    if (found := files.get(".info/version")) is not None:
        return found.place.read_text(encoding="utf-8", errors="replace").split("-", 1)[0].strip()
    header = files.get("include/hip/hip_version.h")
    text = header.place.read_text(encoding="utf-8", errors="replace") if header else ""
    numbers = [re.search(rf"#define HIP_VERSION_{part} +(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(number[1] for number in numbers if number) if all(numbers) else ""


class Library(msgspec.Struct, frozen=True):
    """A shared library of a tree; `path` is where it is shipped: its directory, under its SONAME."""

    path: str
    place: Path
    elf: Elf


def read_libraries(rocm: RocmFiles, table: FatTable, machine: int) -> dict[str, tuple[Library, ...]]:
    """The libraries of a Linux tree for a machine, by SONAME; the likeliest first where several claim one.

    A library without SONAME stands under the name of its file. Raises `InvalidElf` for a damaged one.
    """
    excluded = any_pattern(table.linux.no_libraries)
    places: dict[Path, str] = {}
    for path in sorted(rocm.files, key=lambda path: (rocm.files[path].link, path.count("/"), path)):
        if _LIBRARY.fullmatch(path.rpartition("/")[2]) and not excluded.fullmatch(path):
            places.setdefault(rocm.files[path].place, path)
    found: dict[str, list[Library]] = {}
    for place, path in places.items():
        if (elf := read_native(place, machine)) is not None:
            directory, slash, file = path.rpartition("/")
            name = elf.soname or file
            found.setdefault(name, []).append(Library(f"{directory}{slash}{name}", place, elf))
    return {name: tuple(libraries) for name, libraries in found.items()}


def read_native(place: Path, machine: int) -> Elf | None:
    """A file's ELF headers; None for what is no dynamic ELF file of that machine."""
    try:
        with place.open("rb") as stream:
            head = stream.read(20)
    except OSError as error:
        raise InvalidPrefix(
            f"cannot read {place}: {error.strerror}", where=place, next_step="make it readable"
        ) from error
    if not head.startswith(fmt.SUPPORTED) or int.from_bytes(head[18:20], "little") != machine:
        return None
    elf = read_elf(place)
    return elf if elf.dynamic else None
