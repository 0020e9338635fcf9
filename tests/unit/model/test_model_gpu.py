"""GPU targets and families: text in, a type out, and the one table without a contradiction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data import load_table
from rocwright.model.gpu import (
    Families,
    InvalidTarget,
    Target,
    base_targets,
    expand,
    matching_family,
    parse_target,
    parse_targets,
)

FAMILIES = load_table("families", Families).families

# Expansions as ROCm's build description lists them.
EXPECTED = {
    "gfx900-dgpu": "gfx900",
    "gfx90c-igpu": "gfx90c",
    "gfx906-dgpu": "gfx906",
    "gfx908-dcgpu": "gfx908",
    "gfx90a-dcgpu": "gfx90a",
    "gfx94X-all": "gfx942",
    "gfx94X-dcgpu": "gfx942",
    "gfx950-all": "gfx950",
    "gfx950-dcgpu": "gfx950",
    "dcgpu-all": "gfx908 gfx90a gfx942 gfx950 gfx1250",
    "gfx101X-all": "gfx1010 gfx1011 gfx1012",
    "gfx101X-dgpu": "gfx1010 gfx1011 gfx1012",
    "gfx103X-all": "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036",
    "gfx103X-dgpu": "gfx1030 gfx1031 gfx1032 gfx1034",
    "gfx103X-igpu": "gfx1033 gfx1035 gfx1036",
    "gfx110X-all": "gfx1100 gfx1101 gfx1102 gfx1103",
    "gfx110X-dgpu": "gfx1100 gfx1101 gfx1102",
    "gfx110X-igpu": "gfx1103",
    "gfx115X-all": "gfx1150 gfx1151 gfx1152 gfx1153",
    "gfx115X-igpu": "gfx1150 gfx1151 gfx1152 gfx1153",
    "gfx120X-all": "gfx1200 gfx1201",
    "gfx125X-all": "gfx1250",
    "gfx125X-dcgpu": "gfx1250",
}
TARGETS = sorted({target for members in EXPECTED.values() for target in members.split()})


@pytest.mark.parametrize(("family", "targets"), EXPECTED.items(), ids=EXPECTED)
def test_each_family_expands_to_its_targets(family: str, targets: str) -> None:
    assert expand([family], FAMILIES) == tuple(targets.split())


@pytest.mark.parametrize(("family", "members"), FAMILIES.items(), ids=FAMILIES)
def test_no_family_is_empty_or_holds_a_target_twice_or_one_with_features(
    family: str, members: tuple[str, ...]
) -> None:
    assert len(members) == len(set(members)) > 0
    assert all(parse_target(target) == Target(target) for target in members)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_a_family_of_its_own_name(target: str) -> None:
    assert expand([target], FAMILIES) == (target,)


@given(st.lists(st.sampled_from([*EXPECTED, *TARGETS])))
def test_expansion_is_the_union_whatever_the_order(names: list[str]) -> None:
    union = {target for name in names for target in EXPECTED.get(name, name).split()}
    found = expand(names, FAMILIES)
    assert set(found) == union
    assert len(found) == len(union)
    assert found == expand(reversed(names), FAMILIES)


@pytest.mark.parametrize("name", ["gfx94x-dcgpu", "gfx1", "mi300", "", "gfx90a:xnack+", "gfx90X-dcgpu"])
def test_an_unknown_family_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidTarget) as caught:
        expand(["gfx942", name], FAMILIES)
    assert repr(name) in caught.value.what
    assert all(family in str(caught.value.next_step).split() for family in EXPECTED)


def test_targets_stand_in_the_order_of_the_hardware() -> None:
    wanted = ["gfx900", "gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201", "gfx11-generic"]
    assert base_targets(reversed(wanted)) == tuple(wanted)
    assert base_targets(["gfx90a:xnack-", "gfx90a:xnack+", "gfx90a"]) == ("gfx90a",)
    # Two targets, not one with a feature.
    assert base_targets(["amdgcnspirv", "gfx1250-strict", "gfx1310", "gfx1250"]) == (
        "gfx1250",
        "gfx1250-strict",
        "gfx1310",
        "amdgcnspirv",
    )


@pytest.mark.parametrize(
    ("targets", "family"),
    [
        ({"gfx90a"}, "gfx90a-dcgpu"),
        ({"gfx1034", "gfx1030", "gfx1032", "gfx1031"}, "gfx103X-dgpu"),
        ({"gfx942"}, "gfx94X-all"),
        ({"gfx90a", "gfx942"}, None),
        ({"gfx1030"}, None),
        (set(), None),
    ],
)
def test_a_family_matches_only_as_a_whole(targets: set[str], family: str | None) -> None:
    assert matching_family(targets, FAMILIES) == family


@pytest.mark.parametrize(
    ("text", "base", "features"),
    [
        ("gfx803", "gfx803", ()),
        ("gfx90a", "gfx90a", ()),
        (" gfx90c\n", "gfx90c", ()),
        ("gfx1036", "gfx1036", ()),
        ("gfx90a:sramecc+:xnack-", "gfx90a", ("sramecc+", "xnack-")),
        ("gfx9-4-generic", "gfx9-4-generic", ()),
        ("gfx10-3-generic", "gfx10-3-generic", ()),
        ("gfx11-generic", "gfx11-generic", ()),
        ("gfx9-generic:xnack+", "gfx9-generic", ("xnack+",)),
        ("gfx90a:xnack-:sramecc+", "gfx90a", ("xnack-", "sramecc+")),
        ("gfx1250-strict", "gfx1250-strict", ()),
        ("gfx1250-strict:xnack-", "gfx1250-strict", ("xnack-",)),
        ("gfx12-5-generic", "gfx12-5-generic", ()),
        ("amdgcnspirv", "amdgcnspirv", ()),
    ],
)
def test_targets_as_the_compiler_writes_them(text: str, base: str, features: tuple[str, ...]) -> None:
    target = parse_target(text)
    assert (target.base, target.features) == (base, features)
    assert parse_target(str(target)) == target
    assert str(target) == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gfx",
        "gfx9",
        "gfx94X",
        "gfx94X-dcgpu",
        "GFX90A",
        "gfx90a:",
        "gfx90a:xnack",
        "gfx90a:tgsplit+",
        "gfx90a:xnack+ ; rm",
        "gfx90a xnack+",
        "xgfx90a",
        "gfx９０a",
        "gfx90a\ngfx942",
        "amdgcn-amd-amdhsa--gfx90a",
        "gfx90a-xnack-",
        "gfx1250_strict",
        "gfx1250-strict2",
        "gfx1250-relaxed",
        "gfx11-strict",
        "gfx9-4-5-generic",
        "amdgcn",
        "amdgcnspirv64",
    ],
)
def test_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidTarget) as caught:
        parse_target(text)
    assert repr(text) in caught.value.what


def test_spirv_is_told_from_instruction_sets() -> None:
    assert parse_target("amdgcnspirv").is_spirv
    assert not parse_target("gfx1250-strict").is_spirv
    assert not parse_target("gfx9-4-generic").is_spirv


@pytest.mark.parametrize("text", ["gfx90a:xnack+:xnack-", "gfx90a:xnack+:xnack+"])
def test_a_feature_is_given_once(text: str) -> None:
    with pytest.raises(InvalidTarget):
        parse_target(text)


@pytest.mark.parametrize(
    "text", ["gfx90a,gfx942;gfx90a", " gfx90a  gfx942 ", "gfx90a;;gfx942,", "gfx90a\ngfx942"]
)
def test_lists_with_any_separator(text: str) -> None:
    assert parse_targets(text) == (Target("gfx90a"), Target("gfx942"))


def test_an_empty_list_is_empty() -> None:
    assert parse_targets(" ,; ") == ()


@given(st.text())
def test_any_text_is_a_target_or_an_invalid_target(text: str) -> None:
    try:
        target = parse_target(text)
    except InvalidTarget:
        return
    assert str(target) == text.strip()
