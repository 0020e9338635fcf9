"""Ways in which a native library goes wrong: bytes, headers, tables, and tools that change it."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from real.fault_generator.base import operator
from real.fault_generator.blind.places import (
    TRIES,
    found,
    is_library,
)
from real.mutations_base import Workbench


class Section(NamedTuple):
    """A row of the table of sections."""

    kind: int
    address: int
    offset: int
    size: int
    entry: int


@dataclass
class Elf:
    """A little-endian ELF file of 64 bits, to be changed in `data`."""

    data: bytearray
    sections: dict[str, Section] = field(init=False)

    def __post_init__(self) -> None:
        (table,) = struct.unpack_from("<Q", self.data, 0x28)
        size, count, names = struct.unpack_from("<3H", self.data, 0x3A)
        rows = [struct.unpack_from("<2I4Q2I2Q", self.data, table + size * number) for number in range(count)]
        self.sections = {
            self.text(rows[names][4] + row[0]): Section(row[1], row[3], row[4], row[5], row[9])
            for row in rows
        }

    def text(self, offset: int) -> str:
        """The string there."""
        return self.data[offset : self.data.index(0, offset)].decode("latin-1")

    def entries(self, name: str) -> list[int]:
        """Offsets of the entries of a section, the first (of symbols: the empty one) left out."""
        section = self.sections[name]
        return list(range(section.offset, section.offset + section.size, section.entry))

    def symbols(self, *, defined: bool) -> list[int]:
        """Offsets of the named dynamic symbols that are defined, or are not."""
        return [
            at
            for at in self.entries(".dynsym")[1:]
            if struct.unpack_from("<I", self.data, at)[0]
            and bool(struct.unpack_from("<H", self.data, at + 6)[0]) == defined
        ]

    def symbol(self, at: int) -> str:
        """The name of the symbol there."""
        return self.text(self.sections[".dynstr"].offset + struct.unpack_from("<I", self.data, at)[0])


def change_elf(bench: Workbench, rng: Random, change: Callable[[Elf], str | None]) -> str | None:
    """Change the bytes of a library; `change` says what it did."""
    for _ in range(TRIES):
        place = found(bench, rng, is_library)
        if place is None:
            return None
        project, name, data = place
        if data[:6] != b"\x7fELF\2\1":
            continue
        elf = Elf(bytearray(data))
        said = change(elf)
        if said is not None and elf.data != data:
            with bench.edit(project) as wheel:
                wheel.put(name, bytes(elf.data))
            return f"{project}, {name}: {said}"
    return None


def change_with(bench: Workbench, rng: Random, *words: str) -> str | None:
    """Let a program change a library."""
    for _ in range(TRIES):
        place = found(bench, rng, is_library)
        if place is None or not place[2].startswith(b"\x7fELF"):
            continue
        project, name, _ = place
        try:
            with bench.edit(project) as wheel:
                wheel.run(name, *words)
        except (subprocess.CalledProcessError, AssertionError):
            continue
        return f"{project}, {name}: {' '.join(words)}"
    return None


@operator
def byte_of_section_flipped(bench: Workbench, rng: Random) -> str | None:
    """A byte of a section of a library is another."""

    def change(elf: Elf) -> str | None:
        name = rng.choice(
            sorted(name for name, row in elf.sections.items() if row.size and row.kind not in (0, 8))
        )
        at = rng.randrange(elf.sections[name].size)
        elf.data[elf.sections[name].offset + at] ^= rng.randint(1, 255)
        return f"byte {at} of {name}"

    return change_elf(bench, rng, change)


@operator
def header_of_other_machine(bench: Workbench, rng: Random) -> str | None:
    """The header says another machine, class, system or kind of file."""

    def change(elf: Elf) -> str | None:
        what, at, new = rng.choice(
            (
                ("aarch64", 0x12, b"\xb7\0"),
                ("ppc64", 0x12, b"\x15\0"),
                ("i386", 0x12, b"\x03\0"),
                ("32 bits", 0x04, b"\x01"),
                ("big-endian", 0x05, b"\x02"),
                ("FreeBSD", 0x07, b"\x09"),
                ("an ABI of version 1", 0x08, b"\x01"),
                ("a program", 0x10, b"\x02\0"),
                ("an object", 0x10, b"\x01\0"),
                ("a core dump", 0x10, b"\x04\0"),
                ("no segments", 0x38, b"\0\0"),
            )
        )
        elf.data[at : at + len(new)] = new
        return f"the header says {what}"

    return change_elf(bench, rng, change)


@operator
def symbol_renamed(bench: Workbench, rng: Random) -> str | None:
    """A dynamic symbol has another name, as another compiler or another header gives it."""

    def change(elf: Elf) -> str | None:
        places = elf.symbols(defined=rng.random() < 0.3) or elf.symbols(defined=False)
        if not places:
            return None
        symbol = rng.choice(places)
        name = elf.symbol(symbol)
        start = elf.sections[".dynstr"].offset + struct.unpack_from("<I", elf.data, symbol)[0]
        at = rng.randrange(len(name))
        elf.data[start + at] = ord(rng.choice([letter for letter in "abxyzK2" if letter != name[at]]))
        return f"the symbol {name} is named {elf.symbol(symbol)}"

    return change_elf(bench, rng, change)


@operator
def symbol_hidden(bench: Workbench, rng: Random) -> str | None:
    """A symbol that the library defined is hidden, local, weak and undefined, or undefined."""

    def change(elf: Elf) -> str | None:
        places = elf.symbols(defined=True)
        if not places:
            return None
        at = rng.choice(places)
        name, what = (
            elf.symbol(at),
            rng.choice(("hidden", "local", "undefined", "weak and undefined", "data")),
        )
        if what == "hidden":
            elf.data[at + 5] = 2
        elif what == "local":
            elf.data[at + 4] &= 0x0F
        elif what == "data":
            elf.data[at + 4] = elf.data[at + 4] & 0xF0 | 1
        else:
            elf.data[at + 6 : at + 16] = bytes(10)
            if what != "undefined":
                elf.data[at + 4] = elf.data[at + 4] & 0x0F | 0x20
        return f"{name} is {what}"

    return change_elf(bench, rng, change)


@operator
def relocation_changed(bench: Workbench, rng: Random) -> str | None:
    """A relocation has another kind, symbol, place or addend."""

    def change(elf: Elf) -> str | None:
        tables = sorted({".rela.dyn", ".rela.plt"} & set(elf.sections))
        if not tables:
            return None
        name = rng.choice(tables)
        at = rng.choice(elf.entries(name))
        place, info, addend = struct.unpack_from("<2Qq", elf.data, at)
        what = rng.choice(("kind", "symbol", "place", "addend", "nothing"))
        if what == "kind":
            info = info >> 32 << 32 | rng.choice((1, 2, 5, 6, 7, 8, 10, 18, 37))
        elif what == "symbol":
            info = info & 0xFFFFFFFF | rng.randrange(len(elf.entries(".dynsym"))) << 32
        elif what == "place":
            place += rng.choice((-8, 4, 8, 1 << 30))
        elif what == "addend":
            addend += rng.choice((-8, 1, 16, 1 << 40))
        else:
            place, info, addend = 0, 0, 0
        struct.pack_into("<2Qq", elf.data, at, place, info, addend)
        return f"another {what} in the relocation at {at:#x} of {name}"

    return change_elf(bench, rng, change)


@operator
def dynamic_entry_changed(bench: Workbench, rng: Random) -> str | None:
    """An entry of the dynamic section is gone, another, or the last."""

    def change(elf: Elf) -> str | None:
        if ".dynamic" not in elf.sections:
            return None
        used = [at for at in elf.entries(".dynamic") if struct.unpack_from("<Q", elf.data, at)[0]]
        at = rng.choice(used)
        tag, value = struct.unpack_from("<2Q", elf.data, at)
        what = rng.choice(("gone", "the last", "of another value", "flags of a program"))
        if what == "gone":
            struct.pack_into("<2Q", elf.data, at, 0x6FFFFEF0, 0)
        elif what == "the last":
            struct.pack_into("<2Q", elf.data, at, 0, 0)
        elif what == "of another value":
            struct.pack_into("<2Q", elf.data, at, tag, value ^ 1 << rng.randrange(20))
        else:
            # DT_FLAGS_1: DF_1_PIE or DF_1_NOOPEN.
            struct.pack_into("<2Q", elf.data, at, 0x6FFFFFFB, rng.choice((0x08000000, 0x40)))
        return f"the dynamic entry {tag:#x} is {what}"

    return change_elf(bench, rng, change)


@operator
def code_overwritten(bench: Workbench, rng: Random) -> str | None:
    """Bytes of the code are others: a failed hot patch, a bad block."""

    def change(elf: Elf) -> str | None:
        name = rng.choice(sorted({".text", ".init", ".plt", ".fini"} & set(elf.sections)))
        row = elf.sections[name]
        count = min(rng.choice((1, 8, 64, 4096)), row.size)
        at = row.offset + rng.randrange(row.size - count + 1)
        elf.data[at : at + count] = bytes([rng.choice((0x00, 0xCC, 0xC3, 0x0F, 0xFF))]) * count
        return f"{count} bytes of {name} at {at:#x}"

    return change_elf(bench, rng, change)


@operator
def newer_c_library(bench: Workbench, rng: Random) -> str | None:
    """Built on a newer machine: the version of a symbol that is needed is newer."""

    def change(elf: Elf) -> str | None:
        row = elf.sections.get(".dynstr")
        if row is None or ".gnu.version_r" not in elf.sections:
            return None
        strings = bytes(elf.data[row.offset : row.offset + row.size])
        places = list(re.finditer(rb"\0((GLIBC|GLIBCXX|CXXABI|hip)_[\d.]+)(?=\0)", strings))
        if not places:
            return None
        place = rng.choice(places)
        old = place.group(1)
        new = old[:-1] + b"9" if old[-1:] != b"9" else old[:-2] + b"99"
        at = row.offset + place.start(1)
        elf.data[at : at + len(old)] = new
        need = elf.sections[".gnu.version_r"]
        for entry in range(need.offset, need.offset + need.size, 16):
            # Entries of both kinds have 16 bytes; the digest of a name stands first in those of versions.
            if struct.unpack_from("<I", elf.data, entry)[0] == _elf_hash(old):
                struct.pack_into("<I", elf.data, entry, _elf_hash(new))
        return f"{old.decode()} became {new.decode()}"

    return change_elf(bench, rng, change)


def _elf_hash(name: bytes) -> int:
    """The digest of a symbol's or version's name, as the System V ABI has it."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


