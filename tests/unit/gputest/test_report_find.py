"""Which files are the report of which run: records, downloaded artifacts, PyTorch's own directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gputest_reporting import case, junit, problem, recorded, xml_case

from rocwright.errors import InvalidData, UsageError
from rocwright.gputest.report.find import find_reports
from rocwright.gputest.report.judge import shard_state
from rocwright.gputest.report.values import Expected, Report, missing, parse_expected
from rocwright.model.testing import Ran
from trees import write

GOOD = junit([xml_case("test_a.T", "test_b")])
BAD = junit([xml_case("test_a.T", "test_b", problem("failure", "E: bad"))])


def found(*roots: Path, combined: tuple[Path, ...] = (), **more: object) -> dict[str, Report]:
    reports = find_reports(roots, combined=combined, told=Ran("", **more))
    assert len({one.name for one in reports}) == len(reports)
    return {one.name: one for one in reports}


def states(reports: dict[str, Report]) -> dict[str, str]:
    return {name: shard_state(one).state for name, one in reports.items()}


def test_an_empty_a_missing_and_a_silent_directory_give_no_report(tmp_path: Path) -> None:
    write(tmp_path / "silent" / "log.txt", "All tests passed\n")
    (tmp_path / "empty").mkdir()
    for name in ("empty", "absent", "silent"):
        [one] = found(tmp_path / name).values()
        assert shard_state(one).state == "no report", name


def test_a_configuration_with_dashes_is_not_ignored(tmp_path: Path) -> None:
    write(tmp_path / "test-reports-inductor-cpp-wrapper-2-3" / "python-pytest" / "test_a" / "r.xml", BAD)
    write(tmp_path / "test-reports-default-1-6" / "r.xml", GOOD)
    (tmp_path / "test-reports-default-2-6").mkdir()
    for reports in (found(tmp_path), found(combined=(tmp_path,))):
        assert states(reports) == {
            "inductor-cpp-wrapper-2of3": "failed",
            "default-1of6": "passed",
            "default-2of6": "no report",
        }


def test_each_directory_of_combined_reports_is_a_run_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path / "some artifact" / "deep" / "r.xml", GOOD)
    (tmp_path / "another").mkdir()
    reports = found(combined=(tmp_path,))
    assert sorted(states(reports).values()) == ["no report", "passed"]


def test_a_record_has_its_own_junit_files_and_no_others(tmp_path: Path) -> None:
    recorded(tmp_path, case("test_a.py::T::test_b"))
    write(tmp_path / "units-default-gfx942-1of1" / "deeper" / "r.xml", BAD)
    write(tmp_path / "units-default-gfx942-1of1" / "test-reports-default-3-3" / "r.xml", BAD)
    assert states(found(tmp_path)) == {
        "units-default-gfx942-1of1": "passed",
        "default-1of1": "failed",
        "default-3of3": "failed",
    }


def test_a_record_that_was_cut_off_is_no_report_and_its_junit_files_are_shown(tmp_path: Path) -> None:
    path = recorded(tmp_path, case("test_a.py::T::test_b", "failed", "E: bad"))
    path.write_bytes(path.read_bytes()[:-40])
    [one] = found(tmp_path).values()
    assert shard_state(one).state == "no report"
    assert [result.verdict for result in one.results] == ["failed"]


def test_a_directory_that_is_expected_has_the_name_by_which_it_is_expected(tmp_path: Path) -> None:
    write(tmp_path / "nightly" / "r.xml", GOOD[: len(GOOD) // 2])
    [one] = find_reports((tmp_path,), told=Ran(""), ids=("nightly",))
    assert (one.name, shard_state(one).state) == ("nightly", "no report")


def test_a_directory_with_the_name_of_another_run_does_not_stand_for_it(tmp_path: Path) -> None:
    record = recorded(tmp_path, case("test_a.py::T::test_b"), shards=2)
    record.parent.rename(tmp_path / "units-default-gfx942-2of2")
    [one] = find_reports((tmp_path,), told=Ran(""))
    [silent] = missing([Expected("units-default-gfx942-1of2"), Expected("units-default-gfx942-2of2")], [one])
    assert silent.id == "units-default-gfx942-2of2"


def test_junit_files_in_a_directory_named_as_a_run_are_of_that_run(tmp_path: Path) -> None:
    write(tmp_path / "smoke-gpu-default-gfx942-1of1" / "r.xml", GOOD)
    [one] = find_reports((), combined=(tmp_path,), told=Ran("", torch="2.9"))
    assert one.ran == Ran("smoke-gpu", target="gfx942", torch="2.9")


def test_a_file_that_could_be_collected_in_a_later_attempt_is_flaky(tmp_path: Path) -> None:
    recorded(tmp_path / "1", case("test_a.py", "error", "ImportError"), case("test_b.py", "error", "E"))
    recorded(tmp_path / "2", case("test_a.py::test_x"), case("test_b.py", "error", "E"), attempt=2)
    [one] = find_reports((tmp_path,), told=Ran(""))
    assert {result.id: result.verdict for result in one.results} == {
        "test_a.py": "flaky",
        "test_a.py::test_x": "passed",
        "test_b.py": "error",
    }


def test_one_broken_file_among_many_leaves_the_run_without_a_report(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / f"r{number}.xml", GOOD)
    write(tmp_path / "r5.xml", GOOD[: len(GOOD) // 2])
    # Of something else altogether; it says nothing of tests.
    write(tmp_path / "coverage.xml", "<coverage/>")
    [one] = found(tmp_path).values()
    assert [text.partition(":")[0] for text in one.problems] == ["r5.xml"]
    assert one.notes == ("coverage.xml is not a test report",)


def test_a_retry_of_run_test_is_flaky_by_its_time_and_not_by_its_file_name(tmp_path: Path) -> None:
    def at(time: str, text: str) -> str:
        return text.replace('name="pytest"', f'name="pytest" timestamp="{time}"')

    folder = tmp_path / "python-pytest" / "test_a"
    write(folder / "test_a-ff.xml", at("2026-11-22T10:00:00", BAD))
    later = write(folder / "test_a-00.xml", at("2026-11-22T11:00:00", GOOD))
    [one] = found(tmp_path).values()
    assert [(result.verdict, result.attempts) for result in one.results] == [("flaky", 2)]
    # A pass that is older than the failure, of an earlier use of the directory, takes nothing back.
    later.write_text(at("2026-11-22T09:00:00", GOOD))
    [one] = found(tmp_path).values()
    assert [result.verdict for result in one.results] == ["failed"]
    # Without times nothing says which came last.
    later.write_text(GOOD)
    [one] = found(tmp_path).values()
    assert [result.verdict for result in one.results] == ["failed"]


def test_the_same_test_in_two_ways_is_no_retry(tmp_path: Path) -> None:
    for folder, text in (("dist-gloo", BAD), ("dist-nccl", GOOD)):
        stamped = text.replace('name="pytest"', 'name="pytest" timestamp="2026-11-22T10:00:00"')
        write(tmp_path / folder / "test_a" / "r.xml", stamped)
    [one] = found(tmp_path).values()
    assert [result.verdict for result in one.results] == ["failed"]


def test_a_run_that_was_started_again_counts_once_and_two_machines_count_twice(tmp_path: Path) -> None:
    recorded(tmp_path / "1", case("a", "failed", "E"), case("b"), attempt=1)
    recorded(tmp_path / "2", case("a"), case("b"), attempt=2)
    [one] = found(tmp_path).values()
    assert (one.ran.attempt, [result.verdict for result in one.results]) == (2, ["flaky", "passed"])
    recorded(tmp_path / "3", case("a", "failed", "E"), attempt=2)
    assert sorted(states(found(tmp_path)).values()) == ["failed", "failed", "passed"]


def test_runs_of_several_pythons_have_names_of_their_own(tmp_path: Path) -> None:
    for python in ("3.12", "3.13"):
        recorded(tmp_path / python, case("a"), python=python)
    key = "units-default-gfx942-1of1"
    assert sorted(found(tmp_path)) == [f"{key}-py3.12", f"{key}-py3.13"]


def test_what_has_to_report_is_told_in_three_ways(tmp_path: Path) -> None:
    plan = {
        "jobs": [
            {
                "id": "units-default-gfx942-1of2",
                "suite": "units",
                "config": "default",
                "shard": 1,
                "shards": 2,
            }
        ]
    }
    matrix = {"include": [{"test_config": "inductor", "shard": 2, "num_shards": 2, "runs_on": "x"}]}
    texts = [
        str(write(tmp_path / "plan.json", json.dumps(plan))),
        str(write(tmp_path / "matrix.txt", "matrix=" + json.dumps(matrix))),
        "default=2",
        "smoke-gpu-default-gfx942-1of1",
    ]
    expected = parse_expected(texts)
    assert [(one.id, one.config, one.shard, one.shards) for one in expected] == [
        ("units-default-gfx942-1of2", "default", 1, 2),
        ("inductor-2of2", "inductor", 2, 2),
        ("default-1of2", "default", 1, 2),
        ("default-2of2", "default", 2, 2),
        ("smoke-gpu-default-gfx942-1of1", "", 0, 0),
    ]


@pytest.mark.parametrize("text", ["absent.json", "default=0", "a b", ""])
def test_an_expectation_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--expect"):
        parse_expected([text])


@pytest.mark.parametrize(
    "text", ["{}", "[]", "[3]", '{"jobs": []}', '[{"shard": 1}]', "nonsense", '[{"id": ""}]']
)
def test_a_plan_that_names_no_run_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidData, match=r"plan\.json"):
        parse_expected([str(write(tmp_path / "plan.json", text))])
