"""The truth table of the gate, row by row, with the defects of older gates as rows of their own."""

from __future__ import annotations

from datetime import date

import pytest

from rocwright.errors import InvalidData
from rocwright.model.manifest import FileEntry, new_set, set_id
from rocwright.model.statement import BUILD, FINDINGS, TEST, Statement, about_set
from rocwright.store.gate import Bypass, Policy, Required, decide


def make_set(digest: str = "a") -> object:
    entry = FileEntry("torch-1-py3-none-any.whl", digest * 64, 1, "torch", "1")
    return new_set(family="fam", targets=[], platform="linux", files=[entry], sources={})


SET = make_set()
ID = set_id(SET)
OTHER = make_set("b")
GPU = Required("gpu", "fam")
TODAY = date(2026, 3, 1)


def findings(passed: object = True) -> Statement:
    return about_set(SET, FINDINGS, {"passed": passed, "files": ["torch-1-py3-none-any.whl"]})


def build(result: str = "success") -> Statement:
    return about_set(SET, BUILD, {"result": result})


def result_of(
    result: str, runner: bool, *, suite: str = "gpu", family: str = "fam", attempt: int = 1, of: object = SET
) -> Statement:
    predicate = {"suite": suite, "family": family, "result": result, "runner": runner, "attempt": attempt}
    return about_set(of, TEST, predicate)


def policy(
    *, bypass: bool = False, expires: date = date(2026, 4, 1), required: tuple[Required, ...] = (GPU,)
) -> Policy:
    bypasses = tuple(Bypass(item, "no such GPU in the lab", expires) for item in required) if bypass else ()
    return Policy(required=required, today=TODAY, bypasses=bypasses)


# build, result, runner, bypass -> promote, rule
TABLE = [
    ("success", "passed", True, False, True, "passed"),
    ("success", "passed", True, True, True, "passed"),
    ("success", "failed", True, False, False, "tests"),
    ("success", "failed", True, True, False, "tests"),
    ("success", "cancelled", True, False, False, "tests"),
    ("success", "cancelled", True, True, False, "tests"),
    ("success", "skipped", True, False, False, "tests"),
    ("success", "skipped", True, True, False, "tests"),
    ("success", "skipped", False, False, False, "untested"),
    ("success", "skipped", False, True, True, "bypassed"),
    ("success", "failed", False, True, False, "tests"),
    ("success", "passed", False, True, False, "tests"),
    ("success", "cancelled", False, True, False, "tests"),
    ("success", None, None, False, False, "untested"),
    ("success", None, None, True, True, "bypassed"),
    ("failure", "passed", True, False, False, "build"),
    ("failure", "passed", True, True, False, "build"),
    ("failure", "skipped", False, True, False, "build"),
    ("cancelled", "passed", True, True, False, "build"),
    (None, "passed", True, True, False, "build"),
]


@pytest.mark.parametrize(("built", "result", "runner", "bypass", "promote", "rule"), TABLE)
def test_truth_table(
    built: str | None, result: str | None, runner: bool | None, bypass: bool, promote: bool, rule: str
) -> None:
    statements = [findings()]
    if built is not None:
        statements.append(build(built))
    if result is not None:
        statements.append(result_of(result, bool(runner)))
    for order in (statements, statements[::-1]):
        decision = decide(ID, order, policy(bypass=bypass))
        assert (decision.promote, decision.rule, decision.set_id) == (promote, rule, ID)


def test_an_unchecked_set_is_never_promoted() -> None:
    good = [build(), result_of("passed", True)]
    assert decide(ID, good, policy()).rule == "unchecked"
    assert decide(ID, [*good, findings(False)], policy(bypass=True)).rule == "unchecked"
    assert decide(ID, [*good, findings(), findings(False)], policy()).rule == "unchecked"
    # "yes" is not True
    assert decide(ID, [*good, findings("yes")], policy()).rule == "unchecked"


def test_tests_of_other_bytes_do_not_count() -> None:
    decision = decide(ID, [findings(), build(), result_of("passed", True, of=OTHER)], policy(bypass=True))
    assert (decision.promote, decision.rule) == (False, "digest")


def test_a_failure_on_other_bytes_does_not_block_either() -> None:
    said = [findings(), build(), result_of("failed", True, of=OTHER), result_of("passed", True)]
    assert decide(ID, said, policy()).promote


def test_every_gating_family_counts() -> None:
    required = (GPU, Required("gpu", "second"))
    said = [findings(), build(), result_of("passed", True)]
    assert decide(ID, said, policy(required=required)).rule == "untested"
    assert (
        decide(ID, [*said, result_of("failed", True, family="second")], policy(required=required)).rule
        == "tests"
    )
    assert (
        decide(ID, [*said, result_of("passed", True, family="second")], policy(required=required)).rule
        == "passed"
    )


def test_a_failure_of_a_suite_nobody_requires_blocks_too() -> None:
    said = [findings(), build(), result_of("passed", True), result_of("failed", True, suite="smoke")]
    assert decide(ID, said, policy()).rule == "tests"


def test_a_later_attempt_replaces_an_earlier_and_the_worse_of_one_attempt_counts() -> None:
    base = [findings(), build()]
    again = [*base, result_of("failed", True), result_of("passed", True, attempt=2)]
    assert decide(ID, again, policy()).promote
    assert decide(ID, again[::-1], policy()).promote
    both = [*base, result_of("failed", True), result_of("passed", True)]
    assert decide(ID, both, policy()).rule == decide(ID, both[::-1], policy()).rule == "tests"


def test_an_expired_bypass_is_none_and_the_last_day_counts() -> None:
    said = [findings(), build(), result_of("skipped", False)]
    assert decide(ID, said, policy(bypass=True, expires=TODAY)).rule == "bypassed"
    decision = decide(ID, said, policy(bypass=True, expires=date(2026, 2, 28)))
    assert decision.rule == "untested"
    assert "expired bypass: gpu on fam" in decision.reason


def test_the_reason_of_a_bypass_says_that_nothing_was_tested() -> None:
    decision = decide(ID, [findings(), build(), result_of("skipped", False)], policy(bypass=True))
    assert decision.reason == (
        "no required test ran; NOT TESTED, bypassed: gpu on fam (until 2026-04-01: no such GPU in the lab)"
    )


def test_policies_that_gate_nothing_are_refused() -> None:
    with pytest.raises(InvalidData, match="gates nothing"):
        Policy(required=(), today=TODAY)
    with pytest.raises(InvalidData, match="no reason"):
        Bypass(GPU, " ", TODAY)


def test_a_malformed_result_is_an_error_not_a_pass() -> None:
    with pytest.raises(InvalidData, match="does not fit"):
        decide(ID, [findings(), build(), about_set(SET, TEST, {"result": "passed"})], policy(bypass=True))
