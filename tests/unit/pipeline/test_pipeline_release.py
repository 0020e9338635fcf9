"""From what the test environments showed to the gate's decision: no failure, and no silence, is promoted."""

from __future__ import annotations

from datetime import date

import pytest

from rocwright.data import load_table
from rocwright.gputest.smoke import TestedEnvironment, Verdicts
from rocwright.model.channels import Channels
from rocwright.model.sets import BUILD, FINDINGS, TEST, FileEntry, about_set, new_set, set_id
from rocwright.pipeline.steps import testing
from rocwright.store.gate import Decision, decide, policy_for

TODAY = date(2026, 11, 21)
CHANNELS = load_table("channels", Channels)
GOOD = Verdicts(5, 0, 0)
ENTRY = FileEntry(name="torch-2.9.whl", sha256="ab" * 32, size=1, project="torch", version="2.9")
MANIFEST = new_set(family="gfx90a-dcgpu", targets=["gfx90a"], platform="linux", files=[ENTRY], sources={})


def environment(
    installer: str, smoke: Verdicts = GOOD, rocm_sdk: Verdicts = GOOD, gpus: tuple[str, ...] = ("gfx90a",)
) -> TestedEnvironment:
    return TestedEnvironment(installer, {"torch": "2.9"}, 1.0, gpus, rocm_sdk, smoke)


def gate(*tested: TestedEnvironment, checked: bool = True, today: date = TODAY) -> Decision:
    statements = [
        about_set(MANIFEST, FINDINGS, {"passed": checked, "files": [ENTRY.name]}),
        about_set(MANIFEST, BUILD, {"result": "success"}),
        *testing.tested_statements(MANIFEST, tested),
    ]
    statements += testing.demo_bypasses(MANIFEST, today)
    return decide(set_id(MANIFEST), statements, policy_for(MANIFEST, CHANNELS, CHANNELS.named("v2"), TODAY))


def test_everything_passed_with_a_gpu() -> None:
    decision = gate(environment("pip"), environment("uv"))
    assert (decision.promote, decision.rule) == (True, "passed")


def test_a_machine_without_a_gpu_is_bypassed_and_says_so() -> None:
    without = Verdicts(5, 0, 2, (), ("k: no AMD GPU", "l: no AMD GPU"))
    decision = gate(environment("pip", without), environment("uv", without))
    assert (decision.promote, decision.rule) == (True, "bypassed")
    assert "NOT TESTED" in decision.reason
    assert "smoke-gpu on gfx90a (until" in decision.reason
    assert "without an AMD GPU" in decision.reason
    assert "until 2026-11-21" in decision.reason


@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("suite", ["smoke", "rocm_sdk"])
@pytest.mark.parametrize(
    "verdicts",
    [Verdicts(9, 1, 0, ("x",)), Verdicts(9, 1, 2), Verdicts(0, 0, 7), Verdicts(0, 0, 0), Verdicts(0, 3, 0)],
    ids=["one-failed", "failed-and-skipped", "all-skipped", "none", "all-failed"],
)
def test_one_bad_environment_closes_the_gate(installer: str, suite: str, verdicts: Verdicts) -> None:
    tested = [environment(name, **({suite: verdicts} if name == installer else {})) for name in ("pip", "uv")]
    decision = gate(*tested)
    assert not decision.promote
    assert decision.rule == "tests"
    assert {"smoke": "smoke-host", "rocm_sdk": "rocm-sdk"}[suite] in decision.reason


def test_no_environment_at_all_is_no_pass() -> None:
    assert not gate().promote
    results = [item.predicate["result"] for item in testing.tested_statements(MANIFEST, [])]
    assert "passed" not in results


def test_one_environment_with_a_skip_means_the_gpu_suite_did_not_run() -> None:
    decision = gate(environment("pip"), environment("uv", Verdicts(5, 0, 1, (), ("k: no GPU",))))
    assert decision.rule == "bypassed"


def test_a_gpu_suite_is_not_passed_by_a_run_in_which_something_failed() -> None:
    results = {
        item.predicate["suite"]: item.predicate["result"]
        for item in testing.tested_statements(MANIFEST, [environment("pip", Verdicts(0, 4, 0))])
    }
    assert results["smoke-gpu"] != "passed"


def test_a_machine_without_a_gpu_passes_no_gpu_suite_even_when_nothing_was_skipped() -> None:
    """A suite that forgot to have GPU tests proves nothing about a GPU."""
    decision = gate(environment("pip", gpus=()), environment("uv", gpus=()))
    assert decision.rule == "bypassed"
    assert "NOT TESTED" in decision.reason


def test_a_skip_for_another_reason_is_no_want_of_a_gpu() -> None:
    results = {
        item.predicate["suite"]: item.predicate["result"]
        for item in testing.tested_statements(
            MANIFEST, [environment("pip", Verdicts(5, 0, 1, (), ("k: needs Windows",)))]
        )
    }
    assert results["smoke-gpu"] == "passed"


def test_bad_checks_close_the_gate_whatever_the_tests_say() -> None:
    decision = gate(environment("pip"), environment("uv"), checked=False)
    assert (decision.promote, decision.rule) == (False, "unchecked")


def test_a_bypass_of_yesterday_is_expired() -> None:
    decision = gate(environment("pip", gpus=()), environment("uv", gpus=()), today=date(2026, 11, 20))
    assert (decision.promote, decision.rule) == (False, "untested")


def test_a_gpu_speaks_for_its_own_target_only() -> None:
    both = new_set(
        family="fam", targets=["gfx90a:xnack+", "gfx942"], platform="linux", files=[ENTRY], sources={}
    )
    results = {
        item.predicate.get("target"): (item.predicate["result"], item.predicate["runner"])
        for item in testing.tested_statements(both, [environment("pip"), environment("uv")])
        if item.predicate["suite"] == "smoke-gpu"
    }
    assert results == {"gfx90a:xnack+": ("passed", True), "gfx942": ("skipped", False)}


def test_tests_of_another_set_do_not_promote_this_one() -> None:
    other = new_set(family="gfx90a-dcgpu", targets=["gfx942"], platform="linux", files=[ENTRY], sources={})
    statements = [
        about_set(MANIFEST, FINDINGS, {"passed": True, "files": [ENTRY.name]}),
        about_set(MANIFEST, BUILD, {"result": "success"}),
        *testing.tested_statements(other, [environment("pip"), environment("uv")]),
    ]
    policy = policy_for(MANIFEST, CHANNELS, CHANNELS.named("release"), TODAY)
    decision = decide(set_id(MANIFEST), statements, policy)
    assert (decision.promote, decision.rule) == (False, "digest")


def test_each_suite_is_stated_once_about_the_set_and_its_files() -> None:
    made = testing.tested_statements(MANIFEST, [environment("pip"), environment("uv", Verdicts(5, 1, 0))])
    assert [item.predicate["suite"] for item in made] == ["rocm-sdk", "smoke-host", "smoke-gpu"]
    assert all(item.predicate_type == TEST and item.about(set_id(MANIFEST)) for item in made)
    assert all({"torch-2.9.whl", "rocwright:set"} == {s.name for s in item.subject} for item in made)
    assert "pip: 5 passed, 0 failed; uv: 5 passed, 1 failed" in made[1].predicate["detail"]
