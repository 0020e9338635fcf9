"""A framework built against installed ROCm packages: its compiler, its wheel, and how it finds ROCm again."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

from conformance.scenes.packages import VERSION, family_packages, members, metadata
from conformance.scenes.packages_installed import environment, offline
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World
from rocwright.builder.decide.project import render_rocm_init

# The document's list, in its order, and the file that each stands for in this ROCm.
PRELOADED = {
    "amd_comgr": "libamd_comgr.so.2",
    "amdhip64": "libamdhip64.so.5",
    "roctx64": "libroctx64.so.4",
    "hiprtc": "libhiprtc.so.5",
    "hipblas": "libhipblas.so.0",
    "hipfft": "libhipfft.so.0",
    "hiprand": "libhiprand.so.1",
    "hipsparse": "libhipsparse.so.0",
    "hipsparselt": "libhipsparselt.so.0",
    "hipsolver": "libhipsolver.so.0",
    "rccl": "librccl.so.1",
    "hipblaslt": "libhipblaslt.so.0",
    "miopen": "libMIOpen.so.1",
    "hipdnn": "libhipdnn_backend.so.0",
}
NAMES = "".join(f"    '{name}',\n" for name in PRELOADED)
ECHO = f"""echo "
def initialize():
  import rocm_sdk
  rocm_sdk.initialize_process(preload_shortnames=[
{NAMES}  ],
  check_version='$(rocm-sdk version)')
" > torch/_rocm_init.py"""

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(hello LANGUAGES CXX)
find_package(hip REQUIRED)
add_executable(hello hello.cpp)
target_link_libraries(hello PRIVATE hip::host)
"""
HELLO = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
#ifdef __HIPCC__
__global__ void scale(float *values, float by) { values[threadIdx.x] *= by; }
#endif
int main() {
  int count = 0;
  std::printf("%s\n", hipGetErrorName(hipGetDeviceCount(&count)));
#ifdef __HIPCC__
  scale<<<1, 64>>>(nullptr, 2.f);
#endif
}
"""
# What is loaded and how often it is asked for, as a process sees it.
LOADED = """
import json, {module}
lines = [line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if line.count("/")]
print(json.dumps(sorted(set(lines))))
"""
FOUND = "import json, rocm_sdk; print(json.dumps(rocm_sdk.find_libraries({names})))"
MISMATCH = """
import rocm_sdk, warnings
def call(**more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rocm_sdk.initialize_process(preload_shortnames=["hiprand"], **more)
        except RuntimeError as error:
            return "RuntimeError " + str(error)
    return " ".join(str(one.category.__name__) for one in caught) or "quiet"
print(call(check_version="5.2.*"))
print(call(check_version="9.9.*"))
print(call(check_version="9.9.*", fail_on_version_mismatch=True))
"""


IDIOM = re.compile(r"at the top of `__init__.py`\n\n```python\n(.*?)```", re.DOTALL)
PLAIN = """
import shutil, sys
import plain
print("nothing to load")
shutil.copy(sys.argv[1], "plain")
sys.modules.pop("plain")
import plain, rocm_sdk
print(sorted(name for name in vars(plain) if "rocm" in name), "libMIOpen" in open("/proc/self/maps").read())
"""


def framework(world: World) -> Transcript:
    """The block for frameworks, followed with the miniature torch and one project of CMake."""

    def play(shell: Shell) -> dict[str, object]:
        offline(shell)
        sources = _sources(world, shell)
        shell.variables["PIP_FIND_LINKS"] = str(family_packages(world).facts["dist"])
        site = environment(shell, "framework")
        shell("pip install rocm[libraries,devel]", "CL-62", more="--pre")
        _compile(shell)
        _wheel(shell, sources)
        shell("cd ~/framework && pip install ~/wheels/torch-*.whl", "CL-66")
        _script(shell, "loaded.py", LOADED.format(module="torch"), "CL-67", "FD-49", "NM-17")
        names = ", ".join(map(repr, PRELOADED))
        _script(shell, "found.py", FOUND.format(names=names), "NM-18", "NM-19")
        _idiom(shell, sources)
        _script(shell, "mismatch.py", MISMATCH, "NM-17")
        shell.variables |= {"ROCM_SDK_VERBOSE": "1", "ROCM_SDK_PRELOAD_LIBRARIES": "hiprand;rccl, hipfft"}
        _script(
            shell,
            "more.py",
            "import rocm_sdk; rocm_sdk.initialize_process(preload_shortnames=['miopen'])",
            "EV-15",
        )
        return {"site": str(site), "torch": str(sources)}

    return world.scene("framework", play)


