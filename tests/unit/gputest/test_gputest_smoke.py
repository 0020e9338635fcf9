"""Verdicts: what passed, failed and was skipped; a run that says nothing is never a pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rocwright.errors import InvalidInput
from rocwright.gputest.report.junit import read_junit
from rocwright.gputest.smoke import Verdicts, parse_rocm_sdk_report, run_pytest, verdicts_of
from rocwright.system.venv import Environment

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5">
<testcase classname="smoke.test_mm" name="test_ok" time="0.001" />
<testcase classname="smoke.test_mm" name="test_ok[gfx90a]"><system-out>x</system-out></testcase>
<testcase classname="smoke.test_mm" name="test_bad">
<failure message="assert 1 == 2&#10;second line">trace</failure></testcase>
<testcase classname="smoke.test_mm" name="test_broken"><error message="failed on setup">t</error></testcase>
<testcase classname="smoke.test_gpu" name="test_kernel">
<skipped type="pytest.skip" message="no AMD GPU">x</skipped></testcase>
</testsuite></testsuites>
"""


def report(folder: Path, text: str) -> Path:
    path = folder / "report.xml"
    path.write_text(text)
    return path


def test_every_outcome_is_counted_and_named(tmp_path: Path) -> None:
    found = verdicts_of(read_junit(report(tmp_path, JUNIT)))
    assert (found.passed, found.failed, found.skipped) == (2, 2, 1)
    assert found.failures == (
        "smoke/test_mm.py::test_bad: assert 1 == 2",
        "smoke/test_mm.py::test_broken: failed on setup",
    )
    assert found.skip_reasons == ("smoke/test_gpu.py::test_kernel: no AMD GPU",)


def test_a_test_that_failed_and_then_broke_is_no_pass(tmp_path: Path) -> None:
    text = (
        "<testsuites><testsuite><testcase classname='c' name='n'><failure/><error/></testcase>"
        "<testcase classname='c' name='s'><skipped/><error message=''/></testcase></testsuite></testsuites>"
    )
    found = verdicts_of(read_junit(report(tmp_path, text)))
    assert (found.passed, found.failed, found.skipped) == (0, 2, 0)


@pytest.mark.parametrize(
    "text",
    ["", JUNIT[: len(JUNIT) // 2], JUNIT[:-15], "All tests passed", "<testsuites><testcase>"],
    ids=["empty", "half", "cut-at-the-end", "text", "unclosed"],
)
def test_a_broken_report_is_never_a_pass(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match="not a readable test report"):
        verdicts_of(read_junit(report(tmp_path, text)))


def test_a_missing_report_is_never_a_pass(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a readable test report") as caught:
        verdicts_of(read_junit(tmp_path / "absent.xml"))
    assert caught.value.where == str(tmp_path / "absent.xml")


def test_a_report_without_tests_has_no_passes(tmp_path: Path) -> None:
    assert verdicts_of(read_junit(report(tmp_path, "<testsuites/>"))) == Verdicts(0, 0, 0)


# ---- rocm-sdk test --json ----


def test_the_report_of_rocm_sdk() -> None:
    text = (
        '{"schema": 1, "checks": [{"id": "load:amdhip64", "verdict": "passed", "cause": null},'
        '{"id": "load:rccl", "verdict": "failed", "cause": "libnuma.so.1: not found"},'
        '{"id": "gpu", "verdict": "skipped", "cause": "no AMD GPU"}, {"id": "x", "verdict": "skipped"}]}'
    )
    assert parse_rocm_sdk_report(text, where="log") == Verdicts(
        1, 1, 2, ("load:rccl: libnuma.so.1: not found",), ("gpu: no AMD GPU", "x")
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback (most recent call last):",
        '{"checks": [{"id": "x"',
        '{"checks": [{"id": "x"}]}',
        "[]",
        "{}",
    ],
)
def test_no_report_of_rocm_sdk_is_an_error(text: str) -> None:
    with pytest.raises(InvalidInput, match="printed no report") as caught:
        parse_rocm_sdk_report(text, where="/somewhere/log")
    assert caught.value.where == "/somewhere/log"


@pytest.mark.parametrize("verdict", ["error", "crashed", "PASSED", ""])
def test_a_verdict_that_is_not_known_does_not_vanish(verdict: str) -> None:
    text = f'{{"checks": [{{"id": "a", "verdict": "passed"}}, {{"id": "b", "verdict": "{verdict}"}}]}}'
    with pytest.raises(InvalidInput):
        parse_rocm_sdk_report(text, where="log")


# ---- pytest itself, run in this interpreter's environment ----


@pytest.fixture
def environment() -> Environment:
    return Environment(Path(sys.prefix))


def run(environment: Environment, folder: Path, code: str) -> Verdicts:
    tests = folder / "smoke-tests"
    tests.mkdir()
    (tests / "pytest.ini").write_text("[pytest]\n")
    (tests / "test_smoke.py").write_text(code)
    return run_pytest(environment, tests, folder / "reports" / "r.xml", env={}, log=folder / "log")


def test_pytest_is_run_and_read(environment: Environment, tmp_path: Path) -> None:
    code = (
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 1 == 2\n"
        "@pytest.mark.skip(reason='no GPU')\n"
        "def test_c(): pass\n"
        "@pytest.fixture\n"
        "def f():\n    yield\n    raise ValueError('teardown')\n"
        "def test_d(f): pass\n"
    )
    found = run(environment, tmp_path, code)
    assert (found.failed, found.skipped) == (2, 1)
    assert "no GPU" in found.skip_reasons[0]


@pytest.mark.parametrize(
    "code",
    ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"],
    ids=["ends-with-0", "killed"],
)
def test_a_run_that_dies_is_no_pass_even_with_an_old_report(
    environment: Environment, tmp_path: Path, code: str
) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "r.xml").write_text(JUNIT)
    with pytest.raises(InvalidInput):
        run(environment, tmp_path, f"def test_a(): pass\ndef test_b():\n    {code}\n")


def test_a_run_that_is_given_up_half_way_is_no_pass(environment: Environment, tmp_path: Path) -> None:
    """pytest then ends with code 2 and writes a report of the tests so far, all of them good."""
    code = "import pytest\ndef test_a(): pass\ndef test_b(): pytest.exit('the GPU hangs')\n"
    with pytest.raises(InvalidInput, match=r"exit|exit code 2"):
        run(environment, tmp_path, code)


def test_tests_that_cannot_be_imported_are_failures_or_no_report(
    environment: Environment, tmp_path: Path
) -> None:
    try:
        found = run(environment, tmp_path, "import no_such_module\ndef test_a(): pass\n")
    except InvalidInput:
        return
    assert found.failed > 0


def test_no_tests_are_no_passes(environment: Environment, tmp_path: Path) -> None:
    assert run(environment, tmp_path, "x = 1\n") == Verdicts(0, 0, 0)
