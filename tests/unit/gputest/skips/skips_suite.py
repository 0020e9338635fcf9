"""A miniature suite and its entries, for any pytest with the plugin; tests of other pytests use it, too."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from datetime import date
from pathlib import Path

from rocwright.gputest.environment import SKIPS_FILE, SKIPS_PLUGIN, inside_directory, write_entries
from rocwright.model.suites import SkipEntry, SkipKind

SUITE = """import unittest
import pytest

class TestX(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        open("class-was-set-up", "w").close()
    def test_skip(self):
        open("skipped-test-ran", "w").close()
    def test_hang(self):
        open("hanging-test-ran", "w").close()

class TestY(unittest.TestCase):
    def test_fails(self):
        assert 0
    def test_mended(self):
        pass
    def test_fails_too(self):
        assert 0
    @unittest.skip("its own reason")
    def test_skips_itself(self):
        pass

@pytest.mark.parametrize("x", ["a::b/c", "d[e]"])
def test_p(x):
    assert 0

@pytest.mark.xfail(strict=False)
def test_lax():
    pass

def test_flaky():
    assert 0
"""


def one(name: str, kind: SkipKind, *tests: str) -> SkipEntry:
    return SkipEntry(id=name, tests=tests, kind=kind, reason="wrong numbers", added=date(2026, 1, 1))


ENTRIES = (
    one("skipped", "skip", "sub/test_a.py::TestX::test_skip"),
    one("hangs", "hang", "sub/test_a.py::TestX::test_hang"),
    one("fails", "xfail", "sub/test_a.py::TestY::test_fails", "sub/test_a.py::test_p[a::*]"),
    one("mended", "xfail", "sub/test_a.py::TestY::test_mended", "sub/test_a.py::test_lax"),
    one("itself", "xfail", "sub/test_a.py::TestY::test_skips_itself"),
    one("flaky", "flaky", "sub/test_a.py::test_flaky"),
    # A skip of the same test is stronger than the xfail of another entry.
    one("wider", "xfail", "sub/test_a.py::TestX::test_*"),
    # Another file of that name.
    one("other", "skip", "test_a.py::TestY::test_fails_too"),
)
EXPECTED = {
    "TestX.test_skip": ("skipped", "skipped"),
    "TestX.test_hang": ("skipped", "hangs"),
    "TestY.test_fails": ("skipped", "fails"),  # how JUnit says xfail
    "TestY.test_mended": ("failure", "mended"),
    "TestY.test_fails_too": ("failure", ""),
    "TestY.test_skips_itself": ("skipped", "itself"),
    "test_p[a::b/c]": ("skipped", "fails"),
    "test_p[d[e]]": ("failure", ""),
    "test_lax": ("failure", "mended"),
    "test_flaky": ("failure", "flaky"),
}


def run_suite(
    python: str, folder: Path, *, started_in: str = "tests", env: dict[str, str] | None = None
) -> tuple[dict[str, tuple[str, str]], str, Path]:
    """Outcome and entry of each test as its JUnit says, what was printed, and where pytest ran."""
    tests = folder / "tests"
    (tests / "sub").mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (tests / "sub" / "test_a.py").write_text(SUITE)
    write_entries(ENTRIES, folder / "entries.json", tests)
    where = folder / started_in
    done = subprocess.run(
        [python, "-m", "pytest", "-p", SKIPS_PLUGIN, f"--junit-xml={folder / 'junit.xml'}", str(tests)],
        cwd=where,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(inside_directory()),
            SKIPS_FILE: str(folder / "entries.json"),
            **(env or {}),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = {}
    if (folder / "junit.xml").exists():
        for case in ET.parse(folder / "junit.xml").iter("testcase"):
            held = case.get("classname", "").rpartition(".")[2]
            name = f"{held}.{case.get('name')}" if held.startswith("Test") else case.get("name", "")
            outcome = next((child.tag for child in case if child.tag != "properties"), "passed")
            entry = [
                one.get("value") for one in case.iter("property") if one.get("name") == "rocwright_entry"
            ]
            found[name] = (outcome, str(entry[0]) if entry else "")
    return found, done.stdout + done.stderr, where