def _sources(world: World, shell: Shell) -> Path:
    """The miniature torch, checked out and hipified by the documented script."""
    origins = shell.home / "origins"
    maker = world.clone() / "examples/mini-pytorch/make_origins.py"
    subprocess.run(["python3", str(maker), str(origins)], check=True, capture_output=True)
    python, script = world.venv() / "bin/python", "external-builds/pytorch/pytorch_torch_repo.py"
    shell(f"{python} {script} checkout --checkout-dir ~/pytorch --gitrepo-origin file://{origins}/pytorch")
    return shell.home / "pytorch"


def _compile(shell: Shell) -> None:
    project = shell.home / "framework"
    (project / "CMakeLists.txt").write_text(CMAKE)
    (project / "hello.cpp").write_text(HELLO)
    shell(
        "cmake -S . -B build -DCMAKE_PREFIX_PATH=$(rocm-sdk path --cmake) "
        "-DROCM_HOME=$(rocm-sdk path --root)",
        *("CL-63", "CL-64", "FL-21"),
        more="-G Ninja",
    )
    shell("cmake --build build && build/hello", "CL-63")
    shell('export PATH="$(rocm-sdk path --bin):$PATH"', "CL-65", "FL-21")
    shell("command -v hipcc", "CL-65")
    shell("hipcc --offload-arch=gfx906 -x hip hello.cpp -o kernel && ./kernel", "CL-65")


def _wheel(shell: Shell, sources: Path) -> None:
    shell("env -u PIP_NO_INDEX -u PIP_FIND_LINKS pip install setuptools wheel")
    shell(f"cd {sources}")
    shell(
        'export PYTORCH_EXTRA_INSTALL_REQUIREMENTS="rocm[libraries]=={$(rocm-sdk version)}"',
        *("CL-66", "EV-06"),
        run='export PYTORCH_EXTRA_INSTALL_REQUIREMENTS="rocm[libraries]==$(rocm-sdk version)"',
    )
    shell('echo "def initialize(): ..." > torch/_rocm_init.py', "CL-67", "FD-49", run=ECHO)
    settings = "USE_ROCM=1 ROCM_HOME=$(rocm-sdk path --root) PYTORCH_ROCM_ARCH=gfx906"
    build = f"{settings} pip wheel --no-build-isolation --no-deps ."
    shell(build, "CL-64", "CL-66", "CL-67", "FD-49", more="-w ~/wheels")
    several = f"rocm[libraries]=={VERSION}|filelock|sympy>=1.13"
    shell(build, "EV-06", more="-w ~/more", env={"PYTORCH_EXTRA_INSTALL_REQUIREMENTS": several})


def _script(shell: Shell, name: str, text: str, *ids: str) -> None:
    place = shell.home / "scripts"
    place.mkdir(exist_ok=True)
    (place / name).write_text(text)
    shell(f"python ~/scripts/{name}", *ids)


def _idiom(shell: Shell, sources: Path) -> None:
    """What the page says to put into an `__init__.py`, without and with the module beside it."""
    page = (shell.home / "rocwright/docs/packaging/python_packaging.md").read_text()
    place = shell.home / "scripts/plain"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(IDIOM.search(page)[1])
    (place.parent / "idiom.py").write_text(PLAIN)
    shell(f"cd ~/scripts && python -B idiom.py {sources}/torch/_rocm_init.py", "FD-49")
    shell("cd ~/framework")


def wheel(scene: Transcript, folder: str = "wheels") -> Path:
    """The miniature torch as it was built."""
    (found,) = (scene.home / folder).glob("torch-*.whl")
    return found


@row("CL-62")
def the_developer_s_packages_are_installed(world: World, row: Row) -> None:
    install = framework(world).of(row.id)
    said = install.out.splitlines()[-1]
    for name in ("rocm", "rocm-sdk-core", "rocm-sdk-devel", "rocm-sdk-libraries-gfx110x-all"):
        assert f" {name}-{VERSION}" in said


