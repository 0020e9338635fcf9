"""What a build sees, against the tables of the build description, written out by hand for Linux."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import msgspec
import pytest

from rocwright.build.decide.environment import common_environment, project_environment
from rocwright.build.decide.plan import BuildPlan, plan_build
from rocwright.build.decide.recipe import recipes
from rocwright.build.decide.rocm_init import preload_list, render_rocm_init
from rocwright.build.rocm.described import Rocm
from rocwright.build.rocm.install import rocm_requirement
from rocwright.errors import InvalidInput, UsageError

ROCM = Rocm(
    version="7.10.0",
    root="/sdk",
    bin="/sdk/bin",
    cmake="/sdk/lib/cmake",
    device_libraries="/sdk/lib/llvm/amdgcn/bitcode",
    host_math="/sdk/lib/host-math",
    libraries=("amdhip64", "amd_comgr", "hipblas", "rocm-openblas"),
)
GCC = "-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict"
COMMON = {
    "PYTHONUTF8": "1",
    "CMAKE_PREFIX_PATH": "/sdk/lib/cmake",
    "ROCM_HOME": "/sdk",
    "ROCM_PATH": "/sdk",
    "PYTORCH_ROCM_ARCH": "gfx90a;gfx942",
    "USE_KINETO": "ON",
    "PATH": "/sdk/bin:/usr/bin",
    "USE_GLOO": "ON",
    "HIP_DEVICE_LIB_PATH": "/sdk/lib/llvm/amdgcn/bitcode",
    "BLAS": "OpenBLAS",
    "OpenBLAS_HOME": "/sdk/lib/host-math",
    "OpenBLAS_LIB_NAME": "rocm-openblas",
    "CXXFLAGS": GCC,
    "CPPFLAGS": GCC,
}
PROJECTS = {
    "torch": {
        "USE_ROCM": "ON",
        "USE_CUDA": "OFF",
        "USE_MPI": "OFF",
        "USE_NUMA": "OFF",
        "PYTORCH_BUILD_VERSION": "2.9.0+rocm7.10.0",
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_EXTRA_INSTALL_REQUIREMENTS": "rocm[libraries]==7.10.0|triton==3.5.1+rocm7.10.0",
        "USE_FLASH_ATTENTION": "1",
        "USE_MEM_EFF_ATTENTION": "1",
    },
    "torchaudio": {
        "BUILD_VERSION": "2.9.0+rocm7.10.0",
        "BUILD_NUMBER": "1",
        "USE_ROCM": "1",
        "USE_CUDA": "0",
        "USE_FFMPEG": "1",
        "USE_OPENMP": "1",
        "BUILD_SOX": "0",
    },
    "torchvision": {
        "BUILD_VERSION": "2.9.0+rocm7.10.0",
        "VERSION_NAME": "2.9.0+rocm7.10.0",
        "BUILD_NUMBER": "1",
        "FORCE_CUDA": "1",
        "TORCHVISION_USE_NVJPEG": "0",
        "TORCHVISION_USE_VIDEO_CODEC": "0",
    },
    "apex": {"BUILD_VERSION": "2.9.0+rocm7.10.0", "BUILD_NUMBER": "1"},
    "triton": {"TRITON_WHEEL_VERSION_SUFFIX": "+rocm7.10.0"},
}


def plan(folder: Path, project: str = "torch", **changes: object) -> BuildPlan:
    (folder / "version.txt").write_text("2.9.0\n")
    options: dict[str, object] = {
        "table": recipes(),
        "rocm": ROCM,
        "targets": ("gfx90a", "gfx942"),
        "built": {"triton": "3.5.1+rocm7.10.0"},
        "caller": {"PATH": "/usr/bin"},
        "jobs": 3,
        **changes,
    }
    return plan_build(project, folder, **options)


@pytest.mark.parametrize(("project", "own"), PROJECTS.items(), ids=PROJECTS)
def test_the_environment_of_each_project(tmp_path: Path, project: str, own: dict[str, str]) -> None:
    env = plan(tmp_path, project).env
    expected = COMMON | own
    assert {name: env.get(name) for name in expected} == expected
    # Another project's variables are not there.
    foreign = {name for other in PROJECTS.values() for name in other} - set(expected)
    assert foreign & set(env) == set()


def test_what_the_caller_set_is_kept_and_added_to() -> None:
    caller = {
        "PATH": "/usr/bin",
        "USE_KINETO": "OFF",
        "CXXFLAGS": "-O1 -Werror",
        "CPPFLAGS": "-DX",
        "MAX_JOBS": "7",
        "HOME": "/home/x",
    }
    before = dict(caller)
    env = common_environment(ROCM, ["gfx90a"], caller=caller, jobs=2)
    assert env["USE_KINETO"] == "OFF"
    assert env["CXXFLAGS"] == f"-O1 -Werror {GCC}"
    assert env["CPPFLAGS"] == f"-DX {GCC}"
    assert env["MAX_JOBS"] == "7"
    assert caller == before
    assert common_environment(ROCM, ["gfx90a"], caller={}, jobs=2)["MAX_JOBS"] == "2"


def test_what_the_rocm_does_not_have_is_not_named() -> None:
    bare = msgspec.structs.replace(ROCM, device_libraries="", host_math="")
    env = common_environment(bare, ["gfx90a"], caller={}, jobs=1)
    for name in ("HIP_DEVICE_LIB_PATH", "BLAS", "OpenBLAS_HOME", "OpenBLAS_LIB_NAME"):
        assert name not in env


@pytest.mark.parametrize("targets", [(), []])
def test_no_target_is_a_usage_error_that_names_the_flag(targets: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="no GPU target") as caught:
        common_environment(ROCM, targets, caller={}, jobs=1)
    assert "--pytorch-rocm-arch" in str(caught.value)


@pytest.mark.parametrize(
    ("targets", "triton", "value"),
    [
        ("gfx90a", True, "1"),
        ("gfx942", True, "1"),
        ("gfx950", True, "1"),
        ("gfx1100", True, "1"),
        ("gfx1151", True, "1"),
        ("gfx1201", True, "1"),
        ("gfx906", True, "0"),
        ("gfx1030", True, "0"),
        ("gfx908", True, "0"),
        ("gfx906 gfx1030", True, "0"),
        ("gfx906 gfx90a", True, "1"),
        ("gfx942", False, "0"),
    ],
)
def test_flash_attention_needs_triton_and_one_target_that_has_it(
    tmp_path: Path, targets: str, triton: bool, value: str
) -> None:
    built = {"triton": "3.5.1"} if triton else {}
    env = plan(tmp_path, targets=targets.split(), built=built).env
    assert (env["USE_FLASH_ATTENTION"], env["USE_MEM_EFF_ATTENTION"]) == (value, value)


def test_torch_requires_its_rocm_without_braces_and_without_triton_when_none_was_built(
    tmp_path: Path,
) -> None:
    text = plan(tmp_path, built={}).env["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"]
    assert text == "rocm[libraries]==7.10.0"
    both = plan(tmp_path).env["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"]
    assert "{" not in both and "}" not in both


def test_only_torch_gets_requirements_and_the_init_module(tmp_path: Path) -> None:
    torch, vision = plan(tmp_path), plan(tmp_path, "torchvision")
    assert list(torch.generated) == ["torch/_rocm_init.py"]
    assert vision.generated == {}
    assert "PYTORCH_EXTRA_INSTALL_REQUIREMENTS" not in vision.env


def test_the_version_of_the_plan(tmp_path: Path) -> None:
    assert plan(tmp_path).version == "2.9.0+rocm7.10.0"
    dev = plan(tmp_path, release_type="dev", commit="1a2b3c4d5e6f", version_suffix="+rocm7.10.0")
    assert dev.version == dev.env["PYTORCH_BUILD_VERSION"] == "2.9.0+git1a2b3c4d.rocm7.10.0"


def test_the_date_of_the_build_is_the_commits(tmp_path: Path) -> None:
    assert plan(tmp_path, source_date=1_700_000_000).env["SOURCE_DATE_EPOCH"] == "1700000000"
    assert "SOURCE_DATE_EPOCH" not in plan(tmp_path).env


def test_a_source_tree_without_its_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"version\.txt is missing") as caught:
        plan_build(
            "torch",
            tmp_path,
            table=recipes(),
            rocm=ROCM,
            targets=["gfx90a"],
            built={},
            caller={},
            jobs=1,
        )
    assert caught.value.where == str(tmp_path / "version.txt")


def test_an_unknown_project_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'tourch'") as caught:
        recipes().get("tourch")
    assert caught.value.next_step == "known projects: triton, torch, torchaudio, torchvision, apex"


def test_a_plan_is_json_and_back(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert msgspec.json.decode(msgspec.json.encode(made), type=BuildPlan) == made


def test_recipes_without_a_number_or_version_variable_set_none() -> None:
    env = project_environment(
        recipes().get("triton"), recipes(), version="", number="1", targets=["gfx90a"], requirements=[]
    )
    assert "" not in env


@pytest.mark.parametrize(
    ("spec", "extras", "text"),
    [
        (">1.0", (), "rocm[libraries,devel]>1.0"),
        ("==7.10.0a20251124", (), "rocm[libraries,devel]==7.10.0a20251124"),
        ("", ("device-gfx942",), "rocm[libraries,devel,device-gfx942]"),
    ],
)
def test_the_requirement_on_rocm(spec: str, extras: tuple[str, ...], text: str) -> None:
    assert rocm_requirement(spec, extras) == text


@pytest.mark.parametrize("spec", ["7.10.0", "=7.10.0", "== {7.10.0}", "latest"])
def test_a_version_without_an_operator_is_a_usage_error(spec: str) -> None:
    with pytest.raises(UsageError, match="no version specifier"):
        rocm_requirement(spec)


# ---- the generated module ----


class Sdk(types.ModuleType):
    """Stands for the installed `rocm_sdk` and records how it is called."""

    def __init__(self) -> None:
        super().__init__("rocm_sdk")
        self.calls: list[dict[str, object]] = []

    def initialize_process(self, **arguments: object) -> None:
        self.calls.append(arguments)


def test_the_generated_module_loads_rocm_only_when_called(monkeypatch: pytest.MonkeyPatch) -> None:
    text = render_rocm_init(["amd_comgr", "rocm-openblas"], "7.10.*")
    names: dict[str, object] = {}
    monkeypatch.setitem(sys.modules, "rocm_sdk", None)
    exec(compile(text, "torch/_rocm_init.py", "exec"), names)
    # Exactly one name is defined, and importing the module needed no ROCm.
    assert [name for name in names if not name.startswith("__")] == ["initialize"]
    with pytest.raises(ImportError):
        names["initialize"]()
    sdk = Sdk()
    monkeypatch.setitem(sys.modules, "rocm_sdk", sdk)
    names["initialize"]()
    assert sdk.calls == [{"preload_shortnames": ["amd_comgr", "rocm-openblas"], "check_version": "7.10.*"}]


@pytest.mark.parametrize("names", [[], ["it's"], ['"x"\n']])
def test_any_name_and_none_at_all_give_a_module_that_compiles(
    monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    space: dict[str, object] = {}
    exec(compile(render_rocm_init(names, "7'"), "x", "exec"), space)
    sdk = Sdk()
    monkeypatch.setitem(sys.modules, "rocm_sdk", sdk)
    space["initialize"]()
    assert sdk.calls == [{"preload_shortnames": names, "check_version": "7'"}]


def test_only_libraries_of_the_installed_rocm_are_loaded_in_the_tables_order(tmp_path: Path) -> None:
    assert preload_list(["c", "a", "b"], iter(["a", "c", "z"])) == ("c", "a")
    text = plan(tmp_path).generated["torch/_rocm_init.py"]
    loaded = [line.strip(" ',") for line in text.splitlines() if line.startswith(" " * 12)]
    assert loaded == ["amd_comgr", "amdhip64", "hipblas", "rocm-openblas"]
    # A release accepts every patch level of its ROCm, a nightly only its own.
    assert "check_version='7.10.*'" in text
    nightly = plan(tmp_path, release_type="nightly").generated["torch/_rocm_init.py"]
    assert "check_version='7.10.0'" in nightly
