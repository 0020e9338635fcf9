"""The variables a build sees: pure functions from an installed ROCm and the options to a mapping.

Source: the environment tables of the PyTorch build description. Every build gets its own mapping; the
process's own environment is never written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from rocwright.build.decide.recipe import Recipe, RecipeTable
from rocwright.build.rocm.described import Rocm
from rocwright.errors import UsageError

# GCC 12 warns about PyTorch's own code, which is built with -Werror.
_GCC_QUIET = "-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict"


def common_environment(
    rocm: Rocm,
    targets: Sequence[str],
    *,
    caller: Mapping[str, str],
    jobs: int,
    include: Sequence[str] = (),
) -> dict[str, str]:
    """Variables for every project on Linux; `caller` is the environment the tool was started with.

    `include` are further directories of headers for every compiler, such as Python's own.

    Raises `UsageError` when no target is given: an empty list would compile for whatever GPU is there.
    """
    if not targets:
        raise UsageError("no GPU target to build for", next_step="give --pytorch-rocm-arch, e.g. gfx942")
    env = {
        "PYTHONUTF8": "1",
        # A CUDA toolkit on the same machine must not win.
        "HIP_PLATFORM": "amd",
        "CMAKE_PREFIX_PATH": rocm.cmake,
        "ROCM_HOME": rocm.root,
        "ROCM_PATH": rocm.root,
        "HIP_PATH": rocm.root,
        "PYTORCH_ROCM_ARCH": ";".join(targets),
        "USE_KINETO": caller.get("USE_KINETO", "ON"),
        "USE_GLOO": "ON",
        "CXXFLAGS": _joined(caller.get("CXXFLAGS"), _GCC_QUIET),
        "CPPFLAGS": _joined(caller.get("CPPFLAGS"), _GCC_QUIET),
        "MAX_JOBS": caller.get("MAX_JOBS", str(jobs)),
        "PATH": os.pathsep.join([rocm.bin, caller.get("PATH", os.defpath)]),
    }
    if include:
        env["CPATH"] = os.pathsep.join([*include, *filter(None, [caller.get("CPATH")])])
    if rocm.device_libraries:
        env["HIP_DEVICE_LIB_PATH"] = rocm.device_libraries
    if rocm.host_math:
        env |= {"BLAS": "OpenBLAS", "OpenBLAS_HOME": rocm.host_math, "OpenBLAS_LIB_NAME": "rocm-openblas"}
    return env


def project_environment(
    recipe: Recipe,
    table: RecipeTable,
    *,
    version: str,
    number: str,
    targets: Sequence[str],
    requirements: Sequence[str],
) -> dict[str, str]:
    """What one project adds: its version variables, its own settings, torch's pinned requirements."""
    env = dict(recipe.env)
    if recipe.version_env:
        env[recipe.version_env] = version
    if recipe.number_env:
        env[recipe.number_env] = number
    if recipe.project == "torch":
        env["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"] = "|".join(requirements)
        # Flash attention is built by triton's compiler: without triton there is none.
        has_triton = any(text.startswith("triton==") for text in requirements)
        supported = any(target.startswith(table.flash_attention.targets) for target in targets)
        value = "1" if has_triton and supported else "0"
        env |= {"USE_FLASH_ATTENTION": value, "USE_MEM_EFF_ATTENTION": value}
    if recipe.project == "torchvision":
        env["VERSION_NAME"] = version
    return env


def _joined(first: str | None, second: str) -> str:
    return f"{first} {second}" if first else second
