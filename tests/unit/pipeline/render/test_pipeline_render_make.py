"""Makefiles: run by the real make, with a stand-in for `rocwright pipeline step`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings

from rocwright.errors import UsageError
from rocwright.model.plan import Plan
from rocwright.pipeline.render.scripts import render_make
from unit.pipeline.render.rendered_plans import any_plan, cell, plan_of, waits_for, written

pytestmark = pytest.mark.slow

# Notes begin and end of each step; fails in the cell that a file `fail` names.
_STEP = """\
#!/usr/bin/env bash
echo "begin $1" >>log
[ "$1" != "$(cat fail 2>/dev/null)" ] || { echo "$1 failed" >&2; exit 9; }
sleep 0.02
echo "end $1" >>log
"""
DIAMOND = plan_of(
    cell("rocm-packages/linux/g"),
    cell("build-torch/linux/cp311/g", "rocm-packages/linux/g"),
    cell("build-torch/linux/cp312/g", "rocm-packages/linux/g"),
    cell("gate/linux/g", "build-torch/linux/cp311/g", "build-torch/linux/cp312/g", last=True),
    cell("summary", "gate/linux/g", last=True, platform=""),
)


@pytest.fixture
def folder(tmp_path) -> Path:
    return made(DIAMOND, tmp_path / "here")


def made(plan: Plan, root: Path) -> Path:
    written(render_make(plan), root)
    (root / "step").write_text(_STEP)
    (root / "step").chmod(0o755)
    return root


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "STEP")
    }
    argv = ["make", "STEP=./step", *words]
    return subprocess.run(argv, cwd=folder, env=clean, text=True, capture_output=True, timeout=60)


def ended(folder: Path) -> list[str]:
    """Cells that were done since this was asked last, in order; each began after what it needs had ended."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [line.partition(" ")[2] for line in lines if line.startswith("end")]


@given(any_plan())
def test_each_target_needs_what_its_cell_needs(plan: Plan) -> None:
    text = render_make(plan)[PurePosixPath("Makefile")]
    rules = dict(line.split(":", 1) for line in text.splitlines() if line.startswith("done/"))
    for target, needs in rules.items():
        assert {need.removeprefix("done/") for need in needs.split()} == waits_for(
            plan, target.removeprefix("done/")
        )
    needed = {need for one in plan.cells if not one.skip for need in waits_for(plan, one.id)}
    telling = {one.id for one in plan.cells if one.last and not one.skip and one.id not in needed}
    assert {target.removeprefix("done/") for target in rules} | telling == {
        one.id for one in plan.cells if not one.skip
    }


@settings(max_examples=8, deadline=None)
@given(any_plan())
def test_several_at_once_keep_the_order_of_the_plan(tmp_path_factory, plan: Plan) -> None:
    root = made(plan, tmp_path_factory.mktemp("make"))
    assert make(root, "-j4").returncode == 0
    lines = [line.split() for line in (root / "log").read_text().splitlines()]
    assert sorted(id_ for what, id_ in lines if what == "end") == sorted(
        one.id for one in plan.cells if not one.skip
    )
    over: set[str] = set()
    for what, id_ in lines:
        if what == "begin":
            assert waits_for(plan, id_) <= over, id_
        else:
            over.add(id_)


def test_what_is_done_is_not_done_again_but_told_again(folder):
    assert make(folder, "-j2").returncode == 0
    assert sorted(ended(folder)) == sorted(one.id for one in DIAMOND.cells)
    assert make(folder).returncode == 0
    assert ended(folder) == ["summary"]
    assert make(folder, "clean").returncode == 0
    assert make(folder, "build-torch/linux/cp312/g").returncode == 0
    assert ended(folder) == ["rocm-packages/linux/g", "build-torch/linux/cp312/g"]


def test_a_failure_stops_what_needs_it_and_nothing_else(folder):
    (folder / "fail").write_text("build-torch/linux/cp311/g")
    done = make(folder)
    assert done.returncode == 2
    assert "build-torch/linux/cp311/g failed" in done.stderr
    assert ended(folder) == ["rocm-packages/linux/g", "build-torch/linux/cp312/g", "summary"]
    (folder / "fail").unlink()
    assert make(folder, "-j2").returncode == 0
    assert ended(folder) == ["build-torch/linux/cp311/g", "gate/linux/g", "summary"]


def test_a_failing_summary_is_a_failure(folder):
    (folder / "fail").write_text("summary")
    assert make(folder).returncode == 2


def test_steps_find_plan_run_and_store(tmp_path):
    name = "it's $(touch injected) `touch injected` $HOME #1"
    root = made(plan_of(cell("a/linux/g"), run_id=name), tmp_path / "here")
    (root / "step").write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" "$ROCWRIGHT_PLAN" "$ROCWRIGHT_RUN_ID" "$ROCWRIGHT_STORE" >log\n'
    )
    assert make(root).returncode == 0
    assert (root / "log").read_text().splitlines() == [
        "a/linux/g",
        f"{root}/plan.json",
        name,
        f"{root}/store",
    ]
    assert not (root / "injected").exists()


def test_windows_is_refused():
    with pytest.raises(UsageError, match="steps of Windows"):
        render_make(plan_of(cell("lock-sources/windows/r", platform="windows")))
