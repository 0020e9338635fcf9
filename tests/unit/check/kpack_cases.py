"""Split libraries with their archives, made for being damaged; and a split in the layout of AMD's tool."""

from __future__ import annotations

import dataclasses
import io
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import zstandard

from needs import find_lld, find_llvm_tool
from oracle.elf_image import read_image
from oracle.fat_library import build_library, bundle, code_object
from rocwright.binary.elf import Section, read_elf
from rocwright.binary.view import mapped
from rocwright.device_code.archives import store
from rocwright.device_code.kpack import ArchiveWriter, Entry, Marker, pack_marker, parse_marker
from rocwright.device_code.split import LibraryPlan, plan_library

KERNEL = "lib/libfat.so"
SEARCH = "../.kpack/fat_@GFXARCH@.kpack"
MACH = {"gfx906": 0x2F, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41}
XNACK = {"": 1 << 8, "-": 2 << 8, "+": 3 << 8}
PAGE = 0x1000
_KERNEL = """
.text
.globl {name}
.type {name},@function
{name}: .long 0xbf810000
.section .rodata,"a",@progbits
.globl {name}.kd
.type {name}.kd,@object
.size {name}.kd, 64
{name}.kd: .zero 64
"""


def code(target: str, text: bytes = b"", size: int = 5000) -> bytes:
    """A code object whose header is true for a target (`gfx90a:xnack-`)."""
    base, _, feature = target.partition(":xnack")
    flags = XNACK[feature] if base in ("gfx906", "gfx90a", "gfx942") else 0
    return code_object(MACH[base], (target.encode() + text) * size, features=flags)


