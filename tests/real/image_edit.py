"""Change single fields of ELF files, Windows images and kpack archives, by their published layouts."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551
EXECUTE, WRITE = 1, 2
DT_RELACOUNT, DT_TEXTREL = 0x6FFFFFF9, 22
AARCH64, AMDGPU = 183, 224


@dataclass(frozen=True)
class Segment:
    """A program header and where in the file it stands."""

    place: int
    type: int
    flags: int
    offset: int
    address: int
    size: int


def segments(elf: bytes) -> Iterator[Segment]:
    """The program headers of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 32)
    entry_size, count = struct.unpack_from("<HH", elf, 54)
    for number in range(count):
        place = table + number * entry_size
        kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", elf, place)
        yield Segment(place, kind, flags, offset, address, size)


def with_flags(elf: bytes, segment: Segment, flags: int) -> bytes:
    """The file with other rights for a segment."""
    return patched(elf, segment.place + 4, struct.pack("<I", flags))


def patched(data: bytes, place: int, new: bytes) -> bytes:
    """The bytes with some of them replaced."""
    assert data[place : place + len(new)] != new, "this would change nothing"
    return data[:place] + new + data[place + len(new) :]


def undefined(elf: bytes) -> list[bytes]:
    """Names that a library wants of others, each with the zero bytes around it in the table of names."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(elf)
        file.flush()
        words = ["nm", "--dynamic", "--undefined-only", "--format=just-symbols", file.name]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [b"\0" + line.partition("@")[0].encode() + b"\0" for line in said.splitlines()]


def needed(elf: bytes) -> list[str]:
    """The libraries that a library needs by name."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(elf)
        file.flush()
        words = ["patchelf", "--print-needed", file.name]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


def compiled(source: str, *words: str) -> bytes:
    """A library of this C source; `words` are for the compiler."""
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, "made.c"), Path(folder, "made.so")
        text.write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, text, *words], check=True)
        return made.read_bytes()


def executable_stack(elf: bytes) -> bytes:
    """A library that asks for an executable stack."""
    (stack,) = (segment for segment in segments(elf) if segment.type == STACK)
    return with_flags(elf, stack, stack.flags | EXECUTE)


def read_only_dynamic(elf: bytes) -> bytes:
    """A library whose dynamic table lies in a segment without the right to write."""
    (dynamic,) = (segment for segment in segments(elf) if segment.type == DYNAMIC)
    (around,) = (
        segment
        for segment in segments(elf)
        if segment.type == LOAD and segment.address <= dynamic.address < segment.address + segment.size
    )
    return with_flags(elf, around, around.flags & ~WRITE)


def text_relocations(elf: bytes) -> bytes:
    """A library that says it relocates its code: DT_TEXTREL in the place of a tag that is only a hint."""
    (dynamic,) = (segment for segment in segments(elf) if segment.type == DYNAMIC)
    for place in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
        if struct.unpack_from("<q", elf, place)[0] == DT_RELACOUNT:
            return patched(elf, place, struct.pack("<qQ", DT_TEXTREL, 0))
    raise AssertionError("the library has no DT_RELACOUNT")


def for_machine(elf: bytes, machine: int) -> bytes:
    """The file with another processor in its header."""
    return patched(elf, 18, struct.pack("<H", machine))


def broken_elf(elf: bytes) -> bytes:
    """The file with program headers beyond its end."""
    return patched(elf, 32, struct.pack("<Q", 1 << 40))


def device_objects(library: bytes) -> Iterator[int]:
    """Where in a library code objects begin: ELF files of their own, for a GPU, not compressed."""
    place = library.find(b"\x7fELF", 1)
    while place > 0:
        if struct.unpack_from("<H", library, place + 18)[0] == AMDGPU:
            yield place
        place = library.find(b"\x7fELF", place + 1)


def code_for(library: bytes, old: int, new: int) -> bytes:
    """The library with another GPU (EF_AMDGPU_MACH) in the headers of the code objects for one GPU."""
    places = [place + 48 for place in device_objects(library) if library[place + 48] == old]
    assert places, f"no code object for machine {old:#x}"
    for place in places:
        library = patched(library, place, bytes([new]))
    return library


def code_object(library: bytes, machine: int) -> bytes:
    """The first code object in a library, with this GPU in its header."""
    start = next(device_objects(library))
    (sections,) = struct.unpack_from("<Q", library, start + 40)
    entry_size, count = struct.unpack_from("<HH", library, start + 58)
    code = library[start : start + sections + entry_size * count]
    return code[:48] + bytes([machine]) + code[49:]


def _pe_header(image: bytes) -> int:
    (place,) = struct.unpack_from("<I", image, 0x3C)
    assert image[place : place + 4] == b"PE\0\0"
    return int(place)


def broken_pe(image: bytes) -> bytes:
    """An image whose section table leads beyond its end."""
    return patched(image, _pe_header(image) + 6, struct.pack("<H", 0xFFFF))


def pe_for_machine(image: bytes, machine: int) -> bytes:
    """The image with another processor in its header."""
    return patched(image, _pe_header(image) + 4, struct.pack("<H", machine))
