"""Scripts for Slurm: what they ask for, whom they wait for, and how they are submitted."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path, PurePosixPath

import msgspec
import pytest
from hypothesis import given

from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData, UsageError
from rocwright.model.plan import Plan
from rocwright.model.workflows import SlurmTable
from rocwright.pipeline.render.scripts import render_slurm
from unit.pipeline.render.rendered_plans import any_plan, cell, plan_of, waits_for, written

_SBATCH = """\
echo "sbatch $*" >>"$STAND_IN/calls"
number=$((100 + $(grep -c ^sbatch "$STAND_IN/calls")))
if [ "$number" = "$(cat "$STAND_IN/refuse" 2>/dev/null)" ]; then
  echo "sbatch: error: no such partition" >&2
  exit 1
fi
[ "$number" != "$(cat "$STAND_IN/stall" 2>/dev/null)" ] || { touch "$STAND_IN/stalled"; exec sleep 60; }
echo "$number;cluster"
"""
_SQUEUE = """\
[ ! -e "$STAND_IN/down" ] || { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
cat "$STAND_IN/queue" 2>/dev/null || true
"""
_SCANCEL = """\
echo "scancel $*" >>"$STAND_IN/calls"
"""


class StandIn:
    """A stand-in for the commands of Slurm, in a directory, and the environment that finds them first.

    It runs nothing. `calls` has a line for each call, `queue` the jobs that `squeue` shows. `sbatch` counts
    its jobs from 101; it refuses the job whose number is in a file `refuse`, and hangs at that in a file
    `stall`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir(parents=True)
        for name, text in (("sbatch", _SBATCH), ("squeue", _SQUEUE), ("scancel", _SCANCEL)):
            (root / "bin" / name).write_text("#!/usr/bin/env bash\n" + text)
            (root / "bin" / name).chmod(0o755)
        self.env = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}", "STAND_IN": str(root)}

    def calls(self) -> list[str]:
        """Since the last time that this was asked."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def say(self, name: str, text: str = "") -> None:
        (self.root / name).write_text(text)


BUILT_IN = load_table("slurm", SlurmTable)
CHAIN = plan_of(
    cell("rocm-packages/linux/g"),
    cell("build-torch/linux/g", "rocm-packages/linux/g"),
    cell("test-pytorch/linux/g", "build-torch/linux/g", runner="mi300"),
    cell("gate/linux/g", "build-torch/linux/g", "test-pytorch/linux/g", last=True),
)


def table(text: str) -> SlurmTable:
    return load_table("slurm", SlurmTable, parse_overlay(text, where="rocwright.toml"))


def submitted(files) -> dict[str, tuple[str, set[str]]]:
    """Of each cell: how it waits, and for whom."""
    text = files[PurePosixPath("submit.sh")]
    lines = [shlex.split(line) for line in re.findall(r"^submit (.*)$", text, re.MULTILINE)]
    found = {id_: (how, set(needs)) for how, id_, *needs in lines}
    assert len(found) == len(lines), "each once"
    return found


def options(files, id_: str) -> list[str]:
    text = files[PurePosixPath(f"cells/{id_}.sh")]
    return re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)


@given(any_plan())
def test_each_cell_waits_for_what_it_needs_and_comes_after_it(plan: Plan) -> None:
    files = render_slurm(plan, BUILT_IN)
    found = submitted(files)
    assert set(found) == {one.id for one in plan.cells if not one.skip}
    before: set[str] = set()
    for id_, (how, needs) in found.items():
        assert needs == waits_for(plan, id_)
        assert needs <= before, "sbatch knows no job that comes later"
        assert how == ("afterany" if plan.cell(id_).last else "afterok")
        before.add(id_)
    scripts = {path.as_posix() for path in files} - {"plan.json", "submit.sh"}
    assert scripts == {f"cells/{id_}.sh" for id_ in found}


def test_the_plan_goes_with_the_scripts_as_it_is():
    assert msgspec.json.decode(render_slurm(CHAIN, BUILT_IN)[PurePosixPath("plan.json")], type=Plan) == CHAIN


def test_a_gpu_is_asked_for_only_by_what_needs_one():
    files = render_slurm(CHAIN, BUILT_IN)
    assert "--gres=gpu:1" in options(files, "test-pytorch/linux/g")
    assert not [option for option in options(files, "build-torch/linux/g") if "gpu" in option]


def test_limits_are_those_of_the_table_and_a_file_of_ones_own_goes_over_them():
    assert options(render_slurm(CHAIN, BUILT_IN), "build-torch/linux/g")[-3:] == [
        "--cpus-per-task=64",
        "--mem=160G",
        "--time=720",
    ]
    own = table(
        '[slurm]\nsetup = ["module load python"]\n'
        '[[slurm.request]]\nids = ["*"]\npartition = "compute"\naccount = "p123"\n'
        '[[slurm.request]]\nids = ["test-*/linux/g"]\npartition = "mi300"\ngpus = "gpu:mi300x:2"\n'
        'constraint = "xgmi&amd"\noptions = ["--exclusive"]\n'
        '[[slurm.request]]\nids = ["build-torch/*"]\nminutes = 90\n'
    )
    files = render_slurm(CHAIN, own)
    build, test = (options(files, f"{kind}/linux/g") for kind in ("build-torch", "test-pytorch"))
    assert build[-5:] == [
        "--cpus-per-task=64",
        "--mem=160G",
        "--time=90",
        "--partition=compute",
        "--account=p123",
    ]
    assert test[-5:] == [
        "--gres=gpu:mi300x:2",
        "--partition=mi300",
        "--account=p123",
        "--constraint=xgmi&amd",
        "--exclusive",
    ]
    assert "\nmodule load python\nexport" in files[PurePosixPath("cells/gate/linux/g.sh")]


def test_a_script_for_each_job_asks_for_the_sum_of_its_cells():
    plan = plan_of(
        cell("rocm-artifacts/linux/g", job="packages"),
        cell("build-torch/linux/g", "rocm-artifacts/linux/g", job="build"),
        cell("build-apex/linux/g", "build-torch/linux/g", job="build"),
    )
    files = render_slurm(plan, table('[slurm]\neach = "job"\n'))
    # A place on no axis but the platform: the job is called by it.
    assert submitted(files) == {
        "packages/linux": ("afterok", set()),
        "build/linux": ("afterok", {"packages/linux"}),
    }
    # 720 and 240 minutes, one after the other on one machine.
    assert options(files, "build/linux")[-3:] == ["--cpus-per-task=64", "--mem=160G", "--time=960"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[slurm.request]]\nids = ["*"]\ncpu = 3\n', ["`cpu`", "request[0]", "perhaps cpus"]),
        ('[[slurm.request]]\nids = ["*"]\npartition = "a b"\n', ["request[0]", "'a b'"]),
        ('[[slurm.request]]\nids = ["*"]\noptions = ["--x=1\\nrm -rf /"]\n', ["request[0]", "not an option"]),
        ("[[slurm.request]]\nids = []\n", ["request[0]", "no ids"]),
        ('[[slurm.request]]\nids = ["*"]\nminutes = -1\n', ["minutes = -1"]),
        ('[slurm]\neach = "node"\n', ["each", "'node'"]),
        ('[slurm]\nwork = "a\\"b"\n', ["work", "without quotes"]),
    ],
)
def test_a_wrong_table_names_file_and_row(text, says):
    with pytest.raises(InvalidData) as caught:
        table(text)
    for part in ("rocwright.toml", *says):
        assert part in str(caught.value)


def test_windows_and_empty_runs_are_refused():
    with pytest.raises(UsageError, match="steps of Windows"):
        render_slurm(plan_of(cell("lock-sources/windows/r", platform="windows")), BUILT_IN)
    with pytest.raises(UsageError, match="nothing to do"):
        render_slurm(plan_of(cell("test-rocm/linux/g", skip="no runner")), BUILT_IN)


def test_a_script_sets_its_environment_and_runs_one_step(tmp_path):
    """No value reaches the shell as code, whatever the run is called."""
    name = "it's $(touch injected) `touch injected`"
    own = table('[slurm]\nwork = "$HOME/w"\n')
    root = written(render_slurm(plan_of(*CHAIN.cells, run_id=name), own), tmp_path / "a folder")
    shown = tmp_path / "bin/rocwright"
    shown.parent.mkdir()
    shown.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" "$ROCWRIGHT_PLAN" "$ROCWRIGHT_RUN_ID" "$ROCWRIGHT_STORE"\n'
    )
    shown.chmod(0o755)
    env = {"PATH": f"{shown.parent}:{os.environ['PATH']}", "HOME": "/home/me", "SLURM_CPUS_ON_NODE": "3"}

    def run(**more: str) -> list[str]:
        argv = ["bash", str(root / "cells/gate/linux/g.sh")]
        done = subprocess.run(argv, cwd=root, env=env | more, text=True, capture_output=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    step = ["pipeline", "step", "gate/linux/g", "--work-dir", "/home/me/w", "--jobs", "3"]
    assert run() == [*step, f"{root}/plan.json", name, f"{root}/store"]
    assert run(ROCWRIGHT_STORE="s3://bucket/runs")[-1] == "s3://bucket/runs"
    assert not (root / "injected").exists()


@pytest.fixture
def slurm(tmp_path) -> StandIn:
    return StandIn(tmp_path / "stand-in")


@pytest.fixture
def folder(tmp_path) -> Path:
    return written(render_slurm(CHAIN, BUILT_IN), tmp_path / "run of mine")


def submit(folder: Path, slurm: StandIn, *ids: str, cwd: Path | None = None):
    argv = ["bash", str(folder / "submit.sh"), *ids]
    return subprocess.run(argv, cwd=cwd or folder, env=slurm.env, text=True, capture_output=True, timeout=60)


ALL_FOUR = [
    "sbatch --parsable cells/rocm-packages/linux/g.sh",
    "sbatch --parsable --dependency=afterok:101 cells/build-torch/linux/g.sh",
    "sbatch --parsable --dependency=afterok:102 cells/test-pytorch/linux/g.sh",
    "sbatch --parsable --dependency=afterany:102:103 cells/gate/linux/g.sh",
]


def test_all_are_submitted_in_order_from_anywhere(folder, slurm, tmp_path):
    done = submit(folder, slurm, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert slurm.calls() == ALL_FOUR
    assert (folder / "submitted").read_text().splitlines() == [
        "101\trocm-packages/linux/g",
        "102\tbuild-torch/linux/g",
        "103\ttest-pytorch/linux/g",
        "104\tgate/linux/g",
    ]
    # sbatch makes no directories, and a job without a log fails without a word.
    assert (folder / "logs/build-torch/linux").is_dir()


def test_a_run_that_is_queued_is_not_submitted_again(folder, slurm):
    submit(folder, slurm)
    slurm.calls()
    slurm.say("queue", "7\n1031\n103\n104\n")
    done = submit(folder, slurm)
    assert done.returncode == 0
    assert "2 jobs of run r1 are queued or running" in done.stderr
    assert slurm.calls() == []
    slurm.say("queue", "7\n1031\n")
    assert submit(folder, slurm).returncode == 0
    assert slurm.calls() == ALL_FOUR


def test_without_an_answer_nothing_is_submitted_twice(folder, slurm):
    submit(folder, slurm)
    slurm.calls()
    slurm.say("down")
    done = submit(folder, slurm)
    assert done.returncode == 1
    assert "nothing was submitted" in done.stderr
    assert slurm.calls() == []


def test_a_refused_job_takes_the_others_back(folder, slurm):
    slurm.say("refuse", "103")
    done = submit(folder, slurm)
    assert done.returncode == 1
    assert "no such partition" in done.stderr
    assert "cells/test-pytorch/linux/g.sh" in done.stderr
    assert slurm.calls() == [*ALL_FOUR[:3], "scancel --quiet 101 102"]
    assert not (folder / "submitted").exists()
    (slurm.root / "refuse").unlink()
    assert submit(folder, slurm).returncode == 0
    assert slurm.calls() == ALL_FOUR


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_submission_left_is_cancelled(folder, slurm, how):
    slurm.say("stall", "103")
    argv = ["bash", str(folder / "submit.sh")]
    with subprocess.Popen(argv, env=slurm.env, start_new_session=True) as child:
        while not (slurm.root / "stalled").exists():
            time.sleep(0.01)
        other = submit(folder, slurm)
        assert other.returncode == 1
        assert "being submitted already" in other.stderr
        os.killpg(child.pid, how)
    # The shell has ended; the sbatch it had begun holds the lock until the signal has reached it too.
    subprocess.run(["flock", "--timeout", "30", folder / ".submit.lock", "true"], check=True)
    (slurm.root / "stall").unlink()
    assert not (folder / "submitted").exists()
    calls = slurm.calls()
    assert submit(folder, slurm).returncode == 0
    cancelled = "scancel --quiet 101 102"
    if how == signal.SIGTERM:
        assert calls == [*ALL_FOUR[:3], cancelled]
        assert slurm.calls() == ALL_FOUR
    else:
        assert calls == ALL_FOUR[:3]
        # Counted from 101 again, with the stand-in's new file.
        assert slurm.calls() == [cancelled, *ALL_FOUR]


def test_named_cells_wait_for_each_other_only(folder, slurm):
    done = submit(folder, slurm, "gate/linux/g", "test-pytorch/linux/g")
    assert done.returncode == 0
    assert slurm.calls() == [
        "sbatch --parsable cells/test-pytorch/linux/g.sh",
        "sbatch --parsable --dependency=afterany:101 cells/gate/linux/g.sh",
    ]
    done = submit(folder, slurm, "gate/linux/h")
    assert done.returncode == 1
    assert "cells/gate/linux/h.sh" in done.stderr
    assert slurm.calls() == []


def test_a_machine_without_slurm_is_told(folder, tmp_path):
    only = tmp_path / "only"
    only.mkdir()
    for name in ("bash", "dirname"):
        (only / name).symlink_to(f"/usr/bin/{name}")
    argv = ["/usr/bin/bash", str(folder / "submit.sh")]
    done = subprocess.run(argv, env={"PATH": str(only)}, text=True, capture_output=True)
    assert done.returncode == 1
    assert "sbatch is not here: run this on a login node" in done.stderr