def code_with(folder: Path, *names: str) -> bytes:
    """A code object that defines these kernels."""
    assembler, linker = find_llvm_tool("llvm-mc"), find_lld()
    assert assembler and linker
    folder.mkdir()
    (folder / "k.s").write_text("".join(_KERNEL.format(name=name) for name in names))
    made = ["-triple", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-filetype=obj", "k.s", "-o", "k.o"]
    subprocess.run([assembler, *made], cwd=folder, check=True)
    subprocess.run([linker, "-shared", "k.o", "-o", "k.co"], cwd=folder, check=True)
    return (folder / "k.co").read_bytes()


# The second translation unit has no code for gfx1100; two targets of the third differ in a feature.
BUNDLES = [
    bundle([("gfx942", code("gfx942", b"0")), ("gfx1100", code("gfx1100", b"0"))]),
    bundle([("gfx942", code("gfx942", b"1"))]),
    bundle(
        [
            ("gfx942", code("gfx942", b"2")),
            ("gfx1100", code("gfx1100", b"2")),
            ("gfx90a:xnack-", code("gfx90a:xnack-", b"2")),
            ("gfx90a:xnack+", code("gfx90a:xnack+", b"2")),
        ]
    ),
]
TARGETS = ("gfx1100", "gfx90a:xnack+", "gfx90a:xnack-", "gfx942")
OBJECTS = 7


@dataclasses.dataclass(frozen=True)
class Case:
    """A prefix with a split library, and the fat library that it was."""

    root: Path
    fat: Path

    @property
    def host(self) -> Path:
        return self.root / "lib" / "libfat.so"

    def archive(self, target: str) -> Path:
        return self.root / ".kpack" / f"fat_{target}.kpack"

    def copy(self, into: Path) -> Case:
        shutil.copytree(self.root, into, symlinks=True)
        return Case(into, self.fat)


def build_fat(directory: Path, **options: object) -> Path:
    return build_library(directory, bundles=BUNDLES, **options)


def split_case(root: Path, fat: Path, marker: Marker | None = None) -> Case:
    """Split a library into a prefix with the project's own splitter."""
    case = Case(root, fat)
    with mapped(fat) as file:
        plan = plan_library(file, marker or Marker((SEARCH,), KERNEL))
        assert isinstance(plan, LibraryPlan)
        store([plan], case.archive, "fat")
        case.host.parent.mkdir(parents=True, exist_ok=True)
        case.host.write_bytes(b"".join(plan.host.pieces()))
        case.host.chmod(fat.stat().st_mode & 0o777)
    return case


def put(path: Path, offset: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def section(path: Path, name: str) -> Section:
    return read_elf(path).sections[name]


def build_of(host: Path) -> str:
    """The identity in a split library's marker."""
    place = section(host, ".rocm_kpack_ref")
    return parse_marker(host.read_bytes()[place.offset : place.offset + place.size]).build


def header_of(path: Path, name: str) -> int:
    """File offset of a section's header."""
    elf = read_elf(path)
    return elf.shoff + 64 * elf.sections[name].index


def relocation_to(path: Path, place: int) -> int:
    """File offset of the RELA entry for an address."""
    table = section(path, ".rela.dyn")
    data = path.read_bytes()
    for at in range(table.offset, table.offset + table.size, 24):
        if struct.unpack_from("<Q", data, at)[0] == place:
            return at
    raise LookupError(hex(place))


def write_archive(
    path: Path,
    target: str,
    objects: Mapping[tuple[str, int], bytes],
    *,
    unused: Iterable[bytes] = (),
    entry_target: str | None = None,
    group: str = "fat",
) -> None:
    """An archive with these code objects by (kernel, index), and with some that no entry names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        writer = ArchiveWriter(stream, group, target)
        for (kernel, index), data in objects.items():
            ordinal = writer.add(zstandard.ZstdCompressor().compress(data))
            writer.enter(Entry(kernel, index, entry_target or target, ordinal, len(data)))
        for data in unused:
            writer.add(zstandard.ZstdCompressor().compress(data))
        writer.close()


def with_plain_archive(path: Path, target: str, objects: Mapping[tuple[str, int], bytes]) -> None:
    """The same without compression, as the format also allows."""
    import msgspec

    head, rows, toc = b"", [], {}
    for ordinal, ((kernel, index), data) in enumerate(objects.items()):
        rows.append({"offset": 64 + len(head), "size": len(data)})
        row = {"type": "hsaco", "ordinal": ordinal, "original_size": len(data)}
        toc[f"{kernel}#{index}"] = {target: row}
        head += data
    table = msgspec.msgpack.encode(
        {
            "format_version": 1,
            "group_name": "fat",
            "gfx_arch_family": target,
            "gfx_arches": [target],
            "toc": toc,
            "compression_scheme": "none",
            "blobs": rows,
        }
    )
    out = io.BytesIO()
    out.write(struct.pack("<4sIQ", b"KPAK", 1, 64 + len(head)).ljust(64, b"\0") + head + table)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(out.getvalue())


def in_reference_layout(fat: Path, out: Path, marker: Marker) -> None:
    """A host file as AMD's tool lays it out; written from the description of its layout.

    `.hip_fatbin` keeps its addresses and becomes NOBITS: its whole pages leave the file, and its segment is
    cut into the part before, one without bytes in the file, and the part behind. Marker and program headers
    come at the end of the file, each in a load segment of its own.
    """
    image = read_image(fat)
    data = bytearray(fat.read_bytes())
    code_section = next(s for s in image.sections if s.name == ".hip_fatbin")
    start = -(-code_section.offset // PAGE) * PAGE
    stop = (code_section.offset + code_section.size) // PAGE * PAGE
    if stop == code_section.offset + code_section.size:
        stop -= PAGE
    gap = stop - start

    def moved(offset: int) -> int:
        return offset - gap if offset >= stop else offset

    rows = []
    for s in image.segments:
        if s.type != 1 or not s.vaddr <= code_section.addr < s.vaddr + s.memsz:
            rows.append([s.type, s.flags, moved(s.offset), s.vaddr, s.vaddr, s.filesz, s.memsz, s.align])
            continue
        hole = s.vaddr + start - s.offset
        tail = code_section.addr + code_section.size
        behind = s.vaddr + s.filesz - tail
        rows.append([1, s.flags, s.offset, s.vaddr, s.vaddr, start - s.offset, start - s.offset, s.align])
        rows.append([1, s.flags, start, hole, hole, 0, tail - hole, s.align])
        rows.append([1, s.flags, moved(tail - s.vaddr + s.offset), tail, tail, behind, behind, s.align])
    del data[start:stop]

    packed = pack_marker(marker)
    data += bytes(-len(data) % PAGE)
    place = max(-(-(r[3] + r[6]) // PAGE) * PAGE for r in rows if r[0] == 1)
    marker_at, marker_addr = len(data), place
    data += packed + bytes(-len(packed) % PAGE)
    table_at, table_addr = len(data), place + PAGE
    size = 56 * (len(rows) + 2)
    rows.append([1, 4, marker_at, marker_addr, marker_addr, len(packed), len(packed), PAGE])
    rows.append([1, 4, table_at, table_addr, table_addr, size, size, PAGE])
    for row in rows:
        if row[0] == 6:
            row[2], row[3], row[4], row[5], row[6] = table_at, table_addr, table_addr, size, size
    data += b"".join(struct.pack("<IIQQQQQQ", *row) for row in rows)

    names = next(s for s in image.sections if s.name == ".shstrtab")
    text = data[moved(names.offset) : moved(names.offset) + names.size] + b".rocm_kpack_ref\0"
    names_at = len(data)
    data += text
    data += bytes(-len(data) % 8)
    headers_at = len(data)
    for number, s in enumerate(image.sections):
        raw = list(struct.unpack_from("<IIQQQQIIQQ", fat.read_bytes(), image.shoff + 64 * number))
        raw[4] = moved(raw[4])
        if s.name == ".hip_fatbin":
            raw[1] = 8
        if s.name == ".shstrtab":
            raw[4], raw[5] = names_at, len(text)
        data += struct.pack("<IIQQQQIIQQ", *raw)
    data += struct.pack("<IIQQQQIIQQ", names.size, 1, 2, marker_addr, marker_at, len(packed), 0, 0, 1, 0)
    struct.pack_into("<QQ", data, 32, table_at, headers_at)
    struct.pack_into("<H", data, 56, len(rows))
    struct.pack_into("<H", data, 60, len(image.sections) + 1)

    wrappers = next(s for s in image.sections if s.name == ".hipFatBinSegment")
    rela = next(s for s in image.sections if s.name == ".rela.dyn")
    for index in range(wrappers.size // 24):
        at = moved(wrappers.offset) + 24 * index
        struct.pack_into("<IIQI", data, at, 0x4B504948, 1, 0, index)
        for entry in range(moved(rela.offset), moved(rela.offset) + rela.size, 24):
            if struct.unpack_from("<Q", data, entry)[0] == wrappers.addr + 24 * index + 8:
                struct.pack_into("<q", data, entry + 16, marker_addr)
    out.write_bytes(data)
    out.chmod(0o755)
