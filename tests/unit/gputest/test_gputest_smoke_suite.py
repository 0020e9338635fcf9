"""The runs of the smoke tests: what each sees, what it is called, how it ends; torch is a test double."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from miniature_pytorch import HIP_GPUS, write_torch
from rocwright.data import load_table
from rocwright.errors import InvalidInput
from rocwright.gputest.devices import DeviceGroup
from rocwright.gputest.isolate.run import Teller, run_recorded
from rocwright.gputest.smoke import SmokeSetting, chosen, plan_smoke, smoke_tests
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import CaseResult, Device, Ran, RunRecord, TorchFacts

TABLE = load_table("tests", SuiteTable)
MI300X = Device(0, "2", "gfx942", "MI300X")
OTHER = Device(1, "5", "gfx942", "MI300X")
RADEON = Device(2, "GPU-0123456789abcdef", "gfx1100", "Radeon")
FACTS = TorchFacts(
    version="2.9.1+rocm7.1.0",
    hip="7.1.0",
    python="3.12.3",
    architectures=("gfx942", "gfx1100"),
    devices=(MI300X, OTHER, RADEON),
)


def setting(folder: Path, *pytest_args: str, **inherited: str) -> SmokeSetting:
    return SmokeSetting(
        python=Path(sys.executable),
        facts=FACTS,
        platform="linux",
        test_s=60,
        reports=folder / "reports",
        miopen_cache=folder / "miopen",
        inherited=inherited,
        today=date(2026, 8, 1),
        pytest_args=pytest_args,
    )


def test_the_host_sees_no_gpu_and_each_gpu_has_a_run(tmp_path: Path) -> None:
    groups = [DeviceGroup("gfx942", (MI300X,)), DeviceGroup("gfx1100", (RADEON,))]
    asked = setting(tmp_path, "-x", CUDA_VISIBLE_DEVICES="3", GPU_DEVICE_ORDINAL="0")
    host, first, second = plan_smoke(smoke_tests(), asked, groups, TABLE, {})
    assert [run.ran.key for run in (host, first, second)] == [
        "smoke-host-default-cpu-1of1",
        "smoke-gpu-default-gfx942-1of1",
        "smoke-gpu-default-gfx1100-1of1",
    ]
    assert host.isolation.workers == ({"HIP_VISIBLE_DEVICES": ""},)
    assert first.isolation.workers == ({"HIP_VISIBLE_DEVICES": "2"},)
    assert second.isolation.workers == ({"HIP_VISIBLE_DEVICES": "GPU-0123456789abcdef"},)
    assert [run.isolation.env["SMOKE_TARGET"] for run in (host, first, second)] == ["", "gfx942", "gfx1100"]
    assert all(
        run.isolation.drop_env == ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL") for run in (host, first)
    )
    assert first.isolation.pytest_args[-1] == "-x"
    assert first.ran.rocm == "7.1.0"
    assert set(host.isolation.files).isdisjoint(first.isolation.files)
    assert {*host.isolation.files, *first.isolation.files} == {
        p.name for p in smoke_tests().glob("test_*.py")
    }


def test_runs_on_several_gpus_of_a_target_have_names_of_their_own(tmp_path: Path) -> None:
    groups = [DeviceGroup("gfx942", (MI300X,)), DeviceGroup("gfx942", (OTHER,))]
    runs = plan_smoke(smoke_tests(), setting(tmp_path), groups, TABLE, {})
    assert [run.ran.key for run in runs[1:]] == ["smoke-gpu-gpu0-gfx942-1of1", "smoke-gpu-gpu1-gfx942-1of1"]
    assert len({run.directory for run in runs}) == 3


def test_tests_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"has no test_host_\*.py"):
        plan_smoke(tmp_path, setting(tmp_path), [], TABLE, {})


@pytest.mark.slow
def test_what_the_processes_get(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_host_x.py").write_text(
        "import os\ndef test_it(): assert os.environ['HIP_VISIBLE_DEVICES'] == ''\n"
    )
    (tests / "test_gpu_x.py").write_text(
        "import os\n"
        "def test_it():\n"
        "    assert os.environ['HIP_VISIBLE_DEVICES'] == '2'\n"
        "    assert os.environ['SMOKE_TARGET'] == 'gfx942'\n"
        "    assert 'GPU_DEVICE_ORDINAL' not in os.environ\n"
        "def test_that_ends_its_process(): os.abort()\n"
        "def test_behind_it(): pass\n"
    )
    runs = plan_smoke(tests, setting(tmp_path), [DeviceGroup("gfx942", (MI300X,))], TABLE, {})
    quiet = Teller(lambda _: None)
    host, gpu = (run_recorded(run.ran, run.isolation, run.directory, quiet) for run in runs)
    assert [(one.id, one.verdict) for one in host.results] == [("test_host_x.py::test_it", "passed")]
    assert [(one.id, one.verdict) for one in gpu.results] == [
        ("test_gpu_x.py::test_it", "passed"),
        ("test_gpu_x.py::test_that_ends_its_process", "crashed"),
        ("test_gpu_x.py::test_behind_it", "passed"),
    ]
    assert not (tests / ".pytest_cache").exists()


def record(suite: str, *, results: int, deselected: int) -> RunRecord:
    cases = tuple(CaseResult(f"test_x.py::test_{number}", "passed") for number in range(results))
    return RunRecord(ran=Ran(suite=suite), results=cases, deselected=deselected)


def test_a_selection_that_is_about_gpus_alone_leaves_no_empty_run_of_the_host() -> None:
    host, gpu = record("smoke-host", results=0, deselected=29), record("smoke-gpu", results=2, deselected=90)
    assert chosen([host, gpu]) == (gpu,)
    nothing = record("smoke-gpu", results=0, deselected=92)
    assert chosen([host, nothing]) == (host, nothing)
    # Nothing was there to be left out: that is no selection.
    empty = record("smoke-gpu", results=0, deselected=0)
    assert chosen([record("smoke-host", results=3, deselected=0), empty])[-1] == empty


# ---- at the door ----


class Door:
    """`rocwright test smoke` in an environment whose torch is the double."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        return run(self.capsys, "test", "smoke", *words)

    def plan(self, *words: str) -> list[dict[str, Any]]:
        status, out, err = self("--dry-run", "--json", *words)
        assert status == 0, err
        return json.loads(out)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Door:
    folder = write_torch(tmp_path / "double", HIP_GPUS, ["gfx942", "gfx1100"])
    monkeypatch.setenv("PYTHONPATH", str(folder))
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "AMDGPU_FAMILY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Door(capsys)


