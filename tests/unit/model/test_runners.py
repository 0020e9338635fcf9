"""Rows of families: tiers, runners and bypasses; what contradicts is named."""

from __future__ import annotations

from collections import Counter
from datetime import date

import pytest

from rocwright.data import load_table, parse_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData
from rocwright.model.gpu import Families
from rocwright.model.plan import TIERS
from rocwright.model.runners import FamilyRow, OnPlatform, Pool, Runners, parse_override

TABLE = load_table("families", Families)
RUNNERS = Runners(TABLE.family)


def test_the_tiers_are_those_of_the_reference() -> None:
    presubmit = ("gfx94X-dcgpu", "gfx110X-all", "gfx1151", "gfx120X-all")
    assert RUNNERS.tier_families("linux", "presubmit") == presubmit
    assert RUNNERS.tier_families("windows", "presubmit") == presubmit[1:]
    assert RUNNERS.tier_families("linux", "postsubmit") == (*presubmit, "gfx90a", "gfx950-dcgpu")
    nightly = RUNNERS.tier_families("linux", "nightly")
    assert len(nightly) == 16 and "gfx125X-dcgpu" in nightly
    assert set(nightly) - set(RUNNERS.tier_families("windows", "nightly")) == {
        "gfx94X-dcgpu",
        "gfx950-dcgpu",
        "gfx125X-dcgpu",
    }


@pytest.mark.parametrize("platform", ["linux", "windows"])
def test_each_tier_has_what_the_one_before_it_has(platform: str) -> None:
    held = [set(RUNNERS.tier_families(platform, tier)) for tier in TIERS]
    assert held[0] < held[1] < held[2]


@pytest.mark.parametrize(
    ("family", "platform", "tier", "bump", "label", "why"),
    [
        ("gfx110X-all", "windows", "presubmit", False, "windows-gfx110X-gpu-rocm", ""),
        ("gfx110X-all", "linux", "postsubmit", True, "", "in nightly runs only"),
        ("gfx110X-all", "linux", "nightly", True, "linux-gfx110X-gpu-rocm", ""),
        ("gfx90a", "linux", "postsubmit", False, "", "only where ROCm changed"),
        ("gfx90a", "linux", "postsubmit", True, "linux-gfx90a-1gpu-ossci-rocm", ""),
        ("gfx1152", "linux", "nightly", True, "", "there is no runner for gfx1152 on linux"),
        ("gfx94X-dcgpu", "windows", "nightly", True, "", "gfx94X-dcgpu is not tested on windows"),
        ("my-own", "linux", "nightly", True, "", "my-own is not tested on linux"),
    ],
)
def test_a_runner_or_why_there_is_none(
    family: str, platform: str, tier: str, bump: bool, label: str, why: str
) -> None:
    known = next(one for one in TIERS if one == tier)
    found = RUNNERS.of_run(known, "7", bump=bump)(family, platform)
    assert found[0] == label
    assert why in found[1] and bool(found[0]) != bool(found[1])


def test_pools_are_chosen_by_weight_and_the_same_for_one_run() -> None:
    chosen = [RUNNERS.runner_of("gfx94X-dcgpu", "linux", seed=str(run))[0] for run in range(3300)]
    counted = Counter(chosen)
    assert set(counted) == {"linux-gfx942-1gpu-ccs-ossci-rocm", "linux-gfx942-1gpu-ccs-csp-ossci-rocm"}
    # 5 of 33.
    assert 400 < counted["linux-gfx942-1gpu-ccs-ossci-rocm"] < 600
    assert chosen == [RUNNERS.runner_of("gfx94X-dcgpu", "linux", seed=str(run))[0] for run in range(3300)]


def test_a_bypass_says_why_and_until_when() -> None:
    for row in TABLE.family:
        for platform in ("linux", "windows"):
            bypass = RUNNERS.bypass_of(row.name, platform)
            if bypass is not None:
                assert len(bypass.reason) > 20
                assert isinstance(bypass.until, date)
    assert RUNNERS.bypass_of("gfx94X-dcgpu", "linux") is None
    assert RUNNERS.bypass_of("gfx1151", "windows") is None
    assert RUNNERS.bypass_of("gfx1151", "linux") is not None


def test_branches_that_do_not_support_a_family() -> None:
    assert RUNNERS.unsupported("gfx90c", "linux", "release/2.13")
    assert not RUNNERS.unsupported("gfx90c", "linux", "nightly")
    # On Linux release/2.12 has it (TheRock 6818, 2026-07-27), on Windows no release does.
    assert not RUNNERS.unsupported("gfx90c", "linux", "release/2.12")
    assert RUNNERS.unsupported("gfx90c", "windows", "release/2.12")
    assert not RUNNERS.unsupported("gfx94X-dcgpu", "linux", "release/2.13")


