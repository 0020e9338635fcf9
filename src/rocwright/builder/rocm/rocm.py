"""ROCm as a build sees it, wherever it came from."""

from __future__ import annotations

from typing import Literal

import msgspec

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
