"""The step that tests packages on emulated GPUs: a stand-in plays the emulator, a double ROCm's test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import emulator_stand_in
from needs import find_llvm_tool, need, needs
from rocwright.device_code.fatbin import NewEntry, raw_bundle
from rocwright.errors import MissingTool
from rocwright.model.sets import FileEntry, new_set
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.records import LeftOut
from rocwright.pipeline.steps.emulated import emulated_suites
from rocwright.pipeline.steps.gate import gpu_statements
from rocwright.pipeline.steps.own_tests import GpuTested, SuiteRun
from rocwright.system.venv import Environment

pytestmark = needs("gcc", "clang++-19", "ld.lld")

ROCM_SDK = """
import ctypes, json
ctypes.CDLL("libamdhip64.so.7").stand_in_launch(b"add", ctypes.byref(ctypes.c_int()))
print(json.dumps({"checks": [{"id": "device:0:memory", "verdict": "passed"}]}))
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A code object of one kernel for gfx942."""
    need("clang++-19", "ld.lld")
    place = tmp_path_factory.mktemp("code")
    (place / "one.cl").write_text("kernel void one(global int *at) { at[0] = 1; }\n")
    subprocess.run(
        ["clang++-19", "-x", "cl", "-cl-std=CL2.0", "-O2", "-nogpulib", "--target=amdgcn-amd-amdhsa",
         "-mcode-object-version=4", f"--ld-path={find_llvm_tool('ld.lld')}", "-mcpu=gfx942",
         "one.cl", "-o", "one"],
        cwd=place, check=True, capture_output=True,
    )  # fmt: skip
    return (place / "one").read_bytes()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: bytes) -> Environment:
    """An environment with a library for gfx942 and ROCm's test; the emulator is in ROCM_PATH."""
    root = tmp_path / "environment"
    packages = root / f"lib/python3.{sys.version_info[1]}/site-packages"
    (packages / "rocm_sdk").mkdir(parents=True)
    (packages / "rocm_sdk/__main__.py").write_text(ROCM_SDK)
    (packages / "rocm_sdk/__init__.py").write_text("")
    write(packages / "lib/one.hipfb", ("gfx942", code))
    (root / "bin").mkdir()
    (root / "bin/python").symlink_to(sys.executable)
    for name in ("ROCWRIGHT_EMULATOR", "LD_PRELOAD", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROCM_PATH", str(emulator_stand_in.build(tmp_path / "rocm")))
    monkeypatch.setenv("PYTHONPATH", str(packages))
    return Environment(root)


def write(path: Path, *codes: tuple[str, bytes]) -> None:
    entries = [NewEntry("host-x86_64-unknown-linux-gnu-", b"")]
    entries += [NewEntry(f"hipv4-amdgcn-amd-amdhsa--{target}", data) for target, data in codes]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw_bundle(entries))


def suites_of(environment: Environment, family: str, *targets: str) -> tuple[SuiteRun, ...]:
    work = environment.root.parent
    options = RunOptions(
        workspace=Workspace(work / "work"),
        cache=work / "cache",
        targets=targets,
        torch_ref="",
        gpu_family=family,
        sources="miniature",
    )
    return emulated_suites(options, environment, lambda _: None)


def test_kernels_and_rocms_own_test_are_suites_on_an_emulated_gpu(environment: Environment) -> None:
    found = suites_of(environment, "gfx94X-dcgpu", "gfx942", "gfx90a")
    assert [(one.told, one.good) for one in found] == [
        ("kernels on gfx942 (emulated) 1 passed, 0 failed", True),
        ("rocm-sdk on gfx942 (emulated) 1 passed, 0 failed", True),
    ]
    entry = FileEntry("torch-2.9-cp311-cp311-linux_x86_64.whl", "ab" * 32, 1, "torch", "2.9")
    manifest = new_set(family="f", targets=["gfx942"], platform="linux", files=[entry], sources={})
    said = gpu_statements(manifest, [GpuTested("gfx94X-dcgpu", {}, "", found, {})], [])
    assert [(one.predicate["suite"], one.predicate["device"]) for one in said] == [
        ("kernels", "emulated"),
        ("rocm-sdk", "emulated"),
    ]


def test_a_damaged_code_object_is_a_failure_by_its_name(environment: Environment, code: bytes) -> None:
    (library,) = environment.root.rglob("*.hipfb")
    write(library, ("gfx942", code.replace(b"\0one.kd\0", b"\0two.kd\0")))
    kernels, _ = suites_of(environment, "gfx94X-dcgpu", "gfx942")
    assert (kernels.good, kernels.verdicts.failed) == (False, 1)
    assert "kernel missing" in kernels.verdicts.failures[0]


def test_packages_without_code_for_the_target_have_failed(environment: Environment, code: bytes) -> None:
    (library,) = environment.root.rglob("*.hipfb")
    write(library, ("gfx90a", code))
    kernels, _ = suites_of(environment, "gfx94X-dcgpu", "gfx942")
    assert not kernels.good
    assert "no code for gfx942" in kernels.verdicts.failures[0]


def test_a_run_in_which_nothing_was_executed_is_no_pass(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_PATH", str(emulator_stand_in.build(tmp_path / "silent", fault="silent")))
    _, rocm = suites_of(environment, "gfx94X-dcgpu", "gfx942")
    assert (rocm.good, rocm.verdicts.passed, rocm.verdicts.failed) == (False, 1, 1)


def test_a_family_without_a_configuration_is_left_out_and_says_so(environment: Environment) -> None:
    with pytest.raises(LeftOut, match="none to run: rocjitsu has no configuration for gfx90a"):
        suites_of(environment, "gfx90a", "gfx90a", "gfx942")


def test_without_an_emulator_the_step_has_failed(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCWRIGHT_EMULATOR", str(tmp_path / "nowhere"))
    with pytest.raises(MissingTool, match="which does not exist"):
        suites_of(environment, "gfx94X-dcgpu", "gfx942")
