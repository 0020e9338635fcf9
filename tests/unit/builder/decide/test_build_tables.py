"""Every project on every platform for every release type, against tables written by hand."""

from __future__ import annotations

import re

import msgspec
import pytest
from plans_by_hand import ROCM, family, one

GCC = "-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict"
BITCODE = r"C:\sdk\lib\llvm\amdgcn\bitcode"

# What every project sees.
COMMON = {
    "linux": {
        "PYTHONUTF8": "1",
        "CMAKE_PREFIX_PATH": "/sdk/lib/cmake",
        "ROCM_HOME": "/sdk",
        "ROCM_PATH": "/sdk",
        "PYTORCH_ROCM_ARCH": "gfx90a;gfx942",
        "USE_KINETO": "ON",
        "PATH": "/sdk/bin:/usr/bin",
        "USE_GLOO": "ON",
        "TRITON_APPEND_CMAKE_ARGS": "-DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=FALSE",
        "TRITON_WHEEL_VERSION_SUFFIX": "",
        "HIP_DEVICE_LIB_PATH": "/sdk/lib/llvm/amdgcn/bitcode",
        "BLAS": "OpenBLAS",
        "OpenBLAS_HOME": "/sdk/lib/host-math",
        "OpenBLAS_LIB_NAME": "rocm-openblas",
        "CXXFLAGS": GCC,
        "CPPFLAGS": GCC,
        # Besides the documents: a CUDA beside it never wins, jobs and date are the plan's.
        "HIP_PLATFORM": "amd",
        "HIP_PATH": "/sdk",
        "MAX_JOBS": "3",
        "SOURCE_DATE_EPOCH": "1760616000",
    },
    "windows": {
        "PYTHONUTF8": "1",
        "CMAKE_PREFIX_PATH": r"C:\sdk\lib\cmake",
        "ROCM_HOME": r"C:\sdk",
        "ROCM_PATH": r"C:\sdk",
        "PYTORCH_ROCM_ARCH": "gfx90a;gfx942",
        "USE_KINETO": "OFF",
        "PATH": r"C:\sdk\bin;C:\Windows\System32",
        "USE_GLOO": "ON",
        "TRITON_APPEND_CMAKE_ARGS": "-DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=FALSE",
        "TRITON_WHEEL_VERSION_SUFFIX": "",
        "HIP_DEVICE_LIB_PATH": BITCODE,
        "BLAS": "OpenBLAS",
        "OpenBLAS_HOME": r"C:\sdk\lib\host-math",
        "OpenBLAS_LIB_NAME": "rocm-openblas",
        "HIP_CLANG_PATH": "C:/sdk/lib/llvm/bin",
        "CC": "C:/sdk/lib/llvm/bin/clang-cl.exe",
        "CXX": "C:/sdk/lib/llvm/bin/clang-cl.exe",
        "HIP_PLATFORM": "amd",
        "HIP_PATH": r"C:\sdk",
        "MAX_JOBS": "3",
        "SOURCE_DATE_EPOCH": "1760616000",
    },
}

TORCH = {
    "USE_ROCM": "ON",
    "USE_CUDA": "OFF",
    "USE_MPI": "OFF",
    "USE_NUMA": "OFF",
    "PYTORCH_BUILD_VERSION": "2.9.0+rocm7.10.0",
    "PYTORCH_BUILD_NUMBER": "1",
    "PYTORCH_EXTRA_INSTALL_REQUIREMENTS": "rocm[libraries]==7.10.0|triton==${TRITON_VERSION}",
    "USE_FLASH_ATTENTION": "1",
    "USE_MEM_EFF_ATTENTION": "1",
}
AUDIO = {
    "BUILD_VERSION": "2.9.0+rocm7.10.0",
    "BUILD_NUMBER": "1",
    "USE_ROCM": "1",
    "USE_CUDA": "0",
    "USE_FFMPEG": "1",
    "USE_OPENMP": "1",
    "BUILD_SOX": "0",
    "PYTORCH_VERSION": "${TORCH_VERSION}",
}
VISION = {
    "BUILD_VERSION": "0.24.0+rocm7.10.0",
    "VERSION_NAME": "0.24.0+rocm7.10.0",
    "BUILD_NUMBER": "1",
    "FORCE_CUDA": "1",
    "TORCHVISION_USE_NVJPEG": "0",
    "TORCHVISION_USE_VIDEO_CODEC": "0",
    "PYTORCH_VERSION": "${TORCH_VERSION}",
}