@row("CL-63", "CL-64", "FL-21")
def cmake_takes_prefix_and_root(world: World, row: Row) -> None:
    scene = framework(world)
    scene.of(row.id)
    cache = (scene.home / "framework/build/CMakeCache.txt").read_text()
    root = Path(str(scene.facts["site"])) / "_rocm_sdk_devel"
    assert f"hip_DIR:PATH={root}/lib/cmake/hip\n" in cache
    assert f"ROCM_HOME:UNINITIALIZED={root}\n" in cache
    built = scene.all_of("CL-63")[-1]
    # Without a GPU this is as far as a program gets.
    assert built.out.splitlines()[-1] == "hipErrorNoDevice"
    # The same root builds the framework: its device code is in the wheel.
    assert "torch/lib/libtorch_hip.so" in members(wheel(scene))


@row("CL-65")
def the_compiler_is_found_and_works(world: World, row: Row) -> None:
    scene = framework(world)
    _, where, ran = scene.all_of(row.id)
    assert where.out.strip() == f"{scene.facts['site']}/_rocm_sdk_devel/bin/hipcc"
    assert ran.out.splitlines()[-1] == "hipErrorNoDevice"
    assert b"hipv4-amdgcn-amd-amdhsa--gfx906" in (scene.home / "framework/kernel").read_bytes()


@row("CL-66", "EV-06")
def the_wheel_requires_the_rocm_that_it_was_built_against(world: World, row: Row) -> None:
    scene = framework(world)
    scene.of(row.id)
    required = metadata(wheel(scene), "Requires-Dist")
    assert [line.replace(" ", "") for line in required if "rocm" in line] == [f"rocm[libraries]=={VERSION}"]
    assert not [line for line in required if "{" in line]
    several = metadata(wheel(scene, "more"), "Requires-Dist")
    assert {line.replace(" ", "") for line in several} >= {
        f"rocm[libraries]=={VERSION}",
        "filelock",
        "sympy>=1.13",
    }


@row("CL-67", "FD-49")
def the_module_is_what_the_builder_writes_and_loads_everything(world: World, row: Row) -> None:
    scene = framework(world)
    (ran,) = [done for done in scene.all_of(row.id) if "loaded.py" in done.line]
    loaded = json.loads(ran.out)
    assert "torch/_rocm_init.py" in members(wheel(scene))
    typed = (Path(str(scene.facts["torch"])) / "torch/_rocm_init.py").read_text()
    assert function(typed) == function(render_rocm_init(list(PRELOADED), VERSION))
    names = {Path(path).name for path in loaded}
    assert set(PRELOADED.values()) <= names
    assert {Path(path).parts[-3] for path in loaded if Path(path).name in PRELOADED.values()} == {
        "_rocm_sdk_core",
        "_rocm_sdk_libraries_gfx110x_all",
    }

    if row.id == "FD-49":
        assert scene.of(row.id).out.splitlines() == ["nothing to load", "[] True"]


def function(text: str) -> str:
    """The one function of a module, however it is laid out."""
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return "\n".join(ast.dump(node) for node in found)


@row("NM-17")
def a_mismatch_is_a_warning_or_an_error(world: World, row: Row) -> None:
    scene = framework(world)
    fits, warned, refused = scene.of(row.id).out.splitlines()
    assert (fits, warned) == ("quiet", "UserWarning")
    assert refused.startswith("RuntimeError ")
    assert "9.9.*" in refused
    assert VERSION in refused


@row("NM-18", "NM-19")
def every_short_name_is_an_absolute_path(world: World, row: Row) -> None:
    scene = framework(world)
    paths = [Path(text) for text in json.loads(scene.of(row.id).out)]
    assert [path.name for path in paths] == list(PRELOADED.values())
    assert all(path.is_absolute() and path.is_file() for path in paths)


@row("EV-15")
def variables_add_libraries_and_talk(world: World, row: Row) -> None:
    said = framework(world).of(row.id).err.splitlines()
    loaded = [line.split()[2] for line in said if line.startswith("rocm_sdk: preloaded ")]
    assert loaded == ["miopen", "hiprand", "rccl", "hipfft"]
