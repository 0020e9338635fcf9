"""Ways to break a set, thought up without sight of any check: what build machines, tools and people do."""

from __future__ import annotations

import functools
import re
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from real.fault_generator.base import Act, any_wheel, members, open_wheel, operator, pick
from real.mutations_base import Workbench
from real.wheel_edit import FILE, LINK, pack

# What the operator before may have left: an archive that nobody reads, a member that no tool takes.
_UNREADABLE = (
    zipfile.BadZipFile,
    struct.error,
    zlib.error,
    subprocess.CalledProcessError,
    EOFError,
    RuntimeError,
)
_TRIES, _LARGEST = 6, 4 << 20
_LIBRARY = re.compile(r".*\.so(\.\d+)*")
_TEXT = (".py", "METADATA", "WHEEL", ".txt", ".h", ".hpp", ".json", ".pl", ".pm", "RECORD")


def fault(act: Act) -> Act:
    """Enter an operator that does nothing where the set is damaged already."""

    @functools.wraps(act)
    def guarded(bench: Workbench, rng: Random) -> str | None:
        try:
            return act(bench, rng)
        except _UNREADABLE:
            return None

    return operator(guarded)


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


@fault
def upload_cut_short(bench: Workbench, rng: Random) -> str | None:
    """The connection broke, and the part that had arrived was kept."""
    project = any_wheel(bench, rng)
    lost = rng.choice((1, 4, 22, rng.randint(23, 4096), bench.paths[project].stat().st_size // 3))
    bench.overwrite(project, lambda data: data[:-lost])
    return f"{project}: the last {lost} bytes are lost"


@fault
def bit_rot(bench: Workbench, rng: Random) -> str | None:
    """One bit of the file is another."""
    project = any_wheel(bench, rng)
    place, bit = rng.randrange(bench.paths[project].stat().st_size), rng.randrange(8)

    def flip(data: bytes) -> bytes:
        return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]

    bench.overwrite(project, flip)
    return f"{project}: bit {bit} of byte {place} of the file"


@fault
def text_mode_transfer(bench: Workbench, rng: Random) -> str | None:
    """A transfer in text mode changed the line ends of the archive."""
    project = any_wheel(bench, rng)
    old, new = rng.choice(((b"\n", b"\r\n"), (b"\r", b""), (b"\r\n", b"\n")))
    bench.overwrite(project, lambda data: data.replace(old, new))
    return f"{project}: {old!r} became {new!r} in the whole file"


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
def metadata_character_changed(bench: Workbench, rng: Random) -> str | None:
    """One character of METADATA is another."""

    def change(text: str) -> tuple[str, str] | None:
        head = text.partition("\n\n")[0]
        at = rng.randrange(len(head))
        new = rng.choice("0123456789.+-_ ;:=<>[]()\n\t\0éaZ")
        return text[:at] + new + text[at + 1 :], f"{text[at]!r} at {at} became {new!r}"

    return change_text(bench, rng, lambda name: name.endswith(".dist-info/METADATA"), change, info=True)


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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


@fault
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
