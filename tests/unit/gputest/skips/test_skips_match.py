"""Matching by whole parts, and where entries hold."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.errors import UsageError
from rocwright.gputest.inside.rocwright_patterns import Matcher, matches, parts, problem_of
from rocwright.gputest.skips.entries import families_table
from rocwright.gputest.skips.hold import (
    Place,
    asked_place,
    entries_that_hold,
    overlap,
    place_of,
    state_of,
    targets_of,
    version_fits,
    where_fits,
)
from rocwright.model.gpu import InvalidTarget
from rocwright.model.suites import Here, SkipEntry, SkipWhere

FAMILIES = families_table()
TODAY = date(2026, 11, 22)


@pytest.mark.parametrize(
    ("node_id", "expected"),
    [
        ("a.py::T::t", ("a.py", "T", "t")),
        ("d/a.py::t", ("d/a.py", "t")),
        ("a.py::T::t[x::y/z]", ("a.py", "T", "t[x::y/z]")),
        ("a.py::t[b[c]-::]", ("a.py", "t[b[c]-::]")),
        ("odd[1].py::t", ("odd[1].py", "t")),
    ],
)
def test_brackets_belong_to_the_last_part_whatever_they_hold(node_id: str, expected: tuple[str, ...]) -> None:
    assert parts(node_id) == expected


@pytest.mark.parametrize(
    ("pattern", "node_id", "fits"),
    [
        ("test_fs.py::T::test_a", "test_fsdp.py::T::test_a", False),
        ("test_nn.py::T::test_Conv", "test_nn.py::T::test_Conv1d", False),
        ("test_nn.py::T::test_Conv*", "test_nn.py::T::test_Conv1d", True),
        ("test_nn.py::T::test_Conv*", "test_nn.py::U::test_Conv1d", False),
        ("test_nn.py::T::test_conv*", "test_nn.py::T::test_Conv1d", False),
        ("test_nn.py::*::test_a", "test_nn.py::test_a", False),
        ("test_nn.py::*::test_a", "test_nn.py::T::Inner::test_a", False),
        ("test_nn.py::T::test_a", "test_nn.py::T::test_a[x]", False),
        ("test_nn.py::T::test_a[*]", "test_nn.py::T::test_a[x::y]", True),
        ("test_nn.py::T*", "test_nn.py::T::test_a", False),
        ("test.nn.py::T::a", "test_nn.py::T::a", False),
        ("*/test_nn.py::T::a", "inductor/test_nn.py::T::a", True),
        ("test_nn.py::T::a", "inductor/test_nn.py::T::a", False),
        ("test_nn.py::t[a*b]", "test_nn.py::t[a*b]", True),
        ("test_nn.py::t[x]", "test_nn.py::t[x\n]", False),
    ],
)
def test_parts_are_matched_whole(pattern: str, node_id: str, fits: bool) -> None:
    assert matches(pattern, node_id) is fits
    assert Matcher([pattern]).found(node_id) == ([0] if fits else [])


def by_hand(pattern: str, text: str) -> bool:
    """A naive matcher of one part: every way to cut the text at the first star."""
    head, star, rest = pattern.partition("*")
    if not star:
        return pattern == text
    return text.startswith(head) and any(by_hand(rest, text[at:]) for at in range(len(head), len(text) + 1))


part = st.text("ab*.", min_size=1, max_size=4)
plain = st.text("ab.", min_size=1, max_size=5)


@given(st.lists(st.lists(part, min_size=2, max_size=3), max_size=6), st.lists(plain, min_size=2, max_size=3))
def test_many_patterns_at_once_are_what_each_is_alone(patterns: list[list[str]], split: list[str]) -> None:
    expected = [
        number
        for number, pattern in enumerate(patterns)
        if len(pattern) == len(split) and all(map(by_hand, pattern, split))
    ]
    assert Matcher(["::".join(one) for one in patterns]).found("::".join(split)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "test_nn.py",
        "test_nn",
        "a.py::",
        "::t",
        "a.py::::t",
        " a.py::t",
        "d\\a.py::t",
        "/a.py::t",
        "../a.py::t",
    ],
)
def test_what_is_no_pattern_says_so(text: str) -> None:
    assert problem_of(text)


@pytest.mark.parametrize(
    ("specifier", "version", "fits"),
    [
        ("2.10", "2.10.0", True),
        ("2.10", "2.10.1+rocm7.10.0", True),
        ("2.10", "2.10.0a0+rocm7.10.0a20251124", True),
        ("2.10", "2.1.0", False),
        ("2.1", "2.10.0", False),
        ("2.10", "2.10.0rc3", True),
        (">=2.10", "2.10.0.dev20251124+rocm6.4", True),
        (">=2.10.0a0", "2.10.0a0+gitabc", True),
        ("<2.10", "2.10.0a0+gitabc", False),
        (">2.9", "2.10.0a0", True),
        (">=2.10.0a20251124", "2.10.0a20251101", False),
        (">=2.10.0a20251124", "2.10.0a20251125", True),
        (">=2.9,<2.11", "2.10.0a0", True),
        ("==2.9.1", "2.9.1.post2", False),
        ("!=2.10.*", "2.10.0a0", False),
    ],
)
def test_a_nightly_belongs_to_the_release_that_it_becomes(specifier: str, version: str, fits: bool) -> None:
    assert version_fits(specifier, version) is fits


def entry(name: str = "e", expires: date | None = None, **where: object) -> SkipEntry:
    return SkipEntry(
        id=name,
        tests=("test_a.py::T::t",),
        kind="skip",
        reason="r",
        added=date(2026, 1, 1),
        where=msgspec.convert(where, SkipWhere),
        expires=expires,
    )


HERE = Here("gfx942", "linux", "2.10.0a0+rocm7.10.0", "3.12.3", "")


@pytest.mark.parametrize(
    ("where", "fits"),
    [
        ({}, True),
        ({"targets": ("gfx942",)}, True),
        ({"targets": ("gfx94*",)}, True),
        ({"targets": ("gfx94X-dcgpu",)}, True),
        ({"targets": ("dcgpu-all", "gfx1151")}, True),
        ({"targets": ("gfx1*",)}, False),
        ({"targets": ("gfx950-dcgpu",)}, False),
        ({"platforms": ("windows",)}, False),
        ({"platforms": ("windows", "linux")}, True),
        ({"torch": ">=2.10"}, True),
        ({"python": "<3.12"}, False),
        ({"python": "3.12"}, True),
        ({"targets": ("gfx942",), "torch": "2.9"}, False),
        # The wheel does not say which ROCm it has.
        ({"rocm": ">=7"}, False),
    ],
)
def test_an_entry_holds_where_every_field_fits(where: dict[str, object], fits: bool) -> None:
    assert bool(entries_that_hold([entry(**where)], HERE, FAMILIES, TODAY)) is fits


def test_features_make_no_other_gpu_and_no_gpu_fits_no_target() -> None:
    only = [entry(targets=("gfx90a",))]
    xnack = Here("gfx90a:sramecc+:xnack-", "linux", "2.9", "3.12")
    assert entries_that_hold(only, xnack, FAMILIES, TODAY)
    assert not entries_that_hold(only, Here("", "linux", "2.9", "3.12"), FAMILIES, TODAY)
    assert not entries_that_hold(only, Here("sm_90", "linux", "2.9", "3.12"), FAMILIES, TODAY)


def test_the_last_day_counts_and_the_next_does_not() -> None:
    last, past = entry("last", TODAY), entry("past", date(2026, 11, 21))
    assert entries_that_hold([last, past], HERE, FAMILIES, TODAY) == (last,)
    assert state_of(past, place_of(HERE), FAMILIES, TODAY) == "expired"
    elsewhere = entry("x", date(2026, 11, 21), targets=("gfx1151",))
    assert state_of(elsewhere, place_of(HERE), FAMILIES, TODAY) == "elsewhere"


def test_a_prefix_is_one_of_targets_and_not_a_part_of_them() -> None:
    assert targets_of(["gfx115*"], FAMILIES) == {"gfx1150", "gfx1151", "gfx1152", "gfx1153"}
    assert targets_of(["15*", "gfx1", "gfx941"], FAMILIES) == frozenset()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {}, True),
        ({"targets": ("gfx942",)}, {"targets": ("gfx950",)}, False),
        ({"targets": ("gfx942",)}, {}, True),
        ({"targets": ("gfx942",)}, {"targets": ("gfx94X-all",)}, True),
        ({"platforms": ("linux",)}, {"platforms": ("windows",)}, False),
        ({"torch": "2.9"}, {"torch": "==2.10.*"}, False),
        ({"torch": "2.9"}, {"torch": "<2.9"}, False),
        ({"torch": "2.9"}, {"torch": ">=2.9"}, True),
        ({"torch": ">=2.9"}, {"torch": "<2.9"}, True),  # two ranges are taken to overlap
    ],
)
def test_places_overlap(one: dict[str, object], other: dict[str, object], expected: bool) -> None:
    assert overlap(entry(**one).where, entry(**other).where, FAMILIES) is expected
    assert overlap(entry(**other).where, entry(**one).where, FAMILIES) is expected


def test_a_question_leaves_open_what_it_does_not_name() -> None:
    place = asked_place(FAMILIES, targets=["gfx942, gfx115X-all"], platform="Windows", torch="all")
    assert place == Place(("gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx942"), "windows")
    assert asked_place(FAMILIES, targets=["gfx942", "all"]) == Place()
    assert where_fits(entry(torch="2.9", targets=("gfx1151",)).where, place, FAMILIES)
    with pytest.raises(InvalidTarget, match="gfx941"):
        asked_place(FAMILIES, targets=["gfx942,gfx941"])
    with pytest.raises(UsageError, match="macos"):
        asked_place(FAMILIES, platform="macos")
