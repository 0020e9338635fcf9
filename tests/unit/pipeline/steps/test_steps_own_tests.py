"""The level's tests as steps: what there is none of is said, and a level that is none is refused."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path

import msgspec
import pytest

from miniature_pytorch import HIP_GPUS, make_checkout, write_torch
from rocwright.data.overlay import parse_overlay
from rocwright.engine.graph import Inputs
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.project import TORCH
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.records import LeftOut
from rocwright.pipeline.steps.own_tests import component_suites, own_suites, units_step
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.sources import SourceTree
from rocwright.sources.lock import LockedSource
from rocwright.system.venv import Environment
from trees import script

UPLOADED = UploadedRun("7-linux/python/fam/", "", {"rocm-7.1.tar.gz": "ab" * 32})
LOCKED = LockedSource(TORCH, "file:///x", "refs/heads/main", "a" * 40, "flag", "pytorch", False)


def options(tmp_path: Path, tests: str, *, sources: str = "upstream") -> RunOptions:
    return RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=("gfx942",),
        torch_ref="main",
        gpu_family="gfx94X-dcgpu",
        tests=tests,
        sources="miniature" if sources == "miniature" else "upstream",
    )


def told(tmp_path: Path, tests: str) -> list[str]:
    """Of packages that hold no test; `rocm-sdk` is a stand-in that says where they are."""
    environment = Environment(tmp_path / "env")
    script(environment.bin / "rocm-sdk", f"#!/bin/sh\necho {tmp_path}/rocm/bin\n")
    suites, keys = component_suites(
        options(tmp_path, tests), environment, UPLOADED, ["gfx942"], tmp_path / "log"
    )
    assert keys == (), "what did not run has no report"
    assert not any(suite.good for suite in suites)
    return [suite.told for suite in suites]


def test_packages_without_tests_of_rocm_are_never_silently_green(tmp_path: Path) -> None:
    assert told(tmp_path, "full rocblas") == [
        "rocm-components: none to run: the packages hold no tests of rocBLAS"
    ]
    first, *others = told(tmp_path, "standard")
    assert first.startswith("rocm-components: none to run: the packages hold no tests of rocBLAS, rocRoller,")
    assert others == ["rocm-components: none to run: rocSHMEM needs several GPUs"]
    assert told(tmp_path, "full rocblass") == [
        "rocm-components: none to run: no part of ROCm is called rocblass"
    ]
    assert told(tmp_path, "quick") == []


def test_the_miniature_leaves_the_level_out(tmp_path: Path) -> None:
    step = units_step(options(tmp_path, "quick", sources="miniature"), ())
    with pytest.raises(LeftOut, match="none to run: the miniature family has no test files of PyTorch's own"):
        step.act(Inputs({}), lambda _: None)


def test_a_level_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no level of tests 'slow'"):
        units_step(options(tmp_path, "slow"), ())


def test_a_file_that_the_sources_lack_is_named_before_anything_is_installed(tmp_path: Path) -> None:
    (tmp_path / "src" / "test").mkdir(parents=True)
    (tmp_path / "src" / "test" / "test_views.py").write_text("")
    overlay = parse_overlay(
        '[[tests.level]]\nname = "quick"\nhost = ["test_view.py", "test_views.py"]\n', where="rocwright.toml"
    )
    step = units_step(msgspec.structs.replace(options(tmp_path, "quick"), gpu_family="", overlay=overlay), ())
    tree = SourceTree(str(tmp_path / "src"), LOCKED, 0, 0, 0)
    inputs = Inputs({"upload-pytorch": UPLOADED, "checkout-torch": tree})
    with pytest.raises(UsageError, match=r"has no test_view\.py") as caught:
        step.act(inputs, lambda _: None)
    assert caught.value.next_step == "near: test_views.py"
    assert not (tmp_path / "work").exists()


def test_another_level_shard_or_record_of_times_is_another_question(tmp_path: Path) -> None:
    asked = options(tmp_path, "quick")
    facts = [
        units_step(one, ()).facts()
        for one in (
            asked,
            msgspec.structs.replace(asked, tests="standard"),
            msgspec.structs.replace(asked, shard="1of2"),
            msgspec.structs.replace(asked, shard="1of2", durations=("41",)),
        )
    ]
    assert all(facts.count(one) == 1 for one in facts)


LEVEL = """
[tests.units]
match = "any"
[[tests.level]]
name = "quick"
files = ["test_a.py"]
configs = ["distributed"]
"""
WHERE = """
import os, time
import pytest

@pytest.mark.parametrize("n", range(6))
def test_where(n):
    time.sleep(0.3)
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(os.environ["HIP_VISIBLE_DEVICES"] + " ")
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunOptions, Environment, Inputs]:
    """Three GPUs that nobody has, two of the family; torch and its sources are stand-ins."""
    double = write_torch(tmp_path / "double", HIP_GPUS, ["gfx942", "gfx1100"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(double), sysconfig.get_path("purelib")]))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "AMDGPU_FAMILY"):
        monkeypatch.delenv(name, raising=False)
    checkout = make_checkout(tmp_path / "src", {"test_a.py": WHERE}, version="2.9.1")
    environment = Environment(tmp_path / "env")
    script(environment.bin / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    asked = msgspec.structs.replace(
        options(tmp_path, "quick"), overlay=parse_overlay(LEVEL, where="rocwright.toml")
    )
    tree = SourceTree(str(checkout), LOCKED, 0, 0, 0)
    uploaded = UploadedRun("", "", {"torch-2.9.1.whl": "cd" * 32})
    return asked, environment, Inputs({"upload-pytorch": uploaded, "checkout-torch": tree})


@pytest.mark.slow
def test_each_gpu_of_the_family_has_a_worker_and_the_target_a_report(
    tmp_path: Path, machine: tuple[RunOptions, Environment, Inputs]
) -> None:
    asked, environment, inputs = machine
    (suite,), (key,) = own_suites(asked, environment, inputs, tmp_path / "reports", lambda _: None)
    assert (suite.told, suite.good) == ("units on gfx942 6 passed, 0 failed", True)
    # By their numbers among three: the one between them is another family's.
    assert set((tmp_path / "seen").read_text().split()) == {"0", "2"}
    assert key.startswith("_pipeline/reports/demo/units-default-gfx942-1of1-")
    said = json.loads(asked.store.read(key))
    assert said["subject"] == [{"name": "torch-2.9.1.whl", "digest": {"sha256": "cd" * 32}}]
    assert (said["predicate"]["device"], said["predicate"]["passed"]) == ("gpu", 6)


@pytest.mark.slow
def test_a_configuration_without_a_script_of_its_own_is_an_error_and_no_pass(
    tmp_path: Path, machine: tuple[RunOptions, Environment, Inputs]
) -> None:
    asked, environment, inputs = machine
    asked = msgspec.structs.replace(asked, shard="distributed-1of3")
    with pytest.raises(UsageError, match=r"has no test/run_test\.py that can be read"):
        own_suites(
            msgspec.structs.replace(asked, shard="distributed-1of3"),
            environment,
            inputs,
            tmp_path / "reports",
            lambda _: None,
        )
