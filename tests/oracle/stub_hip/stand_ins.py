"""Builds what a library needs to be opened on a machine without ROCm: the stub runtime and empty libraries.

The stub takes the place of libamdhip64 in every process started here. Each other library that cannot be
found becomes an empty stand-in with the symbols and versions that are asked of it. Symbols asked of nobody
in particular (an extension's Python functions, say) are in one more stand-in.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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


SOURCES = Path(__file__).parent
RUNTIME = re.compile(r"libamdhip64\.so(\.\d+)*")
RUNTIME_SYMBOL = re.compile(r"(__)?hip[A-Z]\w*")
LOOSE = "libstand_in_for_loose_symbols.so"

Where = Callable[[Sequence[str]], list[Path | None]]


@dataclass
class Survey:
    """What a library and the libraries found beside it ask of libraries that are not there."""

    missing: list[str] = field(default_factory=list)  # file names, the runtime's too, in order
    wanted: dict[str, set[Symbol]] = field(default_factory=dict)  # by file name
    loose: set[Symbol] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)


def survey(library: Path, runtime_paths: Sequence[Path], where: Where) -> Survey:
    """Follow NEEDED entries as the dynamic linker does; `where` tells about the system's own libraries."""
    found = Survey()
    seen: set[str] = set()
    waiting: list[tuple[Path, tuple[Path, ...], bool]] = [(library, (), False)]
    while waiting:
        path, inherited, of_system = waiting.pop(0)
        needs = needs_of(path)
        found.defined |= needs.defines
        found.defined |= {symbol.name for _, symbol in needs.versioned}
        rpath = () if needs.runpath else (*needs.rpath, *inherited)
        if not of_system:
            found.loose |= set(needs.loose)
            for file, symbol in needs.versioned:
                found.wanted.setdefault(file, set()).add(symbol)
        names = [name for name in needs.files if name not in seen]
        seen.update(names)
        plain = [name for name in names if "/" not in name]
        system = dict(zip(plain, where(plain), strict=True)) if plain else {}
        for name in names:
            if name not in system:  # a path: there or not, no stand-in can take its place
                waiting += [(Path(name), rpath, False)] if Path(name).is_file() else []
                continue
            beside = _beside(name, (*rpath, *runtime_paths, *needs.runpath))
            target = None if RUNTIME.fullmatch(name) else beside or system[name]
            if target is None:
                found.missing.append(name)
            else:
                waiting.append((target, rpath, of_system or beside is None))
    return found


def _beside(name: str, directories: Iterable[Path]) -> Path | None:
    return next((path for directory in directories if (path := directory / name).is_file()), None)


def build(found: Survey, directory: Path) -> list[Path]:
    """Compile the stub runtime and the stand-ins into `directory`; the stub is the first of them."""
    runtimes = [name for name in found.missing if RUNTIME.fullmatch(name)]
    assert len(runtimes) < 2, f"two HIP runtimes are needed at once: {runtimes}"
    runtime = runtimes[0] if runtimes else "libamdhip64.so"
    loose = {symbol for symbol in found.loose if symbol.name not in found.defined}
    of_runtime = {symbol for symbol in loose if RUNTIME_SYMBOL.fullmatch(symbol.name)}
    asked = found.wanted.get(runtime, set()) | of_runtime
    objects = sorted(_compiled().glob("*.o"))
    built = [_library(directory, runtime, asked | {_registration(asked)}, objects)]
    others = [name for name in found.missing if name != runtime]
    built += [_library(directory, name, found.wanted.get(name, set()), []) for name in others]
    if loose - of_runtime:
        built.append(_library(directory, LOOSE, loose - of_runtime, []))
    return built


def opener() -> Path:
    """The small program that opens a library in a process of its own."""
    return _compiled() / "open_library"


@functools.cache
def _compiled() -> Path:
    """What is the same for every library: the opener, the runtime's objects. Kept until this process ends."""
    directory = Path(tempfile.mkdtemp(prefix="stub-hip-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    program = SOURCES / "open_library.c"
    _compile(["-o", str(directory / program.stem), str(program), "-ldl"])
    for source in SOURCES.glob("*.c"):
        if source != program:
            target = directory / f"{source.stem}.o"
            _compile(["-fPIC", "-Wall", "-Wextra", "-Werror", "-c", "-o", str(target), str(source)])
    return directory


def _registration(asked: set[Symbol]) -> Symbol:
    """The entry point, which the runtime has even where the library under test does not ask for it."""
    entry = Symbol("__hipRegisterFatBinary", "", "function")
    return next((symbol for symbol in sorted(asked) if symbol.name == entry.name), entry)


def _library(directory: Path, soname: str, symbols: set[Symbol], sources: list[Path]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    symbols_c, script, library = directory / "symbols.c", directory / "versions.map", directory / soname
    symbols_c.write_text(_definitions(sorted(symbols), with_runtime=bool(sources)))
    script.write_text(_version_script({symbol.version for symbol in symbols if symbol.version}))
    options = ["-shared", "-fPIC", f"-Wl,-soname,{soname}", f"-Wl,--version-script,{script}"]
    files = [str(symbols_c), *map(str, sources)]
    _compile([*options, "-I", str(SOURCES), "-o", str(library), *files, "-ldl", "-lpthread"])
    return library


def _definitions(symbols: list[Symbol], *, with_runtime: bool) -> str:
    """C that defines each symbol: a function that returns 0, or zeroed data."""
    lines = ["/* Generated: the symbols that one library asks for. */"]
    lines += ["__attribute__((used)) static long stand_in_zero(void) { return 0; }"]
    if with_runtime:
        lines += ['#include "stub.h"']
    versioned: set[str] = {symbol.name for symbol in symbols if symbol.version}
    default: set[str] = set()
    for number, symbol in enumerate(symbols):
        if not symbol.version and symbol.name in versioned:
            continue  # whoever asks for no version takes the default one
        here = f"stand_in_{number}"
        if symbol.version:
            at = "@" if symbol.name in default else "@@"
            default.add(symbol.name)
            lines.append(_definition(symbol, here, ""))
            lines.append(f'__asm__(".symver {here}, {symbol.name}{at}{symbol.version}");')
        else:
            lines.append(_definition(symbol, here, f' __asm__("{symbol.name}")'))
    return "\n".join(lines) + "\n"


def _definition(symbol: Symbol, here: str, label: str) -> str:
    exported = '__attribute__((visibility("default"), used))'
    if symbol.kind != "function":
        array = f"{'__thread ' if symbol.kind == 'thread' else ''}char {here}[{symbol.size}]"
        return f"{exported} extern {array}{label}; {array};"
    if symbol.name == "__hipRegisterFatBinary":
        body = "{ return stub_register_fat_binary(wrapper); }"
        head = f"void **{here}(const void *wrapper)"
        return f"{exported} {head}{label}; {head} {body}"
    return f'{exported} extern long {here}(void){label} __attribute__((alias("stand_in_zero")));'


def _version_script(versions: set[str]) -> str:
    hidden = "local: stand_in_*; stub_*;"
    if not versions:
        return f"{{ {hidden} }};\n"
    first, *rest = sorted(versions)
    return f"{first} {{ {hidden} }};\n" + "".join(f"{version} {{ }};\n" for version in rest)


def _compile(words: list[str]) -> None:
    done = subprocess.run(
        ["gcc", "-O1", "-fvisibility=hidden", *words], check=False, text=True, capture_output=True
    )
    assert done.returncode == 0, f"gcc {' '.join(words)}\n{done.stderr}"
