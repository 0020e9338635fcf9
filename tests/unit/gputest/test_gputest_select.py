"""Which GPUs are chosen, by hand."""

from __future__ import annotations

import pytest

from rocwright.data import load_table
from rocwright.errors import NoGpu, UsageError
from rocwright.gputest.devices import (
    Policy,
    Query,
    built_for,
    device_env,
    parse_wanted,
    select,
)
from rocwright.model.gpu import Families
from rocwright.model.testing import Device, TorchFacts

FAMILIES = {
    "gfx94X-dcgpu": ("gfx942",),
    "gfx110X-all": ("gfx1100", "gfx1101", "gfx1102", "gfx1103"),
    "gfx110X-dgpu": ("gfx1100", "gfx1101", "gfx1102"),
    "gfx115X-igpu": ("gfx1150", "gfx1151"),
}
BUILT = ("gfx942", "gfx950", "gfx1100", "gfx1103", "gfx1151")
# The caller had chosen 5,3,0,GPU-… of the machine's GPUs before.
HERE = TorchFacts(
    version="2.9.1+rocm7.1.0",
    hip="7.1.0",
    architectures=BUILT,
    devices=(
        Device(0, "5", "gfx942", "MI300X"),
        Device(1, "3", "gfx1103", "Radeon 780M"),
        Device(2, "0", "gfx942", "MI300X"),
        Device(3, "GPU-0123456789abcdef", "gfx906", "MI50"),
    ),
)


def chosen(family: str, query: Query = "unique", policy: Policy = "single") -> list[tuple[str, str]]:
    groups = select(HERE, family, FAMILIES, query=query, policy=policy)
    return [(group.target, device_env(group, HERE)["HIP_VISIBLE_DEVICES"]) for group in groups]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("", [("gfx942", "5"), ("gfx1103", "3")]),  # torch is not built for gfx906
        ("gfx942", [("gfx942", "5")]),
        ("gfx942:sramecc+:xnack-", [("gfx942", "5")]),
        ("gfx94X", [("gfx942", "5")]),
        ("gfx94x", [("gfx942", "5")]),
        ("gfx94X-dcgpu", [("gfx942", "5")]),
        ("gfx94X-anything", [("gfx942", "5")]),
        ("gfx94X-", [("gfx942", "5")]),
        ("gfx942-dcgpu", [("gfx942", "5")]),
        ("gfx110X-all", [("gfx1103", "3")]),
        ("gfx11X", [("gfx1103", "3")]),
        ("gfx1X", [("gfx1103", "3")]),
        ("gfxX", [("gfx942", "5"), ("gfx1103", "3")]),
        ("gfx1103,gfx94X-dcgpu", [("gfx942", "5"), ("gfx1103", "3")]),
        ("gfx1103; gfx942", [("gfx942", "5"), ("gfx1103", "3")]),
        ("gfx1151 gfx1103", [("gfx1103", "3")]),
    ],
)
def test_families_targets_and_beginnings(family: str, expected: list[tuple[str, str]]) -> None:
    assert chosen(family) == expected


@pytest.mark.parametrize(
    ("query", "policy", "expected"),
    [
        ("unique", "single", [("gfx942", "5"), ("gfx1103", "3")]),
        ("unique", "all", [("gfx942", "5"), ("gfx1103", "3")]),
        ("all", "single", [("gfx942", "5"), ("gfx942", "0"), ("gfx1103", "3")]),
        ("all", "all", [("gfx942", "5,0"), ("gfx1103", "3")]),
    ],
)
def test_query_and_policy(query: Query, policy: Policy, expected: list[tuple[str, str]]) -> None:
    assert chosen("", query, policy) == expected


