"""Which package a file of ROCm 6 and 7 goes to, and the short names of libraries."""

from __future__ import annotations

import pytest

from rocwright.sdk.table import package_table

CORE = """
bin/hipcc
bin/rocminfo
bin/rocm_agent_enumerator
bin/hipcc.pl
lib/libamdhip64.so.6.4.43484
lib/libhiprtc.so.6.4.43484
lib/libhiprtc-builtins.so.6.4.43484
lib/libamd_comgr.so.3.0.60401
lib/libhsa-runtime64.so.1.15.60401
lib/librocm_smi64.so.7.6.60401
lib/libamd_smi.so.25.5
lib/libroctx64.so.4.1.60401
lib/librocprofiler-sdk.so.0.6.0
lib/librocm-core.so.1.0.60401
lib/rocprofiler-sdk/librocprofv3-list-avail.so.0.6.0
lib/roctracer/libfile_plugin.so
lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5
lib/rocm_sysdeps/share/terminfo/x/xterm
lib/host-math/lib/librocm-openblas.so.0.3
lib/llvm/bin/clang-19
lib/llvm/bin/lld
lib/llvm/lib/libLLVM.so.19.0git
lib/llvm/lib/libclang-cpp.so.19.0git
lib/llvm/lib/libomp.so
lib/llvm/amdgcn/bitcode/ocml.bc
lib/llvm/lib/clang/19/include/stddef.h
lib/llvm/lib/clang/19/include/__clang_hip_runtime_wrapper.h
libexec/rocm_smi/rocm_smi.py
libexec/hipify/hipify-perl
share/hip/version
share/amd_smi/amdsmi/amdsmi_interface.py
share/doc/hip/LICENSE.md
include/hip/hip_runtime.h
.info/version
"""
LIBRARIES = """
lib/librocblas.so.4.4.60401
lib/rocblas/library/TensileLibrary_Type_HH_Contraction_l_Ailk_Bljk_Cijk_Dijk_gfx90a.co
lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat
lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco
lib/libhipblas.so.2.4.60401
lib/libhipblaslt.so.0.12.60401
lib/hipblaslt/library/TensileLibrary_gfx942.dat
lib/hipblaslt/library/extop_gfx942.co
lib/libhipsparselt.so.0.2.60401
lib/hipsparselt/library/TensileLibrary_gfx942.co
lib/librocsolver.so.0.4
lib/libhipsolver.so.0.4
lib/librocsparse.so.1.0.60401
lib/libhipsparse.so.1.1.0
lib/librocfft.so.0.1.60401
lib/rocfft/rocfft_kernel_cache.db
lib/libhipfft.so.0.1
lib/libhipfftw.so.0.1
lib/librocrand.so.1.1
lib/libhiprand.so.1.1
lib/libMIOpen.so.1.0.60401
share/miopen/db/gfx90a68.kdb
share/miopen/db/gfx942130.HIP.fdb.txt
lib/librccl.so.1.0.60401
share/rccl/msccl-algorithms/all_gather.xml
lib/librpp.so.1
lib/libhipdnn_backend.so.0.1
lib/hipdnn_plugins/engines/libmiopen_plugin.so
lib/libhiptensor.so.0.1
"""
DEVEL = """
include/rocblas/rocblas.h
include/rocprim/rocprim.hpp
include/ck/utility/type.inc
lib/cmake/hip/hip-config.cmake
lib/cmake/rocblas/rocblas-targets.cmake
lib/llvm/lib/cmake/llvm/LLVMConfig.cmake
lib/pkgconfig/libhsakmt.pc
share/rocm/cmake/ROCMConfig.cmake
lib/libamdhip64.a
lib/librocblas_static.a
lib/llvm/lib/libLLVMCore.a
lib/llvm/include/llvm/IR/Module.h
lib/llvm/lib/clang/19/lib/linux/libclang_rt.builtins-x86_64.a
lib/llvm/lib/clang/19/lib/linux/libclang_rt.asan-x86_64.so
lib/llvm/share/clang/clang-format.py
lib/llvm/libexec/ccc-analyzer
lib/python3.12/site-packages/rocpd/__init__.py
unheard/of/file
"""


def rows() -> list[tuple[str, str]]:
    lists = {"core": CORE, "libraries": LIBRARIES, "devel": DEVEL}
    return [(path, package) for package, text in lists.items() for path in text.split()]


@pytest.mark.parametrize(("path", "package"), rows())
def test_a_file_of_rocm_belongs_to(path: str, package: str) -> None:
    assert package_table().package_of(path) == package


