"""`rocwright pipeline render --to slurm|make` at the door: what is written, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_line import status


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "ROCWRIGHT_STORE",
        "ROCWRIGHT_RUN_ID",
        "ROCWRIGHT_PLAN",
        "ROCWRIGHT_SOURCES",
        "GITHUB_RUN_ID",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    return tmp_path


def render(*words: str) -> int:
    return status("pipeline", "render", *words)


def test_a_run_is_written_once_and_checked(here, capsys):
    assert render("--to", "slurm", "--output", "out", "--run-id", "s7", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"plan.json", "submit.sh", "cells/summary.sh"} <= set(found["written"])
    assert json.loads((here / "out/plan.json").read_text())["run_id"] == "s7"
    assert render("--to", "slurm", "--output", "out", "--run-id", "s7", "--check") == 0
    (here / "out/cells/summary.sh").write_text("edited\n")
    capsys.readouterr()
    assert render("--to", "slurm", "--output", "out", "--run-id", "s7", "--check") == 1
    assert "-edited" in capsys.readouterr().out
    assert render("--to", "slurm", "--output", "out", "--run-id", "s7", "--check", "--json") == 1
    (stale,) = json.loads(capsys.readouterr().out)["stale"]
    assert (stale["path"], stale["missing"]) == ("cells/summary.sh", False)
    assert "-edited" in stale["diff"]


def test_a_table_of_ones_own_counts(here, capsys):
    (here / "rocwright.toml").write_text('[[slurm.request]]\nids = ["summary"]\npartition = "tiny"\n')
    assert render("--to", "slurm", "--output", "out") == 0
    assert "#SBATCH --partition=tiny\n" in (here / "out/cells/summary.sh").read_text()


def test_a_makefile_is_written(here, capsys):
    assert render("--to", "make", "--output", "out") == 0
    assert capsys.readouterr().out.split() == ["plan.json", "Makefile"]


@pytest.mark.parametrize("to", ["slurm", "make"])
def test_without_a_folder_nothing_is_written(here, capsys, to):
    assert render("--to", to) == 2
    assert "give --output FOLDER" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["out"]


def test_workflows_are_not_of_one_run(here, capsys):
    assert render("--families", "gfx94X-dcgpu", "--output", "out") == 2
    assert "give --to slurm or --to make" in capsys.readouterr().err
    assert not list((here / "out").iterdir())


def test_a_run_with_windows_is_refused(here, capsys):
    assert (
        render("--to", "slurm", "--output", "out", "--profile", "nightly", "--families", "gfx110X-all") == 2
    )
    assert "--platforms linux" in capsys.readouterr().err
    assert not list((here / "out").iterdir())


def cluster(here: Path, monkeypatch: pytest.MonkeyPatch, prints: str) -> None:
    """A stand-in for sinfo, found first."""
    (here / "bin").mkdir()
    (here / "bin/sinfo").write_text(f"#!/bin/sh\n{prints}\n")
    (here / "bin/sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here / 'bin'}:{os.environ['PATH']}")


def test_scripts_ask_for_what_the_cluster_of_this_machine_has(here, capsys, monkeypatch):
    cluster(here, monkeypatch, "echo 'main|main*|1|3000|(null)|1:00:00'")
    assert render("--to", "slurm", "--output", "out") == 0
    text = min(here.glob("out/cells/build-torch/**/*.sh")).read_text()
    assert "#SBATCH --cpus-per-task=1\n#SBATCH --mem=2G\n#SBATCH --time=60\n" in text
    assert "cpus = 1 instead of 2, memory_gb = 2 instead of 4" in capsys.readouterr().err


def test_what_the_cluster_does_not_have_is_an_error_before_anything_is_written(here, capsys, monkeypatch):
    cluster(here, monkeypatch, "echo 'main|main*|1|3000|(null)|1:00:00'")
    (here / "rocwright.toml").write_text('[[slurm.request]]\nids = ["summary"]\nmemory_gb = 4\n')
    assert render("--to", "slurm", "--output", "out") == 2
    told = capsys.readouterr().err
    assert "summary: memory_gb = 4 (partition main has machines with up to 2)" in told
    assert not list((here / "out").iterdir())


def test_a_cluster_that_does_not_answer_leaves_the_table_as_it_is(here, capsys, monkeypatch):
    cluster(here, monkeypatch, "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    assert render("--to", "slurm", "--output", "out") == 0
    assert "Unable to contact slurm controller): jobs ask for what the table has" in capsys.readouterr().err