@operator
def patchelf_run_path(bench: Workbench, rng: Random) -> str | None:
    """The search path is the build machine's, or gone."""
    paths = (
        "/opt/rocm/lib",
        "/build/pytorch/torch/lib",
        "$ORIGIN/../../lib",
        "ORIGIN/lib",
        "$ORIGIN/",
        ".",
        "",
    )
    path = rng.choice(paths)
    kind = ["--force-rpath"] if rng.random() < 0.5 else []
    words = [*kind, "--set-rpath", path] if path else ["--remove-rpath"]
    return change_with(bench, rng, "patchelf", *words)


@operator
def patchelf_needed(bench: Workbench, rng: Random) -> str | None:
    """The list of needed libraries has one more, one less or another one."""
    names = (
        "libc10_hip.so",
        "libamdhip64.so.5",
        "libtorch_hip.so",
        "libtorch_cpu.so",
        "libstdc++.so.6",
        "libc.so.6",
    )
    more = (
        "libopenblas.so.0",
        "libmpi.so.40",
        "libcudart.so.12",
        "libamdhip64.so",
        "libpython3.11.so.1.0",
        "libm.so.6",
    )
    old = rng.choice(names)
    new = rng.choice(
        (old.replace(".so", "-3f2a91c0.so"), old.split(".so")[0] + ".so", f"{old}.9", f"lib/{old}")
    )
    words = rng.choice(
        (["--add-needed", rng.choice(more)], ["--remove-needed", old], ["--replace-needed", old, new])
    )
    return change_with(bench, rng, "patchelf", *words)