@pytest.mark.parametrize(
    "family",
    [
        "gfx110X-dgpu",  # the table's family leaves the 780M out, though its beginning would fit
        "gfx1100",
        "gfx115X-igpu",
        "gfx906",  # visible, but torch has no code for it
        "gfx1101",
    ],
)
def test_nothing_fits(family: str) -> None:
    with pytest.raises(NoGpu) as caught:
        chosen(family)
    text = str(caught.value)
    assert caught.value.exit_code == 1
    assert f"no GPU to test on for {family}" in text
    assert "built for gfx942 gfx950 gfx1100 gfx1103 gfx1151" in text
    assert "5: gfx942 (MI300X), 3: gfx1103 (Radeon 780M), 0: gfx942 (MI300X)" in text
    assert "GPU-0123456789abcdef: gfx906 (MI50)" in text


@pytest.mark.parametrize(
    "family",
    ["gfx94", "X", "mi300x", "gfx", "94X", "gfx94Xyz", "gfx94Y", "*", "sm_", "gfx942:xnack", "gfx942,nvidia"],
)
def test_a_family_that_is_none(family: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(family)
    assert repr(family.rpartition(",")[2]) in caught.value.what
    assert caught.value.next_step


def test_a_name_that_comes_near_is_proposed() -> None:
    with pytest.raises(UsageError, match="perhaps gfx94X-dcgpu"):
        parse_wanted("gfx94X_dcgpu", FAMILIES)


def test_no_gpu_says_what_torch_said() -> None:
    nothing = TorchFacts(
        version="2.9.1+rocm7.1.0",
        hip="7.1.0",
        architectures=("gfx942",),
        problem="HIP_VISIBLE_DEVICES is set and empty: no GPU is visible",
    )
    with pytest.raises(NoGpu) as caught:
        select(nothing, "", FAMILIES)
    assert "torch reports: HIP_VISIBLE_DEVICES is set and empty" in str(caught.value)
    assert "rocwright doctor" in (caught.value.next_step or "")


def test_a_torch_without_gpus() -> None:
    with pytest.raises(NoGpu, match="CPU only, built for no GPU") as caught:
        select(TorchFacts(version="2.13.0+cpu"), "gfx942", FAMILIES)
    assert "--cpu" in (caught.value.next_step or "")


def test_cuda() -> None:
    facts = TorchFacts(
        version="2.11.0+cu130",
        cuda="13.0",
        architectures=("sm_80", "sm_90", "sm_120"),
        devices=(Device(0, "0", "sm_90", "H100"), Device(1, "1", "sm_75", "T4")),
        variable="CUDA_VISIBLE_DEVICES",
    )
    (group,) = select(facts, "", FAMILIES)
    assert device_env(group, facts) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert select(facts, "sm_90", FAMILIES) == (group,)
    with pytest.raises(NoGpu):
        select(facts, "sm_75", FAMILIES)


@pytest.mark.parametrize(
    ("target", "architectures", "runs"),
    [
        ("gfx942", ("gfx942",), True),
        ("gfx942", ("gfx942:xnack-",), True),
        ("gfx942", ("gfx940",), False),
        ("gfx942", ("gfx9-4-generic",), True),
        ("gfx906", ("gfx9-4-generic",), False),
        ("gfx906", ("gfx9-generic",), True),
        ("gfx1100", ("gfx11-generic",), True),
        ("gfx1030", ("gfx10-1-generic",), False),
        ("gfx1151", ("amdgcnspirv",), True),
        ("gfx942", (), False),
        ("sm_90", ("sm_90a",), True),
        ("sm_89", ("sm_80", "sm_90"), True),
        ("sm_90", ("sm_80",), False),
        ("sm_90", ("sm_80", "compute_80"), True),
        ("sm_75", ("compute_80",), False),
        ("sm_121", ("sm_120",), True),
    ],
)
def test_what_code_runs_on(target: str, architectures: tuple[str, ...], runs: bool) -> None:
    generic = load_table("families", Families).generic
    assert built_for(target, architectures, generic) is runs


def test_every_built_in_family_is_understood() -> None:
    table = load_table("families", Families).families
    for name, targets in table.items():
        wanted = parse_wanted(name, table)
        assert all(map(wanted.fits, targets))
        assert not wanted.fits("gfx000")
