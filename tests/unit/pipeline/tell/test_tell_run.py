"""How a run stands, as state, setup page and picture: from a plan and records, nothing else."""

from __future__ import annotations

import html.parser
import re

import msgspec
import pytest
from told import BUILD, CELLS, cell, plan, record

from rocwright.model.plan import Plan, Publication
from rocwright.pipeline.records import Record
from rocwright.pipeline.tell.jobs import boxes, picture
from rocwright.pipeline.tell.page import run_page
from rocwright.pipeline.tell.state import run_state
from rocwright.pipeline.tell.summary import setup_summary

DONE = ("rocm-packages", "upload-rocm", "lock-sources")


def test_each_cell_has_the_state_that_follows_from_its_record_its_lease_and_its_needs() -> None:
    records = {id_: record(id_, size=100) for id_ in DONE}
    records["test-rocm"] = record("test-rocm", why="tested by run 4000")
    records["build-torch"] = record("build-torch", state="failed", why="the compiler ended with 1")
    run = run_state(plan(), records)
    assert {one.id: one.state for one in run.cells} == {
        "rocm-packages": "done",
        "upload-rocm": "done",
        "test-rocm": "reused",
        "lock-sources": "done",
        "build-torch": "failed",
        "build-torchaudio": "blocked",
        "upload-pytorch": "blocked",
        "test-pytorch": "skipped",
        "gate": "blocked",
    }
    assert run.counts == {"failed": 1, "blocked": 3, "skipped": 1, "reused": 1, "done": 3}
    assert (run.state, run.bytes) == ("failed", 300)
    assert next(one for one in run.cells if one.id == "test-pytorch").why == "no runner"


def with_extension(*done: str) -> tuple[Plan, dict[str, Record]]:
    """A plan whose set does without `build-extension-x`, which failed, and `build-extension-y`, after it."""
    one = cell("build-extension-x", "build_pytorch_wheels", BUILD, "build-torch")
    other = cell("build-extension-y", "build_pytorch_wheels", BUILD, "build-torch build-extension-x")
    taken = cell("upload-pytorch", "build_pytorch_wheels", BUILD, "build-torch build-torchaudio")
    names = (one.id, other.id)
    taken = msgspec.structs.replace(taken, needs=(*taken.needs, *names), spare=names)
    cells = [each for each in CELLS if each.id != taken.id]
    at = [each.id for each in cells].index("test-pytorch")
    made = plan((*cells[:at], one, other, taken, *cells[at:]))
    failed = record(one.id, state="failed", why="the compiler ended with 1")
    return made, {id_: record(id_) for id_ in (*DONE, *done)} | {one.id: failed}


def test_what_the_run_does_without_is_told_apart_and_blocks_nothing() -> None:
    made, records = with_extension("build-torch", "build-torchaudio", "test-rocm")
    run = run_state(made, records)
    found = {one.id: one.state for one in run.cells}
    assert (found["build-extension-x"], found["build-extension-y"]) == ("tolerated", "tolerated")
    assert (found["upload-pytorch"], run.state) == ("waiting", "waiting")

    made, records = with_extension("build-torch", "build-torchaudio", "test-rocm", "upload-pytorch", "gate")
    run = run_state(made, records)
    assert run.counts == {"tolerated": 2, "skipped": 1, "done": 8}
    assert run.state == "tolerated"
    page = run_page(made, run)
    assert "Done, without what failed and may" in page
    assert "<h2>What failed (1)</h2>" in page and "the compiler ended with 1" in page


def test_what_failed_and_is_tried_again_is_at_work() -> None:
    records = {id_: record(id_) for id_ in DONE}
    records["build-torch"] = record("build-torch", state="failed", why="lost the network")
    run = run_state(plan(), records, {"build-torch", "test-rocm"})
    found = {one.id: one.state for one in run.cells}
    assert (found["build-torch"], found["test-rocm"], found["build-torchaudio"]) == (
        "running",
        "running",
        "waiting",
    )
    assert run.state == "running"


def test_the_longest_chain_goes_through_what_took_time() -> None:
    took = {
        "rocm-packages": 10.0,
        "upload-rocm": 0.0,
        "lock-sources": 25.0,
        "build-torch": 100.0,
        "test-rocm": 90.0,
    }
    run = run_state(plan(), {id_: record(id_, wall_s=wall) for id_, wall in took.items()})
    # By hand: lock-sources 25 + build-torch 100; ROCm's packages took 10, and their test ends at 100.
    assert (run.critical_path, run.path_s) == (("lock-sources", "build-torch"), 125.0)
    assert run.machine_s == 225.0


def test_what_compiler_caches_did_is_added_up_and_told() -> None:
    torch = {"cache": "sccache", "hits": 1200, "misses": 5, "errors": 2}
    audio = {"cache": "sccache", "note": "could not be used: AccessDenied"}
    found = {
        "build-torch": record("build-torch", {"project": "torch", "cache": torch}),
        "build-torchaudio": record("build-torchaudio", {"project": "torchaudio", "cache": audio}),
        # No build: what it says is not counted.
        "lock-sources": record("lock-sources", {"cache": torch}),
    }
    run = run_state(plan(), found)
    told = "1,200 found, 5 compiled, 0 not kept, 2 errors; sccache could not be used: AccessDenied (1 build)"
    assert run.caches.line == told
    assert told in run_page(plan(), run)
    without = run_state(plan(), {"build-torch": record("build-torch", {"project": "torch"})})
    assert without.caches.line == "none (1 build)"
    assert run_state(plan(), {}).caches.line == ""


