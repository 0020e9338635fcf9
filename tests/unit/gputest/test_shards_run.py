"""Shards as workers run them: what a shard takes on paper is what pytest is made to run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.run import run_isolated
from rocwright.gputest.shards.durations import Durations, merge
from rocwright.gputest.shards.pack import shards_of
from rocwright.gputest.shards.place import TimingPlace
from rocwright.model.testing import CaseResult

pytestmark = pytest.mark.slow

FIRST = """
import unittest
import pytest

class TestA(unittest.TestCase):
    def test_x(self): pass
    def test_x_long(self): pass

class TestB:
    class TestInner:
        def test_y(self): pass
    @pytest.mark.parametrize("value", ["a::b", "test_a.py::TestA", "[c]"])
    def test_z(self, value): pass

def test_function(): pass
"""
# What was written after the durations were recorded: in a known class, a new class, a function, a parameter.
LATER = """
import unittest
import pytest

class TestA(unittest.TestCase):
    def test_x(self): pass
    def test_x_lo(self): pass
    def test_x_longer(self): pass

class TestB:
    class TestInner:
        def test_y(self): pass
        def test_y2(self): pass
    @pytest.mark.parametrize("value", ["a::b", "d::e", "[c]"])
    def test_z(self, value): pass

class TestNew:
    def test_y(self): pass

def test_function(): pass
def test_function_2(): pass
"""
PLACE = TimingPlace("cpu", "2.9")


def ran(root: Path, files: tuple[str, ...], **given: tuple[str, ...] | None) -> list[str]:
    plan = Isolation(
        python=Path(sys.executable),
        root=root,
        files=files,
        test_s=30,
        collect_s=60,
        end_s=5,
        log_dir=root.parent / "logs",
        **given,
    )
    done = run_isolated(plan)
    assert done.complete
    assert {result.verdict for result in done.results} <= {"passed"}
    # One worker: its first file counts with its start, the others by themselves.
    assert set(done.collect_s) == {result.file for result in done.results} - {done.results[0].file}
    assert 0 < done.start_s + sum(done.collect_s.values()) < done.seconds
    return [result.id for result in done.results]


def test_shards_of_old_durations_run_each_test_of_a_newer_tree_once(tmp_path: Path) -> None:
    root = tmp_path / "test"
    root.mkdir()
    files = ("test_a.py", "sub/test_a.py")
    (root / "sub").mkdir()
    for file in files:
        (root / file).write_text(FIRST)
    (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    before = ran(root, files)
    assert len(before) == 14
    results = [CaseResult(test, "passed", 1.0 + number % 3) for number, test in enumerate(before)]
    durations = merge(Durations(), PLACE, results, kept=5)
    for file in files:
        (root / file).write_text(LATER)
    everything = ran(root, files)
    assert len(everything) == 22
    sharded = shards_of(files, 3, place=PLACE, spread=0.10, durations=durations)
    parts = [ran(root, one.files, only=one.only, leave=one.leave) for one in sharded.shards]
    assert sorted(test for part in parts for test in part) == sorted(everything)
    for shard, part in zip(sharded.shards, parts, strict=True):
        assert [test for test in everything if shard.takes(test)] == sorted(part, key=everything.index)
        assert part