# What each project sees besides.
OWN = {
    ("triton", "linux"): {
        "TRITON_WHEEL_VERSION_SUFFIX": "+rocm7.10.0",
        "TRITON_WHEEL_NAME": "triton",
    },
    ("torch", "linux"): TORCH
    | {
        "CXXFLAGS": f"{GCC} -I/sdk/lib/rocm_sysdeps/include -I/sdk/include/roctracer",
        "LDFLAGS": "-L/sdk/lib/rocm_sysdeps/lib",
        "PKG_CONFIG_PATH": "/sdk/lib/rocm_sysdeps/lib/pkgconfig",
        "LD_LIBRARY_PATH": "/sdk/lib/rocm_sysdeps/lib",
    },
    ("torchaudio", "linux"): AUDIO,
    ("torchvision", "linux"): VISION,
    ("apex", "linux"): {"BUILD_VERSION": "1.9.0+rocm7.10.0", "BUILD_NUMBER": "1"},
    ("triton", "windows"): {
        "TRITON_WHEEL_VERSION_SUFFIX": "+rocm7.10.0",
        "TRITON_WHEEL_NAME": "triton",
        "TRITON_BUILD_PROTON": "OFF",
        "LLVM_SYSPATH": r"C:\b\triton\llvm-8957e64a-windows-x64",
        "LLVM_BUILD_DIR": r"C:\b\triton\llvm-8957e64a-windows-x64",
        "LLVM_INCLUDE_DIRS": r"C:\b\triton\llvm-8957e64a-windows-x64\include",
        "LLVM_LIBRARY_DIR": r"C:\b\triton\llvm-8957e64a-windows-x64\lib",
    },
    ("torch", "windows"): TORCH | {"DISTUTILS_USE_SDK": "1", "BUILD_TEST": "0"},
    ("torchaudio", "windows"): AUDIO | {"DISTUTILS_USE_SDK": "1"},
    ("torchvision", "windows"): VISION | {"DISTUTILS_USE_SDK": "1"},
}

TOOLS = ("build==1.3.0", "setuptools==80.9.0", "wheel==0.45.1")
SETUP = ("python", "setup.py", "bdist_wheel")
BUILD = ("python", "-m", "build", "--wheel", "--no-isolation")
# Directory, command, whether later projects need it, what its wheel has to require.
STEPS = {
    ("triton", "linux"): ("/b/triton/python", SETUP, True, ()),
    ("torch", "linux"): (
        "/b/pytorch",
        BUILD,
        True,
        ("rocm[libraries]==7.10.0", "triton==${TRITON_VERSION}"),
    ),
    ("torchaudio", "linux"): ("/b/audio", SETUP, False, ("torch==${TORCH_VERSION}",)),
    ("torchvision", "linux"): ("/b/vision", SETUP, False, ("torch==${TORCH_VERSION}",)),
    ("apex", "linux"): (
        "/b/apex",
        (*BUILD, "-C--build-option=--cpp_ext", "-C--build-option=--cuda_ext"),
        False,
        ("torch==${TORCH_VERSION}",),
    ),
    ("triton", "windows"): (r"C:\b\triton\python", BUILD, True, ()),
    ("torch", "windows"): (
        r"C:\b\pytorch",
        (*BUILD, "--skip-dependency-check"),
        True,
        ("rocm[libraries]==7.10.0", "triton==${TRITON_VERSION}"),
    ),
    ("torchaudio", "windows"): (r"C:\b\audio", SETUP, False, ("torch==${TORCH_VERSION}",)),
    ("torchvision", "windows"): (r"C:\b\vision", SETUP, False, ("torch==${TORCH_VERSION}",)),
}
IDS = ["-".join(key) for key in OWN]

