"""JUnit files of three dialects become results by node id; a file that is not whole is no report."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from gputest_reporting import junit, problem, xml_case

from rocwright.errors import InvalidInput
from rocwright.gputest.report.cases import later_counts, node_id, worse_of
from rocwright.gputest.report.junit import read_junit, salvage_junit, write_junit
from rocwright.model.testing import WORST_FIRST, CaseResult, Ran, RunRecord
from trees import write

SUITE = """
import unittest
import pytest


class TestNN(unittest.TestCase):
    def test_ok(self): pass
    def test_bad(self): self.assertEqual(1, 2, "x|y")
    @unittest.skip("no GPU")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass


@pytest.fixture
def broken():
    yield
    raise RuntimeError("in the end")


def test_teardown(broken): pass


@pytest.mark.parametrize("value", ["a b", "x::y", "q.w/e"])
def test_value(value): assert value != "a b"


@pytest.mark.xfail(strict=True, reason="entry")
def test_strict(): pass
"""


def _named(*paths: Path) -> list[tuple[str, str]]:
    """What others call the tests in these files; one that was not collected is written differently."""
    cases = [case for path in paths for case in ElementTree.parse(path).iter("testcase")]
    return sorted(
        (case.get("classname", ""), case.get("name", "")) for case in cases if case.get("classname")
    )


def test_what_pytest_writes_is_read_with_its_own_node_ids(tmp_path: Path) -> None:
    write(tmp_path / "nn" / "test_own.py", SUITE)
    write(tmp_path / "test_lost.py", "import nothing_of_that_name\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml=r.xml"]
    subprocess.run(
        [*words, "--continue-on-collection-errors", "--rootdir=."],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    results = read_junit(tmp_path / "r.xml")
    found = {one.id: one for one in results}
    own = write_junit(RunRecord(Ran("units"), results), tmp_path / "own")
    assert _named(*own) == _named(tmp_path / "r.xml")
    assert {name: one.verdict for name, one in found.items()} == {
        "test_lost.py": "error",
        "nn/test_own.py::TestNN::test_ok": "passed",
        "nn/test_own.py::TestNN::test_bad": "failed",
        "nn/test_own.py::TestNN::test_skipped": "skipped",
        "nn/test_own.py::TestNN::test_expected": "xfailed",
        "nn/test_own.py::TestNN::test_unexpected": "xpassed",
        "nn/test_own.py::test_teardown": "error",
        "nn/test_own.py::test_value[a b]": "failed",
        "nn/test_own.py::test_value[x::y]": "passed",
        "nn/test_own.py::test_value[q.w/e]": "passed",
        "nn/test_own.py::test_strict": "xpassed",
    }
    assert found["nn/test_own.py::TestNN::test_bad"].message == "AssertionError: 1 != 2 : x|y"
    assert found["test_lost.py"].message == "ModuleNotFoundError: No module named 'nothing_of_that_name'"
    assert found["nn/test_own.py::test_teardown"].message == "RuntimeError: in the end"


@pytest.mark.parametrize(
    ("classname", "name", "file", "folder", "expected"),
    [
        ("test_nn.TestNN", "test_a", "", "", "test_nn.py::TestNN::test_a"),
        ("distributed.test_c10d.TestGroup", "test_a", "", "", "distributed/test_c10d.py::TestGroup::test_a"),
        ("onnx.test_pkg.test_deep.TestX.TestIn", "t", "", "", "onnx/test_pkg/test_deep.py::TestX::TestIn::t"),
        # PyTorch's own runner moves the file into an attribute.
        ("TestNN", "test_a", "test_nn.py", "test_nn", "test_nn.py::TestNN::test_a"),
        ("TestAOTI", "t", "inductor/test_torchbind.py", "", "inductor/test_torchbind.py::TestAOTI::t"),
        # unittest says __main__; the directory of the report says which file that was.
        ("__main__.TestX", "t", "", "distributed.test_store", "distributed/test_store.py::TestX::t"),
        ("TestX", "test_a", "", "distributed.test_store", "distributed/test_store.py::TestX::test_a"),
        # Wherever pytest was started, and on Windows, it is the same test.
        ("external-builds.pytorch.pytorch.test.test_nn.TestNN", "t", "", "", "test_nn.py::TestNN::t"),
        ("test.nn.test_conv.TestConv", "test_a", "", "", "nn/test_conv.py::TestConv::test_a"),
        ("TestX", "test_a", "C:\\b\\pytorch\\test\\test_nn.py", "", "test_nn.py::TestX::test_a"),
        ("smoke.checks.TestGpu", "test_a", "", "", "smoke/checks.py::TestGpu::test_a"),
        ("test_nn.TestNN", "test_a[x (y)]", "", "", "test_nn.py::TestNN::test_a[x (y)]"),
        # Parts of one test are that test.
        ("u.TestNN", "test_sub (i=1)", "u.py", "", "u.py::TestNN::test_sub"),
        (
            "rocm_sdk.tests.core_test.ROCmCoreTest",
            "testConsoleScripts (rocm_sdk.tests.core_test.ROCmCoreTest) [Check console-script rocminfo]",
            "",
            "",
            "rocm_sdk/tests/core_test.py::ROCmCoreTest::testConsoleScripts",
        ),
        ("", "sub.test_lost", "", "", "sub/test_lost.py"),
    ],
)  # fmt: skip
def test_names_of_all_dialects_become_one_node_id(
    classname: str, name: str, file: str, folder: str, expected: str
) -> None:
    assert node_id(classname, name, file=file, report=folder) == expected


def test_all_that_was_written_is_read_again(tmp_path: Path) -> None:
    wild = "a ]]> < & \" ' | \x1b[31m é \t b"
    results = tuple(
        CaseResult(f"a/b.py::T::t[{verdict}<é|]", verdict, 1.5, "m | <x>", wild, 3, "entry-1")
        for verdict in WORST_FIRST
    )
    # The same stem twice, and a file that could not be collected.
    results += (CaseResult("a.b.py::t", "passed"), CaseResult("c.py", "error", message="no import"))
    paths = write_junit(RunRecord(Ran("units"), results), tmp_path)
    assert [path.name for path in paths] == ["a.b.xml", "a.b-2.xml", "c.xml"]
    found = {one.id: one for path in paths for one in read_junit(path)}
    assert sorted(found) == sorted(one.id for one in results)
    for one in results[: len(WORST_FIRST)]:
        assert (found[one.id].verdict, found[one.id].entry, found[one.id].attempts) == (
            one.verdict,
            "entry-1",
            3,
        )
    again = write_junit(RunRecord(Ran("units"), results), tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_a_file_cut_anywhere_is_no_report_and_shows_what_it_held(tmp_path: Path) -> None:
    text = junit(
        [xml_case("test_a.T", f"test_{n}", problem("failure", "bad") if n == 1 else "") for n in range(4)]
    )
    path = tmp_path / "r.xml"
    for end in range(len(text)):
        path.write_text(text[:end])
        with pytest.raises(InvalidInput, match="not a readable test report"):
            read_junit(path)
    path.write_text(text[: text.index("test_3")])
    assert [one.verdict for one in salvage_junit(path).results] == ["passed", "failed", "passed"]
    path.write_text(text)
    assert len(read_junit(path)) == 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            junit([xml_case("test_a", "test_b")], tests=4, errors=2),
            "counts 2 failures and errors but contains 0",
        ),
        (junit([], tests=9), "counts 9 tests but contains none"),
        ("<coverage/>", "not of a test run"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><testsuites/>', "document type"),
        ("\x00\x01\x02", "not XML"),
    ],
    ids=["crashed-head", "none", "another", "entities", "bytes"],
)
def test_what_is_no_whole_report_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_junit(write(tmp_path / "r.xml", text))


def test_a_suite_with_an_error_of_its_own_is_no_pass(tmp_path: Path) -> None:
    text = (
        '<testsuite name="test_lost" tests="0" errors="1"><error message="ImportError: no foo"/></testsuite>'
    )
    [found] = read_junit(write(tmp_path / "r.xml", text))
    assert (found.id, found.verdict, found.message) == ("test_lost.py", "error", "ImportError: no foo")


def test_reruns_of_one_file_are_attempts(tmp_path: Path) -> None:
    rerun = problem("rerun", "RuntimeError: first")
    text = junit(
        [
            xml_case("test_a.T", "test_flaky", rerun),
            xml_case("test_a.T", "test_flaky"),
            xml_case("test_a.T", "test_bad", rerun),
            xml_case("test_a.T", "test_bad", rerun),
            xml_case("test_a.T", "test_bad", problem("failure", "RuntimeError: last")),
        ]
    )
    flaky, bad = read_junit(write(tmp_path / "r.xml", text))
    assert (flaky.verdict, flaky.attempts, flaky.message) == ("flaky", 2, "RuntimeError: first")
    assert (bad.verdict, bad.attempts, bad.message) == ("failed", 3, "RuntimeError: last")


def test_a_test_that_failed_and_passed_in_one_file_without_a_rerun_has_failed(tmp_path: Path) -> None:
    # Parts of a test stand like this in some dialects: one of them passing proves nothing.
    cases = [xml_case("t.T", "test_a", problem("failure", "part")), xml_case("t.T", "test_a")]
    assert [one.verdict for one in read_junit(write(tmp_path / "r.xml", junit(cases)))] == ["failed"]


@pytest.mark.parametrize(
    ("tag", "message", "verdict"),
    [
        ("failure", "worker 'gw0' crashed while running 'test_a.py::test_b'", "crashed"),
        ("failure", "Failed: Timeout (>900.0s) from pytest-timeout.", "hung"),
        ("failure", "[XPASS(strict)] fixed", "xpassed"),
        ("error", "x", "error"),
    ],
)
def test_what_plugins_say_in_words_becomes_its_verdict(
    tmp_path: Path, tag: str, message: str, verdict: str
) -> None:
    [found] = read_junit(
        write(tmp_path / "r.xml", junit([xml_case("test_a", "test_b", problem(tag, message))]))
    )
    assert found.verdict == verdict


def test_a_property_cannot_make_a_failure_a_pass(tmp_path: Path) -> None:
    claim = '<properties><property name="rocwright_verdict" value="passed"/></properties>'
    text = junit([xml_case("test_a", "test_b", claim + problem("failure", "bad"))])
    assert read_junit(write(tmp_path / "r.xml", text))[0].verdict == "failed"


def test_a_later_round_decides_and_what_it_did_not_run_stays() -> None:
    first = [
        CaseResult("a", "failed"),
        CaseResult("b", "crashed"),
        CaseResult("c", "passed"),
        CaseResult("d", "failed"),
    ]
    second = [CaseResult("a", "passed"), CaseResult("c", "failed"), CaseResult("d", "skipped")]
    found = {one.id: (one.verdict, one.attempts) for one in later_counts([first, second])}
    assert found == {"a": ("flaky", 2), "b": ("crashed", 1), "c": ("failed", 2), "d": ("failed", 1)}


def test_the_worse_of_two_results_keeps_what_only_the_other_says() -> None:
    passed = CaseResult("a", "passed", 2.0, detail="it printed this", entry="known")
    failed = CaseResult("a", "failed", 1.0, message="teardown: bad")
    both = CaseResult("a", "failed", 2.0, "teardown: bad", "it printed this", entry="known")
    assert worse_of(passed, failed) == both
    assert worse_of(failed, passed) == both
