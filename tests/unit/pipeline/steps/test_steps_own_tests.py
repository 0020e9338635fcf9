"""The level's tests as steps: what there is none of is said, and a level that is none is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rocwright.data.overlay import parse_overlay
from rocwright.engine.graph import Inputs
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.project import TORCH
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.records import LeftOut
from rocwright.pipeline.steps.own_tests import component_suites, units_step
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
    step = units_step(replace(options(tmp_path, "quick"), gpu_family="", overlay=overlay), ())
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
            replace(asked, tests="standard"),
            replace(asked, shard="1of2"),
            replace(asked, shard="1of2", durations=("41",)),
        )
    ]
    assert all(facts.count(one) == 1 for one in facts)
