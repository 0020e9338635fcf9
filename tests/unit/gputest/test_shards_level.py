"""Shards of a level: their names, and how many the recorded times ask for."""

from __future__ import annotations

import pytest

from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidInput
from rocwright.gputest.shards.level import NOTHING, Recorded, ShardName, on_gpu, on_host, parse_shard
from rocwright.gputest.shards.place import TimingPlace
from rocwright.model.suites import SuiteTable

# Shards of 10 minutes, four at most; the usual ones are those of the built-in table.
TABLE = load_table(
    "tests",
    SuiteTable,
    parse_overlay(
        """
[tests.shards]
minutes = 10
most = 4
[[tests.level]]
name = "quick"
host = ["test_a.py", "test_b.py::TestB"]
files = ["test_nn.py"]
""",
        where="rocwright.toml",
    ),
)
FULL = [
    *(f"default-{number}of6" for number in range(1, 7)),
    *(f"distributed-{number}of3" for number in range(1, 4)),
    *(f"inductor-{number}of2" for number in range(1, 3)),
]


def times(suite: str, target: str, files: dict[str, float], *, torch: str = "2.9", config: str = "default"):
    return {(suite, TimingPlace(target, torch, "linux", config)): files}


@pytest.mark.parametrize(
    ("text", "shard"),
    [
        ("", ShardName()),
        ("2of3", ShardName("", 2, 3)),
        ("default-1of1", ShardName("default", 1, 1)),
        ("my-own.config-2of12", ShardName("my-own.config", 2, 12)),
    ],
)
def test_a_shard_is_a_word(text: str, shard: ShardName) -> None:
    assert parse_shard(text) == shard
    assert str(shard) == text


@pytest.mark.parametrize("text", ["4of3", "0of3", "default", "1of", "default-", "1of3 2of3"])
def test_another_word_is_no_shard(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a shard"):
        parse_shard(text)


def test_without_times_a_configuration_has_its_usual_shards() -> None:
    assert on_host(TABLE.at("quick"), TABLE, NOTHING, "linux") == ("",)
    assert on_gpu(TABLE.at("quick"), TABLE, NOTHING, "linux", ["gfx942"]) == ("",)
    assert on_gpu(TABLE.at("full"), TABLE, NOTHING, "linux", ["gfx942"]) == ("", *FULL)
    assert on_gpu(TABLE.at("standard"), TABLE, NOTHING, "linux", ["gfx942"]) == ("", *FULL[:6])


@pytest.mark.parametrize(
    ("seconds", "shards"),
    [(599, ("",)), (600, ("",)), (601, ("1of2", "2of2")), (99999, ("1of4", "2of4", "3of4", "4of4"))],
)
def test_times_decide_how_many_shards_the_hosts_files_have(seconds: float, shards: tuple[str, ...]) -> None:
    # Of files that the level does not have nothing counts, nor what a GPU took.
    recorded = Recorded(
        ("1",),
        times("units", "cpu", {"test_a.py": seconds - 1, "test_b.py": 1, "test_c.py": 5000})
        | times("units", "gfx942", {"test_a.py": 7777}),
    )
    assert on_host(TABLE.at("quick"), TABLE, recorded, "linux") == shards


def test_the_slowest_gpu_of_a_family_and_its_own_configuration_count() -> None:
    recorded = Recorded(
        ("1",),
        times("full", "gfx942", {"test_nn.py": 500})
        | times("full", "gfx950", {"test_nn.py": 1300})
        | times("units", "gfx942", {"test_nn.py": 9999}),
    )
    standard = TABLE.at("standard")
    assert on_gpu(standard, TABLE, recorded, "linux", ["gfx942", "gfx950"])[1:] == (
        "default-1of3", "default-2of3", "default-3of3",
    )  # fmt: skip
    assert on_gpu(standard, TABLE, recorded, "windows", ["gfx942"])[1:] == tuple(FULL[:6])
    comprehensive = on_gpu(TABLE.at("comprehensive"), TABLE, recorded, "linux", ["gfx942"])
    assert comprehensive == ("", "default-1of1", "inductor-1of2", "inductor-2of2")


def test_of_several_lines_of_torch_the_newest_counts() -> None:
    recorded = Recorded(
        ("1",),
        times("units", "cpu", {"test_a.py": 5000}, torch="2.9")
        | times("units", "cpu", {"test_a.py": 10}, torch="2.10"),
    )
    assert on_host(TABLE.at("quick"), TABLE, recorded, "linux") == ("",)


def test_a_level_that_is_none_names_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="no level of tests 'nightly'") as caught:
        TABLE.at("nightly")
    assert caught.value.next_step == "levels: quick standard comprehensive full"
    with pytest.raises(InvalidInput, match="'slow' is not a test configuration"):
        TABLE.config_row("slow")
