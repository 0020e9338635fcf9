"""A small ROCm for Linux out of real libraries, and a torch that really needs them, for fat wheels."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rocwright.device_code.kpack import Marker, pack_marker
from wheels import write_wheel

VERSION, FAT = "2.9.0+rocm7.1.0", "2.9.0+rocm.rocm7.1.0"
TAG = "cp312-cp312-linux_x86_64"
NAME, FAT_NAME = f"torch-{VERSION}-{TAG}.whl", f"torch-{FAT}-{TAG}.whl"
INFO = f"torch-{FAT}.dist-info"

# File, SONAME, number that its function returns, and whose numbers are added to it.
ROCM = {
    "lib/rocm_sysdeps/lib/librocm_sysdeps_elf.so.1": ("elf", 1, ()),
    "lib/libhsa-runtime64.so.1": ("hsa", 10, ("elf",)),
    "lib/libhsa-amd-aqlprofile64.so.1": ("aqlprofile", 0, ()),
    "lib/llvm/lib/libLLVM.so.19.0git": ("llvm", 0, ()),
    "lib/libamd_comgr.so.3": ("comgr", 0, ("llvm",)),
    "lib/libamdhip64.so.7": ("hip", 100, ("hsa",)),
    "lib/librocblas.so.5": ("rocblas", 1000, ("hip",)),
    "lib/librocfft.so.0": ("rocfft", 0, ("hip",)),
    "lib/libhipfft.so.0": ("hipfft", 5, ("rocfft",)),
    "lib/libroctx64.so.4": ("roctx", 0, ()),
    "lib/llvm/lib/clang/19/lib/linux/libamd_comgr.so.3": ("wrong", 0, ()),
}
TEXTS = {
    ".info/version": "7.1.0-83\n",
    "bin/hipcc": "#!/bin/sh\n",
    "include/hip/hip_version.h": "#pragma once\n",
    "lib/cmake/hip/hip-config.cmake": "set(hip_FOUND 1)\n",
    "lib/libhip.a": "!<arch>\n",
    "lib/rocblas/library/TensileLibrary_gfx942.co": "code " * 99,
    "lib/rocfft/rocfft_kernel_cache.db": "cache " * 99,
    "lib/llvm/bin/clang": "#!/bin/sh\n",
    "lib/llvm/lib/clang/19/lib/amdgcn/bitcode/ocml.bc": "bitcode " * 99,
    "lib/rocm_sysdeps/share/terminfo/x": "x",
    "share/doc/hip/LICENSE.md": "You may.\n",
    "share/doc/hip/README.md": "Read me.\n",
    "share/miopen/db/gfx942.kdb": "kernels",
}
LICENCES = {"licenses/rocm/share/doc/hip/LICENSE.md"}
# What torch needs (rocblas, and with it HIP) and preloads (roctx), and what these need and open.
INSIDE = {
    "lib/rocm_sysdeps/lib/librocm_sysdeps_elf.so.1",
    "lib/libhsa-runtime64.so.1",
    "lib/libhsa-amd-aqlprofile64.so.1",
    "lib/llvm/lib/libLLVM.so.19.0git",
    "lib/libamd_comgr.so.3",
    "lib/libamdhip64.so.7",
    "lib/librocblas.so.5",
    "lib/libroctx64.so.4",
    "lib/rocblas/library/TensileLibrary_gfx942.co",
    "lib/llvm/lib/clang/19/lib/amdgcn/bitcode/ocml.bc",
}
INIT = """\
import ctypes, os, sys

try:
    from . import _rocm_init
except ImportError:
    pass
else:
    _rocm_init.initialize()
    del _rocm_init

from .version import __version__


def number():
    return ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_C.so")).torch()
"""
ROCM_INIT = """\
def initialize():
    import rocm_sdk

    rocm_sdk.initialize_process(
        preload_shortnames=["roctx64", "amdhip64", "hipdnn"], check_version="7.1.*"
    )
"""
VERSION_PY = f"__version__ = '{VERSION}'\ndebug = False\nhip: str = '7.1.0'\n"
REQUIRES = ("rocm[libraries]==7.1.0", "filelock", 'rocm-sdk-device-gfx942==7.1.0; extra == "device-gfx942"')


def compile_library(
    path: Path, word: str, number: int, needs: dict[str, Path], *, soname: str | None = None, flags: str = ""
) -> None:
    """A library whose function `word` returns a number plus those of the functions `needs`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"int {name}(void);" for name in needs]
    total = " + ".join([str(number), *(f"{name}()" for name in needs)])
    code = "\n".join([*lines, f"int {word}(void) {{ return {total}; }}\n"])
    named = [f"-Wl,-soname,{soname}"] if soname else []
    words = ["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", *named, *flags.split(), "-o", str(path)]
    words += ["-x", "c", "-", "-x", "none", *map(str, needs.values()), "-Wl,--allow-shlib-undefined"]
    subprocess.run(words, input=code, text=True, check=True, capture_output=True)


