from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from rocwright.store.adopt.grouping import Asking, Needs, OfferedSet, grow, roots
from rocwright.store.adopt.offered import (
    Catalogue,
    Link,
    OfferedFiles,
    SetChoice,
    date_of,
    label_of,
    label_order,
    select,
)

LINUX = {"sys_platform": "linux", "platform_system": "Linux", "python_version": "3.12"}


def catalogue(*names: str, yanked: Sequence[str] = (), listing: bool = True) -> Catalogue:
    gathered = OfferedFiles()
    gathered.add(
        Link(name, f"https://x.example/{name}", yanked="bad" if name in yanked else None)
        for name in (one if one.endswith(".gz") else f"{one}-py3-none-linux_x86_64.whl" for one in names)
    )
    assert gathered.notes == []
    files = gathered.by_project()
    return Catalogue(files, frozenset(files) if listing else None)


def grown(
    root: tuple[str, str],
    index: Catalogue,
    requires: Mapping[str, Sequence[str]],
    *,
    companions: Sequence[str] = (),
) -> OfferedSet:
    """The whole set, with METADATA given as `torch 2.0` → lines; extras are those that markers name."""
    needs = {}
    for node, lines in requires.items():
        parsed = tuple(map(Requirement, lines))
        extras = tuple(
            {str(one.marker).split('"')[1] for one in parsed if one.marker and "extra" in str(one)}
        )
        needs[(node.split()[0], node.split()[1])] = Needs(parsed, extras)
    for _ in range(20):
        found, asking = grow(root, index, needs, environments=[LINUX], companions=companions)
        if not asking:
            return found
        assert not asking.pages
        needs.update({node: Needs() for node in asking.nodes})
    raise AssertionError("it asks for ever")


@pytest.mark.parametrize(
    ("project", "version", "label"),
    [
        ("torch", "2.10.0+rocm7.12.0a20260430", "7.12.0a20260430"),
        ("torch", "2.10.0a0+git1a2b3c4d.rocm7.12.0rc1", "7.12.0rc1"),
        ("torch", "2.10.0+devrocm7.10.0.dev0-efed3c", "7.10.0.dev0.efed3c"),
        ("rocm", "7.10.0.dev0+efed3c", "7.10.0.dev0.efed3c"),
        ("rocm-sdk-core", "7.12.0a20260430", "7.12.0a20260430"),
        ("torch", "2.10.0+cpu", None),
        ("torch", "2.10.0", None),
        ("numpy", "2.0.0", None),
        ("rocmtools", "1.0", None),
    ],
)
def test_which_build_a_version_is_of(project: str, version: str, label: str | None) -> None:
    assert label_of(project, version) == label


def test_newer_builds_come_first() -> None:
    labels = ["7.12.0a20260430", "7.12.0", "7.13.0a20260429", None, "7.10.0.dev0.efed3c", "7.9.1"]
    in_order = sorted(labels, key=label_order)
    assert in_order == [None, "7.9.1", "7.10.0.dev0.efed3c", "7.12.0", "7.13.0a20260429", "7.12.0a20260430"]
    assert date_of("7.12.0a20260430") == "20260430"
    assert date_of("7.12.0") is None
    index = catalogue(
        "torch-2.9+rocm7.12.0a20260430", "torch-2.10+rocm7.12.0a20260430", "torch-2.11+rocm7.11"
    )
    assert [version for _, version in roots(index, "torch")] == [
        "2.10+rocm7.12.0a20260430",
        "2.9+rocm7.12.0a20260430",
        "2.11+rocm7.11",
    ]


def test_two_torch_of_one_day_have_extensions_of_their_own() -> None:
    index = catalogue(
        *(f"torch-{one}+rocm7.1" for one in ("2.9", "2.10")),
        *(f"torchvision-{one}+rocm7.1" for one in ("0.24", "0.25")),
        *(f"triton-{one}+rocm7.1" for one in ("3.4", "3.5")),
        "rocm-7.1.tar.gz",
    )
    requires = {
        "torch 2.9+rocm7.1": ["triton==3.4+rocm7.1", "rocm[libraries]==7.1"],
        "torch 2.10+rocm7.1": ["triton==3.5+rocm7.1", "rocm[libraries]==7.1"],
        "torchvision 0.24+rocm7.1": ["torch==2.9+rocm7.1"],
        "torchvision 0.25+rocm7.1": ["torch==2.10+rocm7.1"],
    }
    assert grown(("torch", "2.9+rocm7.1"), index, requires) == OfferedSet(
        ("torch", "2.9+rocm7.1"),
        "7.1",
        {"rocm": "7.1", "torch": "2.9+rocm7.1", "torchvision": "0.24+rocm7.1", "triton": "3.4+rocm7.1"},
    )
    newer = grown(("torch", "2.10+rocm7.1"), index, requires)
    assert (newer.versions["torchvision"], newer.versions["triton"]) == ("0.25+rocm7.1", "3.5+rocm7.1")
    assert newer.misfits == ()


