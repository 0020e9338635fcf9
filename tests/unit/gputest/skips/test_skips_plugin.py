"""The plugin under this Python's pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unit.gputest.skips.skips_suite import EXPECTED, run_suite


@pytest.mark.parametrize("started_in", ["tests", "."], ids=["in-the-tests", "in-the-tree"])
def test_entries_apply_to_exactly_their_tests(tmp_path: Path, started_in: str) -> None:
    found, printed, where = run_suite(sys.executable, tmp_path, started_in=started_in)
    assert found == EXPECTED
    assert "skip entries: 1 hang, 1 skip, 5 xfail, 1 flaky" in printed
    assert "XPASS(strict)" in printed and "mended: wrong numbers" in printed
    # Neither the tests nor the set-up of their class ran.
    assert not [*where.glob("*-ran"), *where.glob("class-*")]


def test_only_the_tests_of_entries_run_as_if_there_were_none(tmp_path: Path) -> None:
    found, printed, where = run_suite(sys.executable, tmp_path, env={"ROCWRIGHT_SKIPS_ONLY": "1"})
    assert sorted(found) == sorted(
        name for name in EXPECTED if name not in ("TestY.test_fails_too", "test_p[d[e]]")
    )
    assert found["TestX.test_skip"] == ("passed", "") and found["TestY.test_fails"] == ("failure", "")
    assert "2 deselected" in printed and (where / "skipped-test-ran").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"entries": [{"id": "x", "kind": "never", "tests": []}]}'])
def test_a_broken_file_of_entries_stops_the_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    found, printed, _ = run_suite(
        sys.executable, tmp_path, env={"ROCWRIGHT_SKIPS": str(tmp_path / "broken.json")}
    )
    assert found == {}
    assert "names no file of skip entries" in printed and "Traceback" not in printed


def test_the_environment_names_the_directory_of_the_tests(tmp_path: Path) -> None:
    found, printed, _ = run_suite(sys.executable, tmp_path, env={"ROCWRIGHT_TESTS_ROOT": str(tmp_path)})
    # From there the file is tests/sub/test_a.py, which no entry names.
    assert "skip entries: none of these tests" in printed
    assert found["TestX.test_skip"] == ("passed", "")
