"""What a cell tells: outputs by name, Markdown that stays Markdown, lines that can be pasted."""

from __future__ import annotations

import msgspec
import pytest
from told import BUILD, CELLS, HOME, PLACE, cell, plan, record, uploaded

from rocwright.errors import Interrupted, InvalidInput, NotReady, SuiteFailed
from rocwright.model.plan import Sources
from rocwright.pipeline.define.kinds import kinds
from rocwright.pipeline.tell.reproduce import pip_install, wanted
from rocwright.pipeline.tell.results import output_names, outputs_of, problems_of
from rocwright.pipeline.tell.summary import failure_lines, setup_summary, summary_of
from rocwright.system.workflow import LIMIT

TORCH = "torch-2.9.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
AUDIO = "torchaudio-2.9.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
DEVICE = "torch_device_gfx942-2.9.0+rocm7.10.0-py3-none-linux_x86_64.whl"
ROCM_PAGE = f"{HOME}4711-linux/python/gfx94X-dcgpu/index.html"
TORCH_PAGE = f"{HOME}4711-linux/pytorch/gfx94X-dcgpu/index.html"


def test_outputs_have_the_names_that_workflows_pass_on() -> None:
    rocm = record("upload-rocm", uploaded("python", "rocm-7.10.0.tar.gz"))
    torch = record("build-torch", {"project": "torch", "version": "2.9.0+rocm7.10.0", "size": 1})
    found = {
        **outputs_of(cell("upload-rocm", "j"), rocm),
        **outputs_of(cell("build-torch", "j", BUILD), torch),
        **outputs_of(
            cell("rocm-packages", "j"), record("rocm-packages", {"version": "7.10.0", "mode": "kpack"})
        ),
    }
    assert found == {
        "rocm_package_find_links_url": ROCM_PAGE,
        "package_find_links_url": ROCM_PAGE,
        "torch_version": "2.9.0+rocm7.10.0",
        "rocm_version": "7.10.0",
        "kpack_split": "true",
    }
    pytorch = outputs_of(cell("upload-pytorch", "j", BUILD), record("u", uploaded("pytorch", TORCH)))
    assert pytorch["pytorch_package_find_links_url"] == TORCH_PAGE
    gate = record("gate", {"decision": {"promote": False, "rule": "tests", "reason": "one failed"}})
    assert outputs_of(cell("gate", "gate", BUILD), gate) == {"promote": "false"}


def test_a_part_of_torch_and_what_was_not_done_tell_no_version() -> None:
    built = {"project": "torch", "version": "2.9.0"}
    part = cell("build-torch", "build_torch_part", BUILD, part="gfx906")
    assert outputs_of(part, record("build-torch", built)) == {}
    assert outputs_of(cell("merge-torch", "j", BUILD), record("m", built)) == {"torch_version": "2.9.0"}
    for state in ("skipped", "failed", "dry"):
        ended = msgspec.structs.replace(record("build-torch", built), state=state)
        assert outputs_of(cell("build-torch", "j", BUILD), ended) == {}


def test_a_result_of_another_shape_tells_nothing_and_a_line_break_smuggles_no_output_in() -> None:
    for value in ({}, [1], "text", {"version": 3}):
        assert outputs_of(cell("build-torch", "j", BUILD), record("build-torch", value)) == {}
    odd = record("build-torch", {"version": "2.9\nother=1"})
    assert outputs_of(cell("build-torch", "j", BUILD), odd) == {"torch_version": "2.9 other=1"}


def test_every_kind_names_its_outputs() -> None:
    every = kinds([("torch", ()), ("apex", ("torch",))], split=True, parts=True, staged=True, promoted=True)
    named = {kind.name: output_names(kind.name) for kind in every if output_names(kind.name)}
    assert sorted(named) == [
        "build-apex", "build-torch", "gate", "merge-torch", "promote", "rocm-packages", "stage",
        "upload-pytorch", "upload-rocm",
    ]  # fmt: skip
    for kind, names in named.items():
        value = {"version": "1", "mode": "legacy", "set_id": "2", "index_url": "3", "find_links": "4"}
        assert tuple(outputs_of(cell(kind, "j"), record(kind, value))) == names


@pytest.mark.parametrize(("platform", "continuation"), [("linux", "\\"), ("windows", "^")])
def test_the_line_that_installs_an_upload_is_of_its_platform(platform: str, continuation: str) -> None:
    place = {**BUILD, "platform": platform}
    told = summary_of(
        cell("upload-pytorch", "j", place), record("u", uploaded("pytorch", TORCH, AUDIO, DEVICE)), plan()
    )
    assert told[0] == f"### [PyTorch packages](<{TORCH_PAGE}>)"
    start = told.index("```bat" if platform == "windows" else "```bash")
    assert told[start + 1 : start + 5] == (
        f"pip install torch==2.9.0+rocm7.10.0 torchaudio==2.9.0+rocm7.10.0 --pre {continuation}",
        f"    --find-links {TORCH_PAGE} {continuation}",
        f"    --find-links {ROCM_PAGE}",
        "```",
    )


