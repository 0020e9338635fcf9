"""Sound files of real linkers have no problems; each contradiction in headers is named."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.fat_library import build_library, bundle, code_object, linkers
from rocwright.binary import elf as fmt
from rocwright.binary.elf import Elf, Segment, read_elf
from rocwright.binary.soundness import problems
from rocwright.binary.view import Mapped

PHDR = ("type", "flags", "offset", "vaddr", "paddr", "filesz", "memsz", "align")
SHDR = ("name", "type", "flags", "addr", "offset", "size", "link", "info", "addralign", "entsize")
BUNDLE = bundle([("gfx906", code_object(0x2F, bytes(6000)))])


class Edit:
    """A library whose headers are changed field by field."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = bytearray(path.read_bytes())

    @property
    def elf(self) -> Elf:
        return read_elf(Mapped(self.path, bytes(self.data)))

    def first(self, kind: int, flags: int = 0) -> int:
        """Number of the first program header of a type that has these rights."""
        segments = self.elf.segments
        return next(i for i, s in enumerate(segments) if s.type == kind and s.flags & flags == flags)

    def load_of(self, name: str) -> int:
        section = self.elf.sections[name]
        segments = self.elf.segments
        return next(
            i
            for i, s in enumerate(segments)
            if s.type == fmt.PT_LOAD and s.vaddr <= section.addr < s.vaddr + s.memsz
        )

    def segment(self, number: int) -> Segment:
        return self.elf.segments[number]

    def put(self, number: int, **fields: int) -> None:
        """Set fields of a program header."""
        at = self.elf.phoff + number * fmt.PHDR.size
        row = dict(zip(PHDR, fmt.PHDR.unpack_from(self.data, at), strict=True)) | fields
        fmt.PHDR.pack_into(self.data, at, *row.values())

    def put_section(self, name: str, **fields: int) -> None:
        """Set fields of a section header."""
        at = self.elf.shoff + self.elf.sections[name].index * fmt.SHDR.size
        row = dict(zip(SHDR, fmt.SHDR.unpack_from(self.data, at), strict=True)) | fields
        fmt.SHDR.pack_into(self.data, at, *row.values())

    def swap(self, a: int, b: int) -> None:
        at = [self.elf.phoff + n * fmt.PHDR.size for n in (a, b)]
        rows = [self.data[i : i + fmt.PHDR.size] for i in at]
        self.data[at[0] : at[0] + fmt.PHDR.size], self.data[at[1] : at[1] + fmt.PHDR.size] = rows[1], rows[0]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("library"), bundles=[BUNDLE])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("program"), bundles=[BUNDLE], kind="pie")


@pytest.mark.parametrize("linker", linkers())
@pytest.mark.parametrize("kind", ["so", "pie", "exec"])
@pytest.mark.parametrize("page", [None, 0x10000])
def test_what_linkers_make_is_sound(tmp_path: Path, linker: str, kind: str, page: int | None) -> None:
    path = build_library(tmp_path, bundles=[BUNDLE], kind=kind, linker=linker, max_page_size=page)
    assert problems(read_elf(path)) == []
    subprocess.run(["strip", str(path)], check=True)
    assert problems(read_elf(path)) == []


def test_an_object_file_has_no_load_segment(tmp_path: Path) -> None:
    (tmp_path / "x.s").write_text('.section .note.GNU-stack,"",@progbits\n')
    subprocess.run(["gcc", "-c", "x.s", "-o", "x.o"], cwd=tmp_path, check=True)
    assert problems(read_elf(tmp_path / "x.o")) == ["it has no load segment"]


def filesz(edit: Edit) -> None:
    number = edit.load_of(".data")
    edit.put(number, filesz=edit.segment(number).memsz + 1)


def behind_the_file(edit: Edit) -> None:
    number = edit.load_of(".data")
    edit.put(number, offset=edit.segment(number).offset + (len(edit.data) & -0x1000))


def memory_overlap(edit: Edit) -> None:
    number = edit.load_of(".text")
    edit.put(number, memsz=edit.segment(number).memsz + 0x1000)


def file_overlap(edit: Edit) -> None:
    number = edit.load_of(".data")
    edit.put(number, offset=edit.segment(number).offset - 0x2000)


def shared_page(edit: Edit) -> None:
    """The second segment starts in the last page of the first, from elsewhere in the file."""
    first, second = edit.load_of(".text"), edit.load_of(".rodata")
    end = edit.segment(first).vaddr + edit.segment(first).filesz
    edit.put(second, vaddr=(end + 0xFF) & -0x100, offset=(edit.segment(second).offset + end + 0xFF) & -0x100)


def shared_offset(edit: Edit) -> None:
    loads = [i for i, s in enumerate(edit.elf.segments) if s.type == fmt.PT_LOAD]
    edit.put(loads[-2], filesz=0, offset=edit.segment(loads[-1]).offset)


