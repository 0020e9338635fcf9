"""The comparison accepts a split made by hand and names each way of damaging it.

The hand-made split is the simplest there is: `.hip_fatbin` is the last section of its segment, so the segment
is only cut short; the file keeps its length.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from oracle.elf_compare import compare
from oracle.elf_image import DYNAMIC, LOAD, NOTE, PHDR, RELRO, Image, read_image
from oracle.fat_library import build_library, bundle, code_object

MARKER = b"\x82\xb2kpack_search_paths\x91\xa7a.kpack\xabkernel_name\xa1k"
# The new name hides at the end of another section's name: so the name table need not grow.
NAMES = '.section .x.rocm_kpack_ref,"",@progbits\n.byte 1'
BUNDLES = [bundle([("gfx906", code_object(0x2F, bytes([i]) * 6000))]) for i in range(3)]


class Forgery:
    """A file under construction: bytes, and where its tables lie."""

    def __init__(self, image: Image, data: bytearray) -> None:
        self.image, self.data = image, data

    def put(self, offset: int, form: str, *values: object) -> None:
        struct.pack_into("<" + form, self.data, offset, *values)

    def section(self, name: str):
        return next(section for section in self.image.sections if section.name == name)

    def header_of(self, name: str) -> int:
        names = [section.name for section in self.image.sections]
        return self.image.shoff + 64 * names.index(name)

    def program_header(self, kind: int, holding: int = 0) -> int:
        for number, segment in enumerate(self.image.segments):
            if segment.type == kind and (not holding or segment.vaddr <= holding < segment.end):
                return self.image.phoff + 56 * number
        raise LookupError(kind)

    def at(self, name: str) -> int:
        return self.section(name).offset


def split_by_hand(original: Path, target: Path) -> Forgery:
    image = read_image(original)
    made = Forgery(image, bytearray(original.read_bytes()))
    fatbin, wrappers = made.section(".hip_fatbin"), made.section(".hipFatBinSegment")
    names = next(section for section in image.sections if section.name == ".shstrtab")
    inside = made.data.index(b".x.rocm_kpack_ref\0", names.offset) + 2 - names.offset
    made.put(made.header_of(".hip_fatbin"), "I", inside)
    made.put(made.header_of(".hip_fatbin") + 32, "Q", len(MARKER))
    made.data[fatbin.offset : fatbin.offset + fatbin.size] = MARKER.ljust(fatbin.size, b"\0")
    load = made.program_header(LOAD, fatbin.addr)
    length = fatbin.addr + len(MARKER) - struct.unpack_from("<Q", made.data, load + 16)[0]
    made.put(load + 32, "QQ", length, length)
    slots = {wrappers.addr + 24 * i + 8 for i in range(wrappers.size // 24)}
    for i in range(len(slots)):
        start = wrappers.offset + 24 * i
        made.put(start, "I", 0x4B504948)
        made.put(start + 16, "I", i)
        made.put(start + 8, "Q", fatbin.addr if image.kind == 2 or image.packed() else 0)
    if image.kind == 3:
        rela = made.section(".rela.dyn")
        for at in range(rela.offset, rela.offset + rela.size, 24):
            if struct.unpack_from("<Q", made.data, at)[0] in slots:
                made.put(at + 16, "Q", fatbin.addr)
    target.write_bytes(made.data)
    target.chmod(original.stat().st_mode)
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return build_library(
        tmp_path_factory.mktemp("fat"), bundles=BUNDLES, with_tail=False, extra_asm=NAMES, name="libfat.so"
    )


@pytest.mark.parametrize("kind", ["so", "pie", "exec"])
@pytest.mark.parametrize("relr", [False, True], ids=["rela", "relr"])
def test_a_good_split_has_no_findings_and_loads(tmp_path, kind, relr):
    original = build_library(
        tmp_path, bundles=BUNDLES, kind=kind, relr=relr, with_tail=False, extra_asm=NAMES, name="fat"
    )
    (code,) = (section for section in read_image(original).sections if section.name == ".hip_fatbin")
    if any(note.vaddr > code.addr for note in read_image(original).of(NOTE)):
        pytest.skip("this linker lays a program's notes behind its device code: not to be split by hand")
    split_by_hand(original, tmp_path / "split")
    assert compare(original, tmp_path / "split") == []
    call = f"import ctypes; raise SystemExit(ctypes.CDLL({str(tmp_path / 'split')!r}).fat_selftest() != 42)"
    command = ["python3", "-c", call] if kind == "so" else [str(tmp_path / "split")]
    assert subprocess.run(command).returncode == 0


def test_an_unsplit_library_is_no_split(library):
    assert compare(library, library) == ["libfat.so has 0 sections .rocm_kpack_ref"]


def test_no_elf_file(library, tmp_path):
    (tmp_path / "x").write_bytes(b"no ELF file at all")
    assert compare(library, tmp_path / "x") == ["not a 64-bit little-endian ELF file"]


def relocation(made: Forgery, wanted) -> int:
    """File offset of the first entry of .rela.dyn for which wanted(address, type, addend) holds."""
    rela = made.section(".rela.dyn")
    for at in range(rela.offset, rela.offset + rela.size, 24):
        address, kind, _, addend = struct.unpack_from("<QIIQ", made.data, at)
        if wanted(address, kind, addend):
            return at
    raise LookupError("no such relocation")


def outside(made: Forgery, address: int, kind: int, addend: int) -> bool:
    wrappers, fatbin = made.section(".hipFatBinSegment"), made.section(".hip_fatbin")
    return kind == 8 and address < wrappers.addr and not fatbin.addr <= addend < fatbin.addr + fatbin.size


def rela_of_data(made: Forgery) -> int:
    return relocation(made, lambda *entry: outside(made, *entry))


def rela_of_wrapper(made: Forgery, index: int) -> int:
    slot = made.section(".hipFatBinSegment").addr + 24 * index + 8
    return relocation(made, lambda address, kind, addend: address == slot)


def code_header(made: Forgery) -> int:
    return made.program_header(LOAD, made.section(".text").addr)


def data_header(made: Forgery) -> int:
    return made.program_header(LOAD, made.section(".data").addr)


def fat_header(made: Forgery) -> int:
    return made.program_header(LOAD, made.section(".hip_fatbin").addr)


def grow(made: Forgery, header: int, sizes: str, by: int) -> None:
    for name, at in (("filesz", 32), ("memsz", 40)):
        if name in sizes:
            made.put(header + at, "Q", struct.unpack_from("<Q", made.data, header + at)[0] + by)


def stretch(made: Forgery) -> None:
    """Let the cut segment cover all of the old device code again."""
    grow(made, fat_header(made), "filesz memsz", made.section(".hip_fatbin").size - len(MARKER))


DAMAGES = {
    "entry point": (lambda m: m.put(24, "Q", 0x1234), "e_entry"),
    "byte of code": (lambda m: m.put(m.at(".text") + 40, "B", 0xCC), "section .text: its memory"),
    "byte of data": (lambda m: m.put(m.at(".data"), "B", 77), "section .data: its memory"),
    "byte of unwind table": (
        lambda m: m.put(m.at(".eh_frame") + 9, "B", 77),
        "section .eh_frame: its memory",
    ),
    "byte of dynamic symbols": (lambda m: m.put(m.at(".dynsym") + 32, "B", 7), "section .dynsym"),
    "byte of version table": (lambda m: m.put(m.at(".gnu.version") + 2, "B", 9), "section .gnu.version:"),
    "byte of symbol table": (lambda m: m.put(m.at(".symtab") + 32, "B", 9), "section .symtab: its bytes"),
    "byte of build id": (
        lambda m: m.put(m.at(".note.gnu.build-id") + 20, "B", 0),
        "section .note.gnu.build-id",
    ),
    "section moved": (lambda m: m.put(m.header_of(".data") + 16, "Q", 0x99990), "section .data: addr"),
    "section offset": (lambda m: m.put(m.header_of(".data") + 24, "Q", 0x40), "section .data: offset"),
    "section name": (lambda m: m.put(m.header_of(".data"), "I", 1), "section .data became"),
    "section flags": (lambda m: m.put(m.header_of(".text") + 8, "Q", 7), "section .text: flags"),
    "code writable": (lambda m: m.put(code_header(m) + 4, "I", 7), "section .text: rights rwx"),
    "code not executable": (
        lambda m: m.put(code_header(m) + 4, "I", 4),
        "section .text: rights r--, needs r-x",
    ),
    "data read-only": (lambda m: m.put(data_header(m) + 4, "I", 4), "section .data: rights r--, needs rw-"),
    "marker writable": (lambda m: m.put(fat_header(m) + 4, "I", 6), ".rocm_kpack_ref has the rights"),
    "no relro": (lambda m: m.put(m.program_header(RELRO), "I", 0), "0 PT_GNU_RELRO instead of 1"),
    "relro too short": (lambda m: grow(m, m.program_header(RELRO), "memsz", -8), "PT_GNU_RELRO ends"),
    "relro too long": (
        lambda m: grow(m, m.program_header(RELRO), "memsz", 4096),
        "section .data: rights r--",
    ),
    "filesz": (lambda m: grow(m, fat_header(m), "filesz", 8), "filesz"),
    "congruence": (lambda m: m.put(fat_header(m) + 8, "Q", m.at(".hip_fatbin") + 8), "not congruent"),
    "order": (lambda m: swap(m, code_header(m), fat_header(m)), "lies before"),
    "overlap": (lambda m: grow(m, code_header(m), "filesz memsz", 0x3000), "in memory"),
    "device code mapped": (stretch, "are still mapped"),
    "image longer": (lambda m: grow(m, data_header(m), "memsz", 0x9000), "the end of the image moved"),
    "dynamic segment": (
        lambda m: m.put(m.program_header(DYNAMIC) + 8, "Q", 0x40),
        "offset 0x40 is not where",
    ),
    "note segment lost": (lambda m: m.put(m.program_header(NOTE), "I", 0), "program header lost"),
    "tls segment": (
        lambda m: m.put(m.program_header(7) + 48, "Q", 64),
        "program header lost or changed: type 0x7",
    ),
    "marker cut": (lambda m: m.put(m.header_of(".hip_fatbin") + 32, "Q", len(MARKER) - 1), "cut short"),
    "marker elsewhere": (lambda m: m.put(m.header_of(".hip_fatbin") + 16, "Q", 64), "outside the old"),
    "marker not in memory": (
        lambda m: m.put(m.header_of(".hip_fatbin") + 8, "Q", 0),
        "PROGBITS, ALLOC expected",
    ),
    "wrapper magic": (lambda m: m.put(m.at(".hipFatBinSegment") + 24, "I", 0x48495046), "wrapper 1: magic"),
    "wrapper version": (lambda m: m.put(m.at(".hipFatBinSegment") + 28, "I", 2), "wrapper 1: version"),
    "wrapper index": (lambda m: m.put(m.at(".hipFatBinSegment") + 40, "I", 0), "wrapper 1: reserved"),
    "wrapper reserved": (lambda m: m.put(m.at(".hipFatBinSegment") + 44, "I", 1), "wrapper 1: reserved"),
    "wrapper pointer": (lambda m: m.put(rela_of_wrapper(m, 1) + 16, "Q", 64), "wrapper 1 points to 0x40"),
    "wrapper junk": (
        lambda m: m.put(m.at(".hipFatBinSegment") + 32, "Q", 5),
        "wrapper 1: the file holds 0x5",
    ),
    "relocation": (lambda m: m.put(rela_of_data(m) + 16, "Q", 0x1230), "became"),
    "relocation into hole": (
        lambda m: m.put(rela_of_data(m) + 16, "Q", m.section(".hip_fatbin").addr + 4096),
        "which was device code",
    ),
    "relocation to marker": (
        lambda m: m.put(rela_of_data(m) + 16, "Q", m.section(".hip_fatbin").addr),
        "which was device code",
    ),
    "relocation type": (lambda m: m.put(rela_of_data(m) + 8, "I", 1), "DT_RELACOUNT"),
    "headers overlap": (
        lambda m: m.put(m.header_of(".comment") + 24, "Q", m.image.shoff),
        "overlap in the file",
    ),
    "bad section type": (lambda m: m.put(m.header_of(".gnu.version_r") + 44, "I", 60), "readelf: "),
}


def swap(made: Forgery, a: int, b: int) -> None:
    one, two = bytes(made.data[a : a + 56]), bytes(made.data[b : b + 56])
    made.data[a : a + 56], made.data[b : b + 56] = two, one


@pytest.mark.parametrize(("damage", "text"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damages_are_named(library, tmp_path, damage, text):
    made = split_by_hand(library, tmp_path / "split")
    damage(made)
    (tmp_path / "split").write_bytes(made.data)
    found = compare(library, tmp_path / "split")
    assert any(text in line for line in found), found


def test_mode_bits(library, tmp_path):
    split_by_hand(library, tmp_path / "split")
    (tmp_path / "split").chmod(0o600)
    assert compare(library, tmp_path / "split") == ["the mode bits of the file differ"]


def test_a_pointer_into_the_device_code_from_elsewhere(tmp_path):
    pointer = NAMES + "\n.data\n.balign 8\n.quad __hip_fatbin_1 + 16"
    original = build_library(tmp_path, bundles=BUNDLES, with_tail=False, extra_asm=pointer)
    split_by_hand(original, tmp_path / "split")
    (finding,) = compare(original, tmp_path / "split")
    assert "which was device code" in finding


def test_program_header_table_of_a_program(tmp_path):
    original = build_library(tmp_path, bundles=BUNDLES, kind="pie", with_tail=False, extra_asm=NAMES)
    made = split_by_hand(original, tmp_path / "split")
    made.put(made.program_header(PHDR) + 8, "Q", 0x80)
    (tmp_path / "split").write_bytes(made.data)
    found = compare(original, tmp_path / "split")
    assert any("PT_PHDR says 0x80" in line for line in found), found
    moved = len(made.data)
    made.put(32, "Q", moved)
    table = made.data[64 : 64 + 56 * len(made.image.segments)]
    (tmp_path / "split").write_bytes(made.data + table)
    found = compare(original, tmp_path / "split")
    assert any("kernels before 5.18" in line for line in found), found


def test_notes_may_move_only_when_allowed(tmp_path):
    original = build_library(tmp_path, bundles=BUNDLES, with_tail=False, extra_asm=NAMES)
    made = split_by_hand(original, tmp_path / "split")
    fatbin, note = made.section(".hip_fatbin"), made.section(".note.gnu.build-id")
    place = -(-(len(MARKER)) // 8) * 8
    made.data[fatbin.offset + place : fatbin.offset + place + note.size] = made.data[
        note.offset : note.offset + note.size
    ]
    address, offset = fatbin.addr + place, fatbin.offset + place
    made.put(made.header_of(".note.gnu.build-id") + 16, "QQ", address, offset)
    header = next(
        made.image.phoff + 56 * number
        for number, segment in enumerate(made.image.segments)
        if segment.type == NOTE and segment.vaddr <= note.addr < segment.end
    )
    assert struct.unpack_from("<Q", made.data, header + 16)[0] == note.addr
    made.put(header + 8, "QQQ", offset, address, address)
    grow(made, fat_header(made), "filesz memsz", place + note.size - len(MARKER))
    (tmp_path / "split").write_bytes(made.data)
    assert any(".note.gnu.build-id" in line for line in compare(original, tmp_path / "split"))
    assert compare(original, tmp_path / "split", allow_moved_notes=True) == []
