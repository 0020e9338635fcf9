"""The table of GPUs: rows that contradict each other are named; names are libdrm's."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.data import load_table, parse_table
from rocwright.errors import InvalidData
from rocwright.model.channels import LandingTable
from rocwright.model.gpu import GpuTable

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
        (GOOD + GOOD.replace('"A"', '"B"'), "is that of A and of B"),
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
    """Of its rows, whatever version of it is installed; ids that the table leaves out are not looked at."""
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
    assert {key: ours[key] for key in both if ours[key] not in theirs[key]} == {}
