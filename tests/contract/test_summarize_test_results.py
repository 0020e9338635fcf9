"""The documented script summarize_test_results.py, run as a workflow runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trees import write

SCRIPT = Path(__file__).parents[2] / "external-builds/pytorch/summarize_test_results.py"
GOOD = '<testsuite><testcase classname="test_a.T" name="test_b"/></testsuite>'
FAILURE = '<failure message="E: bad"/>'
BAD = f'<testsuite><testcase classname="test_a.T" name="test_c">{FAILURE}</testcase></testsuite>'


def summarize(script: Path, *words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "TEST_"))}
    return subprocess.run(
        [sys.executable, str(script), *words],
        cwd=cwd,
        env={**env, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """The script beside a checkout of PyTorch, and called from elsewhere."""
    script = tmp_path / "builds" / SCRIPT.name
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    return script


def test_the_reports_of_the_checkout_beside_it_are_summarized(beside: Path, tmp_path: Path) -> None:
    folder = beside.parent / "pytorch/test/test-reports/python-pytest"
    write(folder / "test_a" / "test_a-1.xml", GOOD)
    summary = tmp_path / "summary.md"
    done = summarize(beside, cwd=tmp_path, GITHUB_STEP_SUMMARY=str(summary))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("## ✅ All expected runs passed")
    assert summary.read_text() == done.stdout
    write(folder / "test_c" / "test_c-1.xml", BAD)
    done = summarize(beside, "--test-config", "default", "--amdgpu-family", "gfx94X-dcgpu", cwd=tmp_path)
    assert done.returncode == 0
    assert "| `test_a.py` | `T` | `test_c` | FAILED | E: bad |" in done.stdout
    assert "GITHUB_STEP_SUMMARY is not set" in done.stderr
    assert summarize(beside, "--exit-status", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize("content", [None, "", GOOD[:40]], ids=["empty", "nothing-in-it", "cut-off"])
def test_silence_is_no_report(beside: Path, tmp_path: Path, content: str | None) -> None:
    # All three were "All tests passed" once.
    folder = tmp_path / "reports"
    folder.mkdir()
    if content is not None:
        (folder / "r.xml").write_text(content)
    done = summarize(beside, "--reports-dir", "reports", cwd=tmp_path)
    assert (done.returncode, "No report" in done.stdout.splitlines()[0]) == (0, True)


def test_a_configuration_with_a_dash_hides_nothing(beside: Path, tmp_path: Path) -> None:
    write(tmp_path / "all" / "test-reports-default-1-1" / "r.xml", GOOD)
    write(tmp_path / "all" / "test-reports-inductor-cpp-2-2" / "r.xml", BAD)
    done = summarize(beside, "--combined-dir", "all", cwd=tmp_path)
    assert "| inductor-cpp | 2/2 | `test_a.py` | `T` | `test_c` | FAILED | E: bad |" in done.stdout
    assert "1 of 3 runs passed, 1 failed, 1 without a report" in done.stdout
