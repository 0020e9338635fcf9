"""Small ROCm trees for tests: libraries compiled by gcc, device code bundles packed by hand, an ELF judge."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from trees import link, script, write


def gcc(*words: str | Path) -> None:
    subprocess.run(["gcc", *map(str, words)], check=True, capture_output=True)


def bundle(targets: Iterable[str]) -> bytes:
    """A clang offload bundle, after the documentation of clang-offload-bundler: 64 bytes of code a target."""
    ids = ["host-x86_64-unknown-linux--", *(f"hipv4-amdgcn-amd-amdhsa--{target}" for target in targets)]
    head = 24 + 8 + sum(24 + len(text) for text in ids)
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for number, text in enumerate(ids):
        size = 0 if number == 0 else 64
        data += struct.pack("<QQQ", head + 64 * max(0, number - 1), size, len(text)) + text.encode()
    return data + b"\x7fCODE".ljust(64, b".") * (len(ids) - 1)


def library(
    path: Path,
    *,
    soname: str | None = None,
    needs: Sequence[Path] = (),
    flags: Sequence[str] = (),
    targets: Sequence[str] = (),
    symbol: str = "",
    mode: int = 0o644,
) -> Path:
    """Compile a shared library that exports `symbol` (by default its stem), returning 42."""
    path.parent.mkdir(parents=True, exist_ok=True)
    symbol = symbol or re.sub(r"\W", "_", path.name.partition(".so")[0])
    scratch = path.parent / ("." + path.name + ".d")
    scratch.mkdir()
    text = f"int {symbol}(void) {{ return 42; }}\n"
    if targets:
        (scratch / "code.bin").write_bytes(bundle(targets))
        text += (
            '__asm__(".section .hip_fatbin,\\"a\\",@progbits\\n.balign 4096\\n'
            f'.incbin \\"{scratch}/code.bin\\"\\n.text\\n");\n'
        )
    (scratch / "code.c").write_text(text)
    name = [f"-Wl,-soname,{soname}"] if soname else []
    gcc("-shared", "-fPIC", "-Wl,--no-as-needed", *name, *flags, "-o", path, scratch / "code.c", *needs)
    for file in scratch.iterdir():
        file.unlink()
    scratch.rmdir()
    path.chmod(mode)
    return path


# What a program was called with, one fact a line; exits with the number in CODE.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    for (int i = 0; i < argc; i++) printf("<%s>\n", argv[i]);
    printf("GREETING=%s\n", getenv("GREETING") ? getenv("GREETING") : "");
    return getenv("CODE") ? atoi(getenv("CODE")) : 0;
}
"""


def program(path: Path, *, text: str = PROGRAM, flags: Sequence[str | Path] = ()) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_name(path.name + ".c")
    source.write_text(text)
    gcc("-o", path, source, *flags)
    source.unlink()
    return path


def dynamic(path: Path) -> dict[str, list[str]]:
    """The dynamic table as readelf reads it: NEEDED, SONAME, RPATH, RUNPATH to their values."""
    done = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True)
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        match = re.search(r"\((NEEDED|SONAME|RPATH|RUNPATH)\).*\[(.*)\]", line)
        if match:
            found.setdefault(match[1], []).append(match[2])
    return found


def small_rocm(root: Path, *, targets: Sequence[str] = ("gfx1100", "gfx1101", "gfx1102")) -> Path:
    """A prefix with one of everything the package builder treats differently."""
    lib = root / "lib"
    hip = library(lib / "libamdhip64.so.6.4.43484", soname="libamdhip64.so.6", needs=(), mode=0o755)
    link(lib / "libamdhip64.so.6", "libamdhip64.so.6.4.43484")
    link(lib / "libamdhip64.so", "libamdhip64.so.6")
    library(
        lib / "librocblas.so.4.4",
        soname="librocblas.so.4",
        needs=(hip,),
        targets=targets,
        flags=("-Wl,--enable-new-dtags,-rpath,/opt/rocm/lib:$ORIGIN/../lib",),
    )
    link(lib / "librocblas.so.4", "librocblas.so.4.4")
    link(lib / "librocblas.so", "librocblas.so.4")
    write(lib / "rocblas/library/TensileLibrary_lazy_gfx1100.dat", b"\x93dat")
    program(root / "bin/rocminfo")
    program(lib / "llvm/bin/clang-19")
    link(lib / "llvm/bin/clang", "clang-19")
    link(lib / "llvm/bin/clang++", "clang")
    link(root / "bin/amdclang++", "../lib/llvm/bin/clang++")
    script(root / "bin/hipcc", '#!/bin/sh\necho "$0" "$@"\n')
    link(root / "llvm", "lib/llvm")
    write(
        root / "include/hip/hip_version.h",
        "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 4\n#define HIP_VERSION_PATCH 43484\n",
    )
    write(lib / "cmake/hip/hip-config.cmake", "set(hip_FOUND 1)\n")
    write(lib / "libamdhip64_static.a", b"!<arch>\n")
    write(root / "share/hip/version", "HIP_VERSION_MAJOR=6\n")
    link(root / "bin/.hipVersion", "../share/hip/version")
    write(root / ".info/version", "6.4.1-83\n")
    return root
