"""ROCm as a build sees it, wherever it came from: whether it is complete, and which extras it offers."""

from __future__ import annotations

from collections.abc import Sequence
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Literal

import msgspec
from packaging.utils import canonicalize_name

from rocwright.errors import InvalidInput

# What stands in a plan for what only a ROCm at hand would tell.
ROOT, VERSION = "${ROCM_ROOT}", "${ROCM_VERSION}"


class Rocm(msgspec.Struct, frozen=True):
    """A ROCm to build against; paths are absolute, empty text where there is none.

    `origin` says what it is: `packages` installed in a Python environment, a plain `prefix`, or `unknown` in
    a plan that is made without one: then paths begin with `${ROCM_ROOT}`, and `version` is `${ROCM_VERSION}`
    unless one was asked for exactly. `libraries` are the short names that `rocm_sdk` knows, `targets` the
    GPU targets that it has device code for (empty: it does not say), `site` the site-packages directory of
    packages.
    """

    version: str
    root: str
    bin: str
    cmake: str
    device_libraries: str = ""
    host_math: str = ""
    sysdeps: str = ""
    roctracer_include: str = ""
    libraries: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    site: str = ""
    origin: Literal["packages", "prefix", "unknown"] = "packages"

    @property
    def library_path(self) -> str:
        """What LD_LIBRARY_PATH has to be for wheels built against it; packages load their own libraries."""
        return self.cmake.rpartition("/")[0] if self.origin == "prefix" else ""


def unknown_rocm(version: str | None = None) -> Rocm:
    """What a plan takes where no ROCm is at hand; it names every directory that ROCm's packages have."""
    return Rocm(
        version=version or VERSION,
        root=ROOT,
        bin=f"{ROOT}/bin",
        cmake=f"{ROOT}/lib/cmake",
        device_libraries=f"{ROOT}/lib/llvm/amdgcn/bitcode",
        host_math=f"{ROOT}/lib/host-math",
        sysdeps=f"{ROOT}/lib/rocm_sysdeps",
        roctracer_include=f"{ROOT}/include/roctracer",
        origin="unknown",
    )


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


# Every build gets these, asked for or not.
ALWAYS = ("libraries", "devel")


def offered_extras(rocm: Rocm) -> frozenset[str]:
    """Canonical names of the extras of a packaged ROCm; none for other ROCms."""
    if rocm.origin != "packages" or not rocm.site:
        return frozenset()
    return frozenset(
        canonicalize_name(name)
        for path in Path(rocm.site).glob("rocm-*.dist-info/METADATA")
        for name in BytesHeaderParser().parsebytes(path.read_bytes()).get_all("Provides-Extra", [])
    )


def require_extras(rocm: Rocm, extras: Sequence[str]) -> None:
    """Raise `InvalidInput` for extras that this ROCm does not offer, with those that it does."""
    offered = offered_extras(rocm)
    missing = [name for name in dict.fromkeys(extras) if canonicalize_name(name) not in offered]
    if missing:
        others = ", ".join(sorted(offered - set(ALWAYS)))
        raise InvalidInput(
            f"ROCm {rocm.version} offers no extra {', '.join(missing)}",
            next_step=f"--rocm-extras can name: {others}" if others else "leave --rocm-extras out",
        )
