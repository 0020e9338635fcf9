"""From wheel tags to Pythons and platforms, and what fits where."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement
from set_facts import sdist, wheel

from rocwright.check.environments import PythonPlatform, environments_of, may_meet

LINUX = PythonPlatform("cp311", "cp311", "linux_x86_64")
WINDOWS = PythonPlatform("cp311", "cp311", "win_amd64")
UNLOCKED = PythonPlatform("cp313", "cp313t", "linux_x86_64")


def environments(*tags: str) -> list[str]:
    return [str(one) for one in environments_of([wheel(f"p{at}", tag=tag) for at, tag in enumerate(tags)])]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["cp311-cp311-linux_x86_64"], ["cp311 on linux_x86_64"]),
        (["cp311-cp311-manylinux_2_28_x86_64", "py3-none-linux_x86_64"], ["cp311 on linux_x86_64"]),
        (["cp311-cp311-manylinux2014_aarch64"], ["cp311 on linux_aarch64"]),
        (
            ["cp311-cp311-linux_x86_64", "cp312-cp312-win_amd64"],
            ["cp311 on linux_x86_64", "cp312 on win_amd64"],
        ),
        (["cp313-cp313t-linux_x86_64"], ["cp313t on linux_x86_64"]),
        (["cp311-none-any", "py3-none-win_amd64"], ["cp311 on win_amd64"]),
        # Libraries for every Python; Windows has no torch yet, and is looked at with the same Python.
        (
            ["cp311-cp311-linux_x86_64", "py3-none-linux_x86_64", "py3-none-win_amd64"],
            ["cp311 on linux_x86_64", "cp311 on win_amd64"],
        ),
        (["py3-none-any"], ["cp312 on linux_x86_64"]),
        (["cp314-abi3-linux_x86_64"], ["cp314 on linux_x86_64"]),
        (["cp315-abi3t-linux_x86_64"], ["cp315t on linux_x86_64"]),
        (["cp315-abi3-linux_x86_64", "cp315-abi3t-linux_x86_64"], ["cp315 on linux_x86_64"]),
        (["cp315-cp315-linux_x86_64"], ["cp315 on linux_x86_64"]),
        ([], ["cp312 on linux_x86_64"]),
    ],
)
def test_environments(tags: list[str], expected: list[str]) -> None:
    assert environments(*tags) == expected


def test_an_sdist_is_for_all_and_brings_none() -> None:
    assert [str(one) for one in environments_of([sdist("rocm"), wheel("torch")])] == ["cp311 on linux_x86_64"]
    assert LINUX.takes(sdist("rocm"))


@pytest.mark.parametrize(
    ("tag", "linux", "windows", "unlocked"),
    [
        ("cp311-cp311-linux_x86_64", True, False, False),
        ("cp311-cp311-manylinux_2_17_x86_64", True, False, False),
        ("cp311-cp311-musllinux_1_2_x86_64", False, False, False),
        ("cp311-cp311-linux_aarch64", False, False, False),
        ("cp39-abi3-linux_x86_64", True, False, False),
        ("cp312-abi3-linux_x86_64", False, False, False),
        ("cp313-abi3t-linux_x86_64", False, False, True),
        ("cp315-abi3t-linux_x86_64", False, False, False),
        ("cp310-cp310-linux_x86_64", False, False, False),
        ("cp310-none-any", True, True, True),
        ("cp313-cp313t-linux_x86_64", False, False, True),
        ("cp313-cp313-linux_x86_64", False, False, False),
        ("py3-none-win_amd64", False, True, False),
        ("py3-none-any", True, True, True),
        ("pp310-pypy310_pp73-linux_x86_64", False, False, False),
    ],
)
def test_what_fits_where(tag: str, linux: bool, windows: bool, unlocked: bool) -> None:
    facts = wheel("x", tag=tag)
    assert [one.takes(facts) for one in (LINUX, WINDOWS, UNLOCKED)] == [linux, windows, unlocked]


@pytest.mark.parametrize(
    ("marker", "linux", "windows"),
    [
        ('sys_platform == "linux"', True, False),
        ('platform_system == "Windows"', False, True),
        ('os_name == "nt" and platform_machine == "AMD64"', False, True),
        ('platform_machine == "x86_64"', True, False),
        ('python_version < "3.12"', True, True),
        ('python_full_version >= "3.12"', False, False),
        ('extra == "devel"', False, False),
    ],
)
def test_markers(marker: str, linux: bool, windows: bool) -> None:
    requirement = Requirement(f"x; {marker}")
    assert [LINUX.applies(requirement), WINDOWS.applies(requirement)] == [linux, windows]


def test_extras_are_compared_normalised() -> None:
    assert LINUX.applies(Requirement('x; extra == "device_gfx90a"'), "device-gfx90a")


def test_two_files_of_one_project_never_meet() -> None:
    assert may_meet(wheel("a"), wheel("b"), [LINUX])
    assert not may_meet(wheel("a"), wheel("a", "2"), [LINUX])
    assert not may_meet(wheel("a"), wheel("b"), [WINDOWS])