def seen_by(plan: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(run["run"], run["environment"]["HIP_VISIBLE_DEVICES"]) for run in plan]


def test_one_run_for_each_architecture(door: Door, tmp_path: Path) -> None:
    assert seen_by(door.plan("--", "-v")) == [
        ("smoke-host-default-cpu-1of1", ""),
        ("smoke-gpu-default-gfx942-1of1", "0"),
        ("smoke-gpu-default-gfx1100-1of1", "1"),
    ]
    assert seen_by(door.plan("--device-query", "unique")) == seen_by(door.plan())
    assert not (tmp_path / "test-reports").exists()


def test_a_dry_run_for_people_has_a_value_a_line(door: Door) -> None:
    status, out, err = door("--dry-run", "--", "-v", "-k", "a and b")
    assert status == 0, err
    lines = out.splitlines()
    words, environment = lines.index("pytest arguments:"), lines.index("environment:")
    assert lines[0] == "run: smoke-host-default-cpu-1of1"
    assert lines[words + 1 : environment][-3:] == ["  -v", "  -k", "  a and b"]
    assert lines[environment + 1 :].index("  HIP_VISIBLE_DEVICES=") > 0


def test_the_family_may_stand_in_the_environment(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMDGPU_FAMILY", "gfx110X-all")
    assert [name for name, _ in seen_by(door.plan())][1:] == ["smoke-gpu-default-gfx1100-1of1"]


def test_visible_gpus_are_mapped_back(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,1")
    assert [entry for _, entry in seen_by(door.plan())] == ["", "2", "1"]
    assert [entry for _, entry in seen_by(door.plan("--device-query", "all", "--gpu-policy", "all"))] == [
        "",
        "2",
        "1",
    ]


def test_all_gpus_of_a_target_at_once_or_one_after_the_other(door: Door) -> None:
    asked = ("--amdgpu-family", "gfx942", "--device-query", "all")
    assert [entry for _, entry in seen_by(door.plan(*asked, "--gpu-policy", "all"))] == ["", "0,2"]
    assert [entry for _, entry in seen_by(door.plan(*asked))] == ["", "0", "2"]


def test_the_host_alone(door: Door) -> None:
    assert seen_by(door.plan("--cpu")) == [("smoke-host-default-cpu-1of1", "")]


def test_no_gpu_is_exit_1_and_lists_what_is_there(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, err = door("--amdgpu-family", "gfx1151")
    assert (status, out) == (1, "")
    assert "NoGpu" in err
    assert "0: gfx942 (AMD Instinct MI300X), 1: gfx1100" in err
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "")
    status, _, err = door()
    assert status == 1
    assert "HIP_VISIBLE_DEVICES is set and empty" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--amdgpu-family", "gfx94Y"), "'gfx94Y' is not a GPU family or target"),
        (("--", "-n", "4"), "-n cannot be passed to pytest here"),
        (("--", "--junit-xml=x.xml"), "--junit-xml=x.xml cannot be passed"),
        (("--test-timeout", "0"), "--test-timeout 0 is not more than 0"),
    ],
)
def test_mistakes_are_said_before_torch_is_asked(
    door: Door, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    status, _, err = door(*words)
    assert status == 2
    assert message in err


def test_an_environment_without_torch(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "torch.py").write_text("raise ModuleNotFoundError('No torch', name='torch')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "none"))
    status, _, err = door()
    assert status == 4
    assert "has no torch" in err