@pytest.mark.parametrize(
    ("path", "package"),
    [
        # amdgcn/bitcode of AMD's own packages leads here; the compiler of core cannot compile HIP without it.
        ("lib/llvm/lib/clang/19/lib/amdgcn/bitcode/ocml.bc", "core"),
        # Needs libhipsolver.so.0, which is in libraries.
        ("lib/libhipsolver_fortran.so.0.4", "libraries"),
        ("lib/libhipblas_fortran.so.2.4", "libraries"),
        # ROCm 5 and 6 keep rocFFT's device code in libraries of their own.
        ("lib/librocfft-device-0.so.0.1", "libraries"),
    ],
)
def test_files_that_the_table_puts_elsewhere(path: str, package: str) -> None:
    assert package_table().package_of(path) == package


CORE_FILES = [
    "lib/libamdhip64.so.6",
    "lib/libhiprtc-builtins.so.6",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5",
    "lib/llvm/lib/libamd_comgr.so.3",  # not where comgr belongs
]
LIBRARIES_FILES = [
    "lib/librocblas.so.4",
    "lib/libMIOpen.so.1",
    "lib/librcclx.so.1",
    "lib/libhipfft.so",
    "lib/libhipblaslt.so.1",
    "lib/libhipsolver_fortran.so.1",
]


def test_short_names_find_the_file_that_is_shipped() -> None:
    table = package_table()
    assert table.libraries("core", CORE_FILES) == {
        "amdhip64": "lib/libamdhip64.so.6",
        "hiprtc-builtins": "lib/libhiprtc-builtins.so.6",
        "rocm_sysdeps_liblzma": "lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5",
    }
    assert table.libraries("libraries", LIBRARIES_FILES) == {
        "rocblas": "lib/librocblas.so.4",
        "miopen": "lib/libMIOpen.so.1",
        "hipfft": "lib/libhipfft.so",
        "hipblaslt": "lib/libhipblaslt.so.1",
    }
    # A package has only the names of its own libraries.
    assert table.libraries("core", LIBRARIES_FILES) == {}
    assert table.libraries("libraries", CORE_FILES) == {}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("bin/amdhip64_7.dll", "amdhip64"),
        ("bin/amdhip64.dll", "amdhip64"),
        ("bin/hiprtc0701.dll", "hiprtc"),
        ("bin/hiprtc-builtins0701.dll", "hiprtc-builtins"),
        ("bin/amd_comgr0700.dll", "amd_comgr"),
        ("bin/amd_comgr.dll", "amd_comgr"),
        ("lib/amdhip64_7.dll", None),
        ("bin/amdhip64_7.lib", None),
        # Names that Windows has not.
        ("bin/roctx64.dll", None),
        ("bin/hipfile.dll", None),
        ("bin/amd_smi.dll", None),
    ],
)
def test_short_names_on_windows_core(path: str, name: str | None) -> None:
    assert package_table().libraries("core", [path], windows=True) == ({name: path} if name else {})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("bin/rocblas.dll", "rocblas"),
        ("bin/hipblas.dll", "hipblas"),
        ("bin/hipblaslt.dll", "hipblaslt"),
        ("bin/libhipblaslt.dll", "hipblaslt"),
        ("bin/MIOpen.dll", "miopen"),
        ("bin/hipdnn_backend.dll", "hipdnn"),
        ("bin/origami.dll", "origami"),
        ("bin/rccl.dll", None),
        ("bin/hipsparselt.dll", None),
    ],
)
def test_short_names_on_windows_libraries(path: str, name: str | None) -> None:
    assert package_table().libraries("libraries", [path], windows=True) == ({name: path} if name else {})


def test_every_documented_short_name_is_known() -> None:
    core = (
        "amdhip64 hiprtc hipfile roctx64 rocprofiler-sdk rocprofiler-sdk-roctx roctracer64 "
        "rocm_sysdeps_liblzma rocm-openblas amd_comgr rocm_kpack rocm_smi64 rocdecode rocjpeg amd_smi rocdxg "
        "hiprtc-builtins"
    )
    libraries = (
        "rpp hipblas hipblaslt hipfft hiprand hipsparse hipsparselt hipsolver rccl miopen origami hipdnn "
        "rocblas rocfft rocrand rocsolver rocsparse"
    )
    expected = dict.fromkeys(core.split(), "core") | dict.fromkeys(libraries.split(), "libraries")
    assert package_table().known_libraries == expected