# By release type: the ROCm, what stands behind the base version, triton's variable, what an import checks.
SHA = "efed3c02"
RELEASES = {
    "ci": (
        f"7.10.0.dev0+{SHA}",
        f"+devrocm7.10.0.dev0.{SHA}",
        f"+devrocm7.10.0.dev0-{SHA}",
        f"7.10.0.dev0+{SHA}",
    ),
    "dev": (
        f"7.10.0.dev0+{SHA}",
        f"+git1a2b3c4d.devrocm7.10.0.dev0.{SHA}",
        f"+git1a2b3c4d.devrocm7.10.0.dev0-{SHA}",
        f"7.10.0.dev0+{SHA}",
    ),
    "dev-bkc": (
        f"7.10.0.dev0+{SHA}",
        f"+git1a2b3c4d.devrocm7.10.0.dev0.{SHA}",
        f"+git1a2b3c4d.devrocm7.10.0.dev0-{SHA}",
        f"7.10.0.dev0+{SHA}",
    ),
    "nightly": ("7.10.0a20251124", "+rocm7.10.0a20251124", "+rocm7.10.0a20251124", "7.10.0a20251124"),
    "nightly-bkc": (
        "10.1.0a20260811+bkc.20260813",
        "+rocm10.1.0a20260811.bkc.20260813",
        "+rocm10.1.0a20260811-bkc.20260813",
        "10.1.0a20260811+bkc.20260813",
    ),
    "prerelease": ("7.10.0rc2", "+rocm7.10.0rc2", "+rocm7.10.0rc2", "7.10.*"),
    "release": ("7.10.0", "+rocm7.10.0", "+rocm7.10.0", "7.10.*"),
}
BASES = {"torch": "2.9.0", "torchaudio": "2.9.0", "torchvision": "0.24.0", "apex": "1.9.0"}


@pytest.mark.parametrize(("project", "platform"), OWN, ids=IDS)
def test_the_environment_is_the_documents_and_nothing_else(project: str, platform: str) -> None:
    assert one(project, platform).env == COMMON[platform] | OWN[project, platform]


@pytest.mark.parametrize(("project", "platform"), STEPS, ids=IDS)
def test_the_steps_of_each_project(project: str, platform: str) -> None:
    plan = one(project, platform)
    assert (plan.directory, plan.argv, plan.install, plan.pins) == STEPS[project, platform]
    assert (plan.platform, plan.python, plan.removed) == (platform, "3.12", ())
    assert (plan.import_name, plan.wheel_name, plan.editable) == (project, project, False)
    assert plan.requirements[:3] == TOOLS


@pytest.mark.parametrize("platform", ["linux", "windows"])
@pytest.mark.parametrize("release_type", RELEASES)
def test_the_versions_of_each_release_type(release_type: str, platform: str) -> None:
    rocm, local, triton, checked = RELEASES[release_type]
    described = msgspec.structs.replace(ROCM[platform], version=rocm)
    plans = {p.project: p for p in family(platform, release_type=release_type, rocm=described).builds}
    for project, base in BASES.items():
        if project in plans:
            assert plans[project].version == base + local
    assert plans["torch"].env["PYTORCH_BUILD_VERSION"] == f"2.9.0{local}"
    assert plans["torchaudio"].env["BUILD_VERSION"] == f"2.9.0{local}"
    assert plans["torchvision"].env["BUILD_VERSION"] == f"0.24.0{local}"
    assert plans["torchvision"].env["VERSION_NAME"] == f"0.24.0{local}"
    assert plans["triton"].env["TRITON_WHEEL_VERSION_SUFFIX"] == triton
    # Only the build knows what triton adds of its own.
    assert plans["triton"].version == ""
    required = f"rocm[libraries]=={rocm}"
    assert plans["torch"].pins[0] == required
    assert (
        plans["torch"].env["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"] == f"{required}|triton==${{TRITON_VERSION}}"
    )
    assert f"check_version={checked!r}," in plans["torch"].generated["torch/_rocm_init.py"]


