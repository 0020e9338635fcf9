"""Results on emulated GPUs at the gate: asked for by a policy they count, for a GPU they never stand."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import msgspec
import pytest

from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.model.channels import Channels
from rocwright.model.sets import BUILD, FINDINGS, TEST, FileEntry, Statement, about_set, new_set, set_id
from rocwright.store.gate import Decision, Policy, decide, policy_for
from rocwright.store.statements import (
    Bypass,
    Required,
    SuiteResult,
    bypass_statement,
    latest_results,
    result_statement,
)

FILE = "torch-1-py3-none-any.whl"
SET = new_set(
    family="fam",
    targets=["gfx942"],
    platform="linux",
    files=[FileEntry(FILE, "a" * 64, 1, "torch", "1")],
    sources={},
)
ID = set_id(SET)
TODAY = date(2026, 3, 1)
GPU = Required("smoke-gpu", "fam", "gfx942")
EMULATED = Required("smoke-gpu", "fam", "gfx942", "emulated")
SAID = (
    about_set(SET, FINDINGS, {"passed": True, "files": [FILE]}),
    about_set(SET, BUILD, {"result": "success"}),
)


def said(result: str = "passed", **more: object) -> Statement:
    predicate = {"suite": "smoke-gpu", "family": "fam", "target": "gfx942", "result": result, "runner": True}
    return about_set(SET, TEST, predicate | more)


def gate(stated: Iterable[Statement], *required: Required) -> Decision:
    return decide(ID, [*SAID, *stated], Policy(required or (GPU,), TODAY))


def reason(decision: Decision, rule: str) -> str:
    return next(one.reason for one in decision.rulings if one.rule == rule)


def test_what_passed_on_an_emulated_gpu_opens_no_gate_that_asks_for_one() -> None:
    decision = gate([said(device="emulated")])
    assert (decision.promote, decision.rule) == (False, "untested")
    assert (
        "smoke-gpu on gfx942: no result (that it passed on an emulated GPU does not count)" in decision.reason
    )


@pytest.mark.parametrize("device", ["none", "simulated", "GPU", "emulated ", ""])
def test_an_unknown_kind_of_device_counts_for_nothing_and_is_told(device: str) -> None:
    decision = gate([said(device=device)])
    assert (decision.promote, decision.rule) == (False, "untested")
    assert f"smoke-gpu passed on {device!r}" in reason(decision, "tests")
    # Nor does it take anything back.
    assert gate([said(), said("failed", device=device)]).promote


def test_a_statement_that_says_nothing_of_its_device_is_of_a_gpu_and_so_is_one_that_says_gpu() -> None:
    assert gate([said()]).rule == "passed"
    assert gate([said(device="gpu")]).rule == "passed"
    assert latest_results([said()]).keys() == {GPU}


def test_a_later_attempt_on_an_emulated_gpu_takes_nothing_back() -> None:
    assert gate([said("failed"), said(device="emulated", attempt=9)]).rule == "tests"
    decision = gate([said(), said("failed", device="emulated", attempt=9)])
    assert decision.promote
    assert "not asked for here: smoke-gpu on gfx942 (emulated) failed" in reason(decision, "tests")


def test_where_it_is_asked_for_it_counts() -> None:
    assert gate([said(device="emulated")], EMULATED).rule == "passed"
    assert gate([said("failed", device="emulated")], EMULATED).rule == "tests"
    assert gate([], EMULATED).rule == "untested"
    # A GPU's is no result there, either: each is asked for by itself.
    assert gate([said()], EMULATED).rule == "untested"
    assert gate([said()], GPU, EMULATED).rule == "untested"
    both = gate([said(), said(device="emulated")], GPU, EMULATED)
    assert both.reason == "passed: smoke-gpu on gfx942 (emulated), smoke-gpu on gfx942"


def test_a_bypass_of_one_is_none_of_the_other() -> None:
    for given, asked in ((EMULATED, GPU), (GPU, EMULATED)):
        bypass = bypass_statement(SET, Bypass(given, "no machine", date(2026, 3, 9)))
        assert gate([bypass], asked).rule == "untested"
        assert gate([bypass], given).rule == "bypassed"


def test_commands_that_open_it_name_the_device() -> None:
    (passed, bypassed) = gate([], EMULATED).rulings[-1].openings
    assert passed.words[-4:] == ("--device", "emulated", "--result", "passed")
    assert passed.when == "smoke-gpu passed on gfx942 (emulated)"
    assert bypassed.words[:8] == (
        "set",
        "state",
        ID,
        "--suite",
        "smoke-gpu",
        "--target",
        "gfx942",
        "--device",
    )
    assert all("--device" not in one.words for one in gate([]).rulings[-1].openings)


def channels(text: str) -> Channels:
    return load_table("channels", Channels, parse_overlay(text, where="rocwright.toml"))


def asked(table: Channels, name: str) -> list[str]:
    return list(map(str, policy_for(SET, table, table.named(name), TODAY).required))


def test_a_policy_asks_for_emulated_gpus_beside_gpus_or_in_a_channel_of_its_own() -> None:
    beside = channels('[[channels.suite]]\nname = "smoke-gpu"\nper = "target"\ndevice = "emulated"\n')
    plain = ["rocm-sdk on fam", "smoke-gpu on gfx942", "smoke-host on fam"]
    assert asked(beside, "release") == [plain[0], "smoke-gpu on gfx942 (emulated)", *plain[1:]]
    own = channels(
        '[[channels.channel]]\nname = "ci"\nprefix = "ci"\ngate = "tested"\nlisted = 5\ndevice = "emulated"\n'
    )
    assert asked(own, "ci") == [plain[0], "smoke-gpu on gfx942 (emulated)", plain[2]]
    # What the channel asks for changes nothing of any other.
    assert asked(own, "release") == plain


def test_statements_of_gpus_are_the_bytes_that_they_were() -> None:
    made = result_statement(SET, SuiteResult("smoke-gpu", "fam", "passed", True, target="gfx942"))
    assert made.predicate == {
        "suite": "smoke-gpu",
        "family": "fam",
        "result": "passed",
        "runner": True,
        "target": "gfx942",
    }
    bypass = Bypass(GPU, "no machine", date(2026, 3, 9))
    assert bypass_statement(SET, bypass).predicate["required"] == {
        "suite": "smoke-gpu",
        "family": "fam",
        "target": "gfx942",
    }
    assert msgspec.convert({"suite": "a", "family": "b", "target": ""}, Required) == Required("a", "b")
