"""What of the caller's environment a build does not see, and what of it a wheel depends on."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Another Python, another ROCm, another project's settings: what is needed of these a plan sets.
_LEAKS = re.compile(
    r"PYTHON.*|VIRTUAL_ENV.*|CONDA_.*|PIP_.*|PIPENV_.*|UV_.*|LD_(LIBRARY_PATH|PRELOAD|AUDIT)"
    r"|ROCM_.*|HIP_.*|HSA_.*|HIPCC_BIN.*|DEVICE_LIB_PATH|AMDGPU_TARGETS|GPU_TARGETS|PYTORCH_.*|TRITON_WHEEL_.*"
    r"|BUILD_VERSION|BUILD_NUMBER|VERSION_NAME|SETUPTOOLS_.*|DISTUTILS_.*|CMAKE_.*|ROCWRIGHT_.*|MAKEFLAGS"
)
# Knobs that name no place and that a user turns on purpose.
_KEPT = frozenset(
    f"CMAKE_{name}"
    for name in ("ARGS", "BUILD_PARALLEL_LEVEL", "BUILD_TYPE", "GENERATOR", "POLICY_VERSION_MINIMUM")
)
# Inherited variables that change what is built.
_MATTERS = re.compile(
    r"CC|CXX|AR|LD|HIPCC|NVCC|[A-Z_]*FLAGS|CPATH|[A-Z_]*INCLUDE_PATH|LIBRARY_PATH|PKG_CONFIG_.*"
    r"|(USE|BUILD|TORCH|TORCHVISION|TORCHAUDIO|TRITON|APEX|CMAKE|SKBUILD|FORCE|ENABLE|DISABLE|WITH|ATEN|CAFFE2|LLVM"
    r"|MKL|BLAS|CUDA|FFMPEG|OPENSSL)_.*|DEBUG|REL_WITH_DEB_INFO|BLAS|MKLROOT|[A-Za-z_]+_(ROOT|DIR)|SOURCE_DATE_EPOCH"
)
# Directories of a login, a terminal or a CI job, no libraries.
_NO_MATTER = re.compile(
    r"(XDG|GITHUB|RUNNER|CI|TEMP|TMP|LOG|HISTORY|GOOGLE|AWS|AZURE|DOCKER|PYENV|NVM|CARGO)_.*"
)
# Of a plan, what says how a build is carried out, not what comes out.
_MANNER = re.compile(r"PATH|MAX_JOBS|.*_LAUNCHER|(CCACHE|SCCACHE|ROCWRIGHT|CC_PRINT)_.*")


def leaks(caller: Mapping[str, str], planned: Mapping[str, str]) -> list[str]:
    """Names of the caller's variables that the build must not have."""
    return sorted(
        name for name in caller if _LEAKS.fullmatch(name) and name not in _KEPT and name not in planned
    )


def outcome_environment(caller: Mapping[str, str], planned: Mapping[str, str]) -> dict[str, str]:
    """The variables that the wheel's content may depend on, with their values."""
    dropped = set(leaks(caller, planned))
    inherited = {
        name: value
        for name, value in caller.items()
        if _MATTERS.fullmatch(name) and not _NO_MATTER.fullmatch(name) and name not in dropped
    }
    return {name: value for name, value in {**inherited, **planned}.items() if not _MANNER.fullmatch(name)}