GOOD = '[families]\n"gfx1-all" = ["gfx1100"]\n'
ROW = '[[family]]\nname = "gfx1-all"\ntier = "nightly"\n'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[[family]]\nname = "gfx1-al"\ntier = "nightly"\nlinux = {}\n', "gfx1-al is not a known family"),
        (ROW, "gfx1-all has no platform"),
        (ROW.replace("nightly", "weekly") + "linux = {}\n", "$.family[0].tier"),
        (ROW + "linux = { poools = [] }\n", "poools"),
        (ROW + 'linux = { pools = [{ label = "" }] }\n', "a pool without a label"),
        (ROW + 'linux = { pools = [{ label = "a" }, { label = "a" }] }\n', "or one twice"),
        (ROW + 'linux = { pools = [{ label = "a", weight = 0 }] }\n', "a weight below 1"),
        (ROW + 'linux = { bypass = { reason = " ", until = 2030-01-01 } }\n', "does not say why"),
        (ROW + 'linux = { bypass = { reason = "x" } }\n', "until"),
        (ROW + 'linux = { bypass = { reason = "x", until = "soon" } }\n', "until"),
        (ROW + "linux = { nightly_only = true }\n", "has no runner"),
        (
            ROW + 'linux = { pools = [{ label = "a" }] }\nwindows = { pools = [{ label = "a" }] }\n',
            "the runner a is given for gfx1-all on linux and for gfx1-all on windows",
        ),
        (ROW + 'linux = { pools = [{ label = "a" }], multi_gpu = "a" }\n', "the runner a"),
    ],
)
def test_rows_that_contradict_are_named(text: str, named: str) -> None:
    with pytest.raises(InvalidData) as raised:
        parse_table(GOOD + text, Families, where="my.toml")
    assert named in str(raised.value)


def test_an_own_row_takes_the_place_of_the_built_in_one() -> None:
    text = """
    [families.families]
    mine = ["gfx1100"]
    [[families.family]]
    name = "mine"
    tier = "presubmit"
    linux = { pools = [{ label = "my-box" }] }
    [[families.family]]
    name = "gfx1151"
    tier = "nightly"
    linux = {}
    """
    table = load_table("families", Families, parse_overlay(text, where="rocwright.toml"))
    runners = Runners(table.family)
    assert runners.runner_of("mine", "linux", "presubmit") == ("my-box", "")
    assert "gfx1151" not in runners.tier_families("linux", "presubmit")
    assert "gfx1151" not in runners.tier_families("windows", "nightly")
    assert runners.tier_families("linux", "nightly").count("gfx1151") == 1


def test_an_own_row_that_contradicts_names_the_file() -> None:
    text = '[[families.family]]\nname = "gfx9999"\ntier = "nightly"\nlinux = {}\n'
    with pytest.raises(InvalidData) as raised:
        load_table("families", Families, parse_overlay(text, where="my/rocwright.toml"))
    assert "gfx9999 is not a known family" in str(raised.value)
    assert raised.value.where == "my/rocwright.toml"


def test_the_variable_of_the_organisation_names_other_labels() -> None:
    override = parse_override('{"gfx1151": {"linux": "strix"}, "gfx1152": "mine", "gfx94X-dcgpu": ""}')
    runners = Runners(TABLE.family, override)
    assert runners.runner_of("gfx1151", "linux") == ("strix", "")
    assert runners.runner_of("gfx1151", "windows") == ("windows-gfx1151-gpu-rocm", "")
    assert runners.runner_of("gfx1152", "windows") == ("mine", "")
    assert runners.runner_of("gfx94X-dcgpu", "linux")[1] == "there is no runner for gfx94X-dcgpu on linux"
    # Where a family is not built, a label makes nothing of it.
    assert runners.runner_of("gfx94X-dcgpu", "windows") == ("", "gfx94X-dcgpu is not tested on windows")


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", '{"gfx1151": 3}', '{"gfx1151": {"macos": "x"}}', '{"gfx1151": {"linux": null}}']
)
def test_a_variable_that_is_no_such_json_is_named(text: str) -> None:
    with pytest.raises(InvalidData, match="ROCM_THEROCK_TEST_RUNNERS"):
        parse_override(text)


def test_a_variable_with_an_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(InvalidData, match="gfx115l, which the pipeline does not build") as raised:
        Runners(TABLE.family, parse_override('{"gfx115l": "x"}'))
    assert "gfx1151" in str(raised.value)


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
def test_an_empty_variable_says_nothing(text: str) -> None:
    assert parse_override(text) == {}


def test_equal_weights_take_turns() -> None:
    row = FamilyRow("f", "nightly", OnPlatform(pools=(Pool("a"), Pool("b"))))
    counted = Counter(Runners((row,)).runner_of("f", "linux", seed=str(run))[0] for run in range(1000))
    assert 400 < counted["a"] < 600
