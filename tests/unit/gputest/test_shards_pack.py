"""Shards: every test in exactly one of them, as even as they can be, the same every time."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocwright.errors import UsageError
from rocwright.gputest.shards.pack import FileWeight, Packed, beginnings, class_of, most_shards, pack


def file_of(name: str, costs: dict[str, int]) -> FileWeight:
    return FileWeight(name, tests=tuple((f"{name}::{test}", cost) for test, cost in costs.items()))


def taken(packed: Packed, node_id: str) -> list[int]:
    return [shard.number for shard in packed.shards if shard.takes(node_id)]


def test_files_stay_whole_where_shards_come_out_even() -> None:
    files = [file_of("a.py", {"A::x": 30, "A::y": 30}), file_of("b.py", {"B::x": 60}), FileWeight("c.py", 58)]
    packed = pack(files, 3, spread=0.10)
    assert [shard.files for shard in packed.shards] == [("a.py",), ("b.py",), ("c.py",)]
    assert [(shard.only, shard.leave) for shard in packed.shards] == [(None, ())] * 3
    assert packed.spread == pytest.approx(2 / 60)


def test_the_longest_goes_first_to_the_shard_that_has_least() -> None:
    files = [FileWeight(f"{name}.py", weight) for name, weight in zip("abcde", (4, 5, 3, 3, 3), strict=True)]
    packed = pack(files, 2, spread=0.20)
    assert [shard.files for shard in packed.shards] == [("b.py", "d.py"), ("a.py", "c.py", "e.py")]
    assert [shard.weight for shard in packed.shards] == [8, 10]


def test_a_long_file_is_cut_between_its_classes() -> None:
    long = file_of("long.py", {"A::x": 50, "A::y": 50, "B::x": 100})
    packed = pack([long, FileWeight("short.py", 1)], 2, spread=0.10)
    first, second = packed.shards
    assert first.files == ("long.py", "short.py")
    assert second.files == ("long.py",)
    # Which of the two takes new tests of the file is the one that has less to do.
    assert second.only == ("long.py",)
    assert second.leave == ("long.py::A",)
    assert first.only == ("long.py::A", "short.py")
    assert taken(packed, "long.py::A::new") == [1]
    assert taken(packed, "long.py::C::new") == [2]
    assert taken(packed, "long.py::new_function") == [2]
    assert taken(packed, "short.py::T::t") == [1]


def test_a_long_class_is_cut_between_its_tests() -> None:
    packed = pack([file_of("a.py", {f"A::t{n}": 10 for n in range(4)})], 2, spread=0.10)
    assert [shard.weight for shard in packed.shards] == [20, 20]
    assert [taken(packed, f"a.py::A::t{n}") for n in range(4)] == [[1], [1], [2], [2]]
    # Not a test whose name only begins like one that is known.
    assert len(taken(packed, "a.py::A::t30")) == 1
    assert taken(packed, "a.py::A::t30") == taken(packed, "a.py::A::unheard_of")


def test_one_test_that_is_too_long_is_named_and_the_rest_is_even() -> None:
    files = [file_of("a.py", {"A::long": 1000, **{f"A::t{n:02}": 10 for n in range(40)}})]
    packed = pack(files, 3, spread=0.10)
    assert sorted(shard.weight for shard in packed.shards) == [200, 200, 1000]
    assert (packed.longest, packed.longest_weight) == ("a.py::A::long", 1000)
    assert packed.spread == pytest.approx(0.8)


def test_each_shard_gets_something_even_where_one_test_is_nearly_everything() -> None:
    files = [file_of("a.py", {"A::long": 10**6, "A::x": 1, "A::y": 1, "B::z": 0})]
    packed = pack(files, 4, spread=0.10)
    assert [shard.weight for shard in packed.shards] == [10**6, 1, 1, 1]
    assert all(shard.files for shard in packed.shards)


def collected(name: str, collect: int, costs: dict[str, int]) -> FileWeight:
    return FileWeight(name, tests=file_of(name, costs).tests, collect=collect)


def test_every_shard_with_a_part_of_a_file_pays_for_collecting_it() -> None:
    long = collected("long.py", 9, {f"A::t{n}": 10 for n in range(4)})
    # Whole, the short files stand beside half of the long one: 9 + 20 here, 9 + 20 + 1 there.
    packed = pack([long, collected("short.py", 1, {"B::x": 0})], 2, spread=0.10)
    assert [(shard.files, shard.weight) for shard in packed.shards] == [
        (("long.py", "short.py"), 31),
        (("long.py",), 29),
    ]


def test_files_of_few_tests_that_take_long_to_collect_go_to_different_shards() -> None:
    files = [collected(f"{name}.py", 900, {"A::x": 1, "A::y": 1}) for name in "ab"]
    files.append(collected("c.py", 1, {"A::x": 850}))
    packed = pack(files, 3, spread=0.10)
    assert sorted(shard.files for shard in packed.shards) == [("a.py",), ("b.py",), ("c.py",)]


def test_a_file_that_takes_long_to_collect_is_not_collected_everywhere() -> None:
    files = [collected("slow.py", 500, {f"A::t{n}": 10 for n in range(50)}), FileWeight("b.py", 1000)]
    packed = pack(files, 2, spread=0.10)
    assert [(shard.files, shard.weight) for shard in packed.shards] == [
        (("slow.py",), 1000),
        (("b.py",), 1000),
    ]


def test_what_every_shard_costs_counts_in_each_and_hides_what_is_little_beside_it() -> None:
    files = [FileWeight("a.py", 12), FileWeight("b.py", 10)]
    assert pack(files, 2, spread=0.10).longest == "a.py"
    packed = pack(files, 2, spread=0.10, start=100)
    assert [shard.weight for shard in packed.shards] == [112, 110]
    assert packed.longest == ""


def test_where_collecting_keeps_shards_apart_the_file_is_named() -> None:
    files = [collected("slow.py", 900, {"A::x": 1}), FileWeight("b.py", 300)]
    packed = pack(files, 2, spread=0.10)
    assert (packed.longest, packed.longest_weight) == ("slow.py", 900)


@pytest.mark.parametrize("shards", [0, -1, 4])
def test_a_shard_with_nothing_to_run_is_refused(shards: int) -> None:
    files = [file_of("a.py", {"A::x": 5, "A::y": 5}), FileWeight("b.py", 9)]
    with pytest.raises(UsageError, match="nothing to run") as raised:
        pack(files, shards, spread=0.10)
    assert "from 1 to 3" in str(raised.value)


def test_no_files_are_no_shards() -> None:
    with pytest.raises(UsageError, match="name test files"):
        pack([], 1, spread=0.10)


def test_parameters_in_brackets_are_no_classes() -> None:
    assert list(beginnings("d/a.py::T::test_x[a::b/c.py::D]")) == [
        "d/a.py",
        "d/a.py::T",
        "d/a.py::T::test_x[a::b/c.py::D]",
    ]
    assert class_of("d/a.py::T::test_x[a::b]") == "d/a.py::T"
    assert class_of("a.py::test_x[a::b]") == "a.py"


def test_parameters_of_one_function_go_to_different_shards() -> None:
    packed = pack([file_of("a.py", {f"test_x[{n}::y]": 10 for n in range(4)})], 4, spread=0.10)
    assert sorted(number for n in range(4) for number in taken(packed, f"a.py::test_x[{n}::y]")) == [
        1,
        2,
        3,
        4,
    ]
    assert len(taken(packed, "a.py::test_x[4::y]")) == 1


# Costs as they are in PyTorch's suite: most tests take milliseconds, few take minutes.
_COSTS = st.one_of(st.integers(0, 20), st.integers(0, 400), st.integers(0, 60_000))
_TESTS = st.dictionaries(
    st.tuples(
        st.sampled_from(["", "A::", "B::", "A::Inner::", "AB::"]),
        st.sampled_from(["t", "t1", "t11", "u[a]", "u[a::b]", "u[b::A::t]", "v"]),
    ).map("".join),
    _COSTS,
    max_size=20,
)
_FILES = st.dictionaries(st.sampled_from(["a.py", "d/a.py", "ab.py", "b.py"]), _TESTS, min_size=1)


def built(files: dict[str, dict[str, int]], collect: int = 0) -> list[FileWeight]:
    return [
        collected(name, collect, dict(sorted(tests.items()))) if tests else FileWeight(name, 500)
        for name, tests in files.items()
    ]


@given(_FILES, st.integers(1, 9), st.sampled_from([0, 0, 1, 9_000]))
@settings(max_examples=150, deadline=None)
def test_every_test_is_in_one_shard_and_no_shard_is_empty(
    files: dict[str, dict[str, int]], shards: int, collect: int
) -> None:
    weights = built(files, collect)
    packed = pack(weights, min(shards, most_shards(weights)), spread=0.10)
    held: dict[int, int] = {shard.number: 0 for shard in packed.shards}
    for each in weights:
        known = each.tests or ((f"{each.file}::T::t", each.weight),)
        # Tests that were written since, alike enough to be taken for others.
        new = [
            each.file + end for end in ("::A::t111", "::New::t", "::t[x]", "::A::Inner::w", "::AB::u[a::c]")
        ]
        for node_id in [*(test for test, _ in known), *new]:
            assert len(taken(packed, node_id)) == 1, node_id
        for test, cost in known:
            held[taken(packed, test)[0]] += max(cost, 1)
        for number in {taken(packed, test)[0] for test, _ in known}:
            held[number] += each.collect
    assert held == {shard.number: shard.weight for shard in packed.shards}
    assert all(shard.weight > 0 and shard.files for shard in packed.shards)
    assert all(shard.of == len(packed.shards) for shard in packed.shards)


@given(_FILES, st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_shards_are_as_even_as_what_cannot_be_cut_allows(
    files: dict[str, dict[str, int]], shards: int
) -> None:
    weights = built(files)
    packed = pack(weights, min(shards, most_shards(weights)), spread=0.10)
    loads = [shard.weight for shard in packed.shards]
    whole = [max(cost, 1) for each in weights for _, cost in each.tests]
    largest = max([*whole, *(each.cost for each in weights if not each.tests)])
    # A shard leads by its last piece at most, and pieces are a tenth of an ideal shard or cannot be cut.
    # Whole numbers of milliseconds: where a shard has less than ten, a tenth of it is no piece.
    assert max(loads) - min(loads) <= max(0.10 * max(loads), largest)
    assert (packed.longest == "") == (packed.spread <= 0.10)
    assert pack(weights, len(loads), spread=0.10) == packed


@given(st.lists(st.integers(1, 9), min_size=4, max_size=40), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_small_tests_come_out_within_a_tenth(costs: list[int], shards: int) -> None:
    many = [cost for cost in costs for _ in range(30)]
    names = [f"C{number // 50:03}::t{number:05}" for number in accumulate([1] * len(many))]
    packed = pack([file_of("a.py", dict(zip(names, many, strict=True)))], shards, spread=0.10)
    assert packed.spread <= 0.10
    assert packed.longest == ""
