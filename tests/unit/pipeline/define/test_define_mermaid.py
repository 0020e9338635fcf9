"""The flow chart: read back by a small grammar of what Mermaid takes, and compared with the plan."""

from __future__ import annotations

import re

import msgspec
from define_samples import PROFILE, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from rocwright.model.plan import Choice, Plan
from rocwright.pipeline.define.overview import folded, mermaid

_TEXT = r"(?:[\w /.,:+-]|<br/>|#[0-9]+;)+"
_BOX = re.compile(rf'(n[0-9]+)(?:\["({_TEXT})"\]|\(\["({_TEXT})"\]\)|\{{\{{"({_TEXT})"\}}\}})')
_EDGE = re.compile(r"(n[0-9]+) --> (n[0-9]+)")
_FRAME = re.compile(r'subgraph (\w+)\["(\w+)"\]')


def read(text: str) -> tuple[dict[str, str], dict[str, str], set[tuple[str, str]], set[str]]:
    """Labels and frames of boxes, lines between them, dashed ones; every line has to be understood."""
    lines = text.splitlines()
    assert lines[0] == "flowchart LR"
    labels: dict[str, str] = {}
    frames: dict[str, str] = {}
    edges: set[tuple[str, str]] = set()
    dashed: set[str] = set()
    frame = ""
    for line in map(str.strip, lines[1:]):
        if found := _FRAME.fullmatch(line):
            assert not frame, "a frame in a frame"
            frame = found[1]
        elif line == "end":
            assert frame
            frame = ""
        elif found := _BOX.fullmatch(line):
            assert found[1] not in labels
            labels[found[1]] = next(filter(None, found.groups()[1:]))
            frames[found[1]] = frame
        elif found := _EDGE.fullmatch(line):
            edges.add((found[1], found[2]))
        elif line.startswith("class "):
            dashed |= set(line.split()[1].split(","))
        else:
            assert line == "classDef out stroke-dasharray: 4 4", line
    assert not frame
    assert {end for edge in edges for end in edge} | dashed <= set(labels)
    return labels, frames, edges, dashed


def _reached(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in found if b == c} - found
        if not more:
            return found
        found |= more


def test_jobs_are_boxes_and_the_order_is_that_of_the_plan() -> None:
    plan = plan_of(Choice("mine", "7", families=("one-all", "two-all"), group="both"))
    labels, frames, edges, dashed = read(mermaid(plan))
    assert len(labels) == len(plan.jobs)
    of = {job.id: f"n{number}" for number, job in enumerate(plan.jobs)}
    needs = {(of[need], of[job.id]) for job in plan.jobs for need in job.needs}
    # Fewer lines, and the same order.
    assert edges < needs
    assert _reached(edges) == _reached(needs)
    assert {labels[word].split("<br/>")[0] for word in dashed} == {"test_rocm_wheels", "test_pytorch_wheels"}
    assert [frames[word] for word in labels] == [job.platform for job in plan.jobs]


def test_many_jobs_are_drawn_as_one_with_their_number() -> None:
    pythons = tuple(f"3.{number}" for number in range(8, 15))
    plan = plan_of(Choice("mine", "7", pythons=pythons, refs=("main", "nightly")))
    labels, _, edges, _ = read(mermaid(plan))
    assert len(labels) == len(folded(plan)) == 12
    assert "build_pytorch_wheels<br/>14 jobs" in labels.values()
    assert "ci_summary" in labels.values()
    assert len(edges) < 20


@settings(deadline=None)
@given(st.text(min_size=1, max_size=8))
def test_no_text_of_a_reason_ends_its_label(reason: str) -> None:
    plan = plan_of()
    jobs = tuple(msgspec.structs.replace(job, skip=reason) for job in plan.jobs)
    labels, _, _, dashed = read(mermaid(msgspec.structs.replace(plan, jobs=jobs)))
    assert len(labels) == len(dashed) == len(jobs)


def test_folding_counts_every_step_and_platform() -> None:
    both = msgspec.structs.replace(PROFILE, platforms=("linux", "windows"), tier="postsubmit")
    plan: Plan = plan_of(profile=both)
    found = folded(plan)
    assert sum(one.steps for one in found) == len(plan.cells)
    assert sum(len(one.jobs) for one in found) == len(plan.jobs)
    assert [one.platform for one in found[-2:]] == ["windows", ""]
    tests = next(one for one in found if (one.name, one.platform) == ("test_pytorch_wheels", "linux"))
    assert (len(tests.jobs), tests.skipped, tests.needs) == (2, 1, ("lock_sources", "build_pytorch_wheels"))
