"""Builds against the packaged ROCm, with no variable set: hipcc, CMake, setuptools, scikit-build-core.

What is built runs without a GPU: HIP then says hipErrorNoDevice, from the one runtime that the packages have.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from oracle import fatbin_walk
from unit.sdk import sdk_trees

TARGETS = ("gfx906", "gfx90a")
NO_GPU = not Path("/dev/kfd").exists()
needs_cmake = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja")), reason="cmake and ninja are not installed"
)

HELLO = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void scale(float *values, float by) { values[threadIdx.x] *= by; }
int main() {
  int count = 0;
  std::printf("%s\n", hipGetErrorName(hipGetDeviceCount(&count)));
  scale<<<1, 64>>>(nullptr, 2.f);
  std::FILE *maps = std::fopen("/proc/self/maps", "r");
  for (int c; (c = std::fgetc(maps)) != EOF;) std::putchar(c);
}
"""
# A Python extension in C, with a kernel where the compiler is HIP's.
MODULE = r"""
#include <Python.h>
#include <hip/hip_runtime.h>
#ifdef __HIPCC__
__global__ void scale(float *values, float by) { values[threadIdx.x] *= by; }
#endif
static PyObject *devices(PyObject *self, PyObject *none) {
  int count = 0;
  hipError_t error = hipGetDeviceCount(&count);
#ifdef __HIPCC__
  if (error == hipSuccess) scale<<<1, 64>>>(nullptr, 2.f);
#endif
  return PyUnicode_FromString(hipGetErrorName(error));
}
static PyMethodDef methods[] = {{"devices", devices, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
"""
# How frameworks find ROCm's libraries before their own.
PACKAGE = """\
import rocm_sdk
rocm_sdk.initialize_process(preload_shortnames=["amdhip64"])
from ._native import devices
"""
IMPORTED = "import hello; print(hello.devices()); print(open('/proc/self/maps').read())"


@pytest.fixture
def rocm(request, real_environment):
    """An environment with ROCm for any GPU; `of_every_kind` adds the other packages of the same ROCm."""
    return real_environment(getattr(request, "param", "kpack"))


of_every_kind = pytest.mark.parametrize("rocm", ["kpack", "legacy", "split_compiler"], indirect=True)


@pytest.fixture
def place(newcomer, request):
    """A directory of the newcomer's for one project."""
    root = newcomer.home / re.sub(r"\W+", "-", request.node.name)
    root.mkdir()
    newcomer.own(root)
    yield root
    shutil.rmtree(root)


