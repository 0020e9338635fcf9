"""Which wheels form one installation, and where members get."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.wheel.metadata import parse_metadata
from rocwright.wheel.read import Wheel, WheelMember, installed_path, installed_together


def wheel(name: str, *tags: str) -> Wheel:
    metadata = parse_metadata(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n".encode())
    tagged = frozenset(tags)
    return Wheel(Path(name), name, "1", None, tagged, f"{name}-1.dist-info", (), metadata, tagged, False, ())


def test_wheels_of_different_projects_are_one_installation() -> None:
    wheels = [wheel("torch", "cp311-cp311-linux"), wheel("numpy", "py3-none-any")]
    assert installed_together(wheels) == [wheels]
    assert installed_together([]) == []


def test_a_project_for_two_pythons_makes_two_installations() -> None:
    first, second = wheel("torch", "cp311-cp311-linux"), wheel("torch", "cp312-cp312-linux")
    device = wheel("torch-device", "cp311-cp311-linux")
    assert installed_together([first, second, device]) == [[first, device], [second]]


def variant(name: str, label: str, *members: str) -> Wheel:
    """With these members besides its metadata."""
    there = tuple(WheelMember(one, 0, 0, 0, 0, 0, 0, 0) for one in (*members, f"{name}-1.dist-info/WHEEL"))
    path = Path("-".join(filter(None, (f"{name}-1-py3-none-any", label))) + ".whl")
    return msgspec.structs.replace(wheel(name, "py3-none-any"), path=path, members=there)


def test_of_a_project_with_variants_one_is_installed_at_a_time() -> None:
    torch = wheel("torch", "cp311-cp311-linux")
    plain, first, second = (variant("fat", label, "fat/lib.so") for label in ("", "gfx942", "gfx1151"))
    assert installed_together([torch, plain, first, second]) == [
        [torch, plain],
        [torch, second],
        [torch, first],
    ]
    assert installed_together([first]) == [[first]]


def test_variants_that_only_choose_do_not_count() -> None:
    torch, device = wheel("torch", "cp311-cp311-linux"), wheel("torch-device-gfx942", "py3-none-any")
    plain, *chosen = (variant("device", label) for label in ("", "null", "gfx942"))
    assert installed_together([torch, device, plain, *chosen]) == [[torch, device, plain]]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("torch/lib/a.so", "torch/lib/a.so"),
        ("torch-1.data/platlib/torch/a.so", "torch/a.so"),
        ("torch-1.data/purelib/torch/a.py", "torch/a.py"),
        ("torch-1.data/scripts/tool", "torch-1.data/scripts/tool"),
        ("other-1.data/platlib/a.so", "other-1.data/platlib/a.so"),
    ],
)
def test_members_of_data_move(name: str, path: str) -> None:
    member = WheelMember(name, 0, 0, 0, 0, 0, 0, 0)
    assert installed_path(msgspec.structs.replace(wheel("torch", "t"), members=(member,)), member) == path
