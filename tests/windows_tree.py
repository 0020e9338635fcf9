"""A small ROCm for Windows out of real programs and DLLs, made by mingw-w64: installed, and as artifacts.

Every file is named once, with the artifact it belongs to; the installed tree is all of them on one another,
as an installation is all artifacts flattened.
"""

from __future__ import annotations

import io
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import zstandard

from needs import need
from oracle.fat_library import bundle, code_object
from rocwright.device_code.kpack import ArchiveWriter, Entry
from trees import write

COMPILER = "x86_64-w64-mingw32-gcc"
VERSION = "7.0.2"
FAMILY, TARGETS = "gfx110X-all", ("gfx1100", "gfx1101")
# EF_AMDGPU_MACH of each target, by LLVM's documentation.
_MACHINES = dict(zip(TARGETS, (0x41, 0x46), strict=True))

_STAGES = {
    "amd-llvm": "compiler/amd-llvm/stage",
    "base": "base/aux-overlay/stage",
    "blas": "math-libs/BLAS/rocBLAS/stage",
    "core-hip": "core/clr/stage",
    "core-hipinfo": "core/hipInfo/stage",
    "host-blas": "third-party/host-blas/stage",
}


@dataclass(frozen=True)
class Dll:
    """A DLL: the functions it exports and the DLLs it imports from (their functions, all of them)."""

    exports: tuple[str, ...]
    needs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


# In the order in which they can be linked.
DLLS = {
    "amd_comgr0700": Dll(("amd_comgr_get_version",)),
    "hiprtc-builtins0700": Dll(("hiprtc_builtins_data",)),
    "amdhip64_7": Dll(("hipGetDeviceCount", "hipMalloc"), needs=("amd_comgr0700",)),
    "hiprtc0700": Dll(("hiprtcVersion",), needs=("amd_comgr0700", "amdhip64_7")),
    "rocm-openblas": Dll(("cblas_sgemm",)),
    "rocblas": Dll(("rocblas_sgemm",), needs=("amdhip64_7",)),
    "fat/rocblas": Dll(("rocblas_sgemm",), needs=("amdhip64_7",), targets=TARGETS),
    "hipblas": Dll(("hipblasSgemm",), needs=("rocblas",)),
}


def windows_prefix(root: Path) -> None:
    """An installed tree; `rocblas.dll` holds its device code."""
    for row in _rows(split=False):
        write(root / row.path, row.data)


def windows_artifacts(root: Path, *, split: bool) -> None:
    """The same as artifact directories; `split` has the device code in directories of single targets."""
    for row in _rows(split=split):
        stage = _STAGES[row.artifact]
        directory = root / f"{row.artifact}_{row.component}_{row.target}"
        write(directory / "artifact_manifest.txt", f"{stage}\n".encode())
        write(directory / stage / row.path, row.data)


@dataclass(frozen=True)
class _Row:
    artifact: str
    component: str
    path: str
    data: bytes
    target: str = "generic"


def _rows(*, split: bool) -> Iterator[_Row]:
    images = _images()
    flags = {"flags": {"KPACK_SPLIT_ARTIFACTS": split}}
    yield _Row("base", "lib", "share/therock/therock_manifest.json", json.dumps(flags).encode())
    known = ";".join(TARGETS)
    yield _Row(
        "base", "lib", "share/therock/dist_info.json", json.dumps({"dist_amdgpu_targets": known}).encode()
    )
    yield _Row("base", "lib", ".info/version", f"{VERSION}\n".encode())

    for name in ("amdhip64_7", "hiprtc0700", "hiprtc-builtins0700"):
        yield _Row("core-hip", "lib", f"bin/{name}.dll", images[f"{name}.dll"])
    header = "".join(
        f"#define HIP_VERSION_{part} {number}\n"
        for part, number in zip(("MAJOR", "MINOR", "PATCH"), VERSION.split("."), strict=True)
    )
    yield _Row("core-hip", "dev", "include/hip/hip_version.h", header.encode())
    yield _Row("core-hip", "dev", "lib/amdhip64.lib", images["amdhip64_7.lib"])
    yield _Row("core-hip", "dev", "lib/cmake/hip/hip-config.cmake", b"set(hip_FOUND 1)\n")
    yield _Row("core-hipinfo", "run", "bin/hipInfo.exe", images["hipInfo.exe"])

    yield _Row("amd-llvm", "lib", "bin/amd_comgr0700.dll", images["amd_comgr0700.dll"])
    # Windows has no links: the compiler is there under each of its names.
    for path in ("bin/hipcc.exe", "lib/llvm/bin/clang.exe", "lib/llvm/bin/clang++.exe"):
        yield _Row("amd-llvm", "run", path, images["tool.exe"])

    yield _Row("host-blas", "lib", "bin/rocm-openblas.dll", images["rocm-openblas.dll"])
    yield from _blas(images, split=split)