def test_an_empty_run_is_a_run() -> None:
    run = run_state(plan(()), {})
    assert (run.state, run.critical_path, run.cells) == ("skipped", (), ())
    assert "<svg" not in run_page(plan(()), run)


def test_the_decision_of_the_gate_is_told() -> None:
    decision = {"promote": True, "rule": "passed", "reason": "all suites passed"}
    records = {one.id: record(one.id) for one in CELLS if not one.skip}
    records["gate"] = record("gate", {"decision": decision, "statements": []})
    run = run_state(plan(), records)
    assert [(one.cell, one.decision.promote) for one in run.gates] == [("gate", True)]
    assert run.state == "done"
    assert msgspec.json.decode(msgspec.json.encode(run))["counts"] == {"skipped": 1, "done": 8}


def test_the_setup_page_says_what_is_built_tested_and_where_it_goes() -> None:
    told = setup_summary(
        plan(),
        trigger="pull request 12 by someone|else",
        highlights=("python 3.13",),
        links=(("log", "https://example.org/log"),),
    )
    assert told[0] == "## ci: 5 jobs, 9 steps"
    assert "pull request 12 by someone\\|else" in told
    assert "* python 3.13" in told
    assert "| linux | `gfx94X-dcgpu` | `gfx942` | artifacts of run 4000 | ✅ yes |" in told
    assert "| linux | `gfx94X-dcgpu` | `mi300` | test-rocm (1) |" in told
    assert "| linux | 3.12 | `release/2.9` | `gfx94X-dcgpu` | torch torchaudio |" in told
    assert "Publishing: results go to the run's folder, to no channel: the store is shared." in told
    assert "* windows has no gfx94X-dcgpu" in told
    assert told[-2] == "[log](<https://example.org/log>)"
    dry = setup_summary(plan(publication=Publication(False, False, "of a fork")))
    assert "Publishing: dry run, nothing is written to the store: of a fork." in dry
    none = setup_summary(plan(()))
    assert "There is nothing to do." in none


def test_the_picture_draws_each_job_below_what_it_needs() -> None:
    run = run_state(plan(), {id_: record(id_) for id_ in DONE})
    drawn = boxes(plan(), {one.id: one for one in run.cells})
    svg = picture(drawn)
    titles = re.findall(r"<title>(\S+) [^<]*: (\w+)</title><rect x=\"\d+\" y=\"([\d.]+)\"", svg)
    at = {name: float(y) for name, _, y in titles}
    assert {name: state for name, state, _ in titles} == {
        "build_python_packages": "done",
        "test_rocm_wheels": "waiting",
        "lock_sources": "done",
        "build_pytorch_wheels": "waiting",
        "test_pytorch_wheels": "skipped",
        "gate": "waiting",
    }
    assert (
        at["build_python_packages"]
        == at["lock_sources"]
        < at["build_pytorch_wheels"]
        == at["test_rocm_wheels"]
    )
    assert at["build_pytorch_wheels"] < at["test_pytorch_wheels"] < at["gate"]
    # The gate needs the build through the tests already: no second line.
    assert svg.count('class="need"') == 5


def test_many_jobs_are_folded_by_name_and_platform() -> None:
    cells = [
        cell("build-torch", "build_pytorch_wheels", {**BUILD, "python": f"3.{minor}", "platform": platform})
        for minor in range(30)
        for platform in ("linux", "windows")
    ]
    named = tuple(msgspec.structs.replace(one, id=f"b{at}") for at, one in enumerate(cells))
    many = plan(named)
    run = run_state(many, {"b0": record("b0"), "b2": record("b2")})
    drawn = boxes(many, {one.id: one for one in run.cells})
    assert [(box.about, box.state) for box in drawn] == [
        ("linux 2/30", "waiting"),
        ("windows 0/30", "waiting"),
    ]


@pytest.mark.parametrize(
    ("state", "head"),
    [
        ("done", "Everything is done"),
        ("reused", "Everything is done"),
        ("skipped", "Everything was left out"),
        ("failed", "Steps failed: 1 failed of 1 step"),
        ("blocked", "Steps failed: 1 blocked of 1 step"),
        ("dry", "A dry run: nothing was written"),
        ("running", "At work: 1 running of 1 step"),
        ("waiting", "Not finished: 1 waiting of 1 step"),
    ],
)
def test_the_page_begins_with_how_the_run_stands(state: str, head: str) -> None:
    run = msgspec.structs.replace(run_state(plan(()), {}), counts={state: 1})
    assert re.findall(r'<p class="state (\w+)">\S+ ([^<]*)</p>', run_page(plan(()), run)) == [(state, head)]


class Tags(html.parser.HTMLParser):
    """Every tag that is opened, with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("evil", ['"><script>alert(1)</script>', "<img src=x onerror=alert(1)>"])
def test_nothing_in_records_becomes_markup_of_the_page(evil: str) -> None:
    records = {id_: record(id_) for id_ in DONE}
    records["build-torch"] = record("build-torch", state="failed", why=evil)
    value = {"find_links": f"https://example.org/{evil}", "files": {}}
    records["upload-rocm"] = record("upload-rocm", value)
    page = run_page(plan(), run_state(plan(), records), title=evil)
    tags = Tags()
    tags.feed(page)
    assert not {tag for tag, _ in tags.found} & {"script", "img", "iframe", "form"}
    assert not [name for _, attributes in tags.found for name in attributes if name.startswith("on")]
    assert page == run_page(plan(), run_state(plan(), records), title=evil)
