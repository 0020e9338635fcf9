"""Runs on emulated GPUs in records, JUnit files and reports: told as what they are, and for nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from gputest_reporting import TABLE, case, report

from rocwright.errors import InvalidInput
from rocwright.gputest.record import read_record, record_text, write_record
from rocwright.gputest.report.find import find_reports
from rocwright.gputest.report.judge import judge
from rocwright.gputest.report.junit import write_junit
from rocwright.gputest.report.markdown import About, completed, markdown
from rocwright.gputest.report.page import html_page
from rocwright.gputest.report.values import Expected
from rocwright.gputest.shards.place import place_of
from rocwright.model.emulated import Emulated
from rocwright.model.testing import CaseResult, Ran, RunRecord, run_of_key

BY = Emulated("stand-in", "gfx942", "1.2", "ab" * 32, "gfx942.json", runtime="6.4.3", dispatches=7)
RAN = Ran("smoke-gpu", target="gfx942", torch="2.9.0", device="emulated")
KEY = "smoke-gpu-default-gfx942-emulated-1of1"
GPU_KEY = "smoke-gpu-default-gfx942-1of1"
GOOD = CaseResult("test_gpu_add.py::test_add", "passed")
WORDS = "an emulator played one"


def test_a_record_of_earlier_editions_is_one_of_a_gpu_or_of_none(tmp_path: Path) -> None:
    old = tmp_path / "results.json"
    old.write_text('{"ran":{"suite":"smoke-gpu","target":"gfx942"},"results":[]}')
    assert (read_record(old).ran.kind, read_record(old).ran.key) == ("gpu", GPU_KEY)
    old.write_text('{"ran":{"suite":"smoke-host"},"results":[]}')
    assert (read_record(old).ran.kind, read_record(old).ran.key) == ("none", "smoke-host-default-cpu-1of1")


def test_a_record_on_a_gpu_has_the_bytes_that_it_had() -> None:
    assert json.loads(record_text(RunRecord(Ran("units", target="gfx942"), (GOOD,)))) == {
        "ran": {"suite": "units", "target": "gfx942"},
        "results": [{"id": "test_gpu_add.py::test_add", "verdict": "passed"}],
    }


def test_the_name_of_a_run_says_it_and_is_read_back() -> None:
    assert RAN.key == KEY
    assert run_of_key(KEY) == Ran("smoke-gpu", target="gfx942", device="emulated")
    assert run_of_key(GPU_KEY) == Ran("smoke-gpu", target="gfx942")
    # Nothing was emulated where there was no target.
    assert Ran("smoke-host", device="emulated").key == "smoke-host-default-cpu-1of1"


@pytest.mark.parametrize(
    "change",
    [
        {"emulation": None},
        {"ran": {"suite": "smoke-gpu", "target": "gfx942"}},
        {"ran": {"suite": "smoke-gpu", "target": "gfx942", "device": "simulated"}},
    ],
)
def test_a_record_that_lost_half_of_what_says_it_is_none(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_record(RunRecord(RAN, (GOOD,), emulation=BY), tmp_path / KEY)
    assert read_record(path).emulation == BY
    spoiled = json.loads(path.read_text()) | change
    path.write_text(json.dumps({name: value for name, value in spoiled.items() if value is not None}))
    with pytest.raises(InvalidInput, match="is not a record of a test run"):
        read_record(path)
    [found] = find_reports((tmp_path,), told=Ran(""))
    assert judge(None, [found], table=TABLE).state == "no report"


def test_junit_files_alone_say_it_whatever_directory_they_lie_in(tmp_path: Path) -> None:
    (path,) = write_junit(RunRecord(RAN, (GOOD,), emulation=BY), tmp_path / GPU_KEY)
    text = path.read_text()
    assert 'name="test_gpu_add.py on gfx942 (emulated)"' in text
    assert "stand-in 1.2 as gfx942 (emulated), HIP 6.4.3, gfx942.json" in text
    [found] = find_reports((), combined=(tmp_path,), told=Ran("", torch="2.9.0"))
    assert found.ran == RAN
    [gpu] = write_junit(RunRecord(Ran("smoke-gpu", target="gfx942"), (GOOD,)), tmp_path / "gpu")
    assert "emulat" not in gpu.read_text()
    assert "properties><testcase" not in gpu.read_text()


@pytest.mark.parametrize(
    "expected",
    [
        Expected(GPU_KEY, "smoke-gpu", "default", "gfx942", 1, 1),
        Expected("default-1of1", config="default", shard=1, shards=1),
    ],
)
def test_an_expected_run_on_a_gpu_is_missing_where_an_emulated_one_reported(expected: Expected) -> None:
    emulated = report(case("a"), suite="smoke-gpu", device="emulated")
    judged = judge([expected], [emulated], table=TABLE)
    assert {one.name: one.state for one in judged.shards} == {KEY: "passed", expected.id: "no report"}
    assert judge([Expected(KEY)], [emulated], table=TABLE).state == "passed"


def test_an_expected_run_on_an_emulated_gpu_that_is_missing_is_one() -> None:
    judged = judge([Expected(KEY)], [report(case("a"), suite="smoke-gpu")], table=TABLE)
    states = {one.name: (one.state, one.device) for one in judged.shards}
    assert states == {GPU_KEY: ("passed", "gpu"), KEY: ("no report", "emulated")}


def test_what_failed_on_the_other_kind_of_device_is_not_known() -> None:
    bad = case("a", "failed", "wrong numbers")
    emulated, gpu = report(bad, device="emulated"), report(bad)
    for now, before, finding in ((gpu, emulated, "NEW"), (emulated, gpu, "NEW"), (gpu, gpu, "KNOWN")):
        (group,) = judge(None, [now], [before], table=TABLE).groups
        assert group.finding == finding


def test_times_of_an_emulator_are_of_another_place() -> None:
    assert place_of(RAN) != place_of(msgspec.structs.replace(RAN, device="gpu"))


def test_summary_and_page_say_it_at_their_head_and_of_each_run() -> None:
    judged = judge(
        None,
        [
            msgspec.structs.replace(report(case("a"), suite="smoke-gpu", device="emulated"), emulation=BY),
            report(case("a"), suite="smoke-gpu"),
        ],
        table=TABLE,
    )
    about = completed(About(), judged)
    text, page = markdown(judged, about), html_page(judged, about)
    for shown in (text, page):
        assert WORDS in shown
        assert "gfx942, gfx942 (emulated)" in shown
        assert "stand-in 1.2 as gfx942 (emulated), HIP 6.4.3" in shown
        assert KEY in shown
    assert "<b>gfx942 (emulated)</b>" in page
    only = judge(None, [report(case("a"))], table=TABLE)
    about = completed(About(), only)
    assert "mulat" not in markdown(only, about) + html_page(only, about)
