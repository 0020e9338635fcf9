"""`rocwright test report` and `summarize` at the door: what they print, write, state in the store, refuse."""

from __future__ import annotations

import html.parser
import json
import re
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pytest
from cli_sets import SOURCE, created, run, wheels

from command_line import Run, day
from rocwright.gputest.record import write_record
from rocwright.gputest.report.judge import judge
from rocwright.gputest.report.markdown import About, markdown
from rocwright.gputest.report.values import Report
from rocwright.model.emulated import Emulated
from rocwright.model.sets import new_set, set_id
from rocwright.model.testing import CaseResult, Ran, RunRecord, SignatureTable, Verdict
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.sets.stage import record_set
from rocwright.system.workflow import LIMIT
from wheels import write_wheel

__all__ = ["run"]
VARIABLES = ("AMDGPU_FAMILY", "TEST_CONFIG", "TORCH_VERSION", "PYTHON_VERSION", "PACKAGE_INDEX_URL")
TABLE = SignatureTable(variants=(), vague=(), infra=())
ISSUE = "https://github.com/ROCm/MIOpen/issues/3312"


@pytest.fixture
def test(run: Run, rocwright: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`rocwright test …` in the directory of the stores of `run`, outside of any workflow."""
    for name in (*VARIABLES, "PYTORCH_GIT_REF", "GITHUB_STEP_SUMMARY", "GITHUB_RUN_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)
    return partial(rocwright, "test")


def recorded(
    folder: str, *verdicts: Verdict, suite: str = "smoke-gpu", target: str = "gfx942", **more: object
) -> Path:
    """A record of tests that ended so; what is not passed says why."""
    results = tuple(
        CaseResult(
            f"test_a.py::test_{number}", verdict, 1.0, "" if verdict == "passed" else f"E{number}: {verdict}"
        )
        for number, verdict in enumerate(verdicts)
    )
    complete = bool(more.pop("complete", True))
    ran = Ran(suite, target=target, **more)
    write_record(RunRecord(ran, results, float(len(results)), complete), Path(folder) / ran.key)
    return Path(folder)


def staged(run: Run, version: str = "1.0") -> str:
    """A set that lacks nothing for its release but the tests of its GPU."""
    digest = created(run, version, "--stage")
    for suite in ("rocm-sdk", "smoke-host"):
        assert run("state", digest, "--suite", suite, "--result", "passed").code == 0
    return digest


def test_an_empty_directory_says_no_report_and_fails(test: Run) -> None:
    Path("empty").mkdir()
    for words in (["--reports-dir", "empty"], ["--combined-dir", "empty"], ["--reports-dir", "absent"]):
        for more in ((), ("--exit-status",)):
            done = test("report", *words, *more)
            assert (done.code, "no report" in done.out, "no report" in done.err) == (1, True, True), words
            assert "next: name the directory that the tests wrote to: --reports-dir" in done.err
    assert "All" not in done.out


def test_a_run_that_is_expected_and_silent_is_named(test: Run) -> None:
    recorded("r", "passed", shard=1, shards=3)
    recorded("r", "passed", shard=3, shards=3)
    done = test("report", "--reports-dir", "r", "--exit-status")
    assert (done.code, "of 3 runs 1 gave no report" in done.err) == (1, True)
    [line] = [line for line in done.out.splitlines() if "2of3" in line]
    assert line.split()[:3] == ["smoke-gpu-default-gfx942-2of3", "no", "report"]
    plan = {"jobs": [{"id": "smoke-gpu-default-gfx1151-1of1"}, {"id": "smoke-gpu-default-gfx942-1of3"}]}
    Path("plan.json").write_text(json.dumps(plan))
    found = test("report", "--reports-dir", "r", "--expect", "plan.json", "--json").json["report"]["shards"]
    states = {one["name"]: (one["state"], one["expected"]) for one in found}
    assert states == {
        "smoke-gpu-default-gfx942-1of3": ("passed", True),
        "smoke-gpu-default-gfx942-3of3": ("passed", False),
        "smoke-gpu-default-gfx1151-1of1": ("no report", True),
    }


def test_all_passed_is_said_and_ends_with_zero(test: Run) -> None:
    recorded("r", "passed", "skipped")
    done = test("report", "--reports-dir", "r", "--exit-status")
    assert (done.code, done.err) == (0, "")
    assert "passed" in done.out


@pytest.mark.parametrize("how", ["passed", "failed", "incomplete", "none", "skipped", "silent", "broken"])
def test_what_is_stated_opens_the_gate_only_where_every_test_passed(run: Run, test: Run, how: str) -> None:
    digest = staged(run)
    Path("r").mkdir()
    if how == "passed":
        recorded("r", "passed", "passed")
    elif how == "failed":
        recorded("r", "passed", "failed")
    elif how == "incomplete":
        recorded("r", "passed", complete=False)
    elif how == "none":
        recorded("r")
    elif how == "skipped":
        recorded("r", "skipped", "skipped")
    elif how == "broken":
        path = recorded("r", "passed") / "smoke-gpu-default-gfx942-1of1" / "results.json"
        path.write_bytes(path.read_bytes()[:-9])
    # A bypass lifts the want of a result; what a runner found out, or lost, it does not lift.
    words = ["--bypass", "--reason", "no GPU", "--expires", day(30)]
    assert run("state", digest, "--suite", "smoke-gpu", "--target", "gfx942", *words).code == 0
    done = test("report", "--reports-dir", "r", "--set", digest, "--suite", "smoke-gpu", "--target", "gfx942")
    assert (done.code, done.err.count("stated: sets/")) == (1 if how == "silent" else 0, 1), done.err
    promoted = run("promote", digest)
    assert promoted.code == (0 if how == "passed" else 10), promoted.out
    said = run("show", digest, "--json").json["said"]
    [told] = [line for line in said if line.startswith("test smoke-gpu")]
    expected = {"passed": "passed", "silent": "cancelled", "broken": "cancelled"}.get(how, "failed")
    assert told.startswith(f"test smoke-gpu on gfx942 {expected}: "), told


def test_a_later_attempt_replaces_an_earlier_one(
    run: Run, test: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = staged(run)
    recorded("first", "failed")
    assert test("report", "--reports-dir", "first", "--set", digest).code == 0
    recorded("second", "passed")
    # The same attempt again: the worse result counts.
    assert test("report", "--reports-dir", "second", "--set", digest).code == 0
    assert run("promote", digest).code == 10
    monkeypatch.setenv("GITHUB_RUN_ATTEMPT", "2")
    assert test("report", "--reports-dir", "second", "--set", digest).code == 0
    assert run("promote", digest).code == 0


def test_an_empty_directory_is_stated_for_every_target_of_the_set(run: Run, test: Run) -> None:
    folder = wheels("dist", "1.0")
    words = ["--family", "fam", "--target", "gfx942;gfx1151", "--source", SOURCE, "--stage"]
    done = run("create", folder, *words)
    assert done.code == 0, done.err
    [digest] = done.lines
    Path("empty").mkdir()
    done = test("report", "--reports-dir", "empty", "--set", digest, "--suite", "smoke-gpu")
    assert (done.code, done.err.count("stated: ")) == (1, 2), done.err
    said = [line for line in run("show", digest, "--json").json["said"] if line.startswith("test ")]
    assert [line.split(":")[0] for line in said] == [
        "test smoke-gpu on gfx1151 cancelled",
        "test smoke-gpu on gfx942 cancelled",
    ]
    # What came from one GPU says nothing of the other.
    recorded("r", "passed", target="gfx1151", attempt=2)
    assert test("report", "--reports-dir", "r", "--set", digest).err.count("stated: ") == 1


def said_of(run: Run, digest: str) -> list[str]:
    said = run("show", digest, "--json").json["said"]
    return [line.split(":")[0] for line in said if line.startswith(("test smoke", "test rocm"))]


def test_a_run_that_is_missing_closes_its_own_suite_and_no_other(run: Run, test: Run) -> None:
    digest = staged(run)
    recorded("r", "passed")
    # By a plan or by its id; units are no business of the gate.
    row = {"id": "units-default-gfx942-1of2", "suite": "units", "target": "gfx942"}
    Path("plan.json").write_text(json.dumps({"jobs": [row, {"id": "smoke-gpu-default-gfx942-1of1"}]}))
    words = ["--expect", "plan.json", "--expect", "units-default-gfx942-2of2"]
    done = test("report", "--reports-dir", "r", *words, "--set", digest, "--exit-status")
    assert (done.code, "of 3 runs 2 gave no report" in done.err) == (1, True)
    assert "test smoke-gpu on gfx942 passed" in said_of(run, digest)
    # Of what suite this one is nobody knows: it closes what there is.
    done = test("report", "--reports-dir", "r", "--expect", "nightly-7", "--set", digest)
    assert done.code == 0
    assert "test smoke-gpu on gfx942 cancelled" in said_of(run, digest)
    assert run("promote", digest).code == 10


def test_a_suite_of_which_nothing_came_is_stated_although_another_one_reported(run: Run, test: Run) -> None:
    digest = created(run, "1.0", "--stage")
    recorded("r", "passed", suite="smoke-host", target="")
    rows = [
        {
            "id": "smoke-host-default-cpu-1of1",
            "suite": "smoke-host",
            "target": "",
            "config": "default",
            "shard": 1,
        },
        {
            "id": "smoke-gpu-default-gfx942-1of1",
            "suite": "smoke-gpu",
            "target": "gfx942",
            "config": "default",
            "shard": 1,
        },
    ]
    Path("plan.json").write_text(json.dumps({"jobs": rows}))
    done = test("report", "--reports-dir", "r", "--expect", "plan.json", "--set", digest)
    assert (done.code, done.err.count("stated: ")) == (0, 2), done.err
    assert said_of(run, digest) == ["test smoke-gpu on gfx942 cancelled", "test smoke-host on fam passed"]


def test_a_record_cut_off_in_the_first_attempt_is_replaced_by_the_second(run: Run, test: Run) -> None:
    digest = staged(run)
    path = recorded("r/1", "passed", "failed") / "smoke-gpu-default-gfx942-1of1" / "results.json"
    whole = path.read_bytes()
    for cut in (whole[:-20], b""):
        path.write_bytes(cut)
        for xml in path.parent.glob("*.xml"):
            xml.unlink()
        alone = test("report", "--reports-dir", "r/1", "--expect", "smoke-gpu-default-gfx942-1of1", "--json")
        assert [one["state"] for one in alone.json["report"]["shards"]] == ["no report"]
        recorded("r/2", "passed", "passed", attempt=2)
        done = test("report", "--reports-dir", "r", "--expect", "smoke-gpu-default-gfx942-1of1", "--json")
        [shard] = done.json["report"]["shards"]
        assert (shard["state"], "attempt 1: " in shard["notes"][0]) == ("passed", True)
    assert test("report", "--reports-dir", "r", "--set", digest).code == 0
    assert run("promote", digest).code == 0
    # The other way round the first says nothing of the second.
    recorded("late/1", "passed")
    path = recorded("late/2", "passed", attempt=2) / "smoke-gpu-default-gfx942-1of1" / "results.json"
    path.write_bytes(path.read_bytes()[:-20])
    assert test("report", "--reports-dir", "late", "--exit-status").code == 1


def test_a_date_is_no_number_of_shards(test: Run) -> None:
    Path("c/test-reports-default-1-20261122").mkdir(parents=True)
    Path("c/test-reports-default-1-20261122/r.xml").write_text(
        '<testsuite><testcase classname="test_a.T" name="t"/></testsuite>'
    )
    assert test("report", "--combined-dir", "c", "--exit-status").code == 0
    assert test("report", "--combined-dir", "c", "--expect", "default=20261122").code == 2
    recorded("r", "passed", shards=2_000_000_000)
    done = test("report", "--reports-dir", "r", "--json", "--exit-status")
    assert (done.code, len(done.json["report"]["shards"])) == (1, 9999)


def test_a_run_on_the_cpu_is_not_that_of_a_gpu(test: Run) -> None:
    recorded("r", "passed", suite="units")
    rows = [
        {
            "id": f"units-default-{name}-1of1",
            "suite": "units",
            "config": "default",
            "target": target,
            "shard": 1,
        }
        for name, target in (("gfx942", "gfx942"), ("cpu", ""))
    ]
    Path("plan.json").write_text(json.dumps({"jobs": rows}))
    done = test("report", "--reports-dir", "r", "--expect", "plan.json", "--exit-status")
    assert (done.code, "of 2 runs 1 gave no report" in done.err) == (1, True)
    recorded("r", "passed", suite="units", target="")
    assert test("report", "--reports-dir", "r", "--expect", "plan.json", "--exit-status").code == 0


@pytest.mark.parametrize(
    ("record", "words", "told"),
    [
        ({"target": "gfx1151"}, [], "ran on gfx1151; the set is for gfx942"),
        ({"target": ""}, [], "nothing says on which GPU"),
        ({"suite": "units"}, [], "no channel asks for the suites of these reports: units"),
        (
            {"suite": "units"},
            ["--suite", "smoke-gpu"],
            "no report is of the suite smoke-gpu; they are of units",
        ),
        ({}, ["--attempt", "0"], "attempts count from 1"),
        ({}, ["--expect", "absent.json"], "there is no such file"),
        ({}, ["--previous", "nothing-here"], "names no set"),
    ],
)
def test_reports_that_are_not_of_the_set_are_refused_and_nothing_is_written(
    run: Run, test: Run, record: dict[str, str], words: list[str], told: str
) -> None:
    digest = staged(run)
    before = sorted(Path("store").rglob("*"))
    recorded("r", "passed", **record)
    done = test("report", "--reports-dir", "r", "--set", digest, *words)
    assert done.code in (2, 3), done.err
    assert told in done.err
    assert sorted(Path("store").rglob("*")) == before


def test_a_report_of_another_torch_is_none_of_this_set(run: Run, test: Run) -> None:
    path = write_wheel(Path("dist"), "torch", "2.9.1+rocm7.1", {"torch/__init__.py": ""}, tag="py3-none-any")
    manifest = new_set(
        family="fam", targets=("gfx942",), platform="linux", files=describe_files([path]), sources={}
    )
    now = datetime(2026, 11, 20, tzinfo=timezone.utc)
    record_set(LocalStore(Path("store")), manifest, {path.name: path}, (), now)
    digest = set_id(manifest)
    recorded("r", "passed", torch="2.9.0+rocm7.1")
    done = test("report", "--reports-dir", "r", "--set", digest)
    assert (done.code, "tested torch 2.9.0+rocm7.1; the set has 2.9.1+rocm7.1" in done.err) == (2, True)
    recorded("r", "passed", torch="2.9.1+rocm7.1")
    assert test("report", "--reports-dir", "r", "--set", digest).code == 0


def test_over_the_sets_failures_are_new_known_and_fixed(run: Run, test: Run) -> None:
    old, new = staged(run), staged(run, "2.0")
    recorded("old", "failed", "failed", "passed")
    first = test("report", "--reports-dir", "old", "--set", old, "--json").json["report"]
    assert first["compared"] == ""
    recorded("new", "passed", "failed", "failed")
    done = test("report", "--reports-dir", "new", "--set", new, "--html", "r.html", "--json")
    found = done.json["report"]
    assert found["compared"] == f"set {old[:12]}"
    assert {one["cases"][0]["test"]: one["finding"] for one in found["groups"]} == {
        "test_a.py::test_1": "KNOWN",
        "test_a.py::test_2": "NEW",
    }
    assert [one["test"] for one in found["fixed"]] == ["test_a.py::test_0"]
    page = Path("r.html").read_text()
    assert page.count("<svg viewBox") == 2
    assert "Tests that passed: from 33.33 % to 33.33 % over 2 sets" in page
    # The same twice is the same; the report of a directory needs no store.
    again = test("report", "--reports-dir", "new", "--set", new, "--html", "again.html")
    assert again.code == 0
    assert Path("again.html").read_text() == page
    assert (
        test("report", "--reports-dir", "new", "--previous", "old", "--json", "--store", "absent").json[
            "report"
        ]["fixed"][0]["test"]
        == "test_a.py::test_0"
    )
    assert not Path("absent").exists()


def test_kept_reports_are_no_defect_of_the_store(run: Run, test: Run) -> None:
    digest = staged(run)
    recorded("r", "passed")
    assert test("report", "--reports-dir", "r", "--set", digest).code == 0
    assert run("verify", digest).code == 0
    [kept] = Path("store").rglob("_tests/*")
    assert kept.name.startswith("smoke-gpu-default-gfx942-1of1-")
    kept.write_bytes(b"spoiled")
    done = test("report", "--reports-dir", "r", "--previous", digest)
    assert (done.code, "is not a kept report" in done.err) == (3, True)


def test_the_summary_of_a_workflow_gets_the_report(test: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded("r", "passed", "failed")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("before\n")
    assert test("report", "--reports-dir", "r", "--markdown", "own.md").code == 0
    text = Path("summary.md").read_text()
    assert text.startswith("before\n## ❌ Tests failed\n")
    assert text == "before\n" + Path("own.md").read_text()


def test_summarize_prints_the_documented_tables(test: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = '<failure message="E: a | b &lt;c&gt; `d`&#10;second"/>'
    long = f'<error message="{"x" * 300}"/>'
    Path("c/test-reports-inductor-cpp-1-2").mkdir(parents=True)
    Path("c/test-reports-inductor-cpp-1-2/r.xml").write_text(
        f'<testsuite><testcase classname="test_a.TestX" name="test_b">{failure}</testcase>'
        f'<testcase classname="test_a.TestX" name="test_c">{long}</testcase></testsuite>'
    )
    monkeypatch.setenv("PACKAGE_INDEX_URL", "https://user:secret@example.org/v2/gfx94X-dcgpu/")
    monkeypatch.setenv("PYTORCH_GIT_REF", "release/2.9")
    monkeypatch.setenv("AMDGPU_FAMILY", "gfx94X-dcgpu")
    monkeypatch.setenv("TORCH_VERSION", "2.9.1")
    monkeypatch.setenv("PYTHON_VERSION", "3.12")
    done = test("summarize", "--combined-dir", "c")
    assert done.code == 0
    assert "secret" not in done.out + done.err
    assert "| Config | Shard | Test File | Test Class | Test Name | Status | Error |" in done.lines
    assert (
        "| inductor-cpp | 1/2 | `test_a.py` | `TestX` | `test_b` | FAILED | E: a \\| b &lt;c&gt; \\`d\\` |"
        in done.lines
    )
    [row] = [line for line in done.lines if "`test_c`" in line and "ERROR" in line]
    assert row.endswith("| " + "x" * 99 + "… |")
    assert "| Source | <https://github.com/pytorch/pytorch/tree/release/2.9> |" in done.lines
    assert "| GPU | gfx94X-dcgpu |" in done.lines
    assert "git clone --depth 1 --branch release/2.9 https://github.com/pytorch/pytorch pytorch" in done.lines
    assert any("inductor-cpp-2of2" in line and "no report" in line for line in done.lines)
    assert test("summarize", "--combined-dir", "c", "--exit-status").code == 1
    # One run alone: the five columns.
    one = test("summarize", "--reports-dir", "c/test-reports-inductor-cpp-1-2")
    assert "| Test File | Test Class | Test Name | Status | Error |" in one.lines


@pytest.mark.parametrize("text", [None, "", "<testsuite><testcase", "<testsuite/>"])
def test_summarize_never_calls_silence_a_pass(test: Run, text: str | None) -> None:
    Path("r").mkdir()
    if text is not None:
        Path("r/r.xml").write_text(text)
    done = test("summarize", "--reports-dir", "r")
    assert done.code == 0
    assert "passed! " not in done.out and "All expected runs passed" not in done.out
    assert test("summarize", "--reports-dir", "r", "--exit-status").code == 1


def test_a_page_of_five_thousand_failures_fits_and_says_what_is_left_out() -> None:
    results = tuple(
        CaseResult(
            f"test_a.py::TestX::test_{number}_{'é' * 20}", "failed", message=f"E{number}x: {'|' * 150}"
        )
        for number in range(5_000)
    )
    judged = judge(None, [Report("r", Ran("units"), results)], table=TABLE)
    text = markdown(judged, About())
    assert len(text.encode()) <= LIMIT
    assert "more failed tests are not shown: the page would be too long." in text
    assert text.rstrip().endswith("```")


def test_no_name_or_message_becomes_markup(test: Run) -> None:
    wild = "<script>alert(1)</script>\"'&"
    ran = Ran("units", target="gfx942")
    results = (CaseResult(f"test_a.py::test_b[{wild}]", "failed", message=wild, detail=wild),)
    write_record(RunRecord(ran, results, notes=(wild,)), Path("r"))
    assert test("report", "--reports-dir", "r", "--html", "r.html", "--title", wild).code == 0
    page = Path("r.html").read_text()
    assert "<script" not in page
    assert "Content-Security-Policy" in page

    class Balanced(html.parser.HTMLParser):
        stack: list[str] = []  # noqa: RUF012 - one use

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "link"):
                self.stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.stack.pop() == tag

    parser = Balanced()
    parser.feed(page)
    assert parser.stack == []


def test_a_broken_rule_of_ones_own_is_named(test: Run) -> None:
    Path("rocwright.toml").write_text('[[signatures.infra]]\nkind = "lab"\npatterns = ["("]\n')
    done = test("report")
    assert (done.code, "not a regular expression" in done.err, "rocwright.toml" in done.err) == (
        3,
        True,
        True,
    )
    Path("rocwright.toml").write_text('[[signatures.infra]]\nkind = "lab"\npatterns = ["^E0: failed"]\n')
    recorded("r", "failed")
    [group] = test("report", "--reports-dir", "r", "--json").json["report"]["groups"]
    assert (group["finding"], group["infra"]) == ("INFRA", "lab")


def words_of(page: str) -> list[str]:
    """What stands in a page, without its tags, cell by cell."""
    return [text for text in re.sub(r"\s*<[^>]+>\s*", "\n", page.partition("<body>")[2]).split("\n") if text]


def test_the_page_names_set_torch_and_gpu_also_where_nobody_said_them(run: Run, test: Run) -> None:
    digest = staged(run)
    recorded("known", "passed", torch="2.9.0+rocm7.1", rocm="7.1")
    assert test("report", "--reports-dir", "known", "--set", digest, "--html", "r.html").code == 0
    words = words_of(Path("r.html").read_text())
    for name, value in (("Set", digest), ("torch", "2.9.0+rocm7.1"), ("GPU", "gfx942")):
        assert words[words.index(name) + 1] == value
    recorded("unknown", "passed", target="")
    assert test("report", "--reports-dir", "unknown", "--html", "r.html").code == 0
    words = words_of(Path("r.html").read_text())
    for name, value in (
        ("Set", "not named (rocwright test report --set)"),
        ("torch", "not known (--torch-version)"),
        ("GPU", "none: the tests ran on the CPU"),
        ("Compared with", "no earlier set"),
    ):
        assert words[words.index(name) + 1] == value


def test_the_page_begins_with_what_it_comes_to(test: Run) -> None:
    recorded("r", "passed", "failed", "failed", "skipped")
    assert test("report", "--reports-dir", "r", "--html", "r.html").code == 0
    assert words_of(Path("r.html").read_text())[1] == "✗ Not every run passed: 2 failures, 2 causes, 2 new"
    recorded("good", "passed", "skipped", "flaky", target="gfx90a")
    assert test("report", "--reports-dir", "good", "--html", "r.html").code == 0
    told = words_of(Path("r.html").read_text())[1]
    assert told == "✓ All expected runs passed: 2 tests passed, 1 skipped"


def test_a_bar_says_what_its_parts_are_and_how_many(test: Run) -> None:
    """Each test is passed, failed or skipped: what failed as expected, or only at first, has passed."""
    recorded("r", "passed", "passed", "xfailed", "flaky", "failed", "skipped", "skipped", "skipped")
    assert test("report", "--reports-dir", "r", "--html", "r.html").code == 0
    page = Path("r.html").read_text()
    words = words_of(page)
    at = words.index("4 passed (50 %)")
    assert words[at + 1 : at + 3] == ["1 failed (12.5 %)", "3 skipped (37.5 %)"]
    bars = re.findall(r'<svg class="bar"[^>]*aria-label="([^"]*)">(.*?)</svg>', page)
    # That of all tests, and that of the one run.
    assert [told for told, _ in bars[:2]] == ["4 passed, 1 failed, 3 skipped"] * 2
    for _, drawn in bars[:2]:
        parts = re.findall(r'<rect class="(\w+)" x="([\d.]+)" width="([\d.]+)"', drawn)
        assert parts == [("passed", "0.0", "50.0"), ("failed", "50.0", "12.5"), ("quiet", "62.5", "37.5")]


def test_why_tests_were_skipped_is_told_by_reason(test: Run) -> None:
    skips = Path("skips.toml")
    skips.write_text(
        '[[entry]]\nid = "no-ctc"\ntests = ["test_a.py::test_9"]\nkind = "hang"\nreason = "hangs"\n'
        f'issue = "{ISSUE}"\nadded = 2026-01-01\n'
    )
    for target in ("gfx942", "gfx1100"):
        reasons = ["needs 2 GPUs, 1 visible", "needs 4 GPUs, 1 visible", ""]
        reasons += ["no MAGMA"] if target == "gfx942" else []
        results = [CaseResult(f"test_a.py::test_{at}", "skipped", 0.0, why) for at, why in enumerate(reasons)]
        results += [CaseResult("test_a.py::test_8", "passed", 1.0)]
        results += [CaseResult("test_a.py::test_9", "skipped", 0.0, "hangs", entry="no-ctc")]
        ran = Ran("units", target=target)
        write_record(RunRecord(ran, tuple(results), 1.0), Path("r") / ran.key)
    done = test("report", "--reports-dir", "r", "--skips", skips, "--html", "r.html", "--json")
    assert [
        (
            one["reason"],
            one["count"],
            one["tests"],
            one["targets"],
            one["example"],
            one["entry"],
            one["issue"],
        )
        for one in done.json["report"]["skips"]
    ] == [
        ("needs 2 GPUs, 1 visible", 4, 2, ["gfx942", "gfx1100"], "test_a.py::test_0", "", ""),
        ("", 2, 1, ["gfx942", "gfx1100"], "test_a.py::test_2", "", ""),
        *(
            ("hangs", 2, 1, ["gfx942", "gfx1100"], "test_a.py::test_9", "no-ctc", ISSUE),
            ("no MAGMA", 1, 1, ["gfx942"], "test_a.py::test_3", "", ""),
        ),
    ]
    words = words_of(Path("r.html").read_text())
    at = words.index("Why tests were skipped (9)")
    table = words[words.index("Such as", at) + 1 :]
    assert table[:5] == ["needs 2 GPUs, 1 visible", "4", "44.44 %", "all", "test_a.py::test_0"]
    assert table[5:10] == ["the test gives no reason", "2", "22.22 %", "all", "test_a.py::test_2"]
    assert table[10:17] == ["hangs", "skip entry no-ctc", ISSUE, "2", "22.22 %", "all", "test_a.py::test_9"]
    assert table[17:22] == ["no MAGMA", "1", "11.11 %", "gfx942", "test_a.py::test_3"]


def test_each_gpu_has_a_row_and_runs_that_passed_are_folded(test: Run) -> None:
    recorded("r", "passed", "failed", target="gfx942")
    for target in ("gfx90a", "gfx1100"):
        recorded("r", "passed", "skipped", target=target)
    assert test("report", "--reports-dir", "r", "--html", "r.html").code == 0
    page = Path("r.html").read_text()
    open_, _, folded = page.partition("<h2>Runs (3)</h2>")[2].partition("<summary>2 runs passed</summary>")
    names = [f"<code>smoke-gpu-default-{target}-1of1</code>" for target in ("gfx942", "gfx90a", "gfx1100")]
    assert [name in open_ for name in names] == [True, False, False]
    assert [name in folded for name in names] == [False, True, True]
    words = words_of(page)
    table = words[words.index("GPUs (3)") :]
    assert table[table.index("gfx942") + 1 :][:7] == ["✗ failed", "0 / 1", "2", "1", "1", "0", "2 s"]
    assert table[table.index("gfx1100") + 1 :][:7] == ["✓ passed", "1 / 1", "2", "1", "0", "1", "2 s"]


def test_a_page_stays_small_whatever_failed(test: Run) -> None:
    """Thousands of failures, each in its own words and at length, and as many reasons of skips."""
    names = ["".join(chr(ord("a") + int(digit)) for digit in str(number)) for number in range(3000)]
    long = "a frame of a traceback\n" * 400
    bad = [CaseResult(f"test_a.py::test_{name}", "failed", 1.0, f"{name} is wrong", long) for name in names]
    out = [CaseResult(f"test_b.py::test_{name}", "skipped", 0.0, f"{name} is missing") for name in names]
    ran = Ran("units", target="gfx942")
    write_record(RunRecord(ran, (*bad, *out), 1.0), Path("r") / ran.key)
    assert test("report", "--reports-dir", "r", "--html", "r.html").code == 0
    page = Path("r.html").read_text()
    assert len(page.encode()) < 300_000
    assert "2,940 more causes: <code>rocwright test report --json</code>" in page
    assert "2,960 more reasons: <code>rocwright test report --json</code>" in page


def emulated(folder: str, *verdicts: Verdict, target: str = "gfx942") -> Path:
    """As `recorded`, on a GPU that an emulator played."""
    results = tuple(CaseResult(f"test_a.py::test_{number}", one) for number, one in enumerate(verdicts))
    ran = Ran("smoke-gpu", target=target, device="emulated")
    by = Emulated("stand-in", target, "1.2", "ab" * 32, "gfx942.json", dispatches=3)
    write_record(RunRecord(ran, results, emulation=by), Path(folder) / ran.key)
    return Path(folder)


def test_a_report_of_an_emulated_gpu_is_stated_as_that_and_the_release_waits_for_a_gpu(
    test: Run, run: Run
) -> None:
    digest = staged(run)
    emulated("r", "passed")
    done = test("report", "--reports-dir", "r", "--set", digest, "--html", "page.html")
    assert done.err.count("stated: ") == 1
    assert "smoke-gpu-default-gfx942-emulated-1of1" in done.out
    assert "an emulator played one" in Path("page.html").read_text()
    closed = run("promote", digest)
    assert closed.code == 10
    assert "that it passed on an emulated GPU does not count" in closed.err
    # The same directory with a GPU's report beside it: each is stated for itself.
    recorded("r", "passed")
    assert test("report", "--reports-dir", "r", "--set", digest).err.count("stated: ") == 2
    assert run("promote", digest).code == 0


def test_junit_files_of_an_emulated_gpu_are_named_by_an_option(test: Run, run: Run) -> None:
    digest = staged(run)
    case = '<testcase classname="a" name="b"/>'
    xml = f'<testsuites><testsuite name="pytest" tests="1">{case}</testsuite></testsuites>'
    Path("r").mkdir()
    Path("r/a.xml").write_text(xml)
    words = ("--reports-dir", "r", "--suite", "smoke-gpu", "--target", "gfx942", "--set", digest)
    assert test("report", *words, "--emulated").code == 0
    assert run("promote", digest).code == 10
    assert test("report", *words).code == 0
    assert run("promote", digest).code == 0


def test_a_result_on_an_emulated_gpu_is_stated_by_hand_and_opens_the_channel_that_asks_for_it(
    run: Run,
) -> None:
    digest = staged(run)
    about = ("state", digest, "--suite", "smoke-gpu", "--target", "gfx942", "--result", "passed")
    assert run(*about, "--device", "emulated").code == 0
    assert run("promote", digest).code == 10
    Path("rocwright.toml").write_text(
        '[[channels.channel]]\nname = "ci"\nprefix = "ci"\nafter = "staging"\ngate = "tested"\nlisted = 5\n'
        'device = "emulated"\n'
    )
    assert run("promote", digest, "--to", "ci").code == 0
    assert "were tested on emulated GPUs" in Path("store/ci/index.html").read_text()
    assert run("promote", digest).code == 10
