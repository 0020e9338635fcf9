"""The truth table of the gate, row by row, with the defects of older gates as rows of their own."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from itertools import product

import pytest

from rocwright.data import load_table
from rocwright.errors import InvalidData
from rocwright.model.channels import BypassBounds, Channels, SuiteBounds
from rocwright.model.findings import Waiver
from rocwright.model.sets import (
    BUILD,
    BYPASS,
    FINDINGS,
    TEST,
    WAIVER,
    FileEntry,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
    waiver_statement,
)
from rocwright.store.gate import Decision, Objection, Policy, decide, policy_for
from rocwright.store.statements import Bypass, Required, bypass_statement


def make_set(digest: str = "a", targets: Iterable[str] = ()) -> SetManifest:
    entry = FileEntry("torch-1-py3-none-any.whl", digest * 64, 1, "torch", "1")
    return new_set(family="fam", targets=targets, platform="linux", files=[entry], sources={})


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
    result: str,
    runner: bool,
    *,
    suite: str = "gpu",
    family: str = "fam",
    attempt: int = 1,
    of: SetManifest = SET,
) -> Statement:
    predicate = {"suite": suite, "family": family, "result": result, "runner": runner, "attempt": attempt}
    return about_set(of, TEST, predicate)


def policy(*, required: tuple[Required, ...] = (GPU,)) -> Policy:
    return Policy(required=required, today=TODAY)


def bypassed(
    required: Required = GPU, *, expires: date = date(2026, 4, 1), of: SetManifest = SET
) -> Statement:
    return bypass_statement(of, Bypass(required, "no such GPU in the lab", expires))


def gate(said: Iterable[Statement], asked: Policy | None = None, *, bypass: bool = False) -> Decision:
    return decide(ID, [*said, *([bypassed()] if bypass else [])], asked or policy())


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
        decision = gate(order, bypass=bypass)
        assert (decision.promote, decision.rule, decision.set_id) == (promote, rule, ID)


def test_an_unchecked_set_is_never_promoted() -> None:
    good = [build(), result_of("passed", True)]
    assert decide(ID, good, policy()).rule == "unchecked"
    assert gate([*good, findings(False)], bypass=True).rule == "unchecked"
    assert decide(ID, [*good, findings(), findings(False)], policy()).rule == "unchecked"
    # "yes" is not True
    assert decide(ID, [*good, findings("yes")], policy()).rule == "unchecked"


def test_tests_of_other_bytes_do_not_count() -> None:
    decision = gate([findings(), build(), result_of("passed", True, of=OTHER)], bypass=True)
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
    assert gate([*said, bypassed(expires=TODAY)]).rule == "bypassed"
    decision = gate([*said, bypassed(expires=date(2026, 2, 28))])
    assert decision.rule == "untested"
    assert "expired bypass: gpu on fam" in decision.reason


def given(at: object, expires: date, by: str = "") -> Statement:
    """A bypass as a statement has it; `at` of an older edition is not there."""
    content = {"required": {"suite": "gpu", "family": "fam"}, "reason": "none", "expires": str(expires)}
    return about_set(SET, BYPASS, {**content, "by": by, **({} if at == "older" else {"at": at})})


@pytest.mark.parametrize(
    ("at", "expires", "void"),
    [
        ("2026-03-01", date(2026, 3, 31), ""),
        ("2026-03-01", date(2026, 4, 1), "it lasts 31 days from 2026-03-01, and 30 are the most"),
        # Given in January for too long: nearly over, and void all the same.
        ("2026-01-15", date(2026, 3, 2), "it lasts 46 days from 2026-01-15, and 30 are the most"),
        # A day that has not come yet lengthens nothing.
        ("2030-01-01", date(2030, 1, 5), "it lasts 1406 days from 2026-03-01, and 30 are the most"),
        # Of older editions, which did not say when, today counts.
        ("older", date(2026, 3, 31), ""),
        (None, date(9999, 12, 31), "from 2026-03-01, and 30 are the most"),
    ],
)
def test_a_bypass_holds_for_as_long_as_the_policy_allows(at: object, expires: date, void: str) -> None:
    bounded = Policy(required=(GPU,), today=TODAY, bypass=BypassBounds(days=30))
    decision = decide(ID, [findings(), build(), given(at, expires)], bounded)
    assert (decision.promote, decision.rule) == ((False, "untested") if void else (True, "bypassed"))
    assert ("; void bypass: gpu on fam (until" in decision.reason, void in decision.reason) == (
        bool(void),
        True,
    )
    assert [one.reason for one in decision.bypasses] == ([] if void else ["none"])


def test_a_suite_may_have_bounds_of_its_own_and_names_who_may() -> None:
    own = BypassBounds(days=30, by=("ada",), suite={"gpu": SuiteBounds(days=3), "host": SuiteBounds(by=())})
    assert (own.of("gpu"), own.of("host"), own.of("other")) == ((3, ("ada",)), (30, ()), (30, ("ada",)))
    bounded = Policy(required=(GPU,), today=TODAY, bypass=own)
    for by, rule in (("ada", "bypassed"), ("eve", "untested"), ("", "untested")):
        said = [findings(), build(), given("2026-03-01", date(2026, 3, 4), by)]
        assert decide(ID, said, bounded).rule == rule
    closed = decide(ID, [findings(), build(), given("2026-03-01", date(2026, 3, 4), "eve")], bounded)
    assert "eve gave it, and only ada may" in closed.reason
    [opening] = [one.words for one in closed.rulings[-1].openings if "--bypass" in one.words]
    assert opening[-4:] == ("--expires", "2026-03-04", "--by", "ada")


def overridden(until: str, *, passed: bool = True, **more: object) -> Statement:
    one = {"field": "off", "before": "on", "after": "off", "reason": "known", "expires": until}
    taken = {**one, "rule": "sbom", "names": ["torch"], "file": "rocwright.toml", "sha256": "c" * 64}
    files = ["torch-1-py3-none-any.whl"]
    return about_set(SET, FINDINGS, {"passed": passed, "files": files, "overrides": [taken], **more})


def test_what_was_taken_away_of_a_check_counts_to_its_last_day_and_where_the_policy_says_so() -> None:
    good = [build(), result_of("passed", True)]
    told = "sbom off for torch (until 2026-03-01: known)"
    decision = decide(ID, [*good, overridden("2026-03-01")], policy())
    assert (decision.promote, decision.rule) == (True, "passed")
    assert decision.reason == f"passed: gpu on fam; OVERRIDDEN: {told}"
    assert [one.rule for one in decision.overrides] == ["sbom"]
    past = decide(ID, [*good, overridden("2026-02-28")], policy())
    assert (past.promote, past.rule) == (False, "unchecked")
    assert "past their last day: sbom off for torch (until 2026-02-28: known)" in past.reason
    strict = Policy(required=(GPU,), today=TODAY, overrides=False)
    refused = decide(ID, [*good, overridden("2026-03-01")], strict)
    assert (refused.promote, refused.rule) == (False, "unchecked")
    assert f"rests on overrides that do not count here: {told}" in refused.reason


def test_a_check_of_all_rules_is_what_counts_and_errors_count_always() -> None:
    strict = Policy(required=(GPU,), today=TODAY, overrides=False)
    good = [build(), result_of("passed", True)]
    whole = decide(ID, [*good, overridden("2026-02-01"), findings()], strict)
    assert (whole.promote, whole.overrides) == (True, ())
    error = {"rule": "tags", "severity": "error", "file": "torch-1-py3-none-any.whl", "cause": "c"}
    broken = overridden(
        "2026-04-01", passed=False, findings=[{**error, "next_step": "n"}], unwaivable=["tags"]
    )
    assert decide(ID, [*good, broken, findings()], strict).rule == "unchecked"
    spoiled = about_set(SET, FINDINGS, {**findings().predicate, "overrides": [{"field": "off"}]})
    assert "cannot be read" in decide(ID, [*good, spoiled, findings()], policy()).reason


def test_the_reason_of_a_bypass_says_that_nothing_was_tested() -> None:
    decision = gate([findings(), build(), result_of("skipped", False)], bypass=True)
    assert decision.reason == (
        "no required test ran; NOT TESTED, bypassed: gpu on fam (until 2026-04-01: no such GPU in the lab)"
    )


def test_policies_that_gate_nothing_are_refused() -> None:
    with pytest.raises(InvalidData, match="gates nothing"):
        Policy(required=(), today=TODAY)
    with pytest.raises(InvalidData, match="no reason"):
        Bypass(GPU, " ", TODAY)


SUITES = ("host", "gpu")
BY_SUITE = [None, ("passed", True), ("failed", True), ("cancelled", True), ("skipped", True)]
BY_SUITE += [("passed", False), ("failed", False), ("cancelled", False), ("skipped", False)]
BYPASSES = {
    "none": [],
    "valid": [bypassed(Required("gpu", "fam"))],
    "expired": [bypassed(Required("gpu", "fam"), expires=date(2026, 2, 28))],
    "of another suite": [bypassed(Required("smoke", "fam"))],
    "of another target": [bypassed(Required("gpu", "fam", "gfx942"))],
    "of another set": [bypassed(Required("gpu", "fam"), of=OTHER)],
}


@pytest.mark.parametrize("bypass", BYPASSES)
@pytest.mark.parametrize("built", ["success", "failure", "cancelled", "skipped", "SUCCESS", "", None])
def test_every_combination(built: str | None, bypass: str) -> None:
    """Two suites, each with every result, on these or other bytes, checked or not: 42 times 486 rows.

    The expected answer is written down here a second time, as the documents say it, not taken from the rules.
    """
    asked = policy(required=(Required("host", "fam"), Required("gpu", "fam")))
    rows = 0
    for check, host, gpu, of in product((True, False, None), BY_SUITE, BY_SUITE, (SET, OTHER)):
        said = [] if check is None else [findings(check)]
        said += [] if built is None else [build(built)]
        for suite, result in zip(SUITES, (host, gpu), strict=True):
            said += [] if result is None else [result_of(*result, suite=suite, of=of)]
        decision = decide(ID, [*said, *BYPASSES[bypass]], asked)
        counted = (host, gpu) if of is SET else (None, None)
        good_gpu = counted[1] == ("passed", True) or (
            bypass == "valid" and counted[1] in (None, ("skipped", False))
        )
        tested_elsewhere = of is OTHER and (host, gpu) != (None, None)
        expected = (
            check is True
            and built == "success"
            and counted[0] == ("passed", True)
            and good_gpu
            and not tested_elsewhere
        )
        assert decision.promote is expected, (check, built, host, gpu, of is SET, bypass, decision)
        assert (decision.rule in ("passed", "bypassed")) is expected
        if expected:
            assert (decision.rule == "passed") is (counted[1] == ("passed", True))
        rows += 1
    assert rows == 3 * 9 * 9 * 2


def test_each_rule_says_what_it_found_and_the_first_broken_one_decides() -> None:
    decision = gate([findings(), build("failure"), result_of("failed", True)])
    assert [(one.rule, one.passed) for one in decision.rulings] == [
        ("unchecked", True),
        ("build", False),
        ("digest", True),
        ("tests", False),
        ("untested", False),
    ]
    assert (decision.rule, decision.reason) == ("build", "the build of this set ended with: failure")
    assert decision.rulings[-1].reason.startswith("not tested: gpu on fam: failed;")


def test_results_that_contradict_each_other_close_the_gate() -> None:
    good = [findings(), build(), result_of("passed", True)]
    assert gate([*good, build("failure")]).rule == "build"
    assert gate([*good, findings(False)]).rule == "unchecked"
    assert gate([*good, result_of("failed", True)]).rule == "tests"


def test_a_runner_that_went_away_takes_no_failure_back() -> None:
    """Else a second attempt on a day without machines, and a bypass, would release what failed."""
    said = [findings(), build(), result_of("failed", True), result_of("skipped", False, attempt=2)]
    for order in (said, said[::-1]):
        assert gate(order, bypass=True).rule == "tests"
    passed = [findings(), build(), result_of("passed", True), result_of("skipped", False, attempt=2)]
    assert gate(passed).rule == "passed"


@pytest.mark.parametrize(
    "broken",
    [
        about_set(SET, TEST, {"result": "passed"}),
        about_set(SET, TEST, {"suite": "gpu", "family": "fam", "result": "ok", "runner": True}),
        about_set(SET, TEST, {"suite": "gpu", "family": "fam", "result": "passed", "runner": "true"}),
        about_set(SET, BYPASS, {"bypass_tests_for_releases": True}),
        about_set(
            SET,
            BYPASS,
            {"required": {"suite": "gpu", "family": "fam"}, "reason": "", "expires": "2026-04-01"},
        ),
        about_set(SET, BYPASS, {"required": {"suite": "gpu", "family": "fam"}, "reason": "x"}),
        about_set(SET, WAIVER, {"rule": "tags"}),
    ],
    ids=["half a result", "another word", "runner is a word", "a flag", "no reason", "no last day", "waiver"],
)
def test_what_cannot_be_read_closes_the_gate(broken: Statement) -> None:
    good = [findings(), build(), result_of("passed", True)]
    assert gate(good).promote
    decision = gate([*good, broken], bypass=True)
    assert (decision.promote, decision.rule) == (False, "unreadable")
    assert decision.reason
    # Said about another set it is none of ours.
    other = about_set(OTHER, broken.predicate_type, broken.predicate)
    assert gate([*good, other]).promote


def test_names_are_compared_whole() -> None:
    """gfx94X-dcgpu is not gfx94X-dcgpu-asan, and GPU is not gpu."""
    for family, suite in (("fa", "gpu"), ("fam2", "gpu"), ("FAM", "gpu"), ("fam", "GPU"), ("fam", "gp")):
        said = [findings(), build(), result_of("passed", True, suite=suite, family=family)]
        assert gate(said).rule == "untested"


def test_what_the_store_objects_to_closes_the_gate_first() -> None:
    good = [findings(), build(), result_of("passed", True)]
    asked = Policy((GPU,), TODAY, against=(Objection("unstaged", "it is not in staging"),))
    decision = decide(ID, good, asked)
    assert (decision.promote, decision.rule, decision.reason) == (False, "unstaged", "it is not in staging")
    assert decision.rulings[-1].passed


# ---- what a channel asks for ----

CHANNELS = load_table("channels", Channels)


def test_a_release_asks_for_each_target_of_the_set() -> None:
    asked = policy_for(make_set(targets=["gfx942", "gfx90a"]), CHANNELS, CHANNELS.named("v2"), TODAY)
    assert [str(one) for one in asked.required] == [
        "rocm-sdk on fam",
        "smoke-gpu on gfx90a",
        "smoke-gpu on gfx942",
        "smoke-host on fam",
    ]


def test_a_suite_for_each_target_does_not_vanish_with_the_targets() -> None:
    asked = policy_for(SET, CHANNELS, CHANNELS.named("release"), TODAY)
    assert Required("smoke-gpu", "fam") in asked.required


def test_one_untested_target_blocks_the_whole_set_until_a_bypass_says_why() -> None:
    """Host and device wheels are one set: a target is never released without the others."""
    manifest = make_set(targets=["gfx1151", "gfx942"])
    files = {"passed": True, "files": [entry.name for entry in manifest.files]}
    said = [about_set(manifest, FINDINGS, files), about_set(manifest, BUILD, {"result": "success"})]
    for suite, target in (("rocm-sdk", ""), ("smoke-host", ""), ("smoke-gpu", "gfx942")):
        predicate = {"suite": suite, "family": "fam", "target": target, "result": "passed", "runner": True}
        said.append(about_set(manifest, TEST, predicate))
    asked = policy_for(manifest, CHANNELS, CHANNELS.named("release"), TODAY)
    closed = decide(set_id(manifest), said, asked)
    assert (closed.rule, "smoke-gpu on gfx1151: no result" in closed.reason) == ("untested", True)
    wrong = bypassed(Required("smoke-gpu", "fam", "gfx942"), of=manifest)
    assert decide(set_id(manifest), [*said, wrong], asked).rule == "untested"
    right = bypassed(Required("smoke-gpu", "fam", "gfx1151"), of=manifest)
    lifted = decide(set_id(manifest), [*said, right], asked)
    assert (lifted.promote, lifted.rule) == (True, "bypassed")
    assert "NOT TESTED, bypassed: smoke-gpu on gfx1151 (until 2026-04-01" in lifted.reason


def test_staging_asks_for_the_contract_only() -> None:
    asked = policy_for(SET, CHANNELS, CHANNELS.named("staging"), TODAY)
    assert asked.required == ()
    assert gate([findings()], asked).rule == "checked"
    assert gate([], asked).rule == "unchecked"
    assert gate([findings(), build("failure")], asked).promote


def test_a_waiver_shows_in_the_decision() -> None:
    finding = {
        "rule": "elf-rpath",
        "severity": "error",
        "file": "torch-1-py3-none-any.whl",
        "cause": "x",
        "next_step": "y",
    }
    content = {"passed": False, "files": [finding["file"]], "findings": [finding], "unwaivable": []}
    said = [about_set(SET, FINDINGS, content), build(), result_of("passed", True)]
    waiver = waiver_statement(SET, Waiver("elf-rpath", "known upstream", date(2026, 4, 1)))
    assert gate([*said, waiver]).reason == (
        "passed: gpu on fam; WAIVED: elf-rpath (until 2026-04-01: known upstream)"
    )