def write(newcomer, root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    newcomer.own(root)
    return root


def mapped(said: str, name: str) -> set[str]:
    """Paths with that name in the lines of /proc/self/maps."""
    return {line.split(None, 5)[5] for line in said.splitlines() if f"/{name}" in line}


def assert_runs_on_the_package(said: str, rocm, **more: str) -> None:
    """It got as far as without a GPU it can, with the runtime of the environment and no other."""
    if NO_GPU:
        assert said.splitlines()[0] == "hipErrorNoDevice"
    assert mapped(said, "libamdhip64") == {str(rocm.site / "_rocm_sdk_core/lib/libamdhip64.so.5")}
    assert len(mapped(said, "libhsa-runtime64")) == 1


def call(rocm, *words: str | Path, cwd: Path, **more: str) -> str:
    done = rocm.call(*words, cwd=cwd, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def code_in(path: Path) -> set[str]:
    """Targets of the device code of a program, by the second reader."""
    return {name.rpartition("--")[2] for wrapper in fatbin_walk.walk(path) for name in wrapper.device}


def run_paths(path: Path) -> dict[str, list[str]]:
    found = sdk_trees.dynamic(path)
    return {name: found[name] for name in ("RPATH", "RUNPATH") if name in found}


@of_every_kind
def test_hipcc_of_the_environment_builds_for_two_targets(rocm, newcomer, place):
    write(newcomer, place, {"hello.hip": HELLO})
    rocm.run(
        "hipcc", *(f"--offload-arch={target}" for target in TARGETS), "hello.hip", "-o", "hello", cwd=place
    )
    assert code_in(place / "hello") == set(TARGETS)
    tree = rocm.run("rocm-sdk", "path", "--root").strip()
    # hipcc's way: the tree that it belongs to.
    assert run_paths(place / "hello") == {"RUNPATH": [f"{tree}/lib"]}
    assert_runs_on_the_package(call(rocm, place / "hello", cwd=place), rocm)


CMAKE_HOST = """\
cmake_minimum_required(VERSION 3.18)
project(hello LANGUAGES CXX)
find_package(hip REQUIRED)
find_package(rocsparse REQUIRED)
add_executable(hello hello.cpp)
target_link_libraries(hello PRIVATE hip::host roc::rocsparse)
"""
HOST = r"""
#include <hip/hip_runtime.h>
#include <rocsparse/rocsparse.h>
#include <cstdio>
int main() {
  int count = 0;
  std::printf("%s\n", hipGetErrorName(hipGetDeviceCount(&count)));
  rocsparse_handle handle;
  if (count) rocsparse_create_handle(&handle);
  std::FILE *maps = std::fopen("/proc/self/maps", "r");
  for (int c; (c = std::fgetc(maps)) != EOF;) std::putchar(c);
}
"""
CMAKE_DEVICE = """\
cmake_minimum_required(VERSION 3.18)
project(hello LANGUAGES CXX)
find_package(hip REQUIRED)
add_executable(hello hello.cpp)
target_link_libraries(hello PRIVATE hip::device)
"""
CMAKE_LANGUAGE = """\
cmake_minimum_required(VERSION 3.21)
project(hello LANGUAGES CXX HIP)
find_package(hip REQUIRED)
find_package(hiprand REQUIRED)
find_package(rocprim REQUIRED)
add_executable(hello hello.hip)
target_link_libraries(hello PRIVATE hip::hiprand)
"""


def cmake(rocm, place: Path, *options: str, **more: str) -> Path:
    call(rocm, "cmake", "-S", place, "-B", place / "b", "-G", "Ninja", *options, cwd=place, **more)
    call(rocm, "cmake", "--build", place / "b", cwd=place, **more)
    return place / "b/hello"


@needs_cmake
@of_every_kind
def test_cmake_finds_the_packages_with_the_printed_prefix(rocm, newcomer, place):
    """The system's own compiler; nothing of ROCm is on any path."""
    write(newcomer, place, {"CMakeLists.txt": CMAKE_HOST, "hello.cpp": HOST})
    prefix = rocm.run("rocm-sdk", "path", "--cmake").strip()
    program = cmake(rocm, place, f"-DCMAKE_PREFIX_PATH={prefix}")
    assert "librocsparse.so.0" in sdk_trees.dynamic(program)["NEEDED"]
    said = call(rocm, program, cwd=place)
    assert_runs_on_the_package(said, rocm)
    assert all(path.startswith(f"{rocm.site}/_rocm_sdk_libraries") for path in mapped(said, "librocsparse"))


@needs_cmake
def test_cmake_compiles_kernels_as_cxx(rocm, newcomer, place):
    write(newcomer, place, {"CMakeLists.txt": CMAKE_DEVICE, "hello.cpp": HELLO})
    prefix = rocm.run("rocm-sdk", "path", "--cmake").strip()
    compiler = rocm.run("rocm-sdk", "path", "--bin").strip() + "/amdclang++"
    options = [f"-DCMAKE_CXX_COMPILER={compiler}", f"-DGPU_TARGETS={';'.join(TARGETS)}"]
    program = cmake(rocm, place, f"-DCMAKE_PREFIX_PATH={prefix}", *options)
    assert code_in(program) == set(TARGETS)
    assert_runs_on_the_package(call(rocm, program, cwd=place), rocm)


@needs_cmake
@pytest.mark.parametrize("path", ["rocm-sdk-path", "activated"])
def test_cmake_knows_hip_as_a_language(rocm, newcomer, place, path):
    """It looks for hipconfig on PATH: in the tree, or the command of an activated environment.

    In the second case it cannot derive from PATH where the other packages are.
    """
    write(newcomer, place, {"CMakeLists.txt": CMAKE_LANGUAGE, "hello.hip": HELLO})
    more = {"PATH": f"{rocm.run('rocm-sdk', 'path', '--bin').strip()}:/usr/bin:/bin"}
    if path == "activated":
        more = {"PATH": f"{rocm.root}/bin:/usr/bin:/bin"}
        more["CMAKE_PREFIX_PATH"] = rocm.run("rocm-sdk", "path", "--cmake").strip()
    program = cmake(rocm, place, f"-DCMAKE_HIP_ARCHITECTURES={';'.join(TARGETS)}", **more)
    assert code_in(program) == set(TARGETS)
    assert_runs_on_the_package(call(rocm, program, cwd=place), rocm)


@needs_cmake
def test_the_printed_environment_is_enough(rocm, newcomer, place):
    write(newcomer, place, {"CMakeLists.txt": CMAKE_LANGUAGE, "hello.hip": HELLO})
    script = f"""
    set -e
    eval "$({rocm.root}/bin/rocm-sdk env --shell bash)"
    hipcc --offload-arch=gfx906 hello.hip -o direct
    cmake -S . -B b -G Ninja -DCMAKE_HIP_ARCHITECTURES=gfx906
    cmake --build b
    """
    call(rocm, "bash", "-c", script, cwd=place)
    for program in (place / "direct", place / "b/hello"):
        assert code_in(program) == {"gfx906"}
        assert_runs_on_the_package(call(rocm, program, cwd=place), rocm)


# -- Python extensions -------------------------------------------------------------------------------------

SETUP = """\
import subprocess, sys
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class HipExtensions(build_ext):
    def build_extensions(self):
        printed = subprocess.check_output([sys.executable, "-m", "rocm_sdk", "path", "--bin"], text=True)
        hipcc = printed.strip() + "/hipcc"
        self.compiler.src_extensions.append(".hip")
        self.compiler.set_executables(
            compiler_so=[hipcc, "-fPIC", "--offload-arch=gfx906", "--offload-arch=gfx90a"],
            linker_so=[hipcc, "-shared", "--hip-link", "--offload-arch=gfx906", "--offload-arch=gfx90a"],
            linker_so_cxx=[hipcc, "-shared", "--hip-link", "--offload-arch=gfx906", "--offload-arch=gfx90a"],
        )
        super().build_extensions()

setup(
    name="hello", version="1", packages=["hello"], ext_modules=[Extension("hello._native", ["native.hip"])],
    cmdclass={"build_ext": HipExtensions},
)
"""
PYPROJECT = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
SKBUILD = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "hello"
version = "1"
[tool.scikit-build]
wheel.packages = ["hello"]
"""
CMAKE_PYTHON = """\
cmake_minimum_required(VERSION 3.18)
project(hello LANGUAGES CXX)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(hip REQUIRED)
python_add_library(_native MODULE native.cpp WITH_SOABI)
target_link_libraries(_native PRIVATE hip::host)
install(TARGETS _native DESTINATION hello)
"""


@pytest.fixture(scope="module")
def builder(real_environment, newcomer):
    """The environment with ROCm for any GPU, and with build backends from the user's usual index."""
    rocm = real_environment("kpack")
    pip = newcomer.clone / ".venv/bin/python"
    tools = ["setuptools", "wheel", "scikit-build-core", "pip"]
    newcomer.run(pip, "-m", "pip", "--python", rocm.root / "bin/python", "install", "--quiet", *tools)
    yield rocm
    if "hello" in str(list(rocm.site.glob("hello*"))):
        rocm.uninstall("hello")


def build_wheel(rocm, place: Path) -> Path:
    call(
        rocm,
        rocm.root / "bin/python",
        "-m",
        "pip",
        "--isolated",
        "wheel",
        "--no-index",
        "--no-build-isolation",
        "--no-deps",
        ".",
        "-w",
        "dist",
        cwd=place,
    )
    (wheel,) = (place / "dist").iterdir()
    return wheel


def install_wheel(rocm, wheel: Path) -> Path:
    """Install what was built, as its user would; returns the extension."""
    call(
        rocm,
        rocm.root / "bin/python",
        "-m",
        "pip",
        "--isolated",
        "install",
        "--no-index",
        "--no-deps",
        "--force-reinstall",
        wheel,
        cwd=wheel.parent,
    )
    (extension,) = (rocm.site / "hello").glob("_native*.so")
    return extension


def test_a_setuptools_extension_with_kernels_builds_and_imports(builder, newcomer, place):
    files = {
        "setup.py": SETUP,
        "pyproject.toml": PYPROJECT,
        "native.hip": MODULE,
        "hello/__init__.py": PACKAGE,
    }
    wheel = build_wheel(builder, write(newcomer, place, files))
    extension = install_wheel(builder, wheel)
    assert code_in(extension) == set(TARGETS)
    assert_runs_on_the_package(builder.run("python", "-c", IMPORTED), builder)


@needs_cmake
def test_scikit_build_core_finds_hip_without_any_variable(builder, newcomer, place):
    """The entry point `cmake.prefix` of the development package says where it is."""
    files = {
        "CMakeLists.txt": CMAKE_PYTHON,
        "pyproject.toml": SKBUILD,
        "native.cpp": MODULE,
        "hello/__init__.py": PACKAGE,
    }
    extension = install_wheel(builder, build_wheel(builder, write(newcomer, place, files)))
    # CMake installs without search path, so the library is found because it is loaded already.
    assert run_paths(extension) == {}
    assert_runs_on_the_package(builder.run("python", "-c", IMPORTED), builder)


# -- nothing from elsewhere --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stand_ins(newcomer, real_environment):
    """Libraries of the same SONAMEs as those of the packages, less those that the system itself needs."""
    site = real_environment("kpack").site
    place = newcomer.home / "stand-ins"
    place.mkdir()
    system = {path.name for path in Path("/usr/lib/x86_64-linux-gnu").iterdir()}
    names = {
        path.name
        for package in ("core", "libraries")
        for path in (site / f"_rocm_sdk_{package}").rglob("*.so.*")
    }
    for name in sorted(names - system):
        sdk_trees.library(place / name, soname=name, symbol="stand_in")
    newcomer.own(place)
    assert {"libamdhip64.so.5", "libhsa-runtime64.so.1", "librocsparse.so.0"} <= {
        path.name for path in place.iterdir()
    }
    return place


LOAD_ALL = """
import json, sys, rocm_sdk
rocm_sdk.initialize_process(preload_shortnames=sys.argv[1:])
print(open('/proc/self/maps').read())
"""


@of_every_kind
def test_a_library_path_with_other_libraries_changes_nothing(rocm, stand_ins):
    facts = json.loads(rocm.run("rocm-sdk", "version", "--json"))
    said = rocm.run("python", "-c", LOAD_ALL, *facts["libraries"], LD_LIBRARY_PATH=str(stand_ins))
    assert str(stand_ins) not in said
    assert len(mapped(said, "librocsparse")) == len(mapped(said, "libamdhip64")) == 1


def test_the_compiler_and_a_program_take_no_other_libraries_either(rocm, newcomer, place, stand_ins):
    """With RPATH, that is: RUNPATH, which linkers write by default, comes after LD_LIBRARY_PATH."""
    write(newcomer, place, {"hello.hip": HELLO})
    words = ["--offload-arch=gfx906", "-Wl,--disable-new-dtags", "hello.hip", "-o", "hello"]
    rocm.run("hipcc", *words, cwd=place, LD_LIBRARY_PATH=str(stand_ins))
    said = call(rocm, place / "hello", cwd=place, LD_LIBRARY_PATH=str(stand_ins))
    assert "RPATH" in run_paths(place / "hello")
    assert str(stand_ins) not in said
    assert_runs_on_the_package(said, rocm)


def test_the_self_test_notices_the_other_libraries(rocm, stand_ins):
    failed = rocm.failed(LD_LIBRARY_PATH=str(stand_ins))
    assert list(failed) == ["search-path:LD_LIBRARY_PATH"]
    assert str(stand_ins) in failed["search-path:LD_LIBRARY_PATH"]
