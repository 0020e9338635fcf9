"""Looking at a machine: directories, checkouts, programs and ROCm as they lie there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from rocwright.builder.before import tools
from rocwright.builder.before.host import HostFacts, look_at_host, look_at_packages, this_system
from rocwright.builder.before.tree import look_at_place, look_at_tree
from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.rocm.rocm import Rocm, unknown_rocm
from rocwright.system.interpreters import Interpreter, running_interpreter


def write(root: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def program(directory: Path, *names: str, prints: str = "") -> None:
    for name in names:
        write(directory, name, text=f"#!/bin/sh\necho '{prints}'\n")
        (directory / name).chmod(0o755)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout of CUDA sources with the script that translates them."""
    root = tmp_path / "pytorch"
    write(root, "setup.py", "tools/amd_build/build_amd.py", "c10/cuda/Stream.cpp", "aten/cuda/Sort.cu")
    return root


def build(directory: Path, path: Path, **env: str) -> BuildPlan:
    return BuildPlan(
        project="torch",
        directory=str(directory),
        version="2.9.0",
        argv=("python", "setup.py", "bdist_wheel"),
        env={"PATH": str(path), **env},
        python="3.12",
        programs=("cmake", "ninja"),
    )


def family(plan: BuildPlan, *, rocm: Rocm | None = None, platform: str = "linux") -> FamilyPlan:
    return FamilyPlan(
        platform=platform,
        release_type="nightly",
        targets=("gfx942",),
        rocm=rocm or unknown_rocm(),
        builds=(plan,),
    )


def look(plan: FamilyPlan, root: Path, cache: str = "", **caller: str) -> HostFacts:
    return look_at_host(
        plan, interpreters={}, output_dir=root / "out", work_dir=root / "work", cache=cache, caller=caller
    )


def test_a_place_that_is_still_to_be_made_is_judged_by_what_is_above_it(tmp_path: Path) -> None:
    place = look_at_place(tmp_path / "a" / "b")
    assert (place.kind, place.nearest, place.writable) == ("absent", str(tmp_path), True)
    assert place.file_system == tmp_path.stat().st_dev
    assert place.free > 0
    assert not (tmp_path / "a").exists()


