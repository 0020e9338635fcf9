"""Small projects built for real on a small torch: wheels, pins, resumption, identical bytes, no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import run_program
from index_server import IndexServer, serving
from rocwright.system import venv
from rocwright.system.interpreters import running_interpreter
from small_extension import ROCM, TORCH, sdist, sources, torch_wheel
from trees import write
from unit.builder.rocm.rocm_wheels import make_wheel

pytestmark = pytest.mark.slow

TAG = running_interpreter().tag
LOCAL = f"+torch2.9.0.rocm{ROCM}"
SCATTER = f"tiny_scatter-2.1.2{LOCAL}-{TAG}-{TAG}-linux_x86_64.whl"
SPARSE = f"tiny_sparse-0.6{LOCAL}-{TAG}-{TAG}-linux_x86_64.whl"
Build = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexServer]:
    """An index of sdists, and `places` with ROCm and torch."""
    make_wheel(tmp_path / "places", ROCM)
    torch_wheel(tmp_path / "places")
    (tmp_path / "index").mkdir()
    with serving(tmp_path / "index") as server:
        yield server


@pytest.fixture
def build(index: IndexServer, tmp_path: Path) -> Build:
    def run(*words: object, code: int = 0, targets: str = "gfx942") -> subprocess.CompletedProcess[str]:
        options = ["--find-links", "places", "--source-index", index.url(), "--pytorch-rocm-arch", targets]
        done = run_program("build", *options, *words, cwd=tmp_path, env=dict(os.environ), timeout=600)
        assert done.returncode == code, done.stderr
        return done

    return run


def member(wheel: Path, ending: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(ending)))


def test_a_list_of_projects_is_built_proven_and_not_built_again(
    build: Build, index: IndexServer, tmp_path: Path
) -> None:
    sdist(index.folder, "tiny-scatter", "2.1.2")
    sdist(
        index.folder, "tiny-sparse", "0.6", imports="import tiny_scatter", requires=("torch", "tiny-scatter")
    )
    (tmp_path / "list.txt").write_text("tiny-sparse==0.6\ntiny-scatter==2.1.2\n")
    (tmp_path / "rocwright.toml").write_text(
        '[[extensions.extension]]\nproject = "tiny-sparse"\nneeds = ["tiny-scatter"]\n'
    )
    words = ("--projects-file", "list.txt", "--output-dir", "out")
    done = build(*words, targets="gfx942,gfx90a")
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [SCATTER, SPARSE]
    assert f"imported in a fresh environment: {TAG}-tiny-scatter {TAG}-tiny-sparse" in done.stdout
    # For the torch that it was built against, whatever its project wrote.
    metadata = member(out / SPARSE, "METADATA").decode().splitlines()
    assert [line for line in metadata if line.startswith("Requires-Dist")] == [
        f"Requires-Dist: torch=={TORCH}",
        "Requires-Dist: tiny-scatter",
    ]
    assert b"gfx942;gfx90a\0" in member(out / SCATTER, ".so")
    log = (tmp_path / f"out-work/log/{TAG}-tiny-scatter.log").read_text()
    assert "FORCE_CUDA 1" in log

    again = build(*words, targets="gfx942,gfx90a")
    assert f"finished by an earlier run: {TAG}-tiny-scatter {TAG}-tiny-sparse" in again.stdout
    # The same bytes from nothing.
    build(
        *words[:2], "--output-dir", "other", "--work-dir", "out-work", "--no-resume", targets="gfx942,gfx90a"
    )
    for name in (SCATTER, SPARSE):
        assert (tmp_path / "other" / name).read_bytes() == (out / name).read_bytes()
    checked = run_program("check", *sorted(out.iterdir()), cwd=tmp_path, env=dict(os.environ))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.skipif(not shutil.which("ccache"), reason="needs ccache")
@pytest.mark.parametrize("compiler", ["", "g++ -pipe"])
def test_compilers_of_setuptools_are_recorded_and_their_results_kept(
    build: Build, index: IndexServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    sdist(index.folder, "tiny-scatter", "2.1.2")
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    if compiler:
        monkeypatch.setenv("CXX", compiler)
    reports = []
    for name in ("one", "two"):
        out = tmp_path / name
        build(
            "--project",
            "tiny-scatter==2.1.2",
            "--use-ccache",
            "--output-dir",
            out,
            "--work-dir",
            "work",
            "--no-resume",
        )
        reports.append(json.loads((tmp_path / "work/units/report.json").read_bytes())["kinds"])
        # Only what is kept stays of what was compiled.
        shutil.rmtree(next((tmp_path / "work/src").glob("tiny-scatter*/build")))
    assert [(kinds["host"]["hits"], kinds["host"]["misses"]) for kinds in reports] == [(0, 1), (1, 0)]
    assert [kinds["link"]["calls"] for kinds in reports] == [1, 1]
    assert (tmp_path / "one" / SCATTER).read_bytes() == (tmp_path / "two" / SCATTER).read_bytes()


def test_what_another_build_of_the_run_requires_is_there_with_what_it_requires(
    build: Build, index: IndexServer, tmp_path: Path
) -> None:
    sdist(index.folder, "tiny-ops", "1.0", imports="import six", requires=("six",))
    for path, text in sources("tiny-model", before="import six, tiny_ops\n").items():
        # Its package has another name, which no row tells.
        write(tmp_path / "model" / path.replace("tiny_model", "Model"), text.replace("tiny_model", "Model"))
    pyproject = '[build-system]\nrequires = ["setuptools", "torch", "tiny-ops"]\n'
    write(tmp_path / "model/pyproject.toml", pyproject)
    words = ("--project", "./model", "--project", "tiny-ops==1.0", "--output-dir", "out")
    done = build(*words)
    assert f"imported in a fresh environment: {TAG}-tiny-ops {TAG}-tiny-model" in done.stdout
    again = build(*words)
    assert f"finished by an earlier run: {TAG}-tiny-ops {TAG}-tiny-model" in again.stdout


def test_a_build_does_not_reach_the_network(build: Build, index: IndexServer, tmp_path: Path) -> None:
    url = index.url("flat.html")
    sdist(
        index.folder,
        "tiny-scatter",
        "2.1.2",
        before=f"import urllib.request\nif True:\n    urllib.request.urlopen({url!r})\n",
    )
    words = ("--project", "tiny-scatter==2.1.2", "--output-dir", "out")
    done = build(*words, code=1)
    assert "its build may download, and is kept from the network: setup.py, line 6: urlopen" in done.stderr
    assert (
        "the build of tiny-scatter wants something from the network, which builds do not reach" in done.stderr
    )
    assert not list(tmp_path.glob("out/*"))
    assert not [one for one in index.asked if one.path == "/flat.html"]

    build(*words, "--allow-downloads")
    assert [one.path for one in index.asked].count("/flat.html") >= 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == [SCATTER]


def test_nothing_begins_where_a_build_downloads_in_any_case(
    build: Build, index: IndexServer, tmp_path: Path
) -> None:
    before = "import subprocess\nsubprocess.run(['git', 'clone', 'https://example.org/x'], check=True)\n"
    sdist(index.folder, "tiny-scatter", "2.1.2", before=before)
    done = build("--project", "tiny-scatter==2.1.2", "--output-dir", "out", code=12)
    assert "tiny-scatter: its build downloads: setup.py, line 5: git clone" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_torch_that_is_installed_beside_rocm(build: Build, index: IndexServer, tmp_path: Path) -> None:
    sdist(index.folder, "tiny-scatter", "2.1.2")
    environment = tmp_path / "env"
    places = venv.Closed(find_links=(str(tmp_path / "places"),))
    venv.pip_install(venv.create(environment), ["torch"], closed=places)
    words = ["--project", "tiny-scatter==2.1.2", "--rocm-environment", "env", "--output-dir", "out"]
    done = run_program(
        "build", *words, "--source-index", index.url(), "--pytorch-rocm-arch", "gfx942",
        cwd=tmp_path, env=dict(os.environ), timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == [SCATTER]
    assert f"Requires-Dist: torch=={TORCH}" in member(tmp_path / "out" / SCATTER, "METADATA").decode()
    # What is installed there is looked at, and left as it is.
    assert (next(environment.glob("lib/*/site-packages")) / "torch" / "version.py").is_file()


CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(tiny CXX)
find_package(Torch REQUIRED)
string(REPLACE ";" "," ARCH "${CMAKE_HIP_ARCHITECTURES}")
add_library(_C MODULE kernel.cpp)
target_compile_definitions(_C PRIVATE "ARCH=\\"${ARCH}\\"")
install(TARGETS _C DESTINATION tiny)
"""
PYPROJECT = """
[build-system]
requires = ["scikit-build-core>=0.10", "torch"]
build-backend = "scikit_build_core.build"
[project]
name = "tiny"
version = "0.4"
[tool.scikit-build]
wheel.packages = ["tiny"]
"""
# As projects do that run CMake from their setup.py.
CMAKE_SETUP = """
import os, shlex, subprocess
from pathlib import Path
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class CMake(build_ext):
    def build_extension(self, ext):
        out = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        more = shlex.split(os.environ.get("CMAKE_ARGS", ""))
        temp = Path(self.build_temp) / "cmake"
        more += ["-S", ".", "-B", temp, f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={out}"]
        subprocess.check_call(["cmake", *more])
        subprocess.check_call(["cmake", "--build", temp])

setup(name="tiny", version="0.4", packages=["tiny"], ext_modules=[Extension("tiny._C", [])],
      cmdclass={"build_ext": CMake})
"""


@pytest.mark.parametrize("build_system", ["setup.py", "pyproject.toml"])
def test_projects_of_cmake_find_torch_and_the_targets(
    build: Build, tmp_path: Path, build_system: str
) -> None:
    write(tmp_path / "mine" / build_system, CMAKE_SETUP if build_system == "setup.py" else PYPROJECT)
    write(tmp_path / "mine/CMakeLists.txt", CMAKE)
    write(tmp_path / "mine/kernel.cpp", 'extern "C" const char *targets() { return ARCH; }\n')
    write(tmp_path / "mine/tiny/__init__.py", "import torch\n")
    build("--project", "./mine", "--output-dir", "out", targets="gfx942,gfx90a")
    (wheel,) = (tmp_path / "out").iterdir()
    assert wheel.name.startswith(f"tiny-0.4{LOCAL}-{TAG}-")
    assert b"gfx942,gfx90a\0" in member(wheel, "lib_C.so")
    assert f"Requires-Dist: torch=={TORCH}" in member(wheel, "METADATA").decode()