def test_a_job_that_was_cancelled_is_not_told_as_one_that_failed() -> None:
    for stop in (KeyboardInterrupt(), Interrupted("interrupted")):
        assert failure_lines("gate/x", stop, "")[0] == "### 🚫 `gate/x` was cancelled"
    problem = InvalidInput("no <index>", where="pages", next_step="name another")
    told = failure_lines("setup", problem, str(problem))
    assert told == (
        "### ❌ `setup` failed",
        "",
        "no &lt;index&gt;",
        "",
        "* in: pages",
        "* next: name another",
        "",
    )


def test_what_travels_as_artifacts_is_installed_from_them() -> None:
    """Nobody else reaches the folder of the machine that tells it."""
    here = "file:///home/runner/work/r/run/store/1-linux/pytorch/index.html"
    value = {**uploaded("pytorch", TORCH), "find_links": here}
    told = summary_of(cell("upload-pytorch", "j", BUILD), record("u", value), plan(), carried=True)
    assert any("in the artifacts `rocwright.gfx94X-dcgpu.*` of this run" in line for line in told)
    tested = {"installed": {"torch": "2.9.0"}, "find_links": here, "rocm": here, "suites": []}
    report = summary_of(CELLS[7], record("test-pytorch", tested), plan(), carried=True)
    for lines in (told, report):
        assert "    --find-links packages" in lines
        assert "file:" not in "".join(lines)


def test_what_is_wanted_of_rocm_are_its_libraries_in_quotes() -> None:
    files = ["rocm-7.10.0.tar.gz", "rocm_sdk_core-7.10.0-py3-none-linux_x86_64.whl", "notes.txt"]
    assert wanted(files) == ("rocm[libraries,devel]==7.10.0",)
    for platform in ("linux", "windows"):
        assert pip_install(wanted(files), platform) == 'pip install "rocm[libraries,devel]==7.10.0"'
    odd = "https://example.org/a b/$HOME"
    assert pip_install(["torch"], "linux", index=odd).endswith("--index-url 'https://example.org/a b/$HOME'")


def test_markup_in_results_stays_text() -> None:
    evil = "a|b <script>alert(1)</script> `x` [y](z)\n# head"
    told = summary_of(cell("check", "j", BUILD), record("check", {"errors": 1, "findings": [evil]}), plan())
    joined = "\n".join(told)
    assert "<script" not in joined and "&lt;script&gt;" in joined
    assert not any(line.startswith("# head") for line in told)
    failed = record("check", state="failed", why=evil)
    assert "<script" not in "\n".join(summary_of(cell("check", "j", BUILD), failed, plan()))


def test_a_summary_is_no_larger_than_a_workflow_shows() -> None:
    findings = [f"{number} {'x' * 1000}" for number in range(3000)]
    told = summary_of(cell("check", "j"), record("check", {"findings": findings}), plan())
    assert LIMIT * 0.9 < len("\n".join(told).encode()) <= LIMIT
    assert "more lines are left out" in told[-1]


def test_tests_on_a_gpu_give_a_report_with_each_suite() -> None:
    suites = [
        {
            "suite": "smoke-gpu",
            "target": "gfx942",
            "verdicts": {"passed": 3, "failed": 1, "failures": ["t::a"]},
        },
        {"suite": "units", "target": "gfx942", "verdicts": {"passed": 0, "failed": 0}, "complete": False},
    ]
    value = {"installed": {"torch": "2.9.0"}, "find_links": TORCH_PAGE, "rocm": ROCM_PAGE, "suites": suites}
    told = summary_of(CELLS[7], record("test-pytorch", value), plan())
    assert told[0] == "## PyTorch Test Report"
    assert "* Torch version: `2.9.0`" in told and "* Python version: `3.12`" in told
    assert "| ❌ failed | smoke-gpu | gfx942 | 3 | 1 | 0 |" in told
    assert "| ⚠️ no report | units | gfx942 | 0 | 0 | 0 |" in told
    assert "* `t::a`" in told
    assert f"    --find-links {ROCM_PAGE}" in told


def test_the_gate_says_each_rule_and_what_was_left_out_says_why() -> None:
    rulings = [
        {"rule": "build", "passed": True, "reason": "built"},
        {"rule": "tests", "passed": False, "reason": "r"},
    ]
    value = {"promote": False, "rule": "tests", "reason": "smoke-gpu failed", "rulings": rulings}
    told = summary_of(cell("gate", "gate", BUILD), record("gate", {"decision": value}), plan())
    assert told[0] == "### ⛔ The gate stays closed: tests"
    assert "| ⛔ | `tests` | r |" in told
    left = record("promote", {"set_id": "ab" * 32, "why": "the gate is closed"})
    assert "The gate" not in "\n".join(summary_of(cell("promote", "promote", BUILD), left, plan()))
    assert "the gate is closed." in summary_of(cell("promote", "promote", BUILD), left, plan())
    skipped = record("test-pytorch", state="skipped", why="no runner")
    assert summary_of(CELLS[7], skipped, plan())[0] == "⏭️ `test-pytorch` was left out: no runner"