def _blas(images: dict[str, bytes], *, split: bool) -> Iterator[_Row]:
    host = "generic" if split else FAMILY
    own = images["rocblas.dll" if split else "fat/rocblas.dll"]
    yield _Row("blas", "lib", "bin/rocblas.dll", own, host)
    yield _Row("blas", "lib", "bin/hipblas.dll", images["hipblas.dll"], host)
    yield _Row("blas", "dev", "include/rocblas/rocblas.h", b"#pragma once\n", host)
    yield _Row("blas", "dev", "lib/rocblas.lib", images["rocblas.lib"], host)
    for target in TARGETS:
        where = target if split else FAMILY
        database = f"bin/rocblas/library/TensileLibrary_lazy_{target}.dat"
        yield _Row("blas", "lib", database, b"\x93" + target.encode(), where)
        if split:
            yield _Row("blas", "lib", f".kpack/blas_lib_{target}.kpack", _archive(target), where)


def _archive(target: str) -> bytes:
    """The archive with the code of `rocblas.dll` for one target."""
    stream, code = io.BytesIO(), _code(target)
    writer = ArchiveWriter(stream, "blas_lib", target)
    ordinal = writer.add(zstandard.compress(code))
    writer.enter(Entry("bin/rocblas.dll", 0, target, ordinal, len(code)))
    writer.close()
    return stream.getvalue()


def _code(target: str) -> bytes:
    return code_object(_MACHINES[target], target.encode() * 16)


@cache
def _images() -> dict[str, bytes]:
    """Every program, DLL and import library by name; built once (half a second), always the same bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        for name, dll in DLLS.items():
            build_dll(here / f"{name}.dll", dll, needs=[here / f"{need}.dll" for need in dll.needs])
        build_program(here / "tool.exe")
        build_program(here / "hipInfo.exe", calls="hipGetDeviceCount", needs=[here / "amdhip64_7.dll"])
        built = [path for path in here.rglob("*.*") if path.suffix in (".dll", ".exe", ".lib")]
        return {path.relative_to(here).as_posix(): path.read_bytes() for path in built}


def build_dll(path: Path, dll: Dll, *, needs: list[Path]) -> None:
    """Compile a DLL with its import library (`.lib`) beside it."""
    path.parent.mkdir(exist_ok=True)
    calls = [function for need in needs for function in DLLS[need.stem].exports]
    lines = [f"__declspec(dllimport) int {name}(void);" for name in calls]
    called = " + ".join(["42", *(f"{name}()" for name in calls)])
    lines += [f"__declspec(dllexport) int {name}(void) {{ return {called}; }}" for name in dll.exports]
    if dll.targets:
        code = path.with_suffix(".code")
        code.write_bytes(bundle([(target, _code(target)) for target in dll.targets]))
        # In an image the name of a section has at most eight bytes.
        lines.append(
            f'__asm__(".section .hip_fat,\\"dr\\"\\n.balign 4096\\n.incbin \\"{code}\\"\\n.text\\n");'
        )
    library = f"-Wl,--out-implib,{path.with_suffix('.lib')}"
    _compile(path, lines, "-shared", library, needs=needs)


def build_program(path: Path, *, calls: str = "", needs: list[Path] | None = None) -> None:
    """Compile a program that calls one function, or none."""
    lines = [f"__declspec(dllimport) int {calls}(void);"] if calls else []
    lines.append(f"int main(void) {{ return {calls + '()' if calls else '0'}; }}")
    _compile(path, lines, needs=needs or [])


def _compile(path: Path, lines: list[str], *flags: str, needs: list[Path]) -> None:
    source = path.with_suffix(".c")
    source.write_text("\n".join(lines) + "\n")
    need(COMPILER)
    words = [COMPILER, "-s", "-Wl,--no-insert-timestamp", *flags, "-o", path, source, *needs]
    subprocess.run(words, check=True, capture_output=True)