@operator
def patchelf_misused(bench: Workbench, rng: Random) -> str | None:
    """Another use of patchelf that a script has wrong."""
    words = rng.choice(
        (
            ["--set-soname", "libtorch.so"],
            ["--set-soname", "libc10_hip.so.2"],
            ["--no-default-lib"],
            ["--page-size", "65536", "--set-rpath", "$ORIGIN:$ORIGIN/lib:$ORIGIN/../torch/lib" + ":/x" * 60],
            ["--clear-symbol-version", "memcpy"],
            ["--set-execstack"],
        )
    )
    return change_with(bench, rng, "patchelf", *words)


@operator
def stripped_too_far(bench: Workbench, rng: Random) -> str | None:
    """`strip` and `objcopy` took more than debugging information, or the wrong file was kept."""
    words = rng.choice(
        (
            ["objcopy", "--only-keep-debug"],
            ["objcopy", "--strip-sections", "--strip-all"],
            ["strip", "--strip-all"],
            ["objcopy", "--remove-section=.hip_fatbin"],
            ["objcopy", "--remove-section=.hipFatBinSegment"],
            ["objcopy", "--remove-section=.eh_frame", "--remove-section=.gcc_except_table"],
            ["objcopy", "--remove-section=.init_array"],
            ["objcopy", "--remove-section=.rodata"],
            ["objcopy", "--remove-section=.note.gnu.build-id"],
            ["objcopy", "--set-section-flags", ".data=alloc,readonly"],
            ["objcopy", "--compress-debug-sections"],
        )
    )
    return change_with(bench, rng, *words)
