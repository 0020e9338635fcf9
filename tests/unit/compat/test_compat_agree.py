"""What is claimed and what is tried are the same: the probe's table travels alone, so it repeats names."""

from __future__ import annotations

from rocwright.compat.probe.values import ProbeTable
from rocwright.data import load_table
from rocwright.model.compat import CompatTable
from rocwright.model.compat_releases import LibraryTable

PROBE = load_table("probe", ProbeTable)


def test_the_probe_tries_every_data_type_that_is_claimed_and_knows_its_other_names() -> None:
    claimed = {
        row.name.removeprefix("torch."): {one.removeprefix("torch.") for one in row.aliases}
        for row in load_table("compat", CompatTable).data_type
    }
    assert {row.name: set(row.also) for row in PROBE.dtype} == claimed
    assert len(claimed) == 22


def test_the_probe_judges_every_library_that_is_claimed() -> None:
    claimed = {row.name for row in load_table("compat_libraries", LibraryTable).library}
    assert {row.name for row in PROBE.library} == claimed
    assert len(claimed) == 20


def test_limited_is_what_eager_mode_supports_little_of() -> None:
    tried = {f"torch.{row.name}" for row in PROBE.dtype if row.claim == "limited"}
    claimed = {row.name for row in load_table("compat", CompatTable).data_type if row.eager == "limited"}
    assert tried == claimed == {"torch.uint16", "torch.uint32", "torch.uint64"}
