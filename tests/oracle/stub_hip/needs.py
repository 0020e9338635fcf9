"""What a library needs from others: files, symbols with their versions, and where it looks for them."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile


@dataclass(frozen=True, order=True)
class Symbol:
    """A symbol somebody needs; `version` is empty where none is asked for, `size` matters for data only."""

    name: str
    version: str
    kind: str  # "function", "data" or "thread"
    size: int = 0


@dataclass(frozen=True)
class Needs:
    """The dynamic part of one ELF file."""

    files: tuple[str, ...]
    rpath: tuple[Path, ...]
    runpath: tuple[Path, ...]
    versioned: tuple[tuple[str, Symbol], ...]  # with the file that the version is asked of
    loose: tuple[Symbol, ...]  # asked of no file in particular
    defines: frozenset[str]


def needs_of(path: Path) -> Needs:
    """Read one ELF file's needs from its dynamic section, symbols and version needs."""
    status = path.stat()
    return _read(path, (status.st_ino, status.st_mtime_ns, status.st_size))


@functools.cache
def _read(path: Path, _identity: tuple[int, ...]) -> Needs:
    """Cached, because libc's thousands of symbols are the same each time."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        tags = _tags(elf)
        versioned, loose, defines = _symbols(elf)
    origin = str(path.resolve().parent)
    return Needs(
        files=tuple(tags.get("DT_NEEDED", ())),
        rpath=_directories(tags.get("DT_RPATH", ()), origin),
        runpath=_directories(tags.get("DT_RUNPATH", ()), origin),
        versioned=versioned,
        loose=loose,
        defines=defines,
    )


def _tags(elf: ELFFile) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    section = elf.get_section_by_name(".dynamic")
    names = {"DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}
    for tag in section.iter_tags() if section else ():
        if tag.entry.d_tag in names:
            tags.setdefault(tag.entry.d_tag, []).append(getattr(tag, names[tag.entry.d_tag]))
    return tags


def _directories(values: list[str] | tuple[()], origin: str) -> tuple[Path, ...]:
    words = [word for value in values for word in value.split(":") if word]
    return tuple(
        Path(os.path.normpath(word.replace("${ORIGIN}", origin).replace("$ORIGIN", origin))) for word in words
    )


def _asked_versions(elf: ELFFile) -> dict[int, tuple[str, str]]:
    """Version index to (file, version)."""
    section = elf.get_section_by_name(".gnu.version_r")
    return {
        entry["vna_other"]: (need.name, entry.name)
        for need, entries in (section.iter_versions() if section else ())
        for entry in entries
    }


def _symbols(elf: ELFFile) -> tuple[tuple[tuple[str, Symbol], ...], tuple[Symbol, ...], frozenset[str]]:
    table = elf.get_section_by_name(".dynsym")
    indices = elf.get_section_by_name(".gnu.version")
    asked = _asked_versions(elf)
    versioned, loose, defines = [], [], set()
    for number, symbol in enumerate(table.iter_symbols() if table else ()):
        index = indices.get_symbol(number)["ndx"] if indices else 0
        # A program's copy of a library's data is defined here, yet asks for the library's version.
        if isinstance(index, int) and index & 0x7FFF in asked:
            file, version = asked[index & 0x7FFF]
            versioned.append((file, Symbol(symbol.name, version, *_kind(symbol))))
        elif symbol["st_shndx"] != "SHN_UNDEF":
            defines.add(symbol.name)
        elif symbol.name and symbol["st_info"]["bind"] != "STB_WEAK":
            loose.append(Symbol(symbol.name, "", *_kind(symbol)))
    return tuple(versioned), tuple(loose), frozenset(defines)


def _kind(symbol: object) -> tuple[str, int]:
    kind = symbol["st_info"]["type"]
    size = max(symbol["st_size"], 64)
    if kind == "STT_TLS":
        return "thread", size
    return ("data", size) if kind == "STT_OBJECT" else ("function", 0)
