"""Find an emulator and HIP's runtime: named, in a variable, in the tested environment, in a prefix."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.emulator.protocol import program_emulator
from rocwright.emulator.values import Emulator, EmulatorRow, EmulatorTable, HipRuntime
from rocwright.errors import CommandFailed, MissingTool
from rocwright.system import process
from rocwright.system.files import sha256_file

_PLACES = (
    "import json, sysconfig\n"
    "print(json.dumps(sorted({sysconfig.get_path('purelib'), sysconfig.get_path('platlib')})))"
)
_VERSION = re.compile(r"\.so\.(?P<version>[0-9][0-9.]*)$")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)+\S*")
_VERSION_S = 20.0


def emulator_table() -> EmulatorTable:
    """The built-in table `emulators`."""
    return load_table("emulators", EmulatorTable)


def find_emulator(
    choice: str | None,
    environ: Mapping[str, str],
    python: Path | None = None,
    *,
    table: EmulatorTable | None = None,
) -> Emulator:
    """The emulator to use: `choice` (a prefix, a directory, its library, a program), else where one is.

    Looked for in this order: `choice`, the variable that the table names, the packages of `python`'s
    environment, prefixes of variables, the usual prefixes. Raises `MissingTool` where there is none; a place
    that was named and has none is an error, and nothing else is looked at then.
    """
    known = table or emulator_table()
    named = ((choice, "--emulator"), (environ.get(known.variable), known.variable))
    for text, how in named:
        if text:
            return _named(Path(text).expanduser().absolute(), how, known)
    for row in known.emulator:
        for place, how in _places(row, known, environ, python):
            if (found := _below(place, how, row)) is not None:
                return found
    raise MissingTool(
        f"no emulator of AMD GPUs was found ({', '.join(row.name for row in known.emulator)})",
        next_step="install ROCm's devel package that has one (`rocm-sdk init`), or name its prefix, library "
        f"or program: --emulator PATH or {known.variable}",
    )


def _places(
    row: EmulatorRow, table: EmulatorTable, environ: Mapping[str, str], python: Path | None
) -> Iterator[tuple[Path, str]]:
    for place in site_packages(python) if python is not None else ():
        for package in row.packages:
            yield place / package, f"installed for {python}"
    for name in table.prefix_variables:
        if environ.get(name):
            yield Path(environ[name]), name
    for prefix in table.prefixes:
        yield Path(prefix), prefix


def site_packages(python: Path) -> tuple[Path, ...]:
    """The directories that packages of an interpreter lie in; none where it does not answer."""
    try:
        said = process.run([python, "-I", "-c", _PLACES], limit_s=_VERSION_S).stdout
        return tuple(map(Path, msgspec.json.decode(said, type=list[str])))
    except (CommandFailed, MissingTool, msgspec.DecodeError):
        return ()


def _named(path: Path, how: str, table: EmulatorTable) -> Emulator:
    step = "give an emulator's prefix, its library, or a program that speaks the protocol"
    if not path.exists():
        raise MissingTool(f"{how} names {path}, which does not exist", where=path, next_step=step)
    if path.is_file():
        for row in table.emulator:
            if path.name.startswith(row.library):
                return _of_library(path, how, row)
        if os.access(path, os.X_OK) and ".so" not in path.suffixes:
            return program_emulator(path, how)
        raise MissingTool(f"{path} is no emulator that is known", where=path, next_step=step)
    for row in table.emulator:
        if (found := _below(path, how, row)) is not None:
            return found
    raise MissingTool(
        f"there is no emulator in {path}: none of {', '.join(row.library for row in table.emulator)}",
        where=path,
        next_step=step,
    )


def _below(prefix: Path, how: str, row: EmulatorRow) -> Emulator | None:
    for directory in row.directories:
        library = prefix / directory / row.library
        if library.is_file():
            found = _of_library(library, how, row, prefix)
            return msgspec.structs.replace(found, version=_version(prefix, row))
    return None


def _of_library(library: Path, how: str, row: EmulatorRow, prefix: Path | None = None) -> Emulator:
    bases = (prefix, library.parent) if prefix is not None else (library.parent,)
    places = [base / name for base in bases for name in row.configurations]
    configurations = next((held for place in places if (held := _configurations(place, row))), {})
    version = "" if prefix is not None else _version(library.parent.parent, row)
    return Emulator(row.name, version, library, configurations, how, sha256_file(library), row)


def _configurations(place: Path, row: EmulatorRow) -> dict[str, Path | None]:
    """Targets with their configuration in a directory; of several the one whose pattern stands first."""
    if not place.is_dir():
        return {}
    files = sorted(path for path in place.iterdir() if path.is_file())
    found: dict[str, Path | None] = {}
    for pattern in row.patterns:
        for path in files:
            match = re.fullmatch(pattern, path.name)
            if match is not None:
                found.setdefault(match["target"], path.resolve())
    return found


def _version(prefix: Path, row: EmulatorRow) -> str:
    if not row.version or not (program := prefix / row.version[0]).is_file():
        return ""
    try:
        said = process.run([program, *row.version[1:]], limit_s=_VERSION_S).stdout
    except (CommandFailed, MissingTool):
        return ""
    match = _NUMBER.search(said)
    return match[0] if match else ""


def find_runtime(
    choice: Path | None,
    environ: Mapping[str, str],
    python: Path | None = None,
    *,
    table: EmulatorTable | None = None,
) -> HipRuntime:
    """HIP's runtime: in `choice` (a prefix or the library), `python`'s packages, prefixes, the system.

    Raises `MissingTool` where there is none.
    """
    known = table or emulator_table()
    if choice is not None:
        path = choice.expanduser().absolute()
        found = _runtime_file(path) if path.is_file() else _runtime(path, known, searched=True)
        if found is None:
            raise MissingTool(
                f"there is no HIP runtime ({known.runtime.library}) in {path}",
                where=path,
                next_step="give a ROCm prefix, or the library itself",
            )
        return found
    for place in site_packages(python) if python is not None else ():
        for package in known.runtime.packages:
            if (found := _runtime(place / package, known, searched=False)) is not None:
                return found
    prefixes = [environ[name] for name in known.prefix_variables if environ.get(name)]
    for prefix in (*prefixes, *known.prefixes, *known.runtime.system):
        searched = prefix not in known.runtime.system
        if (found := _runtime(Path(prefix), known, searched=searched)) is not None:
            return found
    raise MissingTool(
        f"HIP's runtime ({known.runtime.library}) was not found",
        next_step="install ROCm in the tested environment, or name its prefix: --rocm",
    )


def _runtime(prefix: Path, table: EmulatorTable, *, searched: bool) -> HipRuntime | None:
    """The runtime of a prefix; `searched` says that the loader has to be told where it is."""
    for directory in table.runtime.directories:
        # A name without a version may be that of a small library which leads to the real one.
        files = sorted(
            (prefix / directory).glob(table.runtime.library),
            key=lambda path: (_VERSION.search(path.resolve().name) is None, len(path.name)),
        )
        if files:
            found = _runtime_file(files[0])
            return found if searched else msgspec.structs.replace(found, directories=())
    return None


def _runtime_file(path: Path) -> HipRuntime:
    match = _VERSION.search(path.resolve().name)
    return HipRuntime(path, match["version"] if match else "", (path.parent,))
