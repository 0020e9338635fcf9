"""Laying out unpacked packages: texts mended to the letter, links, RPATHs, all or nothing."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import pytest
import sdk_trees as trees

from rocwright.errors import InvalidInput, InvalidPrefix, RocwrightError
from rocwright.sdk.intake.deb import lay_out, mend_cmake_text
from rocwright.sdk.intake.distribution import Distribution, MapRule
from trees import link, script, write

TRIPLET = "x86_64-linux-gnu"

# What CMake's install(EXPORT) writes for a package below lib/<triplet>/cmake/hip.
EXPORTED = """\
get_filename_component(_IMPORT_PREFIX "${CMAKE_CURRENT_LIST_FILE}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
if(_IMPORT_PREFIX STREQUAL "/")
  IMPORTED_LOCATION_NONE "${_IMPORT_PREFIX}/lib/x86_64-linux-gnu/libamdhip64.so.5.2.0"
endif()
"""
EXPORTED_MENDED = """\
get_filename_component(_IMPORT_PREFIX "${CMAKE_CURRENT_LIST_FILE}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
if(_IMPORT_PREFIX STREQUAL "/")
  IMPORTED_LOCATION_NONE "${_IMPORT_PREFIX}/lib/libamdhip64.so.5.2.0"
endif()
"""
# What configure_package_config_file() writes there.
CONFIG = """\
get_filename_component(PACKAGE_PREFIX_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../../" ABSOLUTE)
set_and_check( hip_LIB_INSTALL_DIR "${PACKAGE_PREFIX_DIR}/lib/x86_64-linux-gnu" )
set(AMD_DEVICE_LIBS_PREFIX "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode/../..")
set(ROCM_PATH /usr)
set(HIP_CLANG_ROOT /usr)
get_filename_component(_IMPORT_PREFIX "${_DIR}/../../../../" REALPATH)
file(GLOB PATHS "${_IMPORT_PREFIX}/../llvm/lib/clang/*/include")
"""
CONFIG_MENDED = """\
get_filename_component(PACKAGE_PREFIX_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../" ABSOLUTE)
set_and_check( hip_LIB_INSTALL_DIR "${PACKAGE_PREFIX_DIR}/lib" )
set(AMD_DEVICE_LIBS_PREFIX "/usr/amdgcn/bitcode/../..")
set(ROCM_PATH "${PACKAGE_PREFIX_DIR}")
set(HIP_CLANG_ROOT "${PACKAGE_PREFIX_DIR}/llvm")
get_filename_component(_IMPORT_PREFIX "${_DIR}/../../../" REALPATH)
file(GLOB PATHS "${_IMPORT_PREFIX}/../llvm/lib/clang/*/include")
"""
# A package file that was written by hand climbs with a name of its own (comgr of ROCm 6.4).
CLIMBS = """\
get_filename_component(AMD_COMGR_PREFIX "${CMAKE_CURRENT_LIST_FILE}" PATH)
get_filename_component(AMD_COMGR_PREFIX "${AMD_COMGR_PREFIX}" PATH)
get_filename_component(AMD_COMGR_PREFIX "${AMD_COMGR_PREFIX}" PATH)
include("${AMD_COMGR_PREFIX}/lib/x86_64-linux-gnu/cmake/amd_comgr/amd_comgr-targets.cmake")
"""
CLIMBS_MENDED = """\
get_filename_component(AMD_COMGR_PREFIX "${CMAKE_CURRENT_LIST_FILE}" PATH)
get_filename_component(AMD_COMGR_PREFIX "${AMD_COMGR_PREFIX}" PATH)
include("${AMD_COMGR_PREFIX}/lib/cmake/amd_comgr/amd_comgr-targets.cmake")
"""


@pytest.mark.parametrize(
    ("text", "mended"), [(EXPORTED, EXPORTED_MENDED), (CONFIG, CONFIG_MENDED), (CLIMBS, CLIMBS_MENDED)]
)
def test_a_package_file_that_moved_up_climbs_one_step_less(text: str, mended: str) -> None:
    assert mend_cmake_text(text, moved_up=True, triplet=TRIPLET) == mended


def test_a_package_file_that_stayed_keeps_its_depth() -> None:
    text = mend_cmake_text(EXPORTED, moved_up=False, triplet=TRIPLET)
    assert text == EXPORTED.replace("lib/x86_64-linux-gnu", "lib")


def test_a_text_without_such_paths_is_left_alone() -> None:
    text = 'set(a "${b}/../c") # lib/aarch64-linux-gnu\n'
    assert mend_cmake_text(text, moved_up=True, triplet=TRIPLET) == text


def distribution(**changes: object) -> Distribution:
    values: dict[str, object] = {
        "id": "test",
        "version_id": "1",
        "rocm_version": "5.2.3",
        "triplet": TRIPLET,
        "family": "test1",
        "packages": ("a",),
        "map": tuple(
            MapRule(*row)
            for row in (
                (f"lib/{TRIPLET}/cmake/**", "lib/cmake/**"),
                (f"lib/{TRIPLET}/libdep*", "lib/rocm_sysdeps/lib/"),
                (f"lib/{TRIPLET}/lib*", "lib/"),
                ("lib/cmake/**", "lib/cmake/**"),
                ("bin/*", "bin/"),
                ("share/perl5/**", "share/perl5/**"),
            )
        ),
        "links": {"amd": "lib/rocm_sysdeps"},
    }
    return Distribution(**{**values, **changes})


PERL = """\
#!/usr/bin/perl -w
use Wanted; print Wanted::word(), "\\n";
"""
MODULE = 'package Wanted; sub word { return "found" } 1;\n'


def control(root: Path, name: str, version: str = "1", *more: str) -> Path:
    """A package's directory, as unpacking makes it, with what it says of itself."""
    lines = [f"Package: {name}", f"Version: {version}", "Architecture: amd64", *more]
    write(root / name / "DEBIAN/control", "\n".join(lines) + "\n")
    return root / name


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """Two packages, as they are unpacked: liba1, which brings nearly everything, and libdep1."""
    both = tmp_path / "unpacked"
    libdep = control(both, "libdep1", "2:1.0-3+b1", "Source: dep (2:1.0-3)", "Description: a", " Version: no")
    dependency = trees.library(libdep / "usr/lib" / TRIPLET / "libdep.so.1.0", soname="libdep.so.1")
    link(libdep / "usr/lib" / TRIPLET / "libdep.so.1", "libdep.so.1.0")
    root = control(both, "liba1", "5.2.3-1")
    write(root / "DEBIAN/postinst", "#!/bin/sh\n")
    lib = root / "usr/lib" / TRIPLET
    trees.library(lib / "liba.so.5.2", soname="liba.so.5", needs=(dependency,))
    link(lib / "liba.so.5", "liba.so.5.2")
    write(lib / "cmake/hip/hip-config.cmake", CONFIG)
    write(lib / "cmake/hip/hip-targets.cmake", EXPORTED)
    write(lib / "cmake/hip/plain.cmake", "# nothing\n")
    script(root / "usr/bin/roc-obj-ls", PERL)
    script(root / "usr/bin/roc-obj", "#!/bin/bash\necho perl\n")
    write(root / "usr/share/perl5/Wanted.pm", MODULE)
    write(root / "usr/share/man/man1/hipcc.1", "left out")
    return both


def test_a_prefix_works_by_itself(tmp_path: Path, unpacked: Path) -> None:
    prefix = tmp_path / "rocm"
    laid = lay_out(distribution(), unpacked, prefix)
    assert {str(f.relative_to(prefix)) for f in prefix.rglob("*") if f.is_file() or f.is_symlink()} == {
        ".info/packages.json",
        ".info/version",
        "amd",
        "bin/roc-obj",
        "bin/roc-obj-ls",
        "lib/cmake/hip/hip-config.cmake",
        "lib/cmake/hip/hip-targets.cmake",
        "lib/cmake/hip/plain.cmake",
        "lib/liba.so.5",
        "lib/liba.so.5.2",
        "lib/rocm_sysdeps/lib/libdep.so.1",
        "lib/rocm_sysdeps/lib/libdep.so.1.0",
        "share/perl5/Wanted.pm",
    }
    assert (prefix / ".info/version").read_text() == "5.2.3\n"
    assert (prefix / "lib/liba.so.5").readlink() == Path("liba.so.5.2")
    assert (prefix / "amd").readlink() == Path("lib/rocm_sysdeps")
    assert (prefix / "lib/cmake/hip/hip-config.cmake").read_text() == CONFIG_MENDED
    assert (prefix / "lib/cmake/hip/hip-targets.cmake").read_text() == EXPORTED_MENDED
    assert not unpacked.exists()
    # 8 files of the packages, the version and the listing.
    assert (laid.files, laid.links, laid.left_out, laid.cmake_files, laid.rpaths) == (10, 3, 0, 2, 2)
    assert laid.size == sum(f.stat().st_size for f in prefix.rglob("*") if f.is_file() and not f.is_symlink())


def test_the_prefix_says_which_package_brought_each_file(tmp_path: Path, unpacked: Path) -> None:
    control(unpacked, "brings-nothing")
    lay_out(distribution(), unpacked, tmp_path / "rocm")
    assert json.loads((tmp_path / "rocm/.info/packages.json").read_text()) == {
        "distribution": "test-1",
        "packages": [
            {
                "name": "liba1",
                "version": "5.2.3-1",
                "source": "liba1",
                "architecture": "amd64",
                "files": [
                    "bin/roc-obj",
                    "bin/roc-obj-ls",
                    "lib/cmake/hip/hip-config.cmake",
                    "lib/cmake/hip/hip-targets.cmake",
                    "lib/cmake/hip/plain.cmake",
                    "lib/liba.so.5.2",
                    "share/perl5/Wanted.pm",
                ],
            },
            {
                "name": "libdep1",
                "version": "2:1.0-3+b1",
                "source": "dep",
                "architecture": "amd64",
                "files": ["lib/rocm_sysdeps/lib/libdep.so.1.0"],
            },
        ],
    }


def test_a_file_in_two_packages_is_an_error(tmp_path: Path, unpacked: Path) -> None:
    write(control(unpacked, "other") / "usr/share/perl5/Wanted.pm", "another")
    with pytest.raises(
        InvalidPrefix, match=r"usr/share/perl5/Wanted\.pm is in two packages: liba1 and other"
    ):
        lay_out(distribution(), unpacked, tmp_path / "rocm")
    assert not (tmp_path / "rocm").exists()


@pytest.mark.parametrize("text", ["", "Package: a\nVersion: 1\n"], ids=["empty", "short"])
def test_a_package_that_does_not_say_what_it_is_is_named(tmp_path: Path, unpacked: Path, text: str) -> None:
    (unpacked / "liba1/DEBIAN/control").write_text(text)
    with pytest.raises(InvalidInput, match=r"lacks .*architecture"):
        lay_out(distribution(), unpacked, tmp_path / "rocm")


def test_libraries_find_each_other_by_rpath(tmp_path: Path, unpacked: Path) -> None:
    prefix = tmp_path / "rocm"
    lay_out(distribution(), unpacked, prefix)
    assert trees.dynamic(prefix / "lib/liba.so.5.2")["RPATH"] == ["$ORIGIN:$ORIGIN/rocm_sysdeps/lib"]
    assert trees.dynamic(prefix / "lib/rocm_sysdeps/lib/libdep.so.1.0")["RPATH"] == ["$ORIGIN"]
    moved = prefix.rename(tmp_path / "moved")
    user = trees.program(
        tmp_path / "user",
        text="int liba(void); int main(void) { return liba(); }",
        flags=(
            moved / "lib/liba.so.5.2",
            f"-Wl,-rpath,{moved}/lib",
            f"-Wl,-rpath-link,{moved}/lib/rocm_sysdeps/lib",
        ),
    )
    assert subprocess.run([user]).returncode == 42


def stack_of(library: Path) -> str:
    """Flags that readelf shows for GNU_STACK: RW, or RWE for an executable one."""
    said = subprocess.run(["readelf", "-lW", library], check=True, capture_output=True, text=True).stdout
    (line,) = (line for line in said.splitlines() if "GNU_STACK" in line)
    return line.split()[6]


def test_a_library_that_asks_for_an_executable_stack_does_so_no_longer(
    tmp_path: Path, unpacked: Path
) -> None:
    careless = unpacked / "liba1/usr/lib" / TRIPLET / "libcareless.so.1"
    trees.library(careless, soname="libcareless.so.1", flags=("-Wl,-z,execstack",))
    assert stack_of(careless) == "RWE"
    lay_out(distribution(), unpacked, tmp_path / "rocm")
    assert stack_of(tmp_path / "rocm/lib/libcareless.so.1") == "RW"
    # Nothing but that flag and the RPATH changed: it still loads.
    ctypes.CDLL(str(tmp_path / "rocm/lib/libcareless.so.1"))


def test_files_that_the_distribution_lacks_are_written(tmp_path: Path, unpacked: Path) -> None:
    header = "include/rocm-core/rocm_version.h"
    prefix = tmp_path / "rocm"
    lay_out(distribution(files={header: "#define ROCM_VERSION_MAJOR 6\n"}), unpacked, prefix)
    assert (prefix / header).read_text() == "#define ROCM_VERSION_MAJOR 6\n"
    # It comes from no package.
    assert header not in (prefix / ".info/packages.json").read_text()


def test_links_may_lead_to_files_that_the_distribution_lacks(tmp_path: Path, unpacked: Path) -> None:
    prefix = tmp_path / "rocm"
    lay_out(distribution(files={"include/a.h": "a"}, links={"include/b.h": "a.h"}), unpacked, prefix)
    assert (prefix / "include/b.h").read_text() == "a"


def test_a_file_of_the_table_where_a_package_has_one_is_an_error(tmp_path: Path, unpacked: Path) -> None:
    with pytest.raises(InvalidPrefix, match="bin/roc-obj"):
        lay_out(distribution(files={"bin/roc-obj": "other"}), unpacked, tmp_path / "rocm")


def test_perl_scripts_find_modules_of_the_prefix(tmp_path: Path, unpacked: Path) -> None:
    prefix = tmp_path / "rocm"
    lay_out(distribution(), unpacked, prefix)
    moved = prefix.rename(tmp_path / "moved")
    assert (moved / "bin/roc-obj-ls").read_text() == (
        '#!/usr/bin/perl -w\nuse FindBin; use lib "$FindBin::RealBin/../share/perl5";\n'
        'use Wanted; print Wanted::word(), "\\n";\n'
    )
    done = subprocess.run([moved / "bin/roc-obj-ls"], capture_output=True, text=True, check=True)
    assert done.stdout == "found\n"
    assert (moved / "bin/roc-obj").read_text() == "#!/bin/bash\necho perl\n"


def test_programs_that_hipcc_links_find_the_runtime(tmp_path: Path, unpacked: Path) -> None:
    hipcc = """#!/usr/bin/perl\n$toolArgs = ${toolArgs} . " -lamdhip64 ";\n"""
    script(unpacked / "liba1/usr/bin/hipcc.pl", hipcc)
    lay_out(distribution(), unpacked, tmp_path / "rocm")
    mended = (tmp_path / "rocm/bin/hipcc.pl").read_text()
    assert mended.splitlines()[1] == '$toolArgs = ${toolArgs} . " -Wl,-rpath,$HIP_LIB_PATH -lamdhip64 ";'


def test_a_perl_script_with_a_second_name_is_mended_once(tmp_path: Path, unpacked: Path) -> None:
    link(unpacked / "liba1/usr/bin/roc-obj-list", "roc-obj-ls")
    lay_out(distribution(), unpacked, tmp_path / "rocm")
    assert (tmp_path / "rocm/bin/roc-obj-ls").read_text().count("use FindBin") == 1


def test_a_roc_obj_that_is_a_program_is_left_alone(tmp_path: Path, unpacked: Path) -> None:
    data = b"\x7fELF\xff\xfe not text"
    write(unpacked / "liba1/usr/bin/roc-obj-native", data)
    lay_out(distribution(), unpacked, tmp_path / "rocm")
    assert (tmp_path / "rocm/bin/roc-obj-native").read_bytes() == data


def test_a_cmake_file_in_an_older_encoding_survives(tmp_path: Path, unpacked: Path) -> None:
    data = b"# \xa9 AMD\nset(a lib/x86_64-linux-gnu)\n"
    write(unpacked / f"liba1/usr/lib/{TRIPLET}/cmake/hip/old.cmake", data)
    lay_out(distribution(), unpacked, tmp_path / "rocm")
    assert (tmp_path / "rocm/lib/cmake/hip/old.cmake").read_bytes() == b"# \xa9 AMD\nset(a lib)\n"


@pytest.mark.parametrize("old", [False, True], ids=["new", "over-an-old-one"])
def test_a_failure_in_the_middle_changes_no_prefix(
    tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch, old: bool
) -> None:
    prefix = tmp_path / "rocm"
    if old:
        write(prefix / "old", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rocwright.sdk.intake.deb._mend_perl", full)
    with pytest.raises(RocwrightError, match="no space left"):
        lay_out(distribution(), unpacked, prefix)
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith("rocm")] == (["rocm"] if old else [])
    if old:
        assert [f.name for f in prefix.iterdir()] == ["old"]


def test_two_files_for_one_place_are_an_error(tmp_path: Path, unpacked: Path) -> None:
    # lib/ and usr/lib/ are the same place; of two different files one would silently vanish.
    write(unpacked / f"libdep1/lib/{TRIPLET}/liba.so.5.2", "another")
    with pytest.raises(RocwrightError, match=r"liba\.so\.5\.2"):
        lay_out(distribution(), unpacked, tmp_path / "rocm")
