"""What earlier builds left: nothing of it goes into a wheel that a build from scratch would not have."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from one_build import run_build
from rocwright.builder.decide.plan import BuildPlan, BuiltWheel
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.isolation import rocm_identity
from rocwright.builder.run.leftovers import Leftovers
from rocwright.system import venv
from rocwright.system.venv import Environment, pip_install
from trees import write
from wheels import ANY, write_wheel

SETUP = """
from setuptools import Extension, find_packages, setup
setup(name="toy", version="1.0", packages=find_packages(),
      ext_modules=[Extension("toy.native", ["native.c"])])
"""
NATIVE = """
#include "answer.h"
#ifndef TOY_ANSWER
#define TOY_ANSWER ANSWER
#endif
__attribute__((visibility("default"))) const char *PyInit_native(void) { return TOY_ANSWER; }
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = venv.create(tmp_path_factory.mktemp("env") / "env")
    pip_install(made, ["setuptools==80.9.0"], closed=None)
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "toy"
    (root / "toy").mkdir(parents=True)
    for name, text in {
        "setup.py": SETUP,
        "native.c": NATIVE,
        "answer.h": '#define ANSWER "the first answer"\n',
        "toy/__init__.py": "",
        "toy/gone.py": "",
    }.items():
        (root / name).write_text(text)
    return root


def build(source: Path, environment: Environment, rocm: Rocm | None = None, **env: str) -> tuple[str, bytes]:
    """The names of the modules in the wheel, and the extension."""
    plan = BuildPlan(
        project="toy",
        directory=str(source),
        version="1.0",
        argv=("python", "setup.py", "bdist_wheel"),
        env={"PATH": os.environ["PATH"], **env},
    )
    out = source.parent / "out"
    wheel = run_build(plan, environment, out, log=source.parent / "log", rocm=rocm)
    with zipfile.ZipFile(wheel.path) as archive:
        names = archive.namelist()
        native = next(name for name in names if name.startswith("toy/native."))
        return " ".join(sorted(name for name in names if name.endswith(".py"))), archive.read(native)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a C compiler that makes ELF")
def test_what_setuptools_would_take_from_an_earlier_build_is_made_anew(
    source: Path, environment: Environment
) -> None:
    modules, native = build(source, environment)
    assert modules == "toy/__init__.py toy/gone.py"
    assert b"the first answer" in native
    # setuptools looks at no header, at no variable, and at no module that is there no more.
    (source / "answer.h").write_text('#define ANSWER "the other answer"\n')
    (source / "toy" / "gone.py").unlink()
    modules, native = build(source, environment)
    assert modules == "toy/__init__.py"
    assert b"the other answer" in native
    _, native = build(source, environment, CFLAGS="""-DTOY_ANSWER='"of the command line"'""")
    assert b"of the command line" in native


@pytest.mark.slow
def test_objects_of_other_compilers_or_another_rocm_are_not_used(
    source: Path, environment: Environment, tmp_path: Path
) -> None:
    prefix = tmp_path / "rocm"
    (prefix / "llvm" / "bin").mkdir(parents=True)
    (prefix / "llvm" / "bin" / "clang-19").write_text("one")
    rocm = Rocm(
        version="7.1", root=str(prefix), bin=f"{prefix}/bin", cmake=f"{prefix}/lib/cmake", origin="prefix"
    )
    build(source, environment, rocm)
    kept = source / "build" / "object-that-ninja-keeps.o"
    kept.write_text("compiled")
    build(source, environment, rocm)
    assert kept.exists()
    (prefix / "llvm" / "bin" / "clang-19").write_text("another")
    build(source, environment, rocm)
    assert not kept.exists()


def test_other_words_of_a_compiler_that_a_program_stands_in_for_count(tmp_path: Path) -> None:
    """ninja sees the program, whatever it runs."""
    (tmp_path / "build").mkdir()

    def leftovers(words: str, **how: bool) -> Leftovers:
        env = {"PATH": os.environ["PATH"], "CXX": words}
        plan = BuildPlan(project="toy", directory=str(tmp_path), version="1", argv=(), env=env, **how)
        return Leftovers(plan, Path(sys.executable), None)

    leftovers("g++ -O1", plain_compilers=True).begin()
    assert not leftovers("g++ -O1", plain_compilers=True).of_another_toolchain
    assert leftovers("g++ -O2", plain_compilers=True).of_another_toolchain
    leftovers("g++ -O1").begin()
    assert not leftovers("g++ -O2").of_another_toolchain


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("lib/libamdhip64.so.7", True),
        ("lib/x86_64-linux-gnu/libamdhip64.so.6", True),
        ("include/rocprim/block/block_sort.hpp", True),
        ("include/thrust/sort.h", True),
        ("include/hip/hip_runtime.h", True),
        # Beside it in /usr.
        ("lib/x86_64-linux-gnu/libssl.so.3", False),
        ("include/openssl/ssl.h", False),
        ("include/rocksdb/db.h", False),
    ],
)
def test_what_of_a_plain_rocm_makes_it_another(tmp_path: Path, name: str, counts: bool) -> None:
    root = str(tmp_path)
    rocm = Rocm(version="7.1", root=root, bin=f"{root}/bin", cmake=f"{root}/lib/cmake", origin="prefix")
    write(tmp_path / name, "one")
    before = rocm_identity(rocm)
    write(tmp_path / name, "another")
    assert (rocm_identity(rocm) != before) is counts


