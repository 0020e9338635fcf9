"""GPU targets, families and chips: text in, a type out; tables without a contradiction, names of libdrm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data import load_table, parse_table
from rocwright.errors import InvalidData
from rocwright.model.channels import LandingTable
from rocwright.model.gpu import (
    Families,
    GpuTable,
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
    "gfx1250-strict": "gfx1250-strict",
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


LIBDRM = Path("/usr/share/libdrm/amdgpu.ids")
GOOD = '[[chip]]\nname = "A"\ntarget = "gfx900"\nids = ["6860"]\n'


def test_names_are_found_by_device_and_revision() -> None:
    table = parse_table(
        GOOD + '[chip.names]\n"6860:00 c1" = "One"\n"6860:c2" = "Two"\n', GpuTable, where="x.toml"
    )
    assert table.chip[0].named() == {("6860", "00"): "One", ("6860", "c1"): "One", ("6860", "c2"): "Two"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("gfx900", "vega"), "has the target 'vega'"),
        (GOOD.replace("gfx900", "gfx90a:xnack+"), "has the target"),
        (GOOD.replace("6860", "686G"), "four lowercase hex digits"),
        (GOOD.replace("6860", "0x6860"), "four lowercase hex digits"),
        (GOOD + '[chip.names]\n"6861:00" = "One"\n', "names '6861:00'"),
        (GOOD + '[chip.names]\n"6860:C1" = "One"\n', "names '6860:C1'"),
        (GOOD + '[chip.names]\n"6860" = "One"\n', "names '6860'"),
        (GOOD + '[chip.names]\n"6860:00" = "One"\n"6860:c1 00" = "Two"\n', "two names for one revision"),
        (GOOD + GOOD.replace('"A"', '"B"'), "is given for A and for B"),
        (GOOD + 'speed = "fast"\n', "speed"),
        ("chip = 3\n", "x.toml"),
    ],
)
def test_rows_that_do_not_fit(text: str, words: str) -> None:
    with pytest.raises(InvalidData) as found:
        parse_table(text, GpuTable, where="x.toml")
    assert words in str(found.value)


def test_every_target_that_the_landing_page_names_gpus_for_is_that_of_a_chip() -> None:
    known = {chip.target for chip in load_table("gpus", GpuTable).chip}
    assert set(load_table("landing", LandingTable).gpus) <= known


@pytest.mark.skipif(not LIBDRM.exists(), reason="libdrm's list of names is not installed")
def test_names_are_those_of_libdrm() -> None:
    """Of its rows, whatever version of it is installed; ids that the table leaves out are not looked at.

    libdrm mends names: a list older than the table's (it lacks chips) has a few as they were called then.
    """
    ours = {}
    for chip in load_table("gpus", GpuTable).chip:
        ours.update(chip.named())
    theirs: dict[tuple[str, str], list[str]] = {}
    for line in LIBDRM.read_text(encoding="utf-8").splitlines():
        words = [word.strip() for word in line.split(",", 2)]
        if len(words) == 3 and not line.startswith("#"):
            theirs.setdefault((words[0].lower(), words[1].lower()), []).append(words[2])
    both = ours.keys() & theirs.keys()
    assert len(both) > 100
    renamed = {key: ours[key] for key in both if ours[key] not in theirs[key]}
    assert len(renamed) <= (0 if ours.keys() <= theirs.keys() else len(both) // 20), renamed