@cache
def _images() -> dict[str, bytes]:
    """Libraries by path, compiled once: ROCm's, and torch's `_C.so` and `libtorch_hip.so`."""
    with TemporaryDirectory() as scratch:
        here, places = Path(scratch), {}
        for path, (word, number, needs) in ROCM.items():
            # An RPATH of the machine that built it, which must not stay.
            flags = "-Wl,-rpath,/opt/rocm/lib" if word in ("hip", "llvm") else ""
            places[word] = here / path
            named = {need: places[need] for need in needs}
            compile_library(here / path, word, number, named, soname=Path(path).name, flags=flags)
        hip = here / "torch/lib/libtorch_hip.so"
        compile_library(
            hip, "torch_hip", 10000, {"rocblas": places["rocblas"]}, soname=hip.name,
            flags="-Wl,--enable-new-dtags,-rpath,$ORIGIN:/opt/rocm/lib",
        )  # fmt: skip
        libraries = {"torch_hip": hip, "hip": places["hip"]}
        rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib:$ORIGIN/../_rocm_sdk_core/lib:$ORIGIN/../../.."
        compile_library(here / "torch/_C.so", "torch", 0, libraries, flags=rpath)
        vision = {"torch_hip": hip, "hipfft": places["hipfft"]}
        compile_library(here / "torchvision/_C.so", "vision", 0, vision)
        return {path.relative_to(here).as_posix(): path.read_bytes() for path in here.rglob("*.so*")}


def rocm_prefix(root: Path) -> Path:
    """An installed ROCm as distributions lay it out: real files have longer names, links the SONAMEs."""
    for path, data in _images().items():
        if path in ROCM:
            _write(root / f"{path}.0.0", data)
            (root / path).symlink_to(f"{Path(path).name}.0.0")
    for path, text in TEXTS.items():
        _write(root / path, text.encode())
    (root / "lib/libamdhip64.so").symlink_to("libamdhip64.so.7")
    (root / "amdgcn").symlink_to("lib/llvm/lib/clang/19/lib/amdgcn")
    (root / "llvm").symlink_to("lib/llvm")
    (root / "lib/libgone.so").symlink_to("nowhere.so")
    return root


def rocm_packages(site: Path) -> Path:
    """The same as ROCm's Python packages; the devel tree leads to the others by links."""
    for path in (*ROCM, *TEXTS):
        name = "_rocm_sdk_libraries" if "rocblas" in path or "fft" in path else "_rocm_sdk_core"
        data = _images().get(path) or TEXTS[path].encode()
        _write(site / name / path, data)
        link = site / "_rocm_sdk_devel" / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(site / name / path, link.parent))
    for name in ("rocm_sdk_core", "rocm_sdk_libraries"):
        info = site / f"{name}-7.1.0.dist-info"
        _write(info / "licenses/share/doc/LICENSE.md", b"You may.\n")
        _write(info / "sboms/parts.cdx.json", json.dumps({"bomFormat": "CycloneDX"}).encode())
    return site


def split_rocblas(root: Path) -> None:
    """Let the prefix's rocBLAS have its device code in archives, of which another library has some, too."""
    marker = root / "marker"
    marker.write_bytes(pack_marker(Marker(("../.kpack/blas_lib_@GFXARCH@.kpack",), "lib/librocblas.so.5")))
    library = root / "lib/librocblas.so.5.0.0"
    section = f".rocm_kpack_ref={marker}"
    subprocess.run(["objcopy", "--add-section", section, str(library)], check=True, capture_output=True)
    marker.unlink()
    for name in ("blas_lib_gfx942", "blas_lib_gfx1100", "fft_lib_gfx942"):
        _write(root / f".kpack/{name}.kpack", b"code")


def torch_wheel(
    folder: Path,
    *,
    files: dict[str, str | bytes | None] | None = None,
    version: str = VERSION,
    requires: tuple[str, ...] = REQUIRES,
    tag: str = TAG,
) -> Path:
    """torch as built; `files` are added, or left out where None."""
    members: dict[str, str | bytes | None] = {
        "torch/__init__.py": INIT,
        "torch/_rocm_init.py": ROCM_INIT,
        "torch/version.py": VERSION_PY,
        "torch/nn.py": "x = 1\n" * 500,
        "torch/_C.so": _images()["torch/_C.so"],
        "torch/lib/libtorch_hip.so": _images()["torch/lib/libtorch_hip.so"],
        f"torch-{version}.data/scripts/torchrun": "#!python\n",
        **(files or {}),
    }
    present = {name: data for name, data in members.items() if data is not None}
    return write_wheel(folder, "torch", version, present, requires=requires, tag=tag)


def vision_wheel(folder: Path, *, requires: tuple[str, ...] = (f"torch=={VERSION}",)) -> Path:
    """torchvision, built with that torch; it needs a library of ROCm that torch does not."""
    files = {
        "torchvision/__init__.py": "import ctypes, os, torch\n\n\ndef number():\n"
        '    return ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_C.so")).vision()\n',
        "torchvision/version.py": "__version__ = '0.24.0+rocm7.1.0'\n",
        "torchvision/_C.so": _images()["torchvision/_C.so"],
    }
    return write_wheel(folder, "torchvision", "0.24.0+rocm7.1.0", files, requires=requires, tag=TAG)


def unpack(wheel: Path, site: Path) -> Path:
    """Install, as far as these wheels need it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def run(site: Path, code: str, **environment: str) -> str:
    """What code prints with `site` on the path, and nothing in the environment but what is given."""
    program = f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def hostile(directory: Path) -> Path:
    """A directory with another library of each name, whose functions return nonsense."""
    for path, (word, _, _) in ROCM.items():
        compile_library(directory / Path(path).name, word, 7_000_000, {}, soname=Path(path).name)
    return directory


def copied(source: Path, target: Path) -> Path:
    """A copy that a test may damage."""
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(source, target))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if data.startswith((b"#!", b"\x7fELF")):
        path.chmod(0o755)
