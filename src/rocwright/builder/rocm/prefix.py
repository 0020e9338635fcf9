"""ROCm as a plain directory tree: AMD's `/opt/rocm`, a tree just built, or a distribution's `/usr`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from rocwright.builder.rocm.rocm import Rocm
from rocwright.data import load_table
from rocwright.errors import InvalidPrefix
from rocwright.model.gpu import InvalidTarget, parse_targets
from rocwright.model.platforms import RocmLibraries

_COMPILER = ("bin/hipcc", "bin/hipcc.exe", "bin/hipcc.bat", "bin/hipcc.bin")
_HEADER = "include/hip/hip_version.h"
# Of a tree that was built from ROCm's sources as a whole: what it was built for.
_DIST_INFO, _DIST_TARGETS = "share/therock/dist_info.json", "dist_amdgpu_targets"
# Debian puts libraries and CMake's files below a directory of the machine's name.
_LIBRARY_DIRECTORIES = ("lib", "lib/*-linux-gnu", "lib64", "bin")
_CMAKE_PACKAGES = tuple(f"{place}/cmake" for place in _LIBRARY_DIRECTORIES)
_HIP_PACKAGES = ("hip/hip-config.cmake", "hip/HIPConfig.cmake", "HIP/HIPConfig.cmake")
# In the order of preference: ROCm's own, older releases, Debian's, those inside a clang.
_BITCODE = (
    "lib/llvm/amdgcn/bitcode",
    "amdgcn/bitcode",
    "lib/*-linux-gnu/amdgcn/bitcode",
    "lib/llvm/lib/clang/*/amdgcn/bitcode",
    "lib/llvm/lib/clang/*/lib/amdgcn/bitcode",
    "lib/llvm-*/lib/clang/*/amdgcn/bitcode",
    "lib/llvm-*/lib/clang/*/lib/amdgcn/bitcode",
)
_DEVICE_LIBRARIES = ("ockl.bc", "ockl.amdgcn.bc")


def describe_prefix(prefix: Path) -> Rocm:
    """The ROCm in a plain tree; nothing in it is run.

    The GPU targets are those that the tree says it was built for, which most trees do not. Raises
    `InvalidPrefix` naming everything that is missing for a build.
    """
    # Not resolved: /opt/rocm stays the name of it, whichever version it leads to.
    root = prefix.expanduser().absolute()
    if not root.is_dir():
        state = "is no directory" if root.exists() else "does not exist"
        raise InvalidPrefix(f"{root} {state}", where=root, next_step=_advice(root))
    cmake = _cmake(root)
    version = _version(root)
    missing = [
        what
        for what, there in (
            ("the compiler driver bin/hipcc", _has_compiler(root)),
            (f"HIP's headers ({_HEADER})", (root / _HEADER).is_file()),
            ("CMake's package hip (lib/cmake/hip)", cmake is not None),
            ("its version (.info/version, rocm_version.h, hip_version.h)", version is not None),
        )
        if not there
    ]
    if missing or cmake is None or version is None:
        raise InvalidPrefix(
            f"{root} is no ROCm to build against: it lacks {', '.join(missing)}",
            where=root,
            next_step=_advice(root),
        )
    return Rocm(
        version=version,
        root=str(root),
        bin=str(root / "bin"),
        cmake=str(cmake),
        device_libraries=_text(_device_libraries(root)),
        host_math=_directory(root / "lib" / "host-math"),
        sysdeps=_directory(root / "lib" / "rocm_sysdeps"),
        roctracer_include=_directory(root / "include" / "roctracer"),
        libraries=_libraries(root),
        targets=_targets(root),
        origin="prefix",
    )


def device_libraries(root: Path) -> str:
    """The directory of the compiler's GPU libraries (`ockl.bc`) below a ROCm; empty when there is none."""
    return _text(_device_libraries(root))


def _device_libraries(root: Path) -> Path | None:
    places = (place for pattern in _BITCODE for place in _newest_first(root.glob(pattern)))
    return next(
        (place for place in places if any((place / name).exists() for name in _DEVICE_LIBRARIES)), None
    )


def _newest_first(places: Iterable[Path]) -> list[Path]:
    """Directories whose names differ in a version, the newest first: clang/9 comes after clang/15.0.6."""
    return sorted(
        places, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))], reverse=True
    )


def _cmake(root: Path) -> Path | None:
    places = (place for pattern in _CMAKE_PACKAGES for place in sorted(root.glob(pattern)))
    return next((place for place in places if any((place / name).is_file() for name in _HIP_PACKAGES)), None)


def _has_compiler(root: Path) -> bool:
    return any((root / name).exists() for name in _COMPILER)


def _version(root: Path) -> str | None:
    """What the tree says of its version, the whole product's before HIP's own."""
    info = root / ".info" / "version"
    if info.is_file():
        # Some installations append a build number: 6.4.1-83.
        said = info.read_text(encoding="utf-8", errors="replace").split("-", 1)[0].strip()
        if said:
            return said
    for header, name in (
        ("include/rocm-core/rocm_version.h", "ROCM_VERSION"),
        ("include/rocm_version.h", "ROCM_VERSION"),
        (_HEADER, "HIP_VERSION"),
    ):
        if (root / header).is_file():
            text = (root / header).read_text(encoding="utf-8", errors="replace")
            found = [_defined(text, f"{name}_{part}") for part in ("MAJOR", "MINOR", "PATCH")]
            if all(found):
                return ".".join(filter(None, found))
    return None


def _defined(text: str, name: str) -> str | None:
    found = re.search(rf"^\s*#\s*define\s+{name}\s+(\d+)\b", text, re.MULTILINE)
    return found[1] if found else None


def _targets(root: Path) -> tuple[str, ...]:
    """The targets that a tree was built for; none where it does not say so in words that are targets."""
    try:
        said = json.loads((root / _DIST_INFO).read_text(encoding="utf-8"))[_DIST_TARGETS]
        return tuple(str(target) for target in parse_targets(said))
    except (OSError, ValueError, TypeError, KeyError, InvalidTarget):
        return ()


def _libraries(root: Path) -> tuple[str, ...]:
    """Short names of the libraries in the tree, sorted."""
    table = load_table("packages", RocmLibraries)
    places = [*_LIBRARY_DIRECTORIES, "lib/rocm_sysdeps/lib", "lib/host-math/lib"]
    names = {name for place in places for directory in root.glob(place) for name in _files(directory)}
    found = {table.short_name(name, platform) for name in names for platform in ("linux", "windows")}
    return tuple(sorted({row[0] for row in found if row is not None}))


def _files(directory: Path) -> list[str]:
    """Names of the files in a directory; links that lead nowhere are none."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_file()]
    except NotADirectoryError:
        return []


def _directory(path: Path) -> str:
    return str(path) if path.is_dir() else ""


def _text(path: Path | None) -> str:
    return str(path) if path is not None else ""


def _advice(root: Path) -> str:
    """What to do about a wrong directory: what was probably meant, where it can be told."""
    if (root / "pyvenv.cfg").exists() or (root / "bin" / "rocm-sdk").exists():
        return f"this is a Python environment; ROCm's packages in it are used with --rocm-environment {root}"
    near = [root / "rocm", root / "dist" / "rocm", root / "build" / "dist" / "rocm", *list(root.parents)[:3]]
    for place in near:
        if (place / _HEADER).is_file() and _has_compiler(place) and _cmake(place) is not None:
            return f"give the directory above bin/ and lib/, probably {place}"
    return "give the directory above bin/ and lib/, such as /opt/rocm, or /usr with Debian's packages"
