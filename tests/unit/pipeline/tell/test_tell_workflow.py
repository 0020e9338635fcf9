"""The last job of a rendered workflow, by what GitHub says of the others: at its door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import status


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith(("GITHUB_", "ROCWRIGHT_", "AWS_", "RUNNER_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "page.md")


def summed_up(monkeypatch: pytest.MonkeyPatch, **results: str) -> tuple[int, str]:
    """The exit code of the job, and what it wrote on the page of the run."""
    needs = {name: {"result": result, "outputs": {}} for name, result in results.items()}
    monkeypatch.setenv("NEEDS_JSON", json.dumps(needs))
    code = status("pipeline", "step", "summary", "--sources", "miniature", "--projects", "torch")
    return code, Path("page.md").read_text("utf-8")


@pytest.mark.parametrize("result", ["failure", "cancelled", "skipped"])
def test_a_run_without_a_plan_is_red_and_nothing_is_made_up_about_its_steps(
    monkeypatch: pytest.MonkeyPatch, result: str
) -> None:
    code, page = summed_up(monkeypatch, setup=result, linux_build_and_test="skipped")
    assert code == 1
    assert "setup did not end well, so nothing was done" in page
    assert "missing" not in page
    # No plan is written that nobody chose.
    assert not Path("run").exists()


def test_a_run_that_left_out_every_job_is_red(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, page = summed_up(
        monkeypatch, setup="success", lock_sources="skipped", linux_build_and_test="skipped"
    )
    assert code == 1
    assert "## ❌ Nothing was done" in page
    assert "every job was left out" in page
    assert "every job was left out" in capsys.readouterr().err


def test_a_cancelled_job_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    code, page = summed_up(monkeypatch, setup="success", linux_build_and_test="cancelled")
    assert code != 0
    assert "## 🚫 The run was cancelled: 1 of 2 jobs" in page
    assert "| 🚫 was cancelled | `linux_build_and_test` | cancelled |" in page
    assert "ROCWRIGHT_LINUX_RUNNER" in page


def test_a_run_whose_plan_is_gone_gets_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its artifacts were kept for fewer days than it took somebody to run it again."""
    monkeypatch.setenv("ROCWRIGHT_CARRY", "artifacts")
    monkeypatch.setenv("GITHUB_RUN_ID", "42")
    assert status("pipeline", "step", "summary") == 3
    assert "the store has no plan of run 42" in Path("page.md").read_text("utf-8")


def test_a_step_that_cannot_begin_says_so_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCWRIGHT_STORE", "gopher://x")
    assert status("pipeline", "step", "summary") == 3
    page = Path("page.md").read_text("utf-8")
    assert "### ❌ `summary` failed" in page
    assert "next: give a folder" in page