@pytest.mark.slow
def test_cmake_configures_again_when_a_variable_is_another(source: Path, environment: Environment) -> None:
    build(source, environment)
    folder = source / "build" / "cmake.linux"
    folder.mkdir()
    (folder / "CMakeCache.txt").write_text("CMAKE_CXX_FLAGS:STRING=\n")
    (folder / "unit.o").write_text("compiled")
    build(source, environment)
    assert (folder / "CMakeCache.txt").exists()
    build(source, environment, CXXFLAGS="-O1")
    assert not (folder / "CMakeCache.txt").exists()
    assert (folder / "unit.o").exists()


def test_objects_are_not_used_when_compilers_read_other_variables(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ninja compares command lines, and these variables stand in none."""
    (source / "build").mkdir()
    (source / "build" / "native.o").write_text("compiled")
    plan = BuildPlan("toy", str(source), "1.0", ("python",), {})

    def of_another_toolchain() -> bool:
        now = Leftovers(plan, Path(sys.executable), None)
        said = now.of_another_toolchain
        now.end()
        return said

    for name in ("HIPCC_COMPILE_FLAGS_APPEND", "CPLUS_INCLUDE_PATH", "CXXFLAGS", "ODD"):
        monkeypatch.delenv(name, raising=False)
    assert not of_another_toolchain()
    for name in ("HIPCC_COMPILE_FLAGS_APPEND", "CPLUS_INCLUDE_PATH"):
        monkeypatch.setenv(name, "-O1")
        assert [of_another_toolchain(), of_another_toolchain()] == [True, False]
    # CMake puts it into command lines. The other is no text.
    for name in ("CXXFLAGS", "ODD"):
        monkeypatch.setenv(name, os.fsdecode(b"-O1 \xff"))
        assert not of_another_toolchain()


def torch(folder: Path, header: str, python: str = "") -> BuiltWheel:
    """A torch with this header."""
    files = {"torch/__init__.py": python, "torch/include/torch/extension.h": header}
    path = write_wheel(folder / f"{header}{python}", "torch", "2.9.0", files, tag=ANY)
    return BuiltWheel("torch", "2.9.0", str(path), f"of {header}{python}", 1, 0, 0, 0)


@pytest.mark.parametrize("local", ["", "+torch2.9.0"], ids=["family", "extension"])
def test_objects_of_another_torch_are_made_anew(tmp_path: Path, local: str) -> None:
    """Also of that of the same run: a family's device code is compiled against it."""

    def leftovers(header: str, python: str = "") -> Leftovers:
        plan = BuildPlan(project="toy", directory=str(tmp_path), version="", argv=(), env={}, local=local)
        return Leftovers(plan, Path(sys.executable), None, [torch(tmp_path / "wheels", header, python)])

    (tmp_path / "build").mkdir()
    leftovers("one").begin()
    assert not leftovers("one").of_another_toolchain
    # Its headers lie where ninja does not look for changes.
    assert leftovers("two").of_another_toolchain
    assert "build" in list(leftovers("two").unwanted())
    # Those for several Pythons have the same.
    assert not leftovers("one", "another").of_another_toolchain


def test_a_build_that_was_killed_leaves_word_of_its_torch(tmp_path: Path) -> None:
    def leftovers(header: str) -> Leftovers:
        plan = BuildPlan(project="toy", directory=str(tmp_path), version="", argv=(), env={}, local="+torch2")
        return Leftovers(plan, Path(sys.executable), None, [torch(tmp_path / "wheels", header)])

    leftovers("one").begin()
    assert leftovers("two").of_another_toolchain
    # One that leaves nothing in `build` leaves no `build`.
    leftovers("one").end()
    assert not (tmp_path / "build").exists()


def test_device_objects_older_than_a_header_are_made_anew(tmp_path: Path) -> None:
    """torch gives ninja what sources include for CUDA alone."""
    plan = BuildPlan(project="toy", directory=str(tmp_path), version="", argv=(), env={})
    objects, others = tmp_path / "build/temp.linux-x86_64/csrc", tmp_path / "build/cmake"
    for number, path in enumerate((tmp_path / "csrc/kernel.cuh", objects / "kernel.o", others / "kernel.o")):
        path.parent.mkdir(parents=True)
        path.write_text("")
        os.utime(path, (number, number))
    (objects.parent / "build.ninja").write_text("")

    def unwanted() -> list[str]:
        return [
            name for name in Leftovers(plan, Path(sys.executable), None).unwanted() if name.endswith(".o")
        ]

    assert unwanted() == []
    os.utime(tmp_path / "csrc/kernel.cuh", (9, 9))
    assert unwanted() == ["build/temp.linux-x86_64/csrc/kernel.o"]
    # With CMake ninja follows includes.
    (objects.parent / "CMakeCache.txt").write_text("")
    assert unwanted() == []


def test_what_cmake_remembers_goes_at_any_depth(tmp_path: Path) -> None:
    plan = BuildPlan(project="toy", directory=str(tmp_path), version="", argv=(), env={})
    cache = tmp_path / "build/temp.linux-x86_64/Release/toy/CMakeCache.txt"
    cache.parent.mkdir(parents=True)
    cache.write_text("")
    assert str(cache.relative_to(tmp_path)) in list(Leftovers(plan, Path(sys.executable), None).unwanted())
