"""Audit, port and lint over a miniature tree, with a double of torch and this Python's pytest."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import command_line
from miniature_pytorch import HIP_GPUS, write_torch
from rocwright import cli

pytestmark = pytest.mark.slow

TESTS = """import os, time, unittest

class TestA(unittest.TestCase):
    def test_mended(self):
        pass
    def test_fails(self):
        assert os.environ["HIP_VISIBLE_DEVICES"] == "nobody's"
    def test_crashes(self):
        os.abort()
    def test_hangs(self):
        time.sleep(600)
    def test_some_good(self):
        pass
    def test_some_bad(self):
        assert 0
"""
ENTRY = """# Why {id}
[[entry]]
id = "{id}"
tests = ["test_a.py::TestA::{test}"]
kind = "{kind}"
reason = "r"  # said
added = 2026-01-01
{more}
"""
ROWS = (
    ("mended", "test_mended", "skip", ""),
    ("fails", "test_fails", "skip", ""),
    ("crashes", "test_crashes", "xfail", ""),
    ("hangs", "test_hangs", "hang", ""),
    ("some", "test_some_*", "skip", "matches = 2"),
    ("gone", "test_gone", "xfail", 'where = { targets = ["gfx94*"], torch = "2.9" }'),
    ("elsewhere", "test_mended", "skip", 'where = { targets = ["gfx1100"] }'),
    ("broken", "test_x", "skip", ""),
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_torch(tmp_path / "double", HIP_GPUS, ["gfx942", "gfx1100"])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "double"))
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    tests = tmp_path / "pytorch" / "test"
    tests.mkdir(parents=True)
    (tmp_path / "pytorch" / "version.txt").write_text("2.9.1\n")
    (tests / "test_a.py").write_text(TESTS)
    (tests / "test_broken.py").write_text("import os\nos.abort()\n")
    text = "".join(ENTRY.format(id=name, test=test, kind=kind, more=more) for name, test, kind, more in ROWS)
    text = text.replace('"test_a.py::TestA::test_x"', '"test_broken.py::T::test_x"')
    (tmp_path / "mine.toml").write_text(text)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> command_line.Ended:
    place = ["--python", sys.executable, "--pytorch-dir", "pytorch", "--skips", "mine.toml"]
    only = [word for row in ROWS for word in ("--entry", row[0])]
    return command_line.run(capsys, "test", "skips", *words, *place, *only)


def test_an_audit_sees_each_entry_and_takes_out_what_may_go(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (tree / "mine.toml").read_text()
    family = ["--amdgpu-family", "gfx942", "--hang-timeout", "3", "--report", "report.md"]
    code, out, err = run(capsys, "audit", *family, "--write", "--json")
    assert code == 0, err
    assert {one["entry"]: one["advice"] for one in json.loads(out)["entries"]} == {
        "mended": "remove",
        "fails": "soften",
        "crashes": "harden",
        "hangs": "keep",
        "some": "narrow",
        "gone": "remove",
        "broken": "unknown",
    }
    assert "`test_a.py::TestA::test_some_good`" in (tree / "report.md").read_text()
    first, gone = before.index("# Why fails"), before.index("# Why gone")
    after = before.index("# Why elsewhere")
    assert (tree / "mine.toml").read_text() == before[first:gone] + before[after:]


def test_what_still_fails_is_carried_over(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (tree / "mine.toml").read_text()
    held = 'id = "some"\n'
    (tree / "mine.toml").write_text(text.replace(held, held + 'where = { torch = "2.8" }\n'))
    family = ["--amdgpu-family", "gfx942", "--hang-timeout", "3"]
    code, out, err = run(capsys, "port", "2.8", "2.9", *family, "--dry-run", "--json")
    assert code == 0, err
    assert json.loads(out)["some"] == ["test_a.py::TestA::test_some_bad", "test_a.py::TestA::test_some_good"]
    code, out, err = run(capsys, "port", "2.8", "2.9", *family, "--output", "new.toml", "--json")
    found = {one["entry"]: one for one in json.loads(out)}
    assert {name: one["fate"] for name, one in found.items()} == {
        "mended": "drop",
        "fails": "holds",
        "crashes": "holds",
        "hangs": "holds",
        "some": "copy",
        "broken": "ask",
    }
    assert found["some"]["new"]["tests"] == ["test_a.py::TestA::test_some_bad"]
    assert 'torch = "2.9"' in (tree / "new.toml").read_text()
    code, _, err = run(capsys, "port", "2.8", "2.10", *family)
    assert code == 2 and "nothing can be said for 2.10" in err


def test_lint_collects_and_a_crash_costs_its_file(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "lint", "--json", "--torch", "2.9", "--target", "gfx942")
    assert code == 9, err
    found = json.loads(out)
    assert {(one["entry"], one["rule"]) for one in found["findings"] if one["severity"] == "error"} == {
        ("gone", "nothing"),
        ("broken", "not-collected"),
    }
    assert found["tests"] == 6 and found["elsewhere"] == ["elsewhere"]
