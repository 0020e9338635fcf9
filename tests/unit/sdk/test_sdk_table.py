"""Which package a file of ROCm 6 and 7 goes to, and the short names of libraries."""

from __future__ import annotations

import pytest

from rocwright.sdk.packages import package_table

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
include/hip/hip_runtime.h
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


def test_short_names_find_the_file_that_is_shipped() -> None:
    present, absent = package_table().libraries(
        [
            "lib/libamdhip64.so.6",
            "lib/libhiprtc-builtins.so.6",
            "lib/librocblas.so.4",
            "lib/libMIOpen.so.1",
            "lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5",
            "lib/llvm/lib/libamd_comgr.so.3",  # not where comgr belongs
            "lib/librcclx.so.1",
            "lib/libhipfft.so",
        ]
    )
    assert present == {
        "amdhip64": ("core", "lib/libamdhip64.so.6"),
        "hiprtc-builtins": ("core", "lib/libhiprtc-builtins.so.6"),
        "rocblas": ("libraries", "lib/librocblas.so.4"),
        "miopen": ("libraries", "lib/libMIOpen.so.1"),
        "rocm_sysdeps_liblzma": ("core", "lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5"),
        "hipfft": ("libraries", "lib/libhipfft.so"),
    }
    assert absent["hiprtc"] == "core"
    assert absent["amd_comgr"] == "core"
    assert absent["rccl"] == "libraries"
    assert not set(present) & set(absent)


def test_every_documented_short_name_is_known() -> None:
    _, absent = package_table().libraries([])
    documented = (
        "amdhip64 hiprtc hipfile roctx64 rocprofiler-sdk rocprofiler-sdk-roctx roctracer64 "
        "rocm_sysdeps_liblzma rocm-openblas amd_comgr rocm_kpack rocm_smi64 rocdecode rocjpeg amd_smi rocdxg "
        "rpp hipblas hipblaslt hipfft hiprand hipsparse hipsparselt hipsolver rccl miopen origami hipdnn "
        "rocblas rocfft rocrand rocsolver rocsparse hiprtc-builtins"
    )
    assert set(absent) == set(documented.split())
