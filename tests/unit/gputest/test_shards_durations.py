"""Durations: what counts as a time, whose time it is, and what shards are made by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocwright.data import load_table
from rocwright.errors import InvalidData, InvalidInput, UsageError
from rocwright.gputest.record import write_record
from rocwright.gputest.shards.durations import (
    Durations,
    PlaceFacts,
    joined,
    load_durations,
    merge,
    parse_durations,
    take,
    write_durations,
)
from rocwright.gputest.shards.pack import shards_of
from rocwright.gputest.shards.place import TimingPlace, minor_of, place_of
from rocwright.gputest.shards.upstream import upstream_times
from rocwright.model.gpu import Families
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import CaseResult, Ran, RunRecord, Verdict

HERE = TimingPlace("gfx942", "2.9")


def case(node_id: str, seconds: float, verdict: Verdict = "passed", *, attempts: int = 1) -> CaseResult:
    return CaseResult(node_id, verdict, seconds, attempts=attempts)


def recorded(place: TimingPlace, seconds: dict[str, float], held: Durations | None = None) -> Durations:
    results = [case(test, each) for test, each in seconds.items()]
    return merge(held or Durations(), place, results, kept=5)


def times(durations: Durations, place: TimingPlace = HERE) -> dict[str, float]:
    found = durations.at(place)
    return {} if found is None else found.seconds()


def record(seconds: dict[str, float], *, target: str = "gfx942") -> RunRecord:
    ran = Ran("units", target=target, torch="2.9.1+rocm7.10.0")
    return RunRecord(ran, tuple(case(test, each) for test, each in seconds.items()))


# ---- times ----


def test_the_median_of_several_runs_counts_and_a_slow_day_does_not() -> None:
    durations = Durations()
    for seconds in (1.0, 30.0, 1.2):
        durations = recorded(HERE, {"a.py::T::t": seconds}, durations)
    assert times(durations) == {"a.py::T::t": 1.2}


def test_only_the_newest_times_are_kept() -> None:
    durations = Durations()
    for number in range(9):
        durations = recorded(HERE, {"a.py::T::t": float(number)}, durations)
    assert durations.timed[0].tests == {"a.py::T::t": (4.0, 5.0, 6.0, 7.0, 8.0)}


def test_a_run_that_is_in_already_changes_nothing() -> None:
    once = recorded(HERE, {"a.py::T::t": 1.0})
    assert recorded(HERE, {"a.py::T::t": 1.0}, once) == once


def test_one_attempt_counts_where_a_test_was_run_again() -> None:
    results = [case("a.py::T::t", 6.0, "flaky", attempts=3)]
    assert times(merge(Durations(), HERE, results, kept=5)) == {"a.py::T::t": 2.0}


@pytest.mark.parametrize("verdict", ["crashed", "hung", "memory", "error"])
def test_a_test_that_was_cut_short_has_no_time(verdict: Verdict) -> None:
    results = [case("a.py::T::t", 900.0, verdict), case("a.py::T::u", 1.0, "failed")]
    assert times(merge(Durations(), HERE, results, kept=5)) == {"a.py::T::u": 1.0}


def test_a_file_that_could_not_be_collected_is_no_test() -> None:
    assert merge(Durations(), HERE, [case("a.py", 3.0)], kept=5).timed == ()


def test_a_test_that_an_entry_skips_costs_nothing_from_then_on() -> None:
    before = recorded(HERE, {"a.py::T::t": 500.0, "a.py::T::u": 1.0})
    skipped = CaseResult("a.py::T::t", "skipped", 0.0, entry="hip-graphs")
    # A test that skips itself is one that takes no time here.
    own = case("a.py::T::u", 0.0, "skipped")
    assert times(merge(before, HERE, [skipped, own], kept=5)) == {"a.py::T::u": 0.5}


@pytest.mark.parametrize(
    ("version", "minor"),
    [("2.9", "2.9"), ("2.10.0a0+rocm7.11.0a20260801", "2.10"), ("2.9.1+git1a2b3c4d", "2.9")],
)
def test_a_nightly_is_of_the_line_it_leads_to(version: str, minor: str) -> None:
    assert minor_of(version) == minor


def test_features_of_a_target_make_no_other_gpu() -> None:
    ran = Ran("units", target="gfx90a:sramecc+:xnack-", torch="2.9.0", platform="windows")
    assert place_of(ran) == TimingPlace("gfx90a", "2.9", "windows")
    assert place_of(Ran("units", torch="2.9.0")) == TimingPlace("cpu", "2.9")
    assert place_of(Ran("units", target="sm_90", torch="2.9.0")) == TimingPlace("sm_90", "2.9")


def test_a_run_without_a_version_of_torch_has_no_place() -> None:
    with pytest.raises(InvalidInput, match="which torch"):
        place_of(Ran("units", target="gfx942"))


# ---- the file ----


def test_the_file_is_the_same_whatever_order_runs_of_two_gpus_came_in(tmp_path: Path) -> None:
    other = TimingPlace("gfx1151", "2.9")
    one = recorded(other, {"b.py::t": 2.0, "a.py::t": 1.0}, recorded(HERE, {"a.py::t": 3.0}))
    two = recorded(HERE, {"a.py::t": 3.0}, recorded(other, {"b.py::t": 2.0, "a.py::t": 1.0}))
    assert one.timed == two.timed
    assert [timed.place for timed in one.timed] == [other, HERE]
    write_durations(one, tmp_path / "d.json")
    assert load_durations([tmp_path / "d.json"]) == one
    assert (tmp_path / "d.json").read_text().count("\n") == 1


def test_files_of_two_machines_are_joined_and_copies_of_one_are_not_added() -> None:
    one = recorded(HERE, {"a.py::t": 1.0})
    two = recorded(HERE, {"a.py::t": 3.0, "b.py::t": 5.0})
    both = joined([one, two])
    assert times(both) == {"a.py::t": 2.0, "b.py::t": 5.0}
    assert joined([both, one, two]) == both


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a durations file"),
        ('{"schema": 2}', "$.schema"),
        ('{"schema": 1, "timed": [{"place": {"target": "gfx942"}}]}', "torch"),
        (
            '{"timed": [{"place": {"target": "g", "torch": "2.9"}, "tests": {"a.py::t": [-1]}}]}',
            "$.timed[0].tests",
        ),
        ('{"timed": [{"place": {"target": "g", "torch": "2.9"}, "tests": {"a.py::t": []}}]}', "length"),
        ('{"runs": [], "test_nn": 3}', "test_nn"),
        (
            '{"timed": [{"place": {"target": "g", "torch": "2.9"}, "tests": {}},'
            ' {"place": {"target": "g", "torch": "2.9"}, "tests": {}}]}',
            "two tables",
        ),
        ('{"timed": [{"place": {"target": "g", "torch": "abc"}, "tests": {}}]}', "place.torch"),
    ],
)
def test_what_is_no_durations_file_is_named(content: str, said: str) -> None:
    with pytest.raises(InvalidData) as raised:
        parse_durations(content.encode(), where="d.json")
    assert "d.json" in str(raised.value)
    assert said in str(raised.value)


def test_bytes_that_are_no_text_are_no_durations_file() -> None:
    with pytest.raises(InvalidData):
        parse_durations(b'{"timed": "\xff"}', where="d.json")


# ---- taking them from reports ----


def test_records_are_taken_with_their_place_and_their_junit_files_are_not_taken_twice(tmp_path: Path) -> None:
    write_record(record({"a.py::T::t": 1.5}), tmp_path / "one")
    write_record(record({"a.py::T::t": 2.5}, target=""), tmp_path / "two")
    assert list((tmp_path / "one").rglob("*.xml"))
    taken = take(Durations(), [tmp_path], PlaceFacts(), kept=5)
    assert (taken.runs, taken.unread) == (2, ())
    assert times(taken.durations) == {"a.py::T::t": 1.5}
    assert times(taken.durations, TimingPlace("cpu", "2.9")) == {"a.py::T::t": 2.5}
    assert take(taken.durations, [tmp_path], PlaceFacts(), kept=5).durations == taken.durations


_JUNIT = """<testsuites><testsuite name="pytest" tests="1" failures="0" errors="0">
<testcase classname="test_nn.TestNN" name="test_x" file="test_nn.py" time="2.5"/></testsuite></testsuites>"""


def test_junit_files_need_to_be_told_where_they_are_from(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(_JUNIT)
    with pytest.raises(UsageError, match="on which GPU") as raised:
        take(Durations(), [tmp_path], PlaceFacts(), kept=5)
    assert "--target gfx942" in str(raised.value)
    taken = take(Durations(), [tmp_path], PlaceFacts("gfx942", "2.9.0", "inductor"), kept=5)
    place = TimingPlace("gfx942", "2.9", "linux", "inductor")
    assert times(taken.durations, place) == {"test_nn.py::TestNN::test_x": 2.5}


def test_a_broken_report_among_others_is_said_and_alone_is_an_error(tmp_path: Path) -> None:
    write_record(record({"a.py::T::t": 1.5}), tmp_path / "one")
    broken = tmp_path / "two" / "results.json"
    broken.parent.mkdir()
    broken.write_text('{"ran": {"suite"')
    taken = take(Durations(), [tmp_path], PlaceFacts(), kept=5)
    assert taken.runs == 1
    assert [str(broken) in line for line in taken.unread] == [True]
    with pytest.raises(InvalidInput, match="not a record"):
        take(Durations(), [broken], PlaceFacts(), kept=5)
    with pytest.raises(InvalidInput, match="no run could be read"):
        take(Durations(), [broken.parent], PlaceFacts(), kept=5)
    with pytest.raises(UsageError, match="does not exist"):
        take(Durations(), [tmp_path / "three"], PlaceFacts(), kept=5)


# ---- which times shards are made by ----

_FILES = ("a.py", "b.py")
_TIMES = {"a.py::T::t": 3.0, "a.py::T::u": 1.0, "b.py::T::t": 4.0}


def said(place: TimingPlace, durations: Durations | None) -> tuple[bool, str]:
    sharded = shards_of(_FILES, 2, place=place, spread=0.10, durations=durations)
    return sharded.timed, sharded.said[0]


def test_times_of_the_same_place_are_taken() -> None:
    assert said(HERE, recorded(HERE, _TIMES)) == (True, "durations: gfx942, torch 2.9")


def test_times_of_another_gpu_never_are() -> None:
    timed, what = said(TimingPlace("gfx1151", "2.9"), recorded(HERE, _TIMES))
    assert not timed
    assert what == (
        "durations: none for gfx1151, torch 2.9, so shards go by the number of files (the file has gfx942)"
    )
    assert said(HERE, None) == (False, "durations: none given, so shards go by the number of files")


def test_times_of_another_configuration_are_not_taken_either() -> None:
    assert not said(TimingPlace("gfx942", "2.9", "linux", "inductor"), recorded(HERE, _TIMES))[0]


def test_the_nearest_torch_of_the_same_gpu_is_taken_and_said() -> None:
    held = Durations()
    for torch in ("2.4", "2.7", "2.11", "1.9"):
        held = recorded(TimingPlace("gfx942", torch), _TIMES, held)
    # Numbers, not text: 2.11 is two away from 2.9, as 2.7 is, and newer.
    assert said(HERE, held) == (True, "durations: gfx942, torch 2.11 (none for gfx942, torch 2.9)")


def test_the_same_platform_goes_before_a_nearer_torch() -> None:
    held = recorded(TimingPlace("gfx942", "2.9", "windows"), _TIMES)
    held = recorded(TimingPlace("gfx942", "2.6"), _TIMES, held)
    assert said(HERE, held)[1] == "durations: gfx942, torch 2.6 (none for gfx942, torch 2.9)"


def test_a_new_file_is_taken_for_the_median_one() -> None:
    held = recorded(HERE, {"a.py::t": 2.0, "b.py::t": 8.0, "c.py::t": 90.0})
    sharded = shards_of(("a.py", "b.py", "c.py", "new.py"), 2, place=HERE, spread=0.10, durations=held)
    assert sharded.said[1] == "no durations for new.py: taken as 8 s, like the median file"
    assert [shard.files for shard in sharded.shards] == [("c.py",), ("a.py", "b.py", "new.py")]
    assert [sharded.seconds(shard) for shard in sharded.shards] == [90.0, 18.0]
    assert sharded.said[2] == "the shards are 80% apart: c.py::t alone takes 90 s"


def test_durations_that_know_none_of_the_files_say_so() -> None:
    sharded = shards_of(_FILES, 2, place=HERE, spread=0.10, durations=recorded(HERE, {"x.py::t": 2.0}))
    assert "have none of these files" in sharded.said[1]
    assert sharded.seconds(sharded.shards[0]) is None


def test_parts_of_files_can_be_dealt_out() -> None:
    held = recorded(HERE, {"a.py::A::t": 4.0, "a.py::B::t": 4.0, "a.py::C::t": 9.0})
    names = ("a.py::A", "a.py::B::t", "a.py::A::t", "a.py::A")
    sharded = shards_of(names, 2, place=HERE, spread=0.10, durations=held)
    assert [shard.files for shard in sharded.shards] == [("a.py::A",), ("a.py::B::t",)]
    assert not any(shard.takes("a.py::C::t") for shard in sharded.shards)


def test_more_shards_than_tests_are_refused_or_made_fewer() -> None:
    with pytest.raises(UsageError, match="3 shards for 2 test files"):
        shards_of(_FILES, 3, place=HERE, spread=0.10)
    sharded = shards_of(_FILES, 3, place=HERE, spread=0.10, fewer=True)
    assert len(sharded.shards) == 2
    assert sharded.said[1] == "3 shards asked for, 2 made: there is nothing for more to run"


# ---- for PyTorch's own run_test.py ----


def test_upstream_reads_seconds_by_module_and_class() -> None:
    held = recorded(HERE, {"d/test_a.py::T::t": 1.0, "d/test_a.py::T::u": 2.0, "d/test_a.py::f": 0.5})
    held = recorded(TimingPlace("gfx942", "2.9", "linux", "inductor"), {"test_b.py::T::t": 7.0}, held)
    held = recorded(TimingPlace("gfx1151", "2.9"), {"test_b.py::T::t": 99.0}, held)
    table, families = load_table("tests", SuiteTable), load_table("families", Families).families
    files, classes = upstream_times(held, "gfx942", "2.9", table, families)
    mi300 = "linux-noble-rocm-py3.12-mi300"
    assert files == {
        "default": {"default": {}},
        mi300: {"default": {"d/test_a": 3.5}, "inductor": {"test_b": 7.0}},
    }
    assert classes[mi300]["default"] == {"d/test_a": {"T": 3.0, "": 0.5}}
    with pytest.raises(UsageError, match="no durations for gfx942") as raised:
        upstream_times(held, "gfx942", "2.8", table, families)
    assert "gfx1151 torch 2.9, gfx942 torch 2.9" in str(raised.value)
    assert json.loads(json.dumps(files)) == files
