"""Whether a ROCm has what builds use of it."""

from __future__ import annotations

from pathlib import Path

from rocwright.builder.rocm.rocm import Rocm


def what_lacks(rocm: Rocm) -> tuple[str, ...]:
    """What a ROCm to build with must have and this one has not."""
    root, programs = Path(rocm.root), Path(rocm.bin)
    clangs = [
        programs,
        root / "lib" / "llvm" / "bin",
        root / "llvm" / "bin",
        *root.glob("lib/llvm-*/bin"),
    ]
    wanted = {
        "hipcc": _any_of(programs, "hipcc", "hipcc.exe", "hipcc.bat"),
        "clang": any(_any_of(path, "clang++", "amdclang++", "clang++.exe") for path in clangs),
        "the headers of HIP": (root / "include" / "hip" / "hip_runtime.h").is_file(),
        "the CMake files of HIP": _any_of(Path(rocm.cmake) / "hip", "hip-config.cmake", "HIPConfig.cmake"),
    }
    return tuple(name for name, there in wanted.items() if not there)


def _any_of(directory: Path, *names: str) -> bool:
    return any((directory / name).is_file() for name in names)
