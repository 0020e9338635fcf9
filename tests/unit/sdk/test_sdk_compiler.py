"""With --split-compiler the compiler is devel's: what stays, what moves, the commands, what still runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import artifact_trees as artifacts
import pytest
import sdk_trees as trees
from artifact_trees import Row

from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.plan.release import Packaging
from trees import link, write

MOVED = {
    "bin/amdclang++",
    "bin/amdclang-cl",
    "bin/amdclang-cpp",
    "bin/hipcc",
    "lib/llvm/bin/clang",
    "lib/llvm/bin/clang++",
    "lib/llvm/bin/clang-21",
    # Nothing but the compiler's own tools needs it.
    "lib/llvm/lib/liblldb.so.21",
}
# hiprtc and comgr compile at run time: with these libraries, these headers and this bitcode.
STAYING = {
    "lib/libamd_comgr.so.3",
    "lib/libhiprtc.so.7",
    "lib/llvm/lib/libclang-cpp.so.21.0git",
    "lib/llvm/lib/libLLVM.so.21.0git",
    "lib/llvm/lib/clang/21/include/stddef.h",
    "lib/llvm/amdgcn/bitcode/ocml.bc",
    "include/hip/hip_runtime.h",
}


@pytest.fixture(scope="module", params=[True, False], ids=["kpack", "legacy"])
def is_split(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture(scope="module")
def built(is_split: bool, tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    return artifacts.built(tmp_path_factory, split=is_split, packaging=Packaging(split_compiler=True))


@pytest.fixture(scope="module")
def whole(is_split: bool, tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    return artifacts.built(tmp_path_factory, split=is_split)


@pytest.fixture(scope="module")
def found(built: BuiltPackages) -> dict[str, artifacts.Package]:
    return artifacts.packages(built)


@pytest.fixture
def fat(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    root = artifacts.artifacts(tmp_path_factory, split=False)
    return artifacts.copy(root, tmp_path / "artifacts")


def packaged(root: Path, to: Path) -> BuiltPackages:
    return build_packages(artifacts.read(root), to, Packaging(split_compiler=True))


def test_the_compiler_moves_and_the_runtime_compilers_stay(
    found: dict[str, artifacts.Package], whole: BuiltPackages
) -> None:
    core, before = found["rocm-sdk-core"].tree, artifacts.packages(whole)["rocm-sdk-core"].tree
    assert before - core == MOVED
    assert core - before == set()
    assert core >= STAYING


def test_devel_has_what_moved(built: BuiltPackages, whole: BuiltPackages) -> None:
    entries, before = artifacts.devel_entries(built), artifacts.devel_entries(whole)
    # The same tree, whichever package the compiler is in.
    assert set(entries) == set(before)
    for path in ("bin/hipcc", "lib/llvm/bin/clang-21", "lib/llvm/lib/liblldb.so.21"):
        assert entries[path][0] == "file"
    assert entries["lib/llvm/bin/clang++"] == ("link", "clang-21")
    assert entries["bin/amdclang++"] == ("link", "../lib/llvm/bin/clang-21")
    assert entries["lib/llvm/lib/libLLVM.so.21.0git"][0] == "sibling"


def test_the_commands_move_along(found: dict[str, artifacts.Package]) -> None:
    assert found["rocm-sdk-devel"].commands == {
        "amdclang++": "rocm_sdk_devel._cli:amdclangpp",
        "amdclang-cl": "rocm_sdk_devel._cli:amdclang_cl",
        "amdclang-cpp": "rocm_sdk_devel._cli:amdclang_cpp",
        "hipcc": "rocm_sdk_devel._cli:hipcc",
    }
    assert set(found["rocm-sdk-core"].commands) == {"amd-smi", "rocminfo", "rocprof-attach", "rocprofv3"}


def test_each_command_is_of_one_package(found: dict[str, artifacts.Package]) -> None:
    core, devel = found["rocm-sdk-core"].commands, found["rocm-sdk-devel"].commands
    assert "hipcc" in devel
    assert not set(core) & set(devel)


def test_devel_has_no_commands_otherwise(whole: BuiltPackages) -> None:
    assert artifacts.packages(whole)["rocm-sdk-devel"].commands == {}


def test_what_stays_still_loads(built: BuiltPackages, tmp_path: Path) -> None:
    site = artifacts.install(built, tmp_path / "site")
    for path in ("libamd_comgr.so.3", "libhiprtc.so.7"):
        text = f"import ctypes; ctypes.CDLL({str(site / '_rocm_sdk_core/lib' / path)!r}, mode=2)"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env={})
        assert done.returncode == 0, done.stderr


def test_a_compiler_of_the_expanded_tree_finds_the_libraries_that_stayed(
    found: dict[str, artifacts.Package], built: BuiltPackages, tmp_path: Path
) -> None:
    """As the devel package expands: the compiler a file of the tree, its libraries links into core."""
    site = artifacts.install(built, tmp_path / "site")
    tree = site / "_rocm_sdk_devel"
    artifacts.extract(site / "rocm_sdk_devel/_devel.tar", tree)
    for path, (kind, value) in artifacts.devel_entries(built).items():
        if kind in ("sibling", "link"):
            # The value of a sibling is relative to the package that the tree lies in.
            link(tree / path, "../" * path.count("/") + value if kind == "sibling" else value)
    done = subprocess.run([tree / "lib/llvm/bin/clang-21", "x"], capture_output=True, text=True, env={})
    assert done.stdout.splitlines()[1:2] == ["<x>"], done.stderr


def test_a_library_that_a_program_outside_the_compiler_needs_stays(fat: Path, tmp_path: Path) -> None:
    """liblldb needs clang-cpp, which needs LLVM: a debugger of core keeps all three."""
    here = tmp_path / "gdb"
    lldb = write(here / "liblldb.so.21", artifacts.images()["lldb"])
    flags = ("-Wl,--no-as-needed", lldb, "-Wl,--unresolved-symbols=ignore-in-shared-libs")
    program = trees.program(here / "rocgdb", flags=flags)
    row = Row(
        "rocgdb_run_generic", "debug-tools/rocgdb/stage", "bin/rocgdb", program.read_bytes(), executable=True
    )
    artifacts.write_artifacts(fat, [row])
    core = artifacts.packages(packaged(fat, tmp_path / "dist"))["rocm-sdk-core"].tree
    assert {"bin/rocgdb", "lib/llvm/lib/liblldb.so.21", "lib/llvm/lib/libclang-cpp.so.21.0git"} <= core
    assert "lib/llvm/bin/clang-21" not in core


def test_a_library_that_a_family_needs_stays(fat: Path, tmp_path: Path) -> None:
    lldb = write(tmp_path / "liblldb.so.21", artifacts.images()["lldb"])
    flags = ("-Wl,--unresolved-symbols=ignore-in-shared-libs",)
    own = trees.library(tmp_path / "libown.so", soname="libown.so.1", needs=[lldb], flags=flags).read_bytes()
    artifacts.write_artifacts(
        fat, [Row("fft_lib_gfx94X-dcgpu", "math-libs/FFT/stage", "lib/libown.so.1", own, executable=True)]
    )
    core = artifacts.packages(packaged(fat, tmp_path / "dist"))["rocm-sdk-core"].tree
    assert "lib/llvm/lib/liblldb.so.21" in core


def test_the_real_layout_of_programs_moves(fat: Path, tmp_path: Path) -> None:
    """lld under its many names, offload tools, Perl scripts; the runtime's own tools stay."""
    stage = "compiler/amd-llvm/stage"
    names = ["lib/llvm/bin/lld", "lib/llvm/bin/llvm-objdump", "lib/llvm/lib/libomp.so", "bin/hipify-clang"]
    rows = [
        Row("amd-llvm_run_generic", stage, name, artifacts.images()["plain"], executable=True)
        for name in names
    ]
    links = {
        "lib/llvm/bin/ld.lld": "lld",
        "bin/amdlld": "../lib/llvm/bin/lld",
        "bin/amdclang": "../lib/llvm/bin/clang",
        "bin/amdflang": "../lib/llvm/bin/flang",
        "llvm": "lib/llvm",
    }
    rows += [Row("amd-llvm_run_generic", stage, path, link=text) for path, text in links.items()]
    for row in rows:
        path = fat / row.artifact / row.stage / row.path
        link(path, row.link) if row.link else write(path, row.data).chmod(0o755)
    found = artifacts.packages(packaged(fat, tmp_path / "dist"))
    core = found["rocm-sdk-core"].tree
    assert not core & {*names, *links}
    assert {path for path in core if path.startswith("bin/")} == {
        "bin/amd-smi",
        "bin/rocminfo",
        "bin/rocprof-attach",
        "bin/rocprofv3",
    }
    assert "hipify-clang" in found["rocm-sdk-devel"].commands


def test_nothing_is_owned_twice(found: dict[str, artifacts.Package]) -> None:
    seen: set[str] = set()
    for package in found.values():
        if package.path.suffix == ".whl":
            assert not seen & set(package.files)
            seen |= set(package.files)