def interpreter_table(edit: Edit) -> None:
    """Program headers at the end of the file, which no load segment brings where kernels look."""
    elf = edit.elf
    size = len(elf.segments) * fmt.PHDR.size
    table = edit.data[elf.phoff : elf.phoff + size]
    struct.pack_into("<Q", edit.data, 32, len(edit.data))
    edit.data += table


def relro_outside(edit: Edit) -> None:
    number = edit.first(fmt.PT_GNU_RELRO)
    edit.put(number, memsz=edit.segment(number).memsz + 0x10000)


DAMAGES: dict[str, tuple[Callable[[Edit], None], str]] = {
    "file size above memory size": (filesz, "bytes in the file and"),
    "behind the file": (behind_the_file, "ends behind the file"),
    "no power of two": (lambda e: e.put(e.load_of(".text"), align=0x1800), "which is not a power of two"),
    "not congruent to the page": (
        lambda e: e.put(e.load_of(".data"), offset=e.segment(e.load_of(".data")).offset + 8),
        "differ modulo 0x1000",
    ),
    "not congruent to the alignment": (
        lambda e: e.put(e.load_of(".data"), align=0x200000),
        "differ modulo 0x200000",
    ),
    "descending": (lambda e: e.swap(e.load_of(".text"), e.load_of(".data")), "they must ascend"),
    "overlap in memory": (memory_overlap, "overlaps in memory that at"),
    "overlap in the file": (file_overlap, "overlaps in the file that at"),
    "page of another": (shared_page, "takes a page from that at"),
    "offset of an empty one": (shared_offset, "has no bytes in the file and the offset"),
    "dynamic elsewhere": (
        lambda e: e.put(e.first(fmt.PT_DYNAMIC), offset=e.segment(e.first(fmt.PT_DYNAMIC)).offset + 16),
        "PT_DYNAMIC at",
    ),
    "dynamic read-only": (
        lambda e: e.put(e.load_of(".dynamic"), flags=fmt.PF_R),
        "PT_DYNAMIC lies in a load segment that is not writable",
    ),
    "relro too long": (relro_outside, "lies outside the writable load segments"),
    "relro elsewhere": (
        lambda e: e.put(e.first(fmt.PT_GNU_RELRO), offset=e.segment(e.first(fmt.PT_GNU_RELRO)).offset + 8),
        "PT_GNU_RELRO is not what a load segment brings",
    ),
    "data not writable": (
        lambda e: e.put(e.load_of(".data"), flags=fmt.PF_R),
        "section .data must be writable",
    ),
    "text not executable": (
        lambda e: e.put(e.load_of(".text"), flags=fmt.PF_R),
        "section .text must be executable",
    ),
    "section outside memory": (
        lambda e: e.put_section(".rodata", addr=0x7000000),
        "section .rodata at 0x7000000 is not in memory",
    ),
    "section elsewhere in the file": (
        lambda e: e.put_section(".rodata", offset=e.elf.sections[".rodata"].offset + 4),
        "section .rodata is not what a load segment brings",
    ),
    "comment behind the file": (
        lambda e: e.put_section(".comment", size=1 << 30),
        "section .comment ends behind the file",
    ),
    "comment on the section headers": (
        lambda e: e.put_section(".comment", offset=e.elf.shoff - 1),
        "section .comment and the section headers overlap",
    ),
    "section headers on program headers": (
        lambda e: struct.pack_into("<Q", e.data, 40, e.elf.phoff + 64),
        "section and program headers overlap",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damages_of_a_library_are_named(library: Path, damage: str) -> None:
    change, text = DAMAGES[damage]
    edit = Edit(library)
    assert problems(edit.elf) == []
    change(edit)
    assert any(text in problem for problem in problems(edit.elf)), problems(edit.elf)


PROGRAM_DAMAGES: dict[str, tuple[Callable[[Edit], None], str]] = {
    "PT_PHDR too short": (
        lambda e: e.put(e.first(fmt.PT_PHDR), filesz=56),
        "PT_PHDR says 0x40 + 0x38",
    ),
    "PT_PHDR elsewhere": (
        lambda e: e.put(e.first(fmt.PT_PHDR), offset=0x80),
        "PT_PHDR says 0x80",
    ),
    "PT_PHDR last": (
        lambda e: e.swap(e.first(fmt.PT_PHDR), len(e.elf.segments) - 1),
        "PT_PHDR stands behind a load segment",
    ),
    "table not in memory": (interpreter_table, "not in memory where older kernels look"),
    "interpreter elsewhere": (
        lambda e: e.put(e.first(fmt.PT_INTERP), offset=e.segment(e.first(fmt.PT_INTERP)).offset + 4),
        "PT_INTERP at",
    ),
}


@pytest.mark.parametrize("damage", PROGRAM_DAMAGES)
def test_damages_of_a_program_are_named(program: Path, damage: str) -> None:
    change, text = PROGRAM_DAMAGES[damage]
    edit = Edit(program)
    assert problems(edit.elf) == []
    change(edit)
    assert any(text in problem for problem in problems(edit.elf)), problems(edit.elf)