@pytest.mark.parametrize("platform", ["linux", "windows"])
def test_the_order_and_what_is_left_out(platform: str) -> None:
    plan = family(platform)
    order = ["triton", "torch", "torchaudio", "torchvision", "apex"]
    windows = platform == "windows"
    assert [build.project for build in plan.builds] == (order[:-1] if windows else order)
    assert plan.left_out == ({"apex": "is not built on windows"} if windows else {})
    assert (plan.platform, plan.release_type, plan.targets) == (platform, "nightly", ("gfx90a", "gfx942"))


def test_what_torch_needs_first() -> None:
    linux, windows = one("torch"), one("torch", "windows")
    # The tree's own range admits the pinned setuptools, so that stands.
    assert linux.requirements == (*TOOLS, "cmake>=3.27", "ninja", "numpy")
    assert linux.requirements_files == ("requirements.txt", "requirements-build.txt")
    assert (linux.uninstalled, linux.programs) == ((), ())
    # PyPI's ninja loops or does not link on Windows: the one on PATH is used.
    assert (windows.uninstalled, windows.programs) == (("ninja",), ("ninja",))
    assert one("triton").requirements_files == ("python/requirements.txt",)


def test_windows_dlls_come_from_the_callers_tool_chain() -> None:
    assert one("torch", "windows").copied == {
        "torch/lib/libomp140.x86_64.dll": (
            r"C:\VS\Redist\MSVC\14.44\debug_nonredist\x64\Microsoft.VC*.OpenMP.LLVM\libomp140.x86_64.dll"
        ),
        "torch/lib/uv.dll": r"C:\libuv\bin\uv.dll",
    }
    assert one("torch").copied == {}
    bare = one("torch", "windows", caller={"PATH": ""}).copied
    assert bare["torch/lib/uv.dll"] == r"${libuv_ROOT}\bin\uv.dll"


PRELOADED = {
    "linux": [
        *("amd_comgr", "amd_smi", "amdhip64", "hiprtc", "hipblas", "hipfft", "hiprand", "hipsparse"),
        *("hipsparselt", "hipsolver", "hipblaslt", "miopen", "hipdnn", "rocm_sysdeps_liblzma"),
        *("rocm-openblas", "rocm_smi64", "rocprofiler-sdk", "rocprofiler-sdk-roctx", "roctracer64"),
        *("roctx64", "rccl", "hipfile"),
    ],
    "windows": [
        *("amd_comgr", "amdhip64", "hiprtc", "hipblas", "hipfft", "hiprand", "hipsparse", "hipsparselt"),
        *("hipsolver", "hipblaslt", "miopen", "hipdnn", "rocm-openblas"),
    ],
}


@pytest.mark.parametrize("platform", ["linux", "windows"])
def test_the_preload_list_is_what_the_sdk_knows_of_the_platforms(platform: str) -> None:
    def names(rocm: object) -> list[str]:
        text = one("torch", platform, rocm=rocm).generated["torch/_rocm_init.py"]
        return re.findall(r"^ {12}'(.+)',$", text, re.MULTILINE)

    described = ROCM[platform]
    assert names(described) == ["amd_comgr", "amdhip64", "hipblas", "rocm-openblas"]
    everything = tuple(reversed(PRELOADED["linux"])) + ("rocblas",)
    assert names(msgspec.structs.replace(described, libraries=everything)) == PRELOADED[platform]
