"""What a user sees on the terminal of `rocwright test units` with pytest's own options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from miniature_pytorch import make_checkout, make_torch

TALKS = """
import logging, unittest

class TestTalks(unittest.TestCase):
    def test_says(self):
        print("printed here")
        logging.getLogger("tale").info("logged here")
    def test_silent(self): pass
    def test_fails(self):
        logging.getLogger("tale").info("logged before it failed")
        self.fail("why")
"""
HEAD = "test_talks.py::TestTalks::"


def shown(folder: Path, *words: str, target: str = "") -> str:
    """stderr of a run with these options for pytest."""
    make_torch(folder / "double", targets=(target,) if target else ())
    make_checkout(folder / "pytorch", {"test_talks.py": TALKS})
    command = [sys.executable, "-c", "from rocwright.cli import main; main()", "test", "units"]
    done = subprocess.run(
        [*command, *(() if target else ("--cpu",)), "--suite-files", "test_talks.py", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(folder / "double")},
    )
    return done.stderr


def test_live_logs_stand_below_the_line_of_their_test(tmp_path: Path) -> None:
    lines = shown(tmp_path, "--", "--log-cli-level=INFO", "-v").splitlines()
    says = lines.index(f"PASSED {HEAD}test_says")
    block = lines[says + 1 : says + 4]
    assert any("live log call" in line for line in block)
    assert any("logged here" in line for line in block)
    assert f"PASSED {HEAD}test_silent" in lines
    assert "logged before it failed" in "\n".join(
        lines[lines.index(f"FAILED {HEAD}test_fails: AssertionError: why") :]
    )
    # pytest's own words for the same are not repeated.
    assert "PASSED" not in [line.strip() for line in lines]
    record = json.loads((tmp_path / "test-reports/units-default-cpu-1of1/results.json").read_text())
    detail = {one["id"].rpartition("::")[2]: one.get("detail", "") for one in record["results"]}
    assert "logged here" in detail["test_says"]
    assert detail["test_silent"] == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "each", "printed"),
    [
        ([], False, ()),
        (["-vv"], True, ()),
        (["-xv"], True, ()),
        (["--verbosity=1"], True, ()),
        (["-sv"], True, ("printed here",)),
        (["--capture=no"], False, ("printed here",)),
        (["-o", "log_cli=true", "--log-level=INFO"], False, ("printed here", "logged here")),
        (["--log-cli-level", "INFO"], False, ("printed here", "logged here")),
    ],
)
def test_each_spelling_of_the_options_counts(
    tmp_path: Path, words: list[str], each: bool, printed: tuple[str, ...]
) -> None:
    said = shown(tmp_path, "--", *words, "-k", "says or silent")
    assert (f"PASSED {HEAD}test_silent" in said) == each
    assert tuple(text for text in ("printed here", "logged here") if text in said) == printed


def test_a_choice_without_a_gpu_names_each_way_on_once(tmp_path: Path) -> None:
    said = shown(tmp_path, "--amdgpu-family", "gfx950", target="gfx942")
    assert "no GPU to test on for gfx950" in said
    assert said.count("--cpu") == 1


@pytest.mark.parametrize("words", [["import", "absent"], ["lint", "--collected", "absent"]])
def test_what_cannot_be_read_says_what_to_name_instead(tmp_path: Path, words: list[str]) -> None:
    command = [sys.executable, "-c", "from rocwright.cli import main; main()", "test", "skips", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "absent" in done.stderr
    assert "next: name " in done.stderr
