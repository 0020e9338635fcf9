"""Which licences the parts of ROCm have, which texts go with them, and what is said when one is unknown."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
import zstandard
from packaging.licenses import canonicalize_license_expression
from packaging.metadata import Metadata as StrictMetadata

from rocwright.data import parse_table
from rocwright.device_code.kpack import ArchiveWriter, Entry
from rocwright.errors import InvalidArchive, InvalidData
from rocwright.sdk.licences import (
    LicenceTable,
    find_texts,
    joined,
    libraries_in,
    library_name,
    licence_table,
    licences_of,
)
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.source import BytesSource, FileSource
from rocwright.wheel.write import Member, WheelPlan, write_wheel

LLVM = "Apache-2.0 WITH LLVM-exception"

# Written by hand, after the licence files of each project.
KNOWN = {
    # As Debian places them.
    "share/cmake/hipcub/hipcub-config.cmake": "BSD-3-Clause",
    "share/cmake/rocprim/rocprim-config.cmake": "BSD-3-Clause AND MIT",
    "share/cmake/rocthrust/rocthrust-config.cmake": "Apache-2.0",
    "include/hipblaslt-export.h": "MIT",
    "bin/hipcc": "MIT",
    "bin/rocminfo": "NCSA",
    "bin/amdclang++": LLVM,
    "bin/amdhip64_7.dll": "MIT",
    "bin/hiprtc0700.dll": "MIT",
    "bin/hiprtc-builtins0700.dll": "MIT",
    "bin/hipInfo.exe": "MIT",
    "bin/rocblas.dll": "MIT",
    "bin/libhipblaslt.dll": "MIT",
    "bin/rocm-openblas.dll": "BSD-3-Clause",
    "bin/rocgdb": "GPL-3.0-or-later",
    "include/hip/hip_runtime.h": "MIT",
    "include/thrust/sort.h": "Apache-2.0",
    "include/hipcub/hipcub.hpp": "BSD-3-Clause",
    "lib/cmake/rocsolver/rocsolver-config.cmake": "BSD-2-Clause",
    "lib/libamd_comgr.so.3.0.60401": f"{LLVM} AND NCSA",
    "lib/libamdhip64.so.6.4.43484": "MIT",
    "lib/libhipblas.so.2": "MIT",
    "lib/libhsa-runtime64.so.1": "BSD-2-Clause AND MIT AND NCSA",
    "lib/libMIOpen.so.1": "MIT",
    "lib/libOpenCL.so.1": "Apache-2.0",
    "lib/librccl.so.1": "BSD-3-Clause AND MIT",
    "lib/librocm_smi64.so.7": "MIT",
    "lib/librocprofiler-sdk.so.0": "MIT",
    "lib/librocsolver.so.0": "BSD-2-Clause",
    "lib/llvm/bin/clang-19": LLVM,
    "lib/llvm/lib/libLLVM.so.19.0git": LLVM,
    "lib/llvm/lib/libPollyISL.a": "MIT",
    "lib/llvm/amdgcn/bitcode/ocml.bc": "NCSA",
    "lib/rocprofiler-systems/libdyninstAPI.so.13": "LGPL-2.1-or-later",
    "lib/rocprofiler-systems/librocprof-sys-rt.so.13": "MIT",
    "lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat": "MIT",
    "lib/host-math/lib/librocm-openblas.so.0": "BSD-3-Clause",
    "lib/rocm_sysdeps/lib/libelf-0.188.so": "GPL-2.0-or-later OR LGPL-3.0-or-later",
    "lib/rocm_sysdeps/lib/libicudata.so.72.1": "Unicode-DFS-2016",
    "lib/rocm_sysdeps/lib/libicudata.so.76.1": "Unicode-3.0",
    "lib/rocm_sysdeps/lib/liblzma.so.5.4.1": "",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_drm_amdgpu.so.1": "MIT",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_elf.so.1": "GPL-2.0-or-later OR LGPL-3.0-or-later",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5": "0BSD",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_numa.so.1": "LGPL-2.1-only",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_sqlite3.so.0": "blessing",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_z.so.1": "Zlib",
    "lib/rocm_sysdeps/lib/librocm_sysdeps_zstd.so.1": "BSD-3-Clause OR GPL-2.0-only",
    "libexec/rocm_smi/rocm_smi.py": "MIT",
    "share/rocm/cmake/ROCMConfig.cmake": "MIT",
}


@pytest.mark.parametrize("path", KNOWN)
def test_the_licence_of(path: str) -> None:
    component = licence_table().component_of(path, None)
    assert component is not None
    assert joined(component.licences) == KNOWN[path]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("lib/libamdhip64.so", "amdhip64"),
        ("bin/amdhip64_7.dll", "amdhip64"),
        ("bin/libhipblaslt.dll", "hipblaslt"),
        ("lib/libelf-0.188.so", "elf"),
        ("lib/libclang-cpp.so.15", "clang-cpp"),
        ("lib/libz3.so.4", "z3"),
        ("lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5", "lzma"),
        ("bin/hipcc", None),
        ("include/hip/hip_runtime.h", None),
    ],
)
def test_the_name_of_a_library(path: str, name: str | None) -> None:
    assert library_name(path) == name


@pytest.mark.parametrize(
    ("path", "package", "expression"),
    [
        ("libexec/rocm_smi/rocm_smi.py", "rocm-smi", "NCSA"),  # before its licence changed
        ("lib/libhsa-amd-aqlprofile64.so.1", "aqlprofile", "MIT"),
        ("lib/some/new/thing.bin", "amd-llvm", LLVM),
    ],
)
def test_what_brought_a_file_decides_where_its_path_does_not(
    path: str, package: str, expression: str
) -> None:
    found = licences_of({path: package}, (), licence_table())
    assert (found.expression, found.unknown) == (expression, ())


@pytest.mark.parametrize(
    ("path", "package"),
    [("lib/libhsa-amd-aqlprofile64.so.1", None), ("lib/librocprof-trace-decoder.so", "rocprofiler-sdk")],
)
def test_binaries_with_terms_of_their_own_are_not_taken_for_free(path: str, package: str | None) -> None:
    assert licence_table().component_of(path, package) is None


def test_choices_stay_together_and_nothing_is_said_twice() -> None:
    files = [
        "lib/libamdhip64.so.6",
        "lib/librocblas.so.4",
        "lib/rocm_sysdeps/lib/libelf.so.1",
        "bin/rocminfo",
    ]
    found = licences_of(dict.fromkeys(files), (), licence_table())
    assert found.expression == "(GPL-2.0-or-later OR LGPL-3.0-or-later) AND MIT AND NCSA"
    assert canonicalize_license_expression(found.expression) == found.expression


def test_one_unknown_part_and_no_expression_is_claimed() -> None:
    files = {
        "lib/librocblas.so.4": None,
        "lib/odd/data": None,
        "lib/odd/libodd.so.1": None,
        "lib/libnew.so.1": "core-new",
    }
    found = licences_of(files, (), licence_table())
    assert found.expression is None
    assert found.unknown == ("core-new: lib/libnew.so.1", "lib/odd/data and 1 more")
    assert [part.component.name for part in found.parts] == ["rocBLAS"]


def test_facts_and_texts_are_no_parts_and_public_domain_asks_nothing() -> None:
    files = ["share/doc/hip/LICENSE.md", ".info/version", "lib/rocm_sysdeps/lib/liblzma.so.5.4.1"]
    found = licences_of(dict.fromkeys(files), (), licence_table())
    assert (found.expression, found.unknown) == (None, ())
    assert [part.component.name for part in found.parts] == ["liblzma"]


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Path]:
    """Libraries, and documents as AMD's packages and Debian's have them."""
    texts = {
        "share/doc/hip/LICENSE.md": "MIT for HIP",
        "share/doc/rocblas/LICENSE.md": "MIT for rocBLAS",
        "share/doc/rocblas/README.md": "no licence",
        "share/doc/rocblas/licenses/NOTICES.txt": "further notices of rocBLAS",
        "share/doc/libllvm15/copyright": "LLVM's",
        "share/doc/clang-15/copyright": "LLVM's",
        "share/doc/librocrand1/copyright": "rocRAND's",
        "lib/librocblas.so.4": "",
        "lib/llvm/lib/libLLVM-15.so.1": "",
        "lib/librocrand.so.1": "",
        "lib/librccl.so.1": "",
    }
    for name, text in texts.items():
        place = tmp_path / "tree" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return {name: tmp_path / "tree" / name for name in texts}


def test_the_texts_of_what_is_shipped_each_once(tree: dict[str, Path]) -> None:
    shipped = {"lib/librocblas.so.4": None, "lib/llvm/lib/libLLVM-15.so.1": "libllvm15"}
    found = licences_of(shipped, find_texts(tree), licence_table())
    assert [name for name, _ in found.files] == [
        "share/doc/clang-15/copyright",  # the same bytes as libllvm15's
        "share/doc/rocblas/LICENSE.md",
        "share/doc/rocblas/licenses/NOTICES.txt",
    ]
    assert all(place == tree[name] for name, place in found.files)
    assert found.without_text == ()


def test_a_component_without_its_text_is_named(tree: dict[str, Path]) -> None:
    shipped = dict.fromkeys(["lib/librccl.so.1", "lib/librocrand.so.1"])
    found = licences_of(shipped, find_texts(tree), licence_table())
    assert (found.expression, found.without_text) == ("BSD-3-Clause AND MIT", ("RCCL",))
    assert [name for name, _ in found.files] == ["share/doc/librocrand1/copyright"]


def test_an_archive_has_the_licences_of_the_libraries_that_its_code_is_of(tmp_path: Path) -> None:
    stream, place = io.BytesIO(), tmp_path / "rocm_gfx942.kpack"
    writer = ArchiveWriter(stream, "rocm", "gfx942")
    for kernel in ("lib/librocblas.so.4", "lib/librocsolver.so.0"):
        writer.enter(Entry(kernel, 0, "gfx942", writer.add(zstandard.compress(b"code")), 4))
    writer.close()
    place.write_bytes(stream.getvalue())
    libraries = libraries_in(place)
    assert libraries == ("lib/librocblas.so.4", "lib/librocsolver.so.0")
    name = ".kpack/rocm_gfx942.kpack"
    # What says of which build it is comes from no project.
    beside = ".kpack/rocm_gfx942.json"
    found = licences_of({name: None, beside: None}, (), licence_table(), archives={name: libraries})
    assert (found.expression, found.unknown) == ("BSD-2-Clause AND MIT", ())
    assert [part.files for part in found.parts] == [(name,), (name,)]
    assert licences_of({name: None}, (), licence_table()).unknown == (name,)
    place.write_bytes(b"KPAK")
    with pytest.raises(InvalidArchive):
        libraries_in(place)


def test_a_row_with_a_licence_that_is_no_spdx_is_refused() -> None:
    with pytest.raises(InvalidData, match=r"'LicenseRef.?\(' is not an SPDX"):
        joined(["LicenseRef-("], where="x.toml")
    with pytest.raises(InvalidData, match="unknown field `colour`"):
        parse_table(
            'ignored = []\n[[component]]\nname = "a"\nlicences = []\ncolour = "red"\n',
            LicenceTable,
            where="x.toml",
        )


def test_every_row_can_be_met_and_names_its_licence_so_that_old_checkers_know_it() -> None:
    table = licence_table()
    for row in table.component:
        assert row.libraries or row.paths or row.packages, row.name
        assert joined(row.licences) == " AND ".join(
            f"({term})" if " OR " in term and len(row.licences) > 1 else term for term in sorted(row.licences)
        )
    assert msgspec.to_builtins(table)["repositories"]["blas"] == "rocm-libraries"


def test_a_wheel_with_its_expression_and_texts_is_what_the_standard_asks(
    tree: dict[str, Path], tmp_path: Path
) -> None:
    from zipfile import ZipFile

    found = licences_of({"lib/librocblas.so.4": None}, find_texts(tree), licence_table())
    names = tuple(name for name, _ in found.files)
    metadata = Metadata("a", "1", license_expression=found.expression, license_files=names)
    stem = "a-1.dist-info/licenses"
    members = [Member(f"{stem}/{name}", FileSource(place)) for name, place in found.files]
    plan = WheelPlan("a", "1", metadata, (Member("a.py", BytesSource(b"")), *members), tag="py3-none-any")
    wheel = write_wheel(plan, tmp_path)
    with ZipFile(wheel.path) as archive:
        strict = StrictMetadata.from_email(archive.read("a-1.dist-info/METADATA"), validate=True)
        assert strict.license_expression == "MIT"
        assert {f"{stem}/{name}" for name in strict.license_files or ()} <= set(archive.namelist())
        assert archive.read(f"{stem}/share/doc/rocblas/LICENSE.md") == b"MIT for rocBLAS"