def test_an_extension_for_the_torch_of_another_day_is_named() -> None:
    index = catalogue(
        "torch-2+rocm7a20260429",
        "torch-2+rocm7a20260430",
        "torchvision-1+rocm7a20260429",
        "torchvision-1+rocm7a20260430",
    )
    old = "torch==2+rocm7a20260429"
    requires = {"torchvision 1+rocm7a20260429": [old], "torchvision 1+rocm7a20260430": [old]}
    [misfit] = grown(("torch", "2+rocm7a20260430"), index, requires).misfits
    assert misfit.file == "torchvision-1+rocm7a20260430-py3-none-linux_x86_64.whl"
    assert misfit.what == f"requires {old}, the set has torch 2+rocm7a20260430"
    assert misfit.needed == "a torchvision that requires torch==2+rocm7a20260430"
    whole = grown(("torch", "2+rocm7a20260429"), index, requires)
    assert (whole.misfits, whole.versions["torchvision"]) == ((), "1+rocm7a20260429")


def test_a_missing_device_package_is_named_as_the_file_it_would_be() -> None:
    index = catalogue(
        "torch-2+rocm7", "amd_torch_device_gfx942-2+rocm7", "amd_torch_device_gfx1100-1+rocm6", "other-1"
    )
    requires = {
        "torch 2+rocm7": [
            'amd-torch-device-gfx942==2+rocm7; extra == "device-gfx942"',
            'amd-torch-device-gfx1100==2+rocm7; extra == "device-gfx1100"',
            'pywin32==5; sys_platform == "win32"',
            "filelock",
            "sympy==1.13.1",
        ]
    }
    found = grown(("torch", "2+rocm7"), index, requires)
    assert found.versions == {"amd-torch-device-gfx942": "2+rocm7", "torch": "2+rocm7"}
    [misfit] = found.misfits
    assert misfit.needed == "amd_torch_device_gfx1100-2+rocm7-py3-none-linux_x86_64.whl"
    assert "the index has 1+rocm6" in misfit.what


def test_rocm_without_device_code_for_a_target_of_torch_is_named() -> None:
    index = catalogue(
        "torch-2+rocm7",
        "amd_torch_device_gfx942-2+rocm7",
        "amd_torch_device_gfx9_4_generic-2+rocm7",
        "rocm_sdk_device_gfx942-7",
        "rocm_sdk_device_gfx1100-7",
    )
    [misfit] = grown(("torch", "2+rocm7"), index, {}).misfits
    assert "device package for gfx9-4-generic" in misfit.what
    assert misfit.needed.startswith("rocm_sdk_device_gfx9_4_generic-7-")


def test_libraries_of_another_build_are_named_though_they_answer_the_pin() -> None:
    index = catalogue("torch-2+rocm7a20260430", "rocm-7a20260430.tar.gz", "rocm_sdk_libraries-7a20260429")
    requires = {
        "torch 2+rocm7a20260430": ["rocm[libraries]==7a20260430"],
        "rocm 7a20260430": ['rocm-sdk-libraries==7a20260429; extra == "libraries"'],
    }
    [misfit] = grown(("torch", "2+rocm7a20260430"), index, requires).misfits
    assert misfit.file == "rocm-7a20260430.tar.gz"
    assert "from another build than 7a20260430" in misfit.what


def test_a_compatible_release_is_a_pin_among_builds_and_none_elsewhere() -> None:
    index = catalogue("torch-2+rocm7.1", "rocm-7.0.tar.gz", "numpy-1.26.4", "numpy-2.0")
    requires = {"torch 2+rocm7.1": ["rocm~=7.0", "numpy~=1.26"]}
    found = grown(("torch", "2+rocm7.1"), index, requires)
    assert "numpy" not in found.versions
    [misfit] = found.misfits
    assert "from another build" in misfit.what
    [misfit] = grown(("torch", "2+rocm7.1"), index, {"torch 2+rocm7.1": ["rocm~=7.1"]}).misfits
    assert "requires rocm~=7.1, the index has 7.0" in misfit.what


def test_a_companion_may_be_pinned_as_a_compatible_release() -> None:
    index = catalogue("torch-2.9", "triton-3.4.1", "triton-3.5")
    found = grown(("torch", "2.9"), index, {"torch 2.9": ["triton~=3.4.0"]}, companions=["triton"])
    assert found.versions == {"torch": "2.9", "triton": "3.4.1"}
    [misfit] = grown(("torch", "2.9"), index, {"torch 2.9": ["triton~=3.6"]}, companions=["triton"]).misfits
    assert "requires triton~=3.6, the index has 3.5, 3.4.1" in misfit.what


