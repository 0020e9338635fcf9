"""Ways to break a set, thought up without sight of any check: what build machines, tools and people do."""

from __future__ import annotations

import ast
import gzip
import importlib.util
import io
import marshal
import re
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from real.fault_generator.base import any_wheel, members, open_wheel, operator, pick
from real.mutations_base import Workbench
from real.wheel_edit import FILE, LINK, WheelEdit, pack

_TRIES, _LARGEST = 6, 4 << 20
_LIBRARY = re.compile(r".*\.so(\.\d+)*")
_TEXT = (".py", "METADATA", "WHEEL", ".txt", ".h", ".hpp", ".json", ".pl", ".pm", "RECORD")


def found(
    bench: Workbench, rng: Random, wanted: Callable[[str], bool], *, info: bool = False
) -> tuple[str, str, bytes] | None:
    """A project, one of its wheel's smaller members that is wanted, and the bytes."""
    for _ in range(_TRIES):
        project = any_wheel(bench, rng)
        wheel = open_wheel(bench.paths[project])
        names = [name for name in members(wheel, info=info) if wanted(name)]
        name = pick(rng, [name for name in names if wheel.part(name).size < _LARGEST])
        if name is not None:
            return project, name, wheel.read(name)
    return None


def is_module(name: str) -> bool:
    """Whether this is Python source."""
    return name.endswith(".py")


def is_text(name: str) -> bool:
    """Whether people read this."""
    return name.endswith(_TEXT)


def is_library(name: str) -> bool:
    """Whether a loader takes this."""
    return bool(_LIBRARY.fullmatch(name))


def change_text(
    bench: Workbench,
    rng: Random,
    wanted: Callable[[str], bool],
    change: Callable[[str], tuple[str, str] | None],
    *,
    info: bool = False,
) -> str | None:
    """Change the text of a wanted member; `change` gives the new text and what it did."""
    for _ in range(_TRIES):
        place = found(bench, rng, wanted, info=info)
        if place is None:
            return None
        project, name, data = place
        text = data.decode("utf-8", "surrogateescape")
        made = change(text)
        if made is not None and made[0] != text:
            with bench.edit(project) as wheel:
                wheel.put(name, made[0].encode("utf-8", "surrogateescape"))
            return f"{project}, {name}: {made[1]}"
    return None


# -- the archive


