"""What a report counts, and what of it is stated of a set: each failure is counted as what it is."""

from __future__ import annotations

import re

import pytest

from rocwright.data import load_table
from rocwright.gputest.report.markdown import About, markdown
from rocwright.gputest.report.page import html_page
from rocwright.gputest.report.values import FailedCase, FailureGroup, Finding, Judged, ShardState
from rocwright.model.channels import Channels
from rocwright.model.sets import FileEntry, new_set
from rocwright.model.testing import Ran
from rocwright.pipeline.tested import what_to_state

CHANNELS = load_table("channels", Channels)
# Four numbers that nobody can take for each other, nor for what is left of them.
FINDINGS: dict[Finding, int] = {"NEW": 2, "KNOWN": 5, "INFRA": 11, "FLAKY": 3}


def group(finding: Finding, count: int, shard: str) -> FailureGroup:
    verdict = "flaky" if finding == "FLAKY" else "failed"
    cases = tuple(FailedCase(shard, f"test_{finding}_{number}", verdict, finding) for number in range(count))
    infra = "no device" if finding == "INFRA" else ""
    return FailureGroup(finding.lower(), f"what is {finding}", finding, infra, cases)


def shard(name: str, target: str, **counts: int) -> ShardState:
    state = "failed" if counts.get("failed") else "passed"
    ran = Ran("smoke-gpu", target=target)
    return ShardState(name, state, target=target, ran=ran, counts=counts, suite="smoke-gpu")


JUDGED = Judged(
    shards=(shard("one", "gfx942", failed=18, flaky=3, passed=7),),
    groups=tuple(group(finding, count, "one") for finding, count in FINDINGS.items()),
    fixed=(),
    files=(),
)


@pytest.mark.parametrize(("finding", "count"), FINDINGS.items())
def test_failures_are_counted_by_what_they_are(finding: Finding, count: int) -> None:
    assert JUDGED.of(finding) == count


def test_the_summary_says_how_many_failures_are_new_known_and_the_machines() -> None:
    assert " Failures: 2 NEW, 5 KNOWN, 11 INFRA." in markdown(JUDGED, About())
    only = Judged(JUDGED.shards, (group("KNOWN", 1, "one"),), (), ())
    assert " Failures: 1 KNOWN." in markdown(only, About())


def test_the_page_says_so_too() -> None:
    shown = re.sub(r"<[^>]+>", " ", html_page(JUDGED, About()))
    told = re.findall(r"(\d+)\s+(new failures|known failures|failures of machines|flaky)", shown)
    assert [(name, int(number)) for number, name in told][:4] == [
        ("new failures", 2),
        ("known failures", 5),
        ("failures of machines", 11),
        ("flaky", 3),
    ]


def test_what_is_stated_of_a_set_counts_the_new_failures_of_each_target() -> None:
    manifest = new_set(
        family="gfx94X-dcgpu",
        targets=("gfx90a", "gfx942"),
        platform="linux",
        files=[FileEntry("torch-2.9.0-py3-none-any.whl", "0" * 64, 1, "torch", "2.9.0", None, "1" * 64)],
        sources={},
    )
    judged = Judged(
        shards=(shard("one", "gfx942", failed=7, passed=1), shard("two", "gfx90a", failed=5)),
        groups=(group("NEW", 2, "one"), group("KNOWN", 5, "one"), group("INFRA", 5, "two")),
        fixed=(),
        files=(),
    )
    said = what_to_state(manifest, CHANNELS, (), judged)
    assert {(one.target, one.result, one.detail) for one in said} == {
        ("gfx942", "failed", "7 failed, 1 passed; 2 new failures"),
        ("gfx90a", "failed", "5 failed"),
    }