def test_without_labels_pins_alone_make_the_set() -> None:
    index = catalogue(
        "torch-2.8", "torch-2.9", "torch-2.9+cpu", "torchvision-0.23", "torchvision-0.24", "triton-3.4"
    )
    requires = {
        "torch 2.9": ["triton==3.4"],
        "torchvision 0.24": ["torch==2.9"],
        "torchvision 0.23": ["torch==2.8"],
    }
    found = grown(("torch", "2.9"), index, requires, companions=["torchvision", "torchaudio"])
    assert found.versions == {"torch": "2.9", "torchvision": "0.24", "triton": "3.4"}
    assert found.label is None
    # A pin without a local part admits every variant: that of the root is meant.
    variants = catalogue("torch-2.9+cpu", "triton-3.4", "triton-3.4+cpu", "triton-3.4+xpu")
    found = grown(("torch", "2.9+cpu"), variants, {"torch 2.9+cpu": ["triton==3.4"]})
    assert found.versions["triton"] == "3.4+cpu"


def test_pages_that_are_read_one_by_one_are_asked_for_where_something_is_pinned() -> None:
    index = catalogue("torch-2.9", listing=False)
    needs = {("torch", "2.9"): Needs((Requirement("triton==3.4"), Requirement("filelock")))}
    _, asking = grow(("torch", "2.9"), index, needs, environments=[LINUX])
    assert asking == Asking(set(), {"triton"})
    _, asking = grow(("torch", "2.9"), index, {}, environments=[LINUX])
    assert asking == Asking({("torch", "2.9")}, set())


def test_what_cannot_be_read_makes_a_set_mixed_and_no_other() -> None:
    index = catalogue("torch-1+rocm7a20260429", "torch-1+rocm7a20260430")
    needs = {
        roots(index, "torch")[0]: Needs(unreadable="it is half a file"),
        roots(index, "torch")[1]: Needs(),
    }
    newest, older = (grow(root, index, needs, environments=[LINUX])[0] for root in roots(index, "torch"))
    assert str(newest.misfits[0]).endswith("cannot be read: it is half a file")
    assert older.misfits == ()


def test_a_circle_of_pins_ends() -> None:
    index = catalogue("torch-1+rocm7", "amd_torch_device_gfx942-1+rocm7")
    requires = {
        "torch 1+rocm7": ["amd-torch-device-gfx942==1+rocm7"],
        "amd-torch-device-gfx942 1+rocm7": ["torch==1+rocm7", "amd-torch-device-gfx942"],
    }
    assert len(grown(("torch", "1+rocm7"), index, requires).versions) == 2


def names(index: Catalogue, project: str) -> list[str]:
    return [one.name for one in index.files[project]]


def test_platform_python_and_withdrawal_leave_files_out() -> None:
    gathered = OfferedFiles()
    wheels = (
        "torch-1-cp311-cp311-linux_x86_64.whl",
        "torch-1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-1-cp312-cp312-win_amd64.whl",
        "torch-1-cp312-cp312-macosx_11_0_arm64.whl",
        "torch-1-py3-none-any.whl",
        "torch-1.tar.gz",
    )
    gathered.add(Link(name, "u", yanked="bad" if "cp311" in name else None) for name in wheels)
    index = Catalogue(gathered.by_project())
    assert {parse_wheel_filename(name)[1] for name in wheels if name.endswith(".whl")} != set()
    assert names(select(index, SetChoice()), "torch") == [wheels[1], wheels[4], wheels[5]]
    assert names(select(index, SetChoice(version="1")), "torch") == [
        wheels[0],
        wheels[1],
        wheels[4],
        wheels[5],
    ]
    assert names(select(index, SetChoice(platform="windows")), "torch") == [wheels[2], wheels[4], wheels[5]]
    assert names(select(index, SetChoice(version="1", pythons=("3.11",))), "torch") == [
        wheels[0],
        wheels[4],
        wheels[5],
    ]


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        (SetChoice(), True),
        (SetChoice(version="2.10"), True),
        (SetChoice(version="2.10.0+rocm7.12.0a20260430"), True),
        (SetChoice(version="2.9"), False),
        (SetChoice(date="20260430"), True),
        (SetChoice(date="2026-04-30"), True),
        (SetChoice(date="20260429"), False),
        (SetChoice(rocm_version="7.12.0a20260430"), True),
        (SetChoice(rocm_version="7.12.0"), False),
    ],
)
def test_which_set_is_meant(wanted: SetChoice, meant: bool) -> None:
    assert wanted.is_meant(("torch", "2.10.0+rocm7.12.0a20260430")) is meant
