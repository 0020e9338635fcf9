"""What the header of a code object says about its target, in every version of the format."""

from __future__ import annotations

import pytest

from oracle.fat_library import code_object
from rocwright.data import load_table
from rocwright.model.device_files import DeviceFiles, known_targets
from rocwright.model.gpu import Families, parse_target
from rocwright.model.machines import Machines, is_code_object, machine_of, mismatch

TABLE = load_table("machines", Machines)
ANY, OFF, ON = 1, 2, 3


def head(machine: int, *, xnack: int = 0, sramecc: int = 0, abi: int = 2) -> bytes:
    return code_object(machine, features=xnack << 8 | sramecc << 10, abi=abi)


def test_every_known_target_but_spirv_has_a_number() -> None:
    targets = known_targets(load_table("device_files", DeviceFiles), load_table("families", Families))
    assert targets - set(TABLE.machines) == {"amdgcnspirv"}
    assert set(TABLE.machines) <= targets
    assert len(set(TABLE.machines.values())) == len(TABLE.machines)
    assert set(TABLE.fixed_features) <= set(TABLE.machines)


@pytest.mark.parametrize(
    ("target", "data", "wrong"),
    [
        ("gfx90a", head(0x3F, xnack=ANY, sramecc=ANY), None),
        ("gfx90a", head(0x4C, xnack=ANY), "its header says gfx942"),
        ("gfx90a", head(0xEE), "its header says machine 0xee"),
        ("gfx90a", head(0x3F, xnack=OFF), "its header says xnack-"),
        ("gfx90a:xnack-", head(0x3F, xnack=OFF), None),
        ("gfx90a:xnack-", head(0x3F, xnack=ON), "its header says xnack+"),
        ("gfx90a:xnack-", head(0x3F, xnack=ANY), "its header says no setting of xnack"),
        ("gfx942:sramecc+:xnack-", head(0x4C, xnack=OFF, sramecc=ON), None),
        ("gfx942:sramecc+:xnack-", head(0x4C, xnack=OFF, sramecc=OFF), "its header says sramecc-"),
        ("gfx1100", head(0x41), None),
        ("gfx9-4-generic", head(0x5F, xnack=ANY, sramecc=ANY, abi=4), None),
        # It always has the feature, whatever the compiler notes.
        ("gfx1250", head(0x49, xnack=OFF), None),
        # Version 3 has one bit for each feature and cannot say that any setting will do.
        ("gfx906:xnack-", code_object(0x2F, abi=1), None),
        ("gfx906:xnack+", code_object(0x2F, abi=1), "its header says xnack-"),
        ("gfx906:xnack+", code_object(0x2F, abi=1, features=0x100), None),
        ("gfx906", code_object(0x2F, abi=1, features=0x300), None),
        ("gfx1250-strict", head(0xEB, xnack=OFF), None),
        ("gfx1250-strict", head(0x49), "its header says gfx1250"),
        ("gfx1250", head(0xEB), "its header says gfx1250-strict"),
        # Nothing is known about its number.
        ("gfx1255", head(0x7F), None),
        ("gfx906", b"\x7fELF\x02\x01", "it is not an AMDGPU code object"),
        ("gfx906", bytes(64), "it is not an AMDGPU code object"),
    ],
)
def test_a_header_and_a_target(target: str, data: bytes, wrong: str | None) -> None:
    assert mismatch(data, parse_target(target), TABLE) == wrong


def test_the_machine_alone() -> None:
    data = head(0x3F, xnack=ON)
    assert is_code_object(data)
    assert machine_of(data, TABLE) == "gfx90a"
    assert machine_of(head(0xEE), TABLE) is None
    assert mismatch(data, parse_target("gfx90a"), TABLE, features=False) is None
