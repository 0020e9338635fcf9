"""Reports of tests as statements: what they say, which of them a plan goes by, and what is damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rocwright.gputest.shards.level import NOTHING
from rocwright.gputest.shards.place import TimingPlace
from rocwright.model.testing import CaseResult, Ran, RunRecord
from rocwright.pipeline.reports import (
    durations_of,
    newest_runs,
    recorded,
    recorded_for,
    report_of,
    write_report,
)
from rocwright.store.objects.local import LocalStore

WHEELS = {"torch-2.9.0-cp312-cp312-linux_x86_64.whl": "ab" * 32}
CPU = TimingPlace("cpu", "2.9")


def record(
    tests: dict[str, float], *, shard: int = 1, shards: int = 1, complete: bool = True, target: str = ""
) -> RunRecord:
    ran = Ran("units", target=target, torch="2.9.0", python="3.12.1", shard=shard, shards=shards)
    return RunRecord(
        ran, tuple(CaseResult(test, "passed", seconds) for test, seconds in tests.items()), 9.0, complete
    )


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def write(store: LocalStore, run: str, *records: RunRecord, age: int = 0) -> list[str]:
    keys = [write_report(store, run, report_of(one, "quick", WHEELS, kept=5)) for one in records]
    for key in keys:
        path = store.root / key
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    return keys


def test_a_report_is_a_statement_about_the_wheels(store: LocalStore) -> None:
    failed = CaseResult("test_a.py::T::test_bad", "failed", 1.0, "AssertionError: 1 != 2")
    seen = record({"test_a.py::T::test_x": 2.5, "test_b.py::test_y": 1.25}, shard=2, shards=3)
    seen = RunRecord(seen.ran, (*seen.results, failed), 9.0)
    (key,) = write(store, "77", seen)
    assert key.startswith("_pipeline/reports/77/units-default-cpu-2of3-")
    said = json.loads((store.root / key).read_text())
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "urn:rocwright:test-report:v1"
    assert said["subject"] == [{"name": next(iter(WHEELS)), "digest": {"sha256": "ab" * 32}}]
    told = said["predicate"]
    assert (told["level"], told["device"], told["ran"]["shard"], told["ran"]["shards"]) == (
        "quick",
        "none",
        2,
        3,
    )
    assert (told["passed"], told["failed"], told["skipped"], told["seconds"]) == (2, 1, 0, 9.0)
    assert told["failures"] == ["test_a.py::T::test_bad: AssertionError: 1 != 2"]
    assert told["files"] == {"test_a.py": 3.5, "test_b.py": 1.25}
    assert report_of(record({}, target="gfx942"), "full", WHEELS, kept=5).predicate["device"] == "gpu"


def test_a_plan_goes_by_the_newest_runs_but_its_own(store: LocalStore) -> None:
    for number, run in enumerate(("old", "middle", "own", "new")):
        write(store, run, record({"test_a.py::test_x": 10.0 * number}), age=100 - number)
    assert newest_runs(store, "own", 5) == ("new", "middle", "old")
    assert newest_runs(store, "own", 2) == ("new", "middle")
    assert newest_runs(LocalStore(store.root / "none"), "own", 2) == ()


def test_shards_add_up_and_of_several_runs_the_median_counts(store: LocalStore) -> None:
    for run, seconds in (("1", 10.0), ("2", 100.0), ("3", 30.0)):
        halves = ({"test_a.py::test_x": seconds}, {"test_a.py::test_y": 1.0, "test_b.py::test_z": 2.0})
        write(store, run, *(record(tests, shard=n, shards=2) for n, tests in enumerate(halves, start=1)))
    found = recorded(store, ("3", "2", "1"), print)
    assert found.runs == ("3", "2", "1")
    assert found.seconds == {("units", CPU): {"test_a.py": 31.0, "test_b.py": 2.0}}
    held = durations_of(store, ("3", "2", "1"), "units", print, kept=2)
    assert held is not None
    (timed,) = held.timed
    # The newest two, the oldest of them first.
    assert timed.tests["test_a.py::test_x"] == (100.0, 30.0)
    assert durations_of(store, (), "units", print, kept=2) is None
    assert recorded(store, (), print) is NOTHING


def test_a_shard_that_was_stopped_has_no_times(store: LocalStore) -> None:
    write(store, "1", record({"test_a.py::test_x": 3.0}, complete=False))
    assert recorded(store, ("1",), print).seconds == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"test_a", b"test_c"),
        lambda data: b"{}",
    ],
    ids=["torn", "changed", "empty"],
)
def test_a_damaged_report_is_told_and_does_not_count(store: LocalStore, damage) -> None:
    good, bad = (
        write(store, "1", record({f"{file}::test_x": 3.0}, shard=number, shards=2))[0]
        for number, file in ((1, "test_b.py"), (2, "test_a.py"))
    )
    path = store.root / bad
    path.chmod(0o644)
    path.write_bytes(damage(path.read_bytes()))
    said: list[str] = []
    assert recorded(store, ("1",), said.append).seconds == {("units", CPU): {"test_b.py": 3.0}}
    assert len(said) == 1
    assert bad in said[0] and good not in said[0] and "its times do not count" in said[0]


def test_a_store_that_cannot_be_read_leaves_the_usual_shards(tmp_path: Path) -> None:
    """Its folder is a file."""
    (tmp_path / "_pipeline").write_text("")
    (tmp_path / "_pipeline").chmod(0)
    said: list[str] = []
    assert recorded_for(LocalStore(tmp_path), "9", 5, said.append) == NOTHING
