"""A library for aarch64, by structure: linked here with lld, never run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from needs import find_lld, find_llvm_tool, need
from oracle import elf_compare, fatbin_walk, kpack_reader
from oracle.fat_library import bundle, ccob, code_object
from rocwright.binary.elf import EM_AARCH64, PT_LOAD, read_elf
from rocwright.binary.view import mapped
from rocwright.device_code.archives import split_library
from rocwright.device_code.wrappers import SPLIT_MAGIC, read_wrappers

HOST = ("host-aarch64-unknown-linux-gnu-", b"")
TARGET = "hipv4-amdgcn-amd-amdhsa--gfx942"
R_AARCH64_RELATIVE = 1027

ASSEMBLY = """
    .text
    .globl answer
    .type answer, %function
answer:
    mov w0, #42
    ret
    .size answer, . - answer
    .section .hip_fatbin,"a",%progbits
    .balign 4096
first:
    .incbin "first.bin"
    .balign 4096
second:
    .incbin "second.bin"
    .section .hipFatBinSegment,"aw",%progbits
    .balign 8
    .word 0x48495046, 1
    .xword first, 0
    .word 0x48495046, 1
    .xword second, 0
    .section .rodata.behind,"a",%progbits
    .ascii "behind the device code"
"""


def build(directory: Path, page: int) -> Path:
    need("llvm-mc", "ld.lld")
    assembler, linker = find_llvm_tool("llvm-mc"), find_lld()
    assert assembler and linker
    raw = bundle([HOST, (TARGET, code_object(0x4C, b"first" * 60_000))])
    (directory / "first.bin").write_bytes(raw)
    (directory / "second.bin").write_bytes(
        ccob(bundle([HOST, (TARGET, code_object(0x4C, b"second" * 50_000))]), 3, "zstd")
    )
    (directory / "a.s").write_text(ASSEMBLY)
    object_file, library = directory / "a.o", directory / "libarm.so"
    subprocess.run(
        [assembler, "--arch=aarch64", "--filetype=obj", "-o", object_file, "a.s"], cwd=directory, check=True
    )
    subprocess.run(
        [linker, "-m", "aarch64linux", "-shared", "-soname", "libarm.so", "-z", f"max-page-size={page}"]
        + ["-o", library, object_file],
        check=True,
    )
    return library


@pytest.mark.parametrize("page", [0x1000, 0x10000])
def test_a_library_for_aarch64(tmp_path: Path, page: int) -> None:
    library = build(tmp_path, page)
    assert read_elf(library).machine == EM_AARCH64
    result = split_library(library, tmp_path / "out")
    assert result is not None
    assert result.kept is None
    assert (result.identical, list(result.archives)) == (2, ["gfx942"])
    host = tmp_path / "out" / "libarm.so"
    elf = read_elf(host)
    assert all((s.offset - s.vaddr) % page == 0 for s in elf.segments_of(PT_LOAD))
    assert host.stat().st_size < library.stat().st_size - 200_000
    with mapped(host) as file:
        wrappers = read_wrappers(elf, file)
        assert [(w.magic, w.reserved) for w in wrappers] == [(SPLIT_MAGIC, 0), (SPLIT_MAGIC, 1)]
        entries = [file.read_at(w.rela + 8, 8) for w in wrappers if w.rela is not None]
        assert [int.from_bytes(entry, "little") for entry in entries] == [R_AARCH64_RELATIVE] * 2
    assert elf_compare.compare(library, host) == []
    archive = kpack_reader.read_kpack(tmp_path / "out/.kpack/libarm.so_gfx942.kpack")
    walked = {
        ("libarm.so", wrapper.index, "gfx942"): code.data
        for wrapper in fatbin_walk.walk(library)
        for code in wrapper.device.values()
    }
    assert archive.entries == walked
    assert len(walked) == 2