def test_what_is_shown_of_the_miniature_family_says_so() -> None:
    mini = plan(sources="miniature")
    told = summary_of(cell("upload-pytorch", "j", BUILD), record("u", uploaded("pytorch", TORCH)), mini)
    assert "Of the miniature family: stand-ins under the real names, not PyTorch." in told
    rocm = summary_of(cell("upload-rocm", "j", PLACE), record("u", uploaded("python", "rocm-7.tar.gz")), mini)
    assert "miniature" not in "\n".join(rocm)


def test_the_end_of_a_run_lists_the_bad_first() -> None:
    cells = {
        "a": {"state": "done"},
        "b": {"state": "missing", "why": "nobody did it"},
        "c": {"state": "failed"},
    }
    told = summary_of(
        cell("summary", "ci_summary", {}),
        record("summary", {"good": False, "cells": cells, "caches": "7 found"}),
        plan(),
    )
    assert "Compiler cache: 7 found." in told
    assert told[0] == "## ❌ 2 of 3 steps did not end well"
    assert [line.split("`")[1] for line in told if "`" in line] == ["c", "b", "a"]


def test_what_the_plan_leaves_out_is_a_good_end_and_what_a_failure_leaves_out_is_none() -> None:
    def told(**cells: dict[str, str]) -> str:
        ended = {name.replace("_", "-"): end for name, end in cells.items()}
        value = {"good": True, "cells": ended}
        return summary_of(cell("summary", "ci_summary", {}), record("summary", value), plan())[0]

    assert told(test_pytorch={"state": "skipped", "why": "no runner"}) == "## ✅ The run is complete"
    lost = {"state": "skipped", "why": "check failed"}
    assert told(gate=lost, test_rocm={"state": "done"}) == "## ❌ 1 of 2 steps did not end well"


MINIATURE = "miniature family: stand-ins under the real names, not PyTorch."
TESTED = {"installed": {"torch": "2.9.0"}, "find_links": TORCH_PAGE}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("upload-pytorch", uploaded("pytorch", TORCH)),
        ("test-pip", TESTED),
        ("promote", {"set_id": "ab" * 32, "index_url": HOME, "pip_line": "pip install torch"}),
        ("summary", {"counts": {"done": 3}}),
    ],
)
def test_of_the_miniature_family_it_is_said_and_of_upstreams_it_is_not(kind: str, value: object) -> None:
    def told(sources: Sources) -> list[str]:
        lines = summary_of(cell(kind, "j", BUILD), record(kind, value), plan(sources=sources))
        return [line for line in lines if MINIATURE in line]

    assert len(told("miniature")) == 1
    assert told("upstream") == []


def test_only_of_upstreams_torch_the_report_names_the_sources_to_get() -> None:
    def told(sources: Sources) -> str:
        return "\n".join(
            summary_of(cell("test-pip", "j", BUILD), record("test-pip", TESTED), plan(sources=sources))
        )

    assert "git clone --branch release/2.9 --origin rocm https://github.com/ROCm/pytorch.git" in told(
        "upstream"
    )
    assert "git clone" not in told("miniature")


def test_the_first_page_says_what_the_miniature_family_is() -> None:
    assert f"It builds the {MINIATURE}" in setup_summary(plan(sources="miniature"))
    assert MINIATURE not in "\n".join(setup_summary(plan()))


def test_of_what_went_wrong_consequences_count_only_where_nothing_else_does() -> None:
    whole = plan((*CELLS, cell("summary", "summary", needs="gate")))
    good = {one.id: record(one.id, state="skipped" if one.skip else "done") for one in whole.cells}
    assert problems_of(whole, good, {}) == {}
    skipped = good | {"build-torchaudio": record("build-torchaudio", state="skipped", why="torch failed")}
    ends = {"good": False, "cells": {"build-torch": {"state": "failed"}, "gate": {"state": "done"}}}
    bad = skipped | {"summary": record("summary", ends)}
    found = problems_of(whole, bad, {})
    assert list(found) == ["build-torchaudio", "summary"]
    assert isinstance(found["build-torchaudio"], NotReady)
    assert "build-torch (failed)" in str(found["summary"])
    tests = {"smoke": {"passed": 3, "failed": 1, "failures": ["test_sum"]}}
    found = problems_of(whole, bad | {"test-rocm": record("test-rocm", tests)}, {})
    assert list(found) == ["test-rocm"]
    assert isinstance(found["test-rocm"], SuiteFailed)
    raised = NotReady("the disk is full")
    assert problems_of(whole, bad, {"build-torch": raised}) == {"build-torch": raised}