@operator
def upload_cut_short(bench: Workbench, rng: Random) -> str | None:
    """The connection broke, and the part that had arrived was kept."""
    project = any_wheel(bench, rng)
    lost = rng.choice((1, 4, 22, rng.randint(23, 4096), bench.paths[project].stat().st_size // 3))
    bench.overwrite(project, lambda data: data[:-lost])
    return f"{project}: the last {lost} bytes are lost"


@operator
def bit_rot(bench: Workbench, rng: Random) -> str | None:
    """One bit of the file is another."""
    project = any_wheel(bench, rng)
    place, bit = rng.randrange(bench.paths[project].stat().st_size), rng.randrange(8)

    def flip(data: bytes) -> bytes:
        return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]

    bench.overwrite(project, flip)
    return f"{project}: bit {bit} of byte {place} of the file"


@operator
def text_mode_transfer(bench: Workbench, rng: Random) -> str | None:
    """A transfer in text mode changed the line ends of the archive."""
    project = any_wheel(bench, rng)
    old, new = rng.choice(((b"\n", b"\r\n"), (b"\r", b""), (b"\r\n", b"\n")))
    bench.overwrite(project, lambda data: data.replace(old, new))
    return f"{project}: {old!r} became {new!r} in the whole file"


@operator
def zip_updated_twice(bench: Workbench, rng: Random) -> str | None:
    """A tool appended a second member of the same name, an older or a newer state of it."""
    place = found(bench, rng, is_text, info=True)
    if place is None:
        return None
    project, name, data = place
    lines = data.splitlines(keepends=True)
    del lines[rng.randrange(len(lines)) if lines else 0 :]
    with bench.edit(project) as wheel:
        if name.endswith("/RECORD"):
            wheel.record()
        at = rng.choice((0, len(wheel.parts)))
        wheel.parts.insert(at, pack(name, b"".join(lines)))
    return f"{project}: a second {name}, at {at}"


@operator
def packed_on_windows(bench: Workbench, rng: Random) -> str | None:
    """Names of members with backslashes, of all or of one package's."""
    project = any_wheel(bench, rng)
    wheel = open_wheel(bench.paths[project])
    whole = rng.random() < 0.3
    names = [name for name in members(wheel, info=whole) if "/" in name]
    if not whole:
        names = rng.sample(names, min(len(names), 1))
    if not names:
        return None
    with bench.edit(project) as wheel:
        wheel.record()
        for part in wheel.parts:
            if part.text_name in names:
                part.name = part.text_name.replace("/", "\\")
    return f"{project}: backslashes in {len(names)} names, as {names[0]}"


@operator
def links_kept_by_zip(bench: Workbench, rng: Random) -> str | None:
    """`zip --symlinks`: what was a link on the build machine is a member that holds the target's name."""
    place = found(bench, rng, lambda name: is_library(name) or is_module(name))
    if place is None:
        return None
    project, name, _ = place
    target = rng.choice(("{}.real", "/build/wheel/lib/{}", "../{}", "{}")).format(name.rpartition("/")[2])
    with bench.edit(project) as wheel:
        data = wheel.read(name)
        wheel.put(name, target, mode=LINK | 0o777)
        if target.endswith(".real"):
            wheel.put(f"{name}.real", data)
    return f"{project}: {name} is a link to {target}"


@operator
def modes_lost(bench: Workbench, rng: Random) -> str | None:
    """Members carry modes of another kind."""
    project = any_wheel(bench, rng)
    mode = rng.choice((0, FILE, FILE | 0o200, FILE | 0o4755, 0o040755, FILE | 0o111))
    with bench.edit(project) as wheel:
        names = members(wheel, info=True)
        chosen = names if rng.random() < 0.5 else [rng.choice(names)]
        for part in wheel.parts:
            if part.text_name in chosen:
                part.mode = mode
    return f"{project}: mode {mode:o} of {len(chosen)} members"


@operator
def directory_as_member(bench: Workbench, rng: Random) -> str | None:
    """An entry for a directory, under the name of a file or beside files."""
    place = found(bench, rng, lambda _: True)
    if place is None:
        return None
    project, name, _ = place
    instead = rng.random() < 0.5
    with bench.edit(project) as wheel:
        if instead:
            wheel.remove(name)
            wheel.put(f"{name}/__init__.py", "")
        wheel.parts.insert(0, pack(f"{name}/" if instead else f"{name}.d/", b"", 0, 0o040755))
    return f"{project}: a directory {'instead of' if instead else 'beside'} {name}"


# -- any member


@operator
def member_renamed(bench: Workbench, rng: Random) -> str | None:
    """A member has another name."""
    place = found(bench, rng, lambda _: True, info=True)
    if place is None:
        return None
    project, name, _ = place
    folder, slash, last = name.rpartition("/")
    stem, dot, ending = last.partition(".")
    new = folder + slash + rng.choice(
        (last.upper(), last.swapcase(), f"{last}.orig", f"{stem}-1{dot}{ending}", f"_{last}", last[:-1])
    )  # fmt: skip
    if new == name:
        return None
    with bench.edit(project) as wheel:
        if name.endswith(".dist-info/RECORD"):
            wheel.record()
        wheel.rename(name, new)
    return f"{project}: {name} is named {new}"


@operator
def members_swapped(bench: Workbench, rng: Random) -> str | None:
    """Two members have each other's bytes."""
    project = any_wheel(bench, rng)
    wheel = open_wheel(bench.paths[project])
    names = [name for name in members(wheel) if wheel.part(name).size < _LARGEST]
    kind = rng.choice([name.rpartition(".")[2] for name in names])
    same = [name for name in names if name.endswith(f".{kind}")]
    if len(same) < 2:
        same = names
    if len(same) < 2:
        return None
    one, other = rng.sample(same, 2)
    first, second = wheel.read(one), wheel.read(other)
    if first == second:
        return None
    with bench.edit(project) as wheel:
        wheel.put(one, second)
        wheel.put(other, first)
    return f"{project}: {one} and {other} are swapped"


@operator
def member_left_out(bench: Workbench, rng: Random) -> str | None:
    """A member is not there, in the archive or in RECORD too."""
    place = found(bench, rng, lambda _: True, info=True)
    if place is None:
        return None
    project, name, _ = place
    listed = rng.random() < 0.4 and not name.endswith("/RECORD")
    with bench.edit(project) as wheel:
        rows = [list(row) for row in wheel.record()]
        wheel.remove(name)
        wheel.rows = rows if listed else [row for row in rows if row[0] != name]
    return f"{project}: {name} is left out{', but listed' if listed else ''}"


@operator
def other_bytes_fetched(bench: Workbench, rng: Random) -> str | None:
    """A member holds what a download, a checkout or a full disk left of it."""
    place = found(bench, rng, lambda _: True)
    if place is None:
        return None
    project, name, data = place
    what, new = rng.choice(
        (
            (
                "a pointer of Git LFS",
                b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\n",
            ),
            (
                "a page of an error",
                b"<!DOCTYPE html>\n<html><body><h1>503 Backend fetch failed</h1></body></html>\n",
            ),
            ("nothing", b""),
            ("its first half", data[: len(data) // 2]),
            ("zeros", bytes(len(data))),
            ("a page of zeros at its end", data[:-512] + bytes(min(512, len(data)))),
            ("itself twice", data + data),
            ("gzip of it", b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + zlib.compress(data)[2:-4] + bytes(8)),
        )
    )
    if new == data:
        return None
    with bench.edit(project) as wheel:
        wheel.put(name, new)
    return f"{project}: {name} holds {what}"


@operator
def line_deleted(bench: Workbench, rng: Random) -> str | None:
    """A line of a text is gone."""

    def change(text: str) -> tuple[str, str] | None:
        lines = text.splitlines(keepends=True)
        at = pick(rng, [str(number) for number, line in enumerate(lines) if line.strip()])
        if at is None:
            return None
        gone = lines.pop(int(at))
        return "".join(lines), f"line {int(at) + 1} is gone: {gone.strip()[:60]}"

    return change_text(bench, rng, is_text, change, info=True)


@operator
def metadata_character_changed(bench: Workbench, rng: Random) -> str | None:
    """One character of METADATA is another."""

    def change(text: str) -> tuple[str, str] | None:
        head = text.partition("\n\n")[0]
        at = rng.randrange(len(head))
        new = rng.choice("0123456789.+-_ ;:=<>[]()\n\t\0éaZ")
        return text[:at] + new + text[at + 1 :], f"{text[at]!r} at {at} became {new!r}"

    return change_text(bench, rng, lambda name: name.endswith(".dist-info/METADATA"), change, info=True)


@operator
def literal_changed(bench: Workbench, rng: Random) -> str | None:
    """A number or a string of Python source is another."""
    literal = re.compile(r"""(?<![\w"'])(\d+(?:\.\d+)?|'[^'\n]*'|"[^"\n]*")(?![\w"'])""")

    def change(text: str) -> tuple[str, str] | None:
        places = list(literal.finditer(text))
        if not places:
            return None
        place = rng.choice(places)
        old = place.group()
        new = f"{old[:-1]}_{old[-1]}" if old[0] in "\"'" else rng.choice((f"{old}0", "-1", "None", "0"))
        if len(old) > 2 and old[0] in "\"'" and rng.random() < 0.5:
            new = old[:-2] + old[-1]
        return text[: place.start()] + new + text[place.end() :], f"{old[:60]} became {new[:60]}"

    return change_text(bench, rng, is_module, change)


# -- ELF files


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
    for _ in range(_TRIES):
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
    for _ in range(_TRIES):
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


# -- Python source


def insert(rng: Random, text: str, line: str) -> str:
    """Put a line between two statements of a module, or at one of its ends."""
    lines = text.splitlines(keepends=True)
    try:
        tops = [node.lineno - 1 for node in ast.parse(text).body[1:]]
    except (SyntaxError, ValueError):
        tops = []
    at = rng.choice([0, len(lines), *tops])
    return "".join([*lines[:at], f"{line}\n", *lines[at:]])


def insert_one_of(bench: Workbench, rng: Random, lines: Sequence[str]) -> str | None:
    """Put one of these lines into a module."""

    def change(text: str) -> tuple[str, str]:
        line = rng.choice(lines)
        return insert(rng, text, line), f"a new line: {line}"

    return change_text(bench, rng, is_module, change)


@operator
def merge_left_open(bench: Workbench, rng: Random) -> str | None:
    """The marks of a conflict of a merge are still there."""

    def change(text: str) -> tuple[str, str]:
        lines = text.splitlines(keepends=True) or ["\n"]
        at = rng.randrange(len(lines))
        new = ["<<<<<<< HEAD\n", lines[at], "=======\n", lines[at], ">>>>>>> release/2.9\n"]
        return "".join([*lines[:at], *new, *lines[at + 1 :]]), f"a conflict at line {at + 1}"

    return change_text(bench, rng, is_text, change, info=rng.random() < 0.3)


@operator
def saved_by_other_editor(bench: Workbench, rng: Random) -> str | None:
    """A text has another encoding, other line ends or other blanks."""
    place = found(
        bench, rng, lambda name: is_text(name) and not name.endswith("RECORD"), info=rng.random() < 0.3
    )
    if place is None:
        return None
    project, name, data = place
    text = data.decode("utf-8", "replace")
    what, new = rng.choice(
        (
            ("UTF-16", text.encode("utf-16")),
            ("a byte-order mark", b"\xef\xbb\xbf" + data),
            ("line ends of Windows", data.replace(b"\n", b"\r\n")),
            ("line ends of old Macs", data.replace(b"\n", b"\r")),
            ("a comment in Latin-1", b"# Gr\xfc\xdfe\n" + data),
            ("tabs for blanks", data.replace(b"    ", b"\t", max(1, data.count(b"    ") // 2))),
            ("a blank that does not break", data.replace(b" ", b"\xc2\xa0", 1)),
            ("curly quotes", text.replace('"', "\u201c", 1).encode()),
            ("a NUL at its end", data + b"\0"),
            ("a pound sign of a coding that nobody knows", b"# -*- coding: utf8-mac-rocm -*-\n" + data),
        )
    )
    if new == data:
        return None
    with bench.edit(project) as wheel:
        wheel.put(name, new)
    return f"{project}: {name} has {what}"


@operator
def template_not_filled(bench: Workbench, rng: Random) -> str | None:
    """A version or a name is still the template's."""
    holes = ("@VERSION@", "{{ version }}", "${ROCM_VERSION}", "%(version)s", "unknown", "0.0.0", "")

    def change(text: str) -> tuple[str, str] | None:
        places = list(re.finditer(r"\d+\.\d+(?:\.[\d*]+)?(?:\+[a-z0-9.]+)?", text))
        if not places:
            return None
        place, hole = rng.choice(places), rng.choice(holes)
        return text[: place.start()] + hole + text[place.end() :], f"{place.group()} became {hole!r}"

    return change_text(
        bench, rng, lambda name: name.endswith((".py", "METADATA", "WHEEL")), change, info=True
    )


@operator
def syntax_of_other_python(bench: Workbench, rng: Random) -> str | None:
    """Source that other Pythons take."""
    lines = (
        "type Index = int",
        "print 'loaded'",
        'NAME = f"{"".join(["a"])}"',
        "def first[T](values: list[T]) -> T: return values[0]",
        "exec 'pass'",
        "async = False",
        "from __future__ import braces",
    )
    return insert_one_of(bench, rng, lines)


@operator
def import_of_build_machine(bench: Workbench, rng: Random) -> str | None:
    """A module imports what only the build machine has."""
    lines = (
        "import numpy",
        "import setuptools",
        "from . import _generated",
        "from .._build_info import *",
        "import torch._inductor_config",
        "from distutils.version import LooseVersion",
        "from importlib import resources; resources.files('triton').joinpath('config.json').read_text()",
        "import ctypes; ctypes.CDLL('/opt/rocm/lib/libamdhip64.so')",
    )
    return insert_one_of(bench, rng, lines)


@operator
def left_from_debugging(bench: Workbench, rng: Random) -> str | None:
    """Somebody's experiment is still in a module."""
    lines = (
        "import os; os._exit(3)",
        "raise SystemExit(0)",
        "assert False, 'not reached'",
        "import os; os.environ['PYTORCH_ROCM_ARCH']",
        "import sys; sys.path.insert(0, '/home/builder/src')",
        "import sys; sys.modules.pop(__name__, None)",
        "import os; open(os.path.expanduser('~/.trace.log'), 'a').close()",
        "__version__ = 'dev'",
        "del __name__",
    )
    return insert_one_of(bench, rng, lines)


@operator
def name_misspelt(bench: Workbench, rng: Random) -> str | None:
    """Two letters of a name have changed places, in one place."""

    def change(text: str) -> tuple[str, str] | None:
        places = list(re.finditer(r"[A-Za-z_]\w{3,}", text))
        if not places:
            return None
        place = rng.choice(places)
        old, at = place.group(), rng.randrange(len(place.group()) - 1)
        new = old[:at] + old[at + 1] + old[at] + old[at + 2 :]
        return text[: place.start()] + new + text[place.end() :], f"{old} became {new} at {place.start()}"

    return change_text(bench, rng, is_module, change)


@operator
def definition_renamed(bench: Workbench, rng: Random) -> str | None:
    """A function or class has a new name, and who uses it does not know."""

    def change(text: str) -> tuple[str, str] | None:
        places = list(re.finditer(r"(?m)^(?:def|class) (\w+)", text))
        if not places:
            return None
        place = rng.choice(places)
        return text[: place.end()] + "_v2" + text[
            place.end() :
        ], f"{place.group(1)} became {place.group(1)}_v2"

    return change_text(bench, rng, is_module, change)


@operator
def indentation_shifted(bench: Workbench, rng: Random) -> str | None:
    """A line stands further left or further right."""

    def change(text: str) -> tuple[str, str] | None:
        lines = text.splitlines(keepends=True)
        at = pick(rng, [str(number) for number, line in enumerate(lines) if line.strip()])
        if at is None:
            return None
        old = lines[int(at)]
        lines[int(at)] = old[4:] if old.startswith("    ") and rng.random() < 0.6 else f"    {old}"
        return "".join(lines), f"line {int(at) + 1}: {old.strip()[:60]}"

    return change_text(bench, rng, is_module, change)


@operator
def module_compiled(bench: Workbench, rng: Random) -> str | None:
    """Compiled modules were packed: alone, of another Python, or an older state that wins."""
    place = found(bench, rng, is_module)
    if place is None:
        return None
    project, name, data = place
    folder, _, last = name.rpartition("/")
    what = rng.choice(("alone", "of another Python, alone", "beside an older state", "cut short, alone"))
    source = b"STATE = 'older'\n" if what.startswith("beside") else data
    # Bit 0: valid by the source's digest; bit 1, not set: nobody compares.
    body = struct.pack("<4sI8x", importlib.util.MAGIC_NUMBER, 1) + marshal.dumps(
        compile(source, name, "exec")
    )
    if what.startswith("of another"):
        body = struct.pack("<HH", 3531, 0x0A0D) + body[4:]
    if what.startswith("cut"):
        body = body[:20]
    with bench.edit(project) as wheel:
        if what.startswith("beside"):
            tag = sys.implementation.cache_tag
            wheel.put(f"{folder}/__pycache__/{last[:-3]}.{tag}.pyc".lstrip("/"), body)
        else:
            wheel.remove(name)
            wheel.put(f"{name}c", body)
    return f"{project}: {name} is compiled, {what}"


# -- metadata


@operator
def requirement_changed(bench: Workbench, rng: Random) -> str | None:
    """A requirement is gone, doubled, of another version, or one of nobody's."""
    project = any_wheel(bench, rng)
    more = (
        "rocm[libraries]==5.2.4",
        "rocm[libraries,profiler]==5.2.3",
        "torch==2.8.0+rocm5.2.3",
        "torch==2.9.0",
        "triton==3.5.0",
        "pytorch-triton-rocm==3.5.0",
        "numpy",
        "rocm @ file:///build/dist/rocm-5.2.3.tar.gz",
        "typing-extensions (>=4.10.0",
        "nvidia-cublas-cu12==12.8.4.1 ; platform_system == 'Linux'",
        "torch>=2.9.0+rocm5.2.3",
        "setuptools ; python_version >= 3.12",
        "rocm-sdk-core=5.2.3",
        "torch<2.9",
    )
    line = f"Requires-Dist: {rng.choice(more)}"
    with bench.edit(project) as wheel:
        text = wheel.read("{info}/METADATA").decode()
        old = re.findall(r"(?m)^Requires-Dist: .*$", text)
        what = rng.choice(("more", "gone", "another", "extra")) if old else "more"
        chosen = rng.choice(old) if old else ""
        if what == "more":
            wheel.add_lines("{info}/METADATA", line)
        elif what == "extra":
            line = f'{chosen} ; extra == "gpu"'
            wheel.substitute("{info}/METADATA", chosen, line, 1)
        else:
            wheel.substitute("{info}/METADATA", chosen, line if what == "another" else "X-Was: nothing", 1)
    return f"{project}: {what}: {chosen} {line if what != 'gone' else ''}"


@operator
def metadata_field_wrong(bench: Workbench, rng: Random) -> str | None:
    """A field of METADATA says something else than the rest of the wheel."""
    project = any_wheel(bench, rng)
    field_, value = rng.choice(
        (
            ("Name", "pytorch"),
            ("Name", "torch-rocm"),
            ("Name", "Torch Vision"),
            ("Version", "2.9.0"),
            ("Version", "2.9.0+rocm-5.2.3"),
            ("Version", "2.9.0.dev20250911+rocm5.2.3"),
            ("Version", "v2.9"),
            ("Version", "2.9.0-rocm5.2.3-git1234abc"),
            ("Requires-Python", ">=3.12"),
            ("Requires-Python", "<3.11"),
            ("Requires-Python", "==3.11"),
            ("Requires-Python", ">=3.10.*"),
            ("Requires-Python", ">=3,10"),
            ("Metadata-Version", "9.0"),
            ("Metadata-Version", "1.0"),
            ("Metadata-Version", ""),
            ("Provides-Extra", "not an extra"),
            ("Description-Content-Type", "text/html"),
        )
    )
    doubled = rng.random() < 0.3
    with bench.edit(project) as wheel:
        line = f"{field_}: {value}"
        old = re.search(rf"(?m)^{field_}: .*$", wheel.read("{info}/METADATA").decode())
        if old is None or doubled:
            wheel.add_lines("{info}/METADATA", line)
        else:
            wheel.substitute("{info}/METADATA", old.group(), line, 1)
    return f"{project}: {line}{', beside the old one' if doubled else ''}"


@operator
def wheel_file_wrong(bench: Workbench, rng: Random) -> str | None:
    """WHEEL has another version, root or tag."""
    project = any_wheel(bench, rng)
    start, line = rng.choice(
        (
            ("Wheel-Version", "Wheel-Version: 2.0"),
            ("Wheel-Version", "Wheel-Version: 1.9"),
            ("Wheel-Version", ""),
            ("Root-Is-Purelib", "Root-Is-Purelib: true"),
            ("Root-Is-Purelib", ""),
            ("Root-Is-Purelib", "Root-Is-Purelib: maybe"),
            ("Tag", "Tag: py3-none-any"),
            ("Tag", "Tag: cp312-cp312-linux_x86_64"),
            ("Tag", "Tag: cp311-cp311-manylinux_2_28_x86_64"),
            ("Tag", ""),
            ("Generator", "Build: 7"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.drop_lines("{info}/WHEEL", start)
        if line:
            wheel.add_lines("{info}/WHEEL", line)
    return f"{project}: WHEEL: {line or f'no {start}'}"


@operator
def record_wrong(bench: Workbench, rng: Random) -> str | None:
    """RECORD lists something else than the archive holds."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        rows = [list(row) for row in wheel.record()]
        at = rng.randrange(len(rows) - 1)
        name = rows[at][0]
        what = rng.choice(
            ("digest", "size", "md5", "absolute", "gone", "more", "doubled", "none", "backslash", "nothing")
        )
        if what == "digest":
            rows[at][1] = rows[rng.randrange(len(rows) - 1)][1][::-1][:43]
        elif what == "size":
            rows[at][2] = str(int(rows[at][2] or 0) + 1)
        elif what == "md5":
            rows[at][1] = "md5=1B2M2Y8AsgTpgAmY7PhCfg"
        elif what == "absolute":
            rows[at][0] = f"/build/wheel/{name}"
        elif what == "gone":
            del rows[at]
        elif what == "more":
            rows.insert(at, ["torch/lib/libmagma.so", "sha256=" + "A" * 43, "7"])
        elif what == "doubled":
            rows.insert(at, [name, "", ""])
        elif what == "none":
            rows[at][1:] = ["", ""]
        elif what == "backslash":
            rows[at][0] = name.replace("/", "\\")
        else:
            rows = []
        wheel.rows = rows
    return f"{project}: RECORD, {name}: {what}"


def retitle(wheel: WheelEdit, info: str) -> None:
    """Move the dist-info directory."""
    wheel.rename_below(f"{wheel.info}/", f"{info}/")
    wheel.info = info


@operator
def dist_info_wrong(bench: Workbench, rng: Random) -> str | None:
    """The dist-info directory has another name, or a second one came along from an older build."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        old = wheel.info
        stem, _, version = old.removesuffix(".dist-info").partition("-")
        new = rng.choice(
            (
                f"{stem}-{version.split('+')[0]}",
                f"{stem.capitalize()}-{version}",
                f"{stem}-{version}.post1",
                f"{stem}_rocm-{version}",
                version,
                f"{stem}-{version.replace('+', '_')}",
            )
        )
        second = rng.random() < 0.4
        if second:
            wheel.put(f"{new}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {stem}\nVersion: 0.1\n")
        else:
            retitle(wheel, f"{new}.dist-info")
    return f"{project}: {'a second' if second else 'another'} directory: {new}.dist-info"


@operator
def file_renamed(bench: Workbench, rng: Random) -> str | None:
    """The file has another name: another tag, another version, another case."""
    project = any_wheel(bench, rng)
    name = bench.paths[project].name
    stem, version, *tags = name.split("-")
    new = rng.choice(
        (
            name.replace("cp311-cp311", "cp312-cp312"),
            name.replace("cp311-cp311", "cp311-abi3"),
            name.replace("cp311-cp311", "cp311-cp311t"),
            name.replace("cp311-cp311", "py3-none"),
            name.replace("linux_x86_64", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
            name.replace("linux_x86_64", "manylinux_2_99_x86_64"),
            name.replace("linux_x86_64", "linux_aarch64"),
            name.replace("linux_x86_64", "win_amd64"),
            name.replace("linux_x86_64", "any"),
            name.replace("+", "%2B"),
            name.replace("+", "_"),
            name.replace(version, version.split("+")[0]),
            name.replace(version, f"{version}.1"),
            "-".join([stem, version, "1", *tags]),
            "-".join([stem, version, "rc", *tags]),
            "-".join([stem.replace("_", "."), version, *tags]),
            "-".join([f"py{stem}", version, *tags]),
            name.replace(".whl", " (1).whl"),
            name.capitalize(),
        )
    )
    if new == name:
        return None
    with bench.edit(project) as wheel:
        wheel.name = new
    return f"{project}: the file is named {new}"


# -- scripts, data and what reaches other packages


@operator
def entry_points_wrong(bench: Workbench, rng: Random) -> str | None:
    """Entry points that cannot be written, cannot run, or take another program's name."""
    project = any_wheel(bench, rng)
    top = rng.choice(("torch", "triton", "apex", "rocm_sdk"))
    # No script takes the interpreter's own name: in an environment that is a link to the machine's.
    lines = rng.choice(
        (
            f"[console_scripts]\nrocm-sdk = {top}:main\n",
            f"[console_scripts]\ntorchrun = {top}.distributed.run:main\n",
            f"[console_scripts]\ntorchrun = {top}\n",
            f"[console_scripts]\ntorchrun {top}:main\n",
            f"torchrun = {top}:main\n",
            f"[console_scripts]\n../torchrun = {top}:main\n",
            f"[console_scripts]\nactivate = {top}:main\n",
            f"[console_scripts]\ntorchrun = {top}:main [gpu]\n",
            f"[console_scripts]\ntorchrun = {top}:main\ntorchrun = {top}:other\n",
            f"[console_scripts]\ntorchrun = {top}:ma in\n",
            f"[gui_scripts]\nhipcc = {top}:main\n",
            f"[torch.backends]\ndevice_backend = {top}_backend:_autoload\n",
        )
    )
    with bench.edit(project) as wheel:
        wheel.put("{info}/entry_points.txt", lines)
    return f"{project}: entry points: {lines.strip()!r}"


@operator
def data_directory(bench: Workbench, rng: Random) -> str | None:
    """Files in the wheel's data directory that go where they should not."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        base = wheel.info.replace(".dist-info", ".data")
        if rng.random() < 0.25:
            base = base.replace("-", "-0.", 1)
        place, data = rng.choice(
            (
                ("scripts/activate", b"true\n"),
                ("scripts/rocm-sdk", b"#!/bin/sh\nexit 3\n"),
                ("scripts/hipconfig", b"#!/usr/bin/python2\nprint 1\n"),
                ("scripts/torch-run", b"#!python\nimport torch.distributed.run\n"),
                ("data/pyvenv.cfg", b"home = /build/bin\n"),
                ("data/etc/OpenCL/vendors/amdocl64.icd", b"libamdocl64.so\n"),
                ("data/share/man/man1/torchrun.1", b".TH torchrun 1\n"),
                ("purelib/torch/version.py", b"__version__ = '2.9.0'\nhip = None\n"),
                ("platlib/rocm_sdk/__init__.py", b""),
                ("headers/torch/extension.h", b"#pragma once\n"),
                ("libs/libc10_hip.so", b"\x7fELF"),
                ("data/lib/python3.11/site-packages/triton/__init__.py", b"raise ImportError('no driver')\n"),
            )
        )
        wheel.put(f"{base}/{place}", data, mode=FILE | 0o755)
    return f"{project}: {base}/{place}"


@operator
def files_moved_to_data(bench: Workbench, rng: Random) -> str | None:
    """A build put the package, or a part of it, below the data directory."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        names = [name for name in members(wheel) if wheel.part(name).size < _LARGEST]
        chosen = names if rng.random() < 0.3 else [rng.choice(names)]
        below = rng.choice(("purelib", "platlib", "data", "data/lib", "PURELIB", "scripts"))
        base = wheel.info.replace(".dist-info", f".data/{below}")
        for name in chosen:
            wheel.rename(name, f"{base}/{name}")
    return f"{project}: {len(chosen)} files, as {chosen[0]}, below {base}"


@operator
def start_hook(bench: Workbench, rng: Random) -> str | None:
    """The wheel does something at the start of every interpreter."""
    project = any_wheel(bench, rng)
    name, text = rng.choice(
        (
            ("rocm.pth", "import sys; sys.path.insert(0, '/opt')\n"),
            ("torch-preload.pth", "import torch\n"),
            ("__editable__.torch.pth", "/build/pytorch\n"),
            ("zz.pth", "import os; open(os.path.expanduser('~/.started'), 'w').close()\n"),
            ("paths.pth", "torch/utils\n"),
            ("sitecustomize.py", "import os\nos.environ.setdefault('HIP_VISIBLE_DEVICES', '')\n"),
            ("usercustomize.py", "import json\n"),
            ("broken.pth", "import not_there_at_all\n"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.put(name, text)
    return f"{project}: {name}: {text.strip()}"


@operator
def stray_files(bench: Workbench, rng: Random) -> str | None:
    """What lay about when the wheel was built is in it, under names that others use."""
    project = any_wheel(bench, rng)
    name, text = rng.choice(
        (
            ("tests/__init__.py", ""),
            ("setup.py", "from setuptools import setup\nsetup()\n"),
            ("build/lib/torch/version.py", "__version__ = '2.8.0'\n"),
            ("typing.py", "Any = object\n"),
            ("random.py", "seed = None\n"),
            ("numpy/__init__.py", "__version__ = '0'\n"),
            ("Torch/__init__.py", ""),
            ("rocm_sdk/_local.py", "DEBUG = True\n"),
            ("torch/json.py", "loads = None\n"),
            ("torch/_C/__init__.py", ""),
            ("torch/cuda.py", "raise ImportError('old module')\n"),
            ("torch/version/__init__.py", "__version__ = '2.8.0'\n"),
            (".git/config", "[core]\n"),
            ("../stray.py", ""),
            ("../../../stray.txt", "stray\n"),
            ("./torch/version.py", "__version__ = '2.8.0'\n"),
            ("torch//version.py", "__version__ = '2.8.0'\n"),
            ("torch/con.py", ""),
            ("torch/a\nb.py", ""),
            ("pip/__init__.py", "__version__ = '1'\n"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.put(name, text)
    return f"{project}: a stray {name!r}"


@operator
def file_of_other_wheel(bench: Workbench, rng: Random) -> str | None:
    """Two wheels bring the same file, with the same bytes or with others."""
    place = found(bench, rng, lambda name: is_module(name) or is_library(name))
    other = any_wheel(bench, rng)
    if place is None or place[0] == other:
        return None
    project, name, data = place
    changed = rng.random() < 0.5
    more = (b"\n# another build\n" if is_module(name) else bytes(16)) if changed else b""
    with bench.edit(other) as wheel:
        wheel.put(name, data + more)
    return f"{other}: {name} of {project}, {'changed' if changed else 'the same'}"


# -- extension modules and the set


@operator
def extension_renamed(bench: Workbench, rng: Random) -> str | None:
    """An extension module is named as another Python, platform or module has it."""
    place = found(bench, rng, lambda name: ".cpython-311-" in name)
    if place is None:
        return None
    project, name, _ = place
    folder, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    new = rng.choice(
        (
            f"{stem}.{ending.replace('311', '310')}",
            f"{stem}.{ending.replace('311', '311d')}",
            f"{stem}.{ending.replace('x86_64', 'aarch64')}",
            f"{stem}.so",
            f"{stem}.abi3.so",
            f"{stem}.pyd",
            f"lib{stem}.{ending}",
            f"{stem}2.{ending}",
            f"{stem}.{ending}.1",
        )
    )
    with bench.edit(project) as wheel:
        wheel.rename(name, folder + slash + new)
    return f"{project}: {name} is named {new}"


@operator
def library_of_other_build(bench: Workbench, rng: Random) -> str | None:
    """A library holds what another wheel's library of the set has."""
    one, other = found(bench, rng, is_library), found(bench, rng, is_library)
    if one is None or other is None or one[2] == other[2]:
        return None
    with bench.edit(one[0]) as wheel:
        wheel.put(one[1], other[2])
    return f"{one[0]}: {one[1]} holds {other[1]} of {other[0]}"


@operator
def distribution_left_out(bench: Workbench, rng: Random) -> str | None:
    """A file of the set was not copied."""
    project = rng.choice(sorted(bench.paths))
    bench.drop(project)
    return f"{project} is left out"


def other_version(wheel: WheelEdit, new: str) -> str:
    """Give a wheel another version in all places that installers read; gives the old one."""
    stem, _, old = wheel.info.removesuffix(".dist-info").partition("-")
    wheel.substitute("{info}/METADATA", f"\nVersion: {old}\n", f"\nVersion: {new}\n", 1)
    retitle(wheel, f"{stem}-{new}.dist-info")
    wheel.name = wheel.name.replace(f"{stem}-{old}-", f"{stem}-{new}-", 1)
    return old


def near_version(rng: Random, old: str) -> str:
    """A version that another job, branch or day would have given."""
    public, _, local = old.partition("+")
    more = f"+{local}" if local else ""
    return rng.choice(
        (f"{public}.post1{more}", f"{public}+rocm5.2.4", f"{public}+cpu", f"{public}+cu128", public,
         f"{public}.dev20251001{more}", f"{public}rc1{more}", f"{public[:-1]}{int(public[-1]) + 1}{more}")
    )  # fmt: skip


@operator
def build_of_other_version(bench: Workbench, rng: Random) -> str | None:
    """One distribution of the set is another job's: all of the wheel says so."""
    project = any_wheel(bench, rng)
    if bench.paths[project].stat().st_size > _LARGEST:
        return None
    wheel = open_wheel(bench.paths[project])
    old = wheel.info.removesuffix(".dist-info").partition("-")[2]
    new = near_version(rng, old)
    if new == old:
        return None
    inside = rng.random() < 0.5
    with bench.edit(project) as edit:
        other_version(edit, new)
        for name in members(edit, ending=("version.py",)) if inside else []:
            text = edit.read(name).decode("utf-8", "surrogateescape").replace(old, new)
            edit.put(name, text.encode("utf-8", "surrogateescape"))
    return f"{project}: {new} in place of {old}{', inside too' if inside else ''}"


@operator
def two_builds_of_one(bench: Workbench, rng: Random) -> str | None:
    """An older or newer build of a distribution lies beside the good one."""
    project = any_wheel(bench, rng)
    if bench.paths[project].stat().st_size > _LARGEST or f"{project}-again" in bench.paths:
        return None
    wheel = open_wheel(bench.paths[project])
    old = wheel.info.removesuffix(".dist-info").partition("-")[2]
    new = near_version(rng, old)
    if new == old:
        return None
    other_version(wheel, new)
    bare = [name for name in members(wheel) if is_library(name)]
    if rng.random() < 0.5:
        wheel.remove(*bare)
    bench.add(f"{project}-again", wheel)
    return f"{project}: {new} beside {old}"


@operator
def wheel_of_other_python(bench: Workbench, rng: Random) -> str | None:
    """One wheel is another Python's, platform's or nobody's, in name, tag and members."""
    project = any_wheel(bench, rng)
    if bench.paths[project].stat().st_size > _LARGEST:
        return None
    old, new = rng.choice(
        (
            ("cp311-cp311", "cp312-cp312"),
            ("cp311-cp311", "cp310-cp310"),
            ("cp311-cp311", "cp313-cp313t"),
            ("cp311-cp311", "cp311-none"),
            ("cp311-cp311", "py3-none"),
            ("cp311-cp311", "pp311-pypy311_pp73"),
            ("linux_x86_64", "linux_aarch64"),
            ("linux_x86_64", "win_amd64"),
            ("linux_x86_64", "manylinux_2_99_x86_64"),
            ("linux_x86_64", "musllinux_1_2_x86_64"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.retag(old, new)
        digits = re.match(r"cp(\d+)", new)
        for name in members(wheel, ending=(".so",)) if digits else []:
            if digits is not None and "cpython-311" in name:
                wheel.rename(name, name.replace("cpython-311", f"cpython-{digits.group(1)}"))
    return f"{project}: {new} in place of {old}"


@operator
def pins_of_other_build(bench: Workbench, rng: Random) -> str | None:
    """What a wheel requires has the version of another set, in METADATA or in its source."""
    old, new = rng.choice(
        (
            ("rocm5.2.3", "rocm5.2.4"),
            ("5.2.3", "6.4.1"),
            ("5.2.*", "6.4.*"),
            ("2.9.0", "2.8.0"),
            ("3.5.0", "3.4.0"),
        )
    )

    def change(text: str) -> tuple[str, str]:
        head, mark, tail = text.rpartition(old)
        return (head + new + tail if mark else text), f"{old} became {new}"

    return change_text(bench, rng, lambda name: name.endswith((".py", "METADATA")), change, info=True)


@operator
def source_distribution_damaged(bench: Workbench, rng: Random) -> str | None:
    """A file of a source distribution is gone, empty, shorter by a line, or elsewhere."""
    project = pick(rng, sorted(name for name, path in bench.paths.items() if path.name.endswith(".tar.gz")))
    if project is None:
        return None
    told: list[str] = []

    def change(data: bytes) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(data)) as old:
            files = [(entry, old.extractfile(entry)) for entry in old]
            held = [(entry, stream.read() if stream else b"") for entry, stream in files]
        chosen = rng.choice([entry.name for entry, _ in held if entry.isfile()])
        what = rng.choice(("gone", "empty", "shorter by a line", "elsewhere", "read by nobody"))
        told.append(f"{chosen} is {what}")
        # No time of packing, so that the same seed gives the same bytes.
        with (
            gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as new,
        ):
            for entry, body in held:
                kept = body
                if entry.name == chosen:
                    if what == "gone":
                        continue
                    lines = body.splitlines(keepends=True)
                    if what == "shorter by a line" and lines:
                        del lines[rng.randrange(len(lines))]
                        kept = b"".join(lines)
                    kept = b"" if what == "empty" else kept
                    entry.mode = 0 if what == "read by nobody" else entry.mode
                    entry.name = entry.name.partition("/")[2] if what == "elsewhere" else entry.name
                entry.size = len(kept)
                new.addfile(entry, io.BytesIO(kept) if entry.isfile() else None)
        return out.getvalue()

    bench.overwrite(project, change)
    return f"{project}: {told[0]}"
