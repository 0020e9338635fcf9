"""Every rendered workflow, those of Windows too, as act reads it with its schema of GitHub's workflows.

Nothing is run: what act runs of them is in `tests/real/pipeline/test_pipeline_act.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WORKFLOWS = Path(__file__).parents[3] / ".github/workflows"
ACT = Path(sys.executable).with_name("act")
NAMES = sorted(path.name for path in WORKFLOWS.glob("*.yml"))


def validated(home: Path, workflow: Path) -> subprocess.CompletedProcess[str]:
    argv = [ACT, "--validate", "--strict", "-W", workflow]
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return subprocess.run(argv, cwd=home, env=env, text=True, capture_output=True, stdin=subprocess.DEVNULL)


def test_there_are_workflows_of_both_platforms() -> None:
    assert {"ci_linux.yml", "ci_windows.yml", "build_windows_pytorch_wheels.yml"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_is_valid(name: str, tmp_path: Path) -> None:
    done = validated(tmp_path, WORKFLOWS / name)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("    runs-on:", "    runs-in:"),
        ("fromJSON(inputs.jobs)", "fromJson2(inputs.jobs)"),
        ("permissions: {}", "permissions: {contents: all}"),
    ],
    ids=["key", "function", "value"],
)
def test_a_wrong_one_is_refused(was: str, now: str, tmp_path: Path) -> None:
    wrong = tmp_path / "ci_windows.yml"
    shutil.copyfile(WORKFLOWS / "ci_windows.yml", wrong)
    text = wrong.read_text()
    assert was in text
    wrong.write_text(text.replace(was, now, 1))
    assert validated(tmp_path, wrong).returncode == 1
