"""PE images of a real compiler beside binutils' and LLVM's readers, and headers written by hand."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needs import needs
from rocwright.binary.pe import MACHINE_AMD64, PeSection, is_pe, read_pe
from rocwright.errors import InvalidPe
from windows_tree import COMPILER, windows_prefix

LLD_LINK = shutil.which("lld-link")
needs_mingw = needs(COMPILER)


def run(*words: str | Path) -> str:
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("windows")
    windows_prefix(root)
    return root


@needs_mingw
def test_a_dll_that_needs_another(tree: Path) -> None:
    pe = read_pe(tree / "bin/hipblas.dll")
    assert (pe.machine, pe.is_dll, pe.is_program) == (MACHINE_AMD64, True, False)
    assert pe.imports == ("KERNEL32.dll", "msvcrt.dll", "rocblas.dll")
    assert (pe.delay_imports, pe.export_name) == ((), "hipblas.dll")


@needs_mingw
def test_a_program(tree: Path) -> None:
    pe = read_pe(tree / "bin/hipInfo.exe")
    assert (pe.is_dll, pe.is_program, pe.export_name) == (False, True, None)
    assert "amdhip64_7.dll" in pe.imports


@needs_mingw
@needs("objdump")
def test_every_image_of_the_tree_as_objdump_reads_it(tree: Path) -> None:
    images = [path for path in sorted(tree.rglob("*")) if is_pe(path)]
    assert len(images) == 11  # seven DLLs, hipInfo, hipcc and clang with its second name
    for path in images:
        pe = read_pe(path)
        text = run("objdump", "-p", path)
        assert list(pe.imports) == re.findall(r"DLL Name: (\S+)", text), path
        assert ([pe.export_name] if pe.is_dll else []) == re.findall(
            r"^Name\s+\S+ (\S+)$", text, re.MULTILINE
        ), path
        assert pe.is_dll == bool(re.search(r"^\tDLL$", text, re.MULTILINE))
        rows = re.findall(
            r"^ +\d+ (\S+) +([0-9a-f]+)  \S+  \S+  ([0-9a-f]+)", run("objdump", "-h", path), re.MULTILINE
        )
        kept = [section for section in pe.sections if section.size]
        assert [(section.name, section.offset) for section in kept] == [
            (name, int(offset, 16)) for name, _, offset in rows if int(offset, 16)
        ]


@needs_mingw
def test_names_of_sections_behind_the_symbols(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("__declspec(dllexport) int a(void) { return 1; }\n")
    run(COMPILER, "-shared", "-g", "-o", tmp_path / "a.dll", source)
    assert ".debug_info" in {section.name for section in read_pe(tmp_path / "a.dll").sections}


@needs_mingw
@needs("lld-link", "llvm-dlltool", "llvm-readobj")
def test_delay_loaded_dlls_as_llvm_reads_them(tmp_path: Path) -> None:
    (tmp_path / "late.def").write_text("LIBRARY late_1.dll\nEXPORTS\nlate\n")
    (tmp_path / "soon.def").write_text("LIBRARY soon.dll\nEXPORTS\nsoon\n")
    (tmp_path / "a.c").write_text(
        "__declspec(dllimport) int late(void);\n__declspec(dllimport) int soon(void);\n"
        "void *__delayLoadHelper2(void *a, void *b) { return a; }\n"
        "__declspec(dllexport) int a(void) { return late() + soon(); }\n"
    )
    for name in ("late", "soon"):
        definitions, library = tmp_path / f"{name}.def", tmp_path / f"{name}.lib"
        run("llvm-dlltool", "-m", "i386:x86-64", "-d", definitions, "-l", library)
    run(COMPILER, "-c", "-O1", "-o", tmp_path / "a.o", tmp_path / "a.c")
    inputs = [tmp_path / name for name in ("a.o", "late.lib", "soon.lib")]
    run(
        LLD_LINK or "", "/dll", "/noentry", "/lldmingw", "/delayload:late_1.dll",
        f"/out:{tmp_path / 'a.dll'}", *inputs,
    )  # fmt: skip
    pe = read_pe(tmp_path / "a.dll")
    assert (pe.imports, pe.delay_imports) == (("soon.dll",), ("late_1.dll",))
    text = run("llvm-readobj", "--coff-imports", tmp_path / "a.dll")
    assert re.findall(r"DelayImport \{\n  Name: (\S+)", text) == ["late_1.dll"]


# ---- headers written by hand ----

TEXT_AT, TEXT_ADDRESS = 0x400, 0x1000


def image(
    *,
    wide: bool = True,
    flags: int = 0x2002,
    directories: dict[int, int] | None = None,
    contents: bytes = b"",
    sections: int = 1,
) -> bytearray:
    """An image of one section, whose bytes are `contents`; `directories` maps index to address."""
    data = bytearray(TEXT_AT) + contents.ljust(0x200, b"\0")
    data[:2], data[60:64] = b"MZ", struct.pack("<I", 0x80)
    before = 112 if wide else 96
    size = before + 16 * 8
    data[0x80:0x98] = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, sections, 0, 0, 0, size, flags)
    optional = bytearray(size)
    optional[:2] = struct.pack("<H", 0x20B if wide else 0x10B)
    if wide:
        optional[24:32] = struct.pack("<Q", 0x180000000)
    else:
        optional[28:32] = struct.pack("<I", 0x10000000)
    optional[60:64] = struct.pack("<I", TEXT_AT)
    optional[before - 4 : before] = struct.pack("<I", 16)
    for index, address in (directories or {}).items():
        optional[before + 8 * index : before + 8 * index + 8] = struct.pack("<II", address, 40)
    data[0x98 : 0x98 + size] = optional
    section = struct.pack("<8sIIIIIIHHI", b".text", 0x200, TEXT_ADDRESS, 0x200, TEXT_AT, 0, 0, 0, 0, 0)
    data[0x98 + size : 0x98 + size + 40] = section
    return data


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "a.dll"
    path.write_bytes(data)
    return path


NAME = TEXT_ADDRESS + 0x80
IMPORT = struct.pack("<IIIII", 0, 0, 0, NAME, 0).ljust(0x80, b"\0") + b"other.dll\0"


@pytest.mark.parametrize("wide", [True, False])
def test_what_the_headers_say(tmp_path: Path, wide: bool) -> None:
    pe = read_pe(write(tmp_path, image(wide=wide, directories={1: TEXT_ADDRESS}, contents=IMPORT)))
    assert (pe.machine, pe.is_dll, pe.is_program, pe.size) == (0x8664, True, False, 0x600)
    assert (pe.imports, pe.delay_imports, pe.export_name) == (("other.dll",), (), None)
    assert pe.sections == (PeSection(".text", 0x1000, 0x400, 0x200),)


@pytest.mark.parametrize(("attributes", "base"), [(1, 0), (0, 0x10000000)])
def test_delay_imports_by_offset_and_as_old_compilers_wrote_them(
    tmp_path: Path, attributes: int, base: int
) -> None:
    table = struct.pack("<II24x", attributes, NAME + base).ljust(0x80, b"\0") + b"other.dll\0"
    pe = read_pe(write(tmp_path, image(wide=False, directories={13: TEXT_ADDRESS}, contents=table)))
    assert pe.delay_imports == ("other.dll",)


def test_a_table_among_the_headers(tmp_path: Path) -> None:
    data = image(directories={1: 0x300})
    data[0x300:0x314] = struct.pack("<IIIII", 0, 0, 0, 0x380, 0)
    data[0x380:0x389] = b"other.dll"
    assert read_pe(write(tmp_path, data)).imports == ("other.dll",)


def test_neither_program_nor_dll(tmp_path: Path) -> None:
    pe = read_pe(write(tmp_path, image(flags=0)))
    assert (pe.is_dll, pe.is_program) == (False, False)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(
    ("flags", "portable"),
    [(1, True), (1 | 8, True), (1 | 2, False), (0, False), (1 | 2 | 0x20000, True), (2 | 0x20000, False)],
)
def test_an_assembly_without_machine_code_is_portable(
    tmp_path: Path, wide: bool, flags: int, portable: bool
) -> None:
    header = struct.pack("<IHHIII", 72, 2, 5, 0, 0, flags)
    data = image(wide=wide, directories={14: TEXT_ADDRESS}, contents=header)
    # Of 64 bits, it is for the one machine that its headers name.
    assert read_pe(write(tmp_path, data)).portable is (portable and not wide)
    assert not read_pe(write(tmp_path, image(wide=wide))).portable


def bad_directory(index: int, address: int, contents: bytes = IMPORT) -> bytes:
    return bytes(image(directories={index: address}, contents=contents))


ENDLESS = struct.pack("<IIIII", 0, 0, 0, NAME, 0)

BAD = {
    "empty": (b"", "this is not a PE image"),
    "script": (b"#!/bin/sh\n", "this is not a PE image"),
    "object-file": (struct.pack("<HH", 0x8664, 3).ljust(100, b"\0"), "this is not a PE image"),
    "cut-in-the-dos-header": (b"MZ".ljust(40, b"\0"), "ends inside the DOS header"),
    "signature-outside": (b"MZ".ljust(60, b"\0") + b"\xf0\xff\xff\xff", "PE signature at 0xfffffff0"),
    "dos-program": (b"MZ".ljust(128, b"\0"), "this is a DOS program"),
    "cut-in-the-file-header": (bytes(image())[:0x8C], "file header at 0x84"),
    "cut-in-the-optional-header": (bytes(image())[:0x100], "optional header at 0x98"),
    "cut-in-the-section-table": (bytes(image())[:0x190], "section table"),
    "too-many-sections": (bytes(image(sections=5000)), "5000 sections"),
    "imports-outside": (bad_directory(1, 0x9000), "import table: address 0x9000 lies in no section"),
    "name-outside": (
        bad_directory(1, TEXT_ADDRESS, struct.pack("<IIIII", 0, 0, 0, 0x7000, 0)),
        "name of an imported DLL: address 0x7000",
    ),
    "name-without-end": (
        bad_directory(1, TEXT_ADDRESS, IMPORT[:0x80] + b"x" * 0x180),
        "name of an imported DLL at 0x480 has no end",
    ),
    "imports-without-end": (bad_directory(1, TEXT_ADDRESS, ENDLESS * 26), "import table at 0x"),
    "assembly-outside": (bad_directory(14, 0x9000), "CLI header: address 0x9000"),
    "exports-outside": (bad_directory(0, 0x9000), "export table: address 0x9000"),
    "delay-name-below-the-image": (
        bad_directory(13, TEXT_ADDRESS, struct.pack("<II24x", 0, 5)),
        "name of a delay-loaded DLL: address -0x",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_damage_is_named(tmp_path: Path, name: str) -> None:
    data, message = BAD[name]
    path = write(tmp_path, data)
    with pytest.raises(InvalidPe) as caught:
        read_pe(path)
    assert message in caught.value.what and "a.dll" in caught.value.what
    assert caught.value.where == str(path)


def test_an_optional_header_of_another_kind(tmp_path: Path) -> None:
    data = image()
    data[0x98:0x9A] = b"\x07\x01"  # a ROM image
    with pytest.raises(InvalidPe, match="of no known kind"):
        read_pe(write(tmp_path, data))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidPe, match=r"cannot read a\.dll: No such file"):
        read_pe(tmp_path / "a.dll")


def test_what_is_a_pe_image(tmp_path: Path) -> None:
    assert is_pe(write(tmp_path, image()))
    assert not is_pe(write(tmp_path, b"MZ"))
    assert not is_pe(write(tmp_path, b"MZ".ljust(128, b"\0")))
    assert not is_pe(tmp_path) and not is_pe(tmp_path / "none")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 0x5FF), st.binary(min_size=1, max_size=8)), max_size=6),
    st.integers(0, 0x600),
)
def test_any_change_is_read_or_refused_by_name(
    tmp_path: Path, changes: list[tuple[int, bytes]], length: int
) -> None:
    data = image(directories={0: TEXT_ADDRESS, 1: TEXT_ADDRESS, 13: TEXT_ADDRESS}, contents=IMPORT)
    for offset, replacement in changes:
        data[offset : offset + len(replacement)] = replacement
    for cut in (bytes(data), bytes(data[:length])):
        try:
            read_pe(write(tmp_path, cut))
        except InvalidPe as error:
            assert error.where
