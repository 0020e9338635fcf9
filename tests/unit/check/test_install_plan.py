"""What is installed together, which extras are asked for, and what stands in for others; nothing is run."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from set_facts import LINUX, contract, sdist, wheel

from rocwright.check.context import Context
from rocwright.check.environments import PythonPlatform
from rocwright.check.facts import Facts
from rocwright.check.install import interpreter_of, this_environment, too_new
from rocwright.check.install_plan import InstallPlan, StandIn, plan_install, version_for

HERE = PythonPlatform("cp311", "cp311", "linux_x86_64")


def plan(*files: Facts, where: PythonPlatform = HERE) -> InstallPlan:
    return plan_install(Context(contract(), files=files), where)


def rocm(**more: Any) -> Facts:
    return sdist("rocm", "7", **more)


def test_everything_is_asked_for_in_one_go_with_every_extra() -> None:
    torch = wheel(
        "torch",
        "2.9+rocm7",
        requires=["rocm[libraries]==7", 'opt-einsum>=3.3; extra == "opt"'],
        extras=["opt"],
    )
    made = plan(rocm(), wheel("rocm-sdk-core", "7", "py3-none-linux_x86_64", members={"a": 5, "b": 7}), torch)
    # The sdist in legacy mode tells no extras; the contract knows them.
    assert made.requirements == ("rocm[devel,libraries]", "rocm-sdk-core", "torch[opt]")
    assert made.expected == {"rocm": ("7",), "rocm-sdk-core": ("7",), "torch": ("2.9+rocm7",)}
    assert made.stand_ins == (StandIn("opt-einsum", "3.4"),)
    assert made.size == 12
    assert made.obstacle is None


def test_an_extra_that_refuses_is_not_asked_for_but_its_file_is_in_the_index() -> None:
    selector = rocm(
        extras=["libraries", "device-gfx942", "device"],
        requires=[
            'rocm-sdk-libraries==7; extra == "libraries"',
            'rocm-sdk-device-gfx942==7; extra == "device-gfx942"',
            'rocm-sdk-device==7; extra == "device"',
        ],
    )
    libraries = wheel("rocm-sdk-libraries", "7", "py3-none-linux_x86_64")
    device = wheel("rocm-sdk-device-gfx942", "7", "py3-none-linux_x86_64")
    made = plan(selector, sdist("rocm-sdk-device", "7"), libraries, device)
    assert made.requirements == (
        "rocm[device-gfx942,libraries]",
        "rocm-sdk-device-gfx942",
        "rocm-sdk-libraries",
    )
    assert "rocm-sdk-device" not in made.expected
    assert [path.name for path in made.files][1] == "rocm_sdk_device-7.tar.gz"


def test_only_what_fits_the_environment() -> None:
    files = [wheel("torch", "2.9", tag) for tag in (LINUX, "cp312-cp312-linux_x86_64")]
    assert [path.name for path in plan(*files).files] == [f"torch-2.9-{LINUX}.whl"]


def test_one_stand_in_for_all_that_require_it() -> None:
    files = [
        wheel("a", requires=["fsspec[http]>=0.8.5", 'pywin32>=1; sys_platform == "win32"', "A-B_c"]),
        wheel("b", requires=["fsspec[s3,HTTP]!=2024.1,<2025"]),
    ]
    assert plan(*files).stand_ins == (StandIn("a-b-c", "1"), StandIn("fsspec", "2024.9999", ("http", "s3")))


@pytest.mark.parametrize(
    ("files", "obstacle"),
    [
        ([wheel("x", requires=["rocm-sdk-core==7"])], "rocm-sdk-core==7 is not among the files"),
        ([wheel("x", requires=["t==1+rocm7"])], "t==1+rocm7 is not among the files"),
        (
            [wheel("x", requires=["y==1"]), wheel("y", "1", "cp312-cp312-linux_x86_64")],
            "y==1 is not among the files",
        ),
        ([wheel("x", requires=["y>2"]), wheel("y", "2")], "y>2 contradicts the set's y 2"),
        (
            [wheel("x", requires=["y @ https://example.invalid/y.whl"])],
            "y@ https://example.invalid/y.whl is to be fetched from an address",
        ),
        ([wheel("x", unreadable="no zip")], f"x-1.0-{LINUX}.whl cannot be read"),
        (
            [wheel("a", requires=["sympy==1"]), wheel("b", requires=["sympy>1"])],
            "no version of sympy satisfies all that require it",
        ),
    ],
)
def test_what_must_fail_is_not_tried(files: list[Facts], obstacle: str) -> None:
    made = plan(*files).obstacle
    assert made is not None
    assert made.replace("y @", "y@") == obstacle


@pytest.mark.parametrize(
    ("specifier", "version"),
    [
        ("", "1"),
        ("==1.13.1", "1.13.1"),
        (">=1.13", "1.14"),
        (">1.13", "1.14"),
        ("~=4.9", "4.10"),
        ("~=4.9.1", "4.9.2"),
        ("<2", "1.9999"),
        ("<1", "0.9999"),
        ("<=0", "0"),
        (">=1.24,<2,!=1.25.*", "1.9999"),
        (">=4.1,<4.2", "4.1.9999"),
        ("==3.*", "3.1"),
        ("!=1", "2"),
        (">=2.0rc1", "2.1"),
        ("==2.0rc1", "2.0rc1"),
        ("==1.0+cpu", "1.0+cpu"),
    ],
)
def test_a_version_that_satisfies(specifier: str, version: str) -> None:
    assert SpecifierSet(specifier).contains(version, prereleases=True)
    assert version_for(SpecifierSet(specifier)) == version


def test_specifiers_that_nothing_satisfies() -> None:
    assert version_for(SpecifierSet(">2,<1")) is None
    assert version_for(SpecifierSet("==1,==2")) is None


def test_interpreters_are_those_that_are_there() -> None:
    assert interpreter_of(this_environment()) is not None
    assert interpreter_of(PythonPlatform("cp399", "cp399", "linux_x86_64")) is None


def test_a_name_on_path_that_does_not_start_is_no_interpreter(tmp_path: Any, monkeypatch: Any) -> None:
    """Version managers leave names for interpreters that are not installed; others lie."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "python3.98"
    program.write_text("#!/bin/sh\necho 'python3.98: command not found' >&2\nexit 127\n")
    program.chmod(0o755)
    assert interpreter_of(PythonPlatform("cp398", "cp398", "linux_x86_64")) is None
    program.write_text("#!/bin/sh\necho cp397\n")
    assert interpreter_of(PythonPlatform("cp398", "cp398", "linux_x86_64")) is None
    program.write_text("#!/bin/sh\necho cp398\n")
    assert interpreter_of(PythonPlatform("cp398", "cp398", "linux_x86_64")) == program


def test_a_wheel_for_a_newer_c_library_is_known() -> None:
    files = [wheel("a", tag="cp311-cp311-manylinux_2_99_x86_64"), wheel("b", tag="py3-none-any"), sdist("c")]
    assert too_new(files) == ["a-1.0-cp311-cp311-manylinux_2_99_x86_64.whl"]
