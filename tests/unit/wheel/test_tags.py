"""Which Python and platform the tags of a wheel are for, and which variant a file name is of."""

from __future__ import annotations

import pytest
from packaging.utils import InvalidWheelFilename

from rocwright.errors import InvalidInput
from rocwright.wheel.tags import cp_version, parse_wheel_name, platform_of, serves


@pytest.mark.parametrize(
    ("tag", "python", "platform", "fits"),
    [
        ("cp312-cp312-linux_x86_64", "3.12", "linux", True),
        ("cp312-cp312-manylinux_2_28_x86_64", "3.12", "linux", True),
        ("cp312-cp312-manylinux2014_aarch64", "3.12", "linux", True),
        ("cp312-cp312-musllinux_1_2_x86_64", "3.12", "linux", True),
        ("cp312-cp312-win_amd64", "3.12", "windows", True),
        ("cp312-cp312-win32", "3.12", "windows", True),
        ("cp312-cp312-win_amd64", "3.12", "linux", False),
        ("cp312-cp312-macosx_11_0_arm64", "3.12", "linux", False),
        ("cp312-cp312-linux_x86_64", "3.13", "linux", False),
        # The stable ABI serves later Pythons, not earlier ones, and not those without the lock.
        ("cp310-abi3-linux_x86_64", "3.12", "linux", True),
        ("cp313-abi3-linux_x86_64", "3.12", "linux", False),
        ("cp310-abi3-linux_x86_64", "3.13t", "linux", False),
        ("cp315-abi3t-linux_x86_64", "3.15t", "linux", True),
        ("cp315-abi3t-linux_x86_64", "3.15", "linux", False),
        ("cp313-cp313t-linux_x86_64", "3.13t", "linux", True),
        ("cp313-cp313-linux_x86_64", "3.13t", "linux", False),
        ("cp313-cp313t-linux_x86_64", "3.13", "linux", False),
        ("py3-none-linux_x86_64", "3.12", "linux", True),
        ("py3-none-any", "3.12", "windows", True),
        ("py2.py3-none-any", "3.12", "linux", True),
        ("py2-none-any", "3.12", "linux", False),
        ("pp310-pypy310_pp73-linux_x86_64", "3.10", "linux", False),
    ],
)
def test_a_wheel_serves_a_python_on_a_platform(tag: str, python: str, platform: str, fits: bool) -> None:
    assert serves([tag], python, platform) is fits


def test_one_fitting_tag_of_several_is_enough() -> None:
    assert serves(["cp311-cp311-win_amd64", "cp312-cp312-linux_x86_64"], "3.12", "linux")
    assert not serves(["cp312-cp312-win_amd64", "cp311-cp311-linux_x86_64"], "3.12", "linux")


@pytest.mark.parametrize(
    ("tags", "platform"),
    [
        (["cp312-cp312-linux_x86_64"], "linux"),
        (["cp312-cp312-manylinux_2_28_x86_64", "cp312-cp312-manylinux2014_x86_64"], "linux"),
        (["cp312-cp312-win_amd64"], "windows"),
        (["py3-none-any"], None),
        (["cp312-cp312-macosx_11_0_arm64"], None),
        (["cp312-cp312-win_amd64", "cp312-cp312-linux_x86_64"], None),
        ([], None),
    ],
    ids=str,
)
def test_tags_tell_the_platform_when_they_agree(tags: list[str], platform: str | None) -> None:
    assert platform_of(tags) == platform


def test_a_python_is_spelled_as_in_tags() -> None:
    assert cp_version("3.9") == "cp39-cp39"
    assert cp_version(" 3.14t ") == "cp314-cp314t"


@pytest.mark.parametrize("text", ["", "3", "3.", "3.7", "4.0", "3.12t2", "3.12.1", "cp312", "３.12"])
def test_other_text_is_no_python(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a version of Python"):
        cp_version(text)


@pytest.mark.parametrize(
    ("name", "build", "tags", "label"),
    [
        ("torch-2.9.0+rocm7-cp312-abi3-win_amd64-gfx1151.whl", (), {"cp312-abi3-win_amd64"}, "gfx1151"),
        ("torch-2.9.0-py3-none-any-null.whl", (), {"py3-none-any"}, "null"),
        ("torch-2.9.0-1abc-py3-none-any-x86_64.v3.whl", (1, "abc"), {"py3-none-any"}, "x86_64.v3"),
        # A build tag is no label.
        ("torch-2.9.0-1-py3-none-any.whl", (1, ""), {"py3-none-any"}, ""),
        ("torch-2.9.0-py3-none-any.whl", (), {"py3-none-any"}, ""),
    ],
)  # fmt: skip
def test_a_variant_has_a_label_behind_its_tags(name, build, tags, label):
    found = parse_wheel_name(name)
    assert (found.project, str(found.version).partition("+")[0]) == ("torch", "2.9.0")
    assert (found.build, {str(tag) for tag in found.tags}, found.label) == (build, tags, label)


@pytest.mark.parametrize(
    "name",
    [
        "torch-2.9.0-py3-none-any-GFX1151.whl",
        "torch-2.9.0-py3-none-any-.whl",
        "torch-2.9.0-py3-none-any-a-b.whl",
        # A version with a hyphen in it moves the tags, and makes no label of the platform.
        "torch-2.9.0-rocm7-cp312-cp312-linux_x86_64.whl",
        "torch-2.9.0-1-2-py3-none-any.whl",
        "torch.zip",
    ],
)
def test_what_is_no_label_makes_no_name_of_a_wheel(name):
    with pytest.raises(InvalidWheelFilename):
        parse_wheel_name(name)