def test_a_place_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    write(tmp_path, "file")
    assert look_at_place(tmp_path / "file").kind == "file"
    below = look_at_place(tmp_path / "file" / "out" / "deep")
    assert (below.kind, below.nearest, below.writable) == ("absent", str(tmp_path / "file"), False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_is_closed_to_this_user(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    assert not look_at_place(closed / "out").writable
    closed.chmod(0)
    try:
        assert not look_at_place(closed / "out" / "deep").writable
    finally:
        closed.chmod(0o700)


def test_sources_are_measured_without_what_git_and_builds_keep(source: Path) -> None:
    write(source, "torch/__init__.py", text="x" * 1000)
    write(source, ".git/objects/pack", "dist/old.whl", text="x" * 70_000)
    write(source, "build/temp/a.o", text="x" * 500)
    tree = look_at_tree("torch", source, (), ())
    assert (tree.size, tree.built) == (1000, 500)
    assert tree.git and not tree.empty and not tree.cmake
    assert tree.longest == len("tools/amd_build/build_amd.py")


def test_sources_without_a_hip_file_are_not_translated(source: Path) -> None:
    assert look_at_tree("torch", source, (), ()).unhipified
    # What others translated, or a build wrote, says nothing of these sources.
    write(source, "third_party/ck/gemm.hip", "build/aten/hip/Sort.hip")
    assert look_at_tree("torch", source, (), ()).unhipified
    write(source, "aten/hip/Sort.hip")
    assert not look_at_tree("torch", source, (), ()).unhipified


@pytest.mark.parametrize(
    ("text", "uncalled"),
    [
        ("from . import _rocm_init\n_rocm_init.initialize()\n", ()),
        # As PyTorch 2.6 is.
        ("from torch._C import *\n", ("torch/_rocm_init.py",)),
        ("import my_rocm_initial\n", ("torch/_rocm_init.py",)),
    ],
)
def test_a_module_that_nobody_would_import_is_seen(
    source: Path, text: str, uncalled: tuple[str, ...]
) -> None:
    write(source, "torch/__init__.py", text=text)
    assert look_at_tree("torch", source, (), (), ["torch/_rocm_init.py"]).uncalled == uncalled


def test_a_package_that_is_not_there_calls_nothing_wrong(source: Path) -> None:
    assert look_at_tree("torch", source, (), (), ["torch/_rocm_init.py"]).uncalled == ()


def test_sources_without_a_script_or_without_cuda_need_no_translation(tmp_path: Path) -> None:
    write(tmp_path / "a", "tools/amd_build/build_amd.py", "x.cpp")
    write(tmp_path / "b", "x.cu")
    assert not look_at_tree("torch", tmp_path / "a", (), ()).unhipified
    assert not look_at_tree("torch", tmp_path / "b", (), ()).unhipified


def test_submodules_without_files_are_named(source: Path) -> None:
    write(
        source,
        ".gitmodules",
        text='[submodule "fmt"]\n\tpath = third_party/fmt\n\turl = ../fmt\n'
        '[submodule "x y"]\n    path=third_party/x y \n    url = ../x\n'
        '[submodule "gone"]\n\tpath = third_party/gone\n',
    )
    write(source, "third_party/fmt/format.h")
    # What git keeps is no source.
    write(source, "third_party/x y/.git", text="gitdir: ../../.git/modules/x y\n")
    assert look_at_tree("torch", source, (), ()).unpopulated == ("third_party/x y", "third_party/gone")


def test_what_requirements_bring_is_read_from_files_and_those_they_include(source: Path) -> None:
    write(source, "requirements.txt", text="-r requirements-build.txt\nnumpy>=2 # fast\n\n# note\n-e .\n")
    write(
        source,
        "requirements-build.txt",
        text="CMake >= 3.27\nninja ; sys_platform != 'win32'\npywin32 ; sys_platform == 'win32'\n"
        "-r requirements.txt\n-r absent.txt\n",
    )
    tree = look_at_tree("torch", source, ("Wheel==0.45",), ("requirements.txt", "none.txt"))
    assert tree.brings == {"cmake", "ninja", "numpy", "wheel"}


def test_a_missing_or_empty_checkout(tmp_path: Path) -> None:
    gone = look_at_tree("torch", tmp_path / "gone", (), ())
    assert (gone.place.kind, gone.empty) == ("absent", True)
    (tmp_path / "bare" / ".git").mkdir(parents=True)
    assert look_at_tree("torch", tmp_path / "bare", (), ()).empty


def test_programs_are_looked_for_on_the_path_of_the_build(source: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    program(tools, "ninja", "gcc", "clang++", "sccache", prints="1.13.1.git.kitware")
    (source / ".git").mkdir()
    facts = look(family(build(source, tools)), tmp_path, cache="sccache")
    assert facts.programs == {
        "cmake": "",
        "ninja": str(tools / "ninja"),
        "git": "",
        "sccache": str(tools / "sccache"),
        "cc": str(tools / "gcc"),
        "c++": str(tools / "clang++"),
    }
    assert facts.ninja == "1.13.1"
    assert facts.misnamed == {}
    assert facts.platform == this_system() == "linux"


def test_compilers_that_variables_name(source: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    program(tools, "gcc", "g++", "ccache")
    plan = family(build(source, tools, CC="ccache gcc"))
    facts = look(plan, tmp_path, CC="elsewhere", CXX="g++-99 -m64")
    assert facts.misnamed == {"CXX": "g++-99"}
    assert facts.programs["cc"] == str(tools / "ccache")
    assert facts.programs["c++"] == ""
    # The compilers of a ROCm that is still to be installed cannot be looked for.
    facts = look(family(build(source, tools, CC="${ROCM_ROOT}/bin/clang")), tmp_path)
    assert facts.misnamed == {}


def test_tools_of_another_platform_are_not_looked_for(source: Path, tmp_path: Path) -> None:
    facts = look(family(build(source, tmp_path / "none"), platform="windows"), tmp_path)
    assert facts.programs == {} and facts.pythons == {}
    assert facts.trees[0].unhipified


def test_wheels_of_the_output_directory(source: Path, tmp_path: Path) -> None:
    write(tmp_path / "out", "torch-2.8.0-cp312-cp312-any.whl", "notes.txt")
    facts = look(family(build(source, tmp_path)), tmp_path)
    assert facts.wheels == ("torch-2.8.0-cp312-cp312-any.whl",)


def rocm(root: Path) -> Rocm:
    return Rocm(
        version="7.10.0",
        root=str(root),
        bin=str(root / "bin"),
        cmake=str(root / "lib/cmake"),
        origin="prefix",
    )


def test_a_rocm_without_its_development_files(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "rocm"
    (root / "bin").mkdir(parents=True)
    plan = build(source, tmp_path)
    everything = ("hipcc", "clang", "the headers of HIP", "the CMake files of HIP")
    assert look(family(plan, rocm=rocm(root)), tmp_path).lacks == everything
    program(root, "bin/hipcc", "lib/llvm/bin/clang++")
    write(root, "include/hip/hip_runtime.h")
    assert look(family(plan, rocm=rocm(root)), tmp_path).lacks == ("the CMake files of HIP",)
    write(root, "lib/cmake/hip/hip-config.cmake")
    assert look(family(plan, rocm=rocm(root)), tmp_path).lacks == ()


def test_a_rocm_in_the_directories_of_a_distribution_is_whole(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "usr"
    program(root, "bin/hipcc", "lib/llvm-15/bin/clang++")
    write(root, "include/hip/hip_runtime.h", "lib/x86_64-linux-gnu/cmake/hip/hip-config.cmake")
    found = msgspec.structs.replace(rocm(root), cmake=str(root / "lib/x86_64-linux-gnu/cmake"))
    assert look(family(build(source, tmp_path), rocm=found), tmp_path).lacks == ()


def test_pythons_are_asked_whether_they_can_build(source: Path, tmp_path: Path) -> None:
    here = running_interpreter()
    bare = msgspec.structs.replace(here, has_headers=False)
    none = msgspec.structs.replace(here, path=str(tmp_path / "python"))
    program(tmp_path, "python", prints="no module")
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")

    def asked(interpreter: Interpreter, **env: str) -> tuple[bool, bool]:
        plan = msgspec.structs.replace(build(source, tmp_path, **env), python=interpreter.name)
        facts = look_at_host(
            family(plan),
            interpreters={"": interpreter},
            output_dir=tmp_path / "out",
            work_dir=tmp_path / "work",
            caller={},
        )
        found = facts.pythons[interpreter.name]
        return found.headers, found.venv

    assert asked(here) == (here.has_headers, True)
    assert asked(bare) == (False, True)
    assert asked(none)[1] is False
    # Headers that were unpacked elsewhere, and that the plan hands to compilers, serve as well.
    write(tmp_path, "unpacked/include/Python.h")
    assert asked(bare, CPATH=f"/nowhere:{tmp_path / 'unpacked/include'}") == (True, True)


def test_files_that_a_build_copies(source: Path, tmp_path: Path) -> None:
    write(tmp_path, "redist/x64/Microsoft.VC143.OpenMP/libomp140.dll")
    plan = msgspec.structs.replace(
        build(source, tmp_path),
        copied={
            "torch/lib/libomp140.dll": str(tmp_path / "redist/x64/*/libomp140.dll"),
            "torch/lib/uv.dll": "${libuv_ROOT}/bin/uv.dll",
        },
    )
    assert look(family(plan), tmp_path).uncopied == {"torch/lib/uv.dll": "${libuv_ROOT}/bin/uv.dll"}


def test_an_llvm_that_a_build_brings_itself(source: Path, tmp_path: Path) -> None:
    plan = build(source, tmp_path, LLVM_SYSPATH=str(tmp_path / "llvm"))
    assert look(family(plan), tmp_path).no_llvm == {"torch": str(tmp_path / "llvm")}
    (tmp_path / "llvm").mkdir()
    assert look(family(plan), tmp_path).no_llvm == {}


def test_looking_writes_nothing(source: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    look(family(build(source, tmp_path)), tmp_path, cache="ccache")
    assert sorted(tmp_path.rglob("*")) == before


def test_where_the_headers_of_an_interpreter_come_from() -> None:
    here = running_interpreter()
    assert tools.has_headers() == tools.has_headers(here) == here.has_headers
    other = msgspec.structs.replace(here, version="3.13", include="/usr/include/python3.13")
    assert tools.distribution_package(other) == "libpython3.13-dev"
    assert tools.include_directories(Path("/x"), other) == (
        "/x/usr/include/python3.13",
        "/x/usr/include",
    )
    own = msgspec.structs.replace(other, include="/home/me/py/include")
    assert tools.distribution_package(own) is None
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert tools.include_directories(Path("/x"))[0] == f"/x/usr/include/{version}"


def test_where_compilers_keep_temporary_files(source: Path, tmp_path: Path) -> None:
    plan = family(build(source, tmp_path))
    facts = look(plan, tmp_path, TMPDIR=str(tmp_path / "none"), TMP="/")
    assert facts.temporary_variable == "TMPDIR"
    assert facts.temporary is not None
    assert (facts.temporary.path, facts.temporary.kind) == (str(tmp_path / "none"), "absent")
    assert look(plan, tmp_path).temporary_variable == ""


def test_what_of_rocm_is_to_be_unpacked(tmp_path: Path) -> None:
    wheels, into = tmp_path / "wheels", tmp_path / "work/env/rocm"
    sizes = {
        "rocm-7.10.0.tar.gz": 1,
        "rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl": 1000,
        "rocm_sdk_core-7.10.0-py3-none-linux_x86_64.whl": 20,
        "rocm_sdk_device_gfx942-7.10.0-py3-none-linux_x86_64.whl": 300,
        "rocm_sdk_device_gfx1100-7.10.0-py3-none-linux_x86_64.whl": 4000,
        "rocm.txt": 50000,
    }
    for name, size in sizes.items():
        write(wheels, name, text="x" * size)

    def files(*extras: str, where: tuple[str, ...] = (str(wheels),)) -> int | None:
        found = look_at_packages(RocmPlace("own", find_links=where, extras=extras), into)
        return None if found is None else found.files

    assert files() == 21
    assert files("device-gfx942") == 321
    assert files("device-all") == 4321
    assert files(where=("https://rocwright.invalid/simple/",)) == 0
    (into / "lib/python3.12/site-packages/rocm_sdk").mkdir(parents=True)
    assert files() is None
