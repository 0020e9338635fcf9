"""Selectors: which follow from the hosts, what they hold, and hosts from which none follow."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from rocwright.device_code.wheel.selectors import plan_choices, write_selectors
from rocwright.errors import InvalidInput
from rocwright.wheel.read import open_wheel
from wheels import write_wheel

VERSION = "2.9.0+rocm7.1"
TARGETS = ("gfx942", "gfx1151")
LINUX = "cp312-cp312-manylinux_2_28_x86_64"


def host(
    folder: Path,
    *,
    tag: str = LINUX,
    targets: tuple[str, ...] = TARGETS,
    stem: str = "amd-torch-device-",
    more: tuple[str, ...] = (),
) -> Path:
    pins = [f'{stem}{one}=={VERSION} ; extra == "device-{one}"' for one in targets]
    everything = [f'{stem}{one}=={VERSION} ; extra == "device-all"' for one in (*targets, *more)]
    extras = [*(f"device-{one}" for one in targets), "device-all"]
    files = {"torch/__init__.py": ""}
    return write_wheel(folder, "torch", VERSION, files, tag=tag, extras=extras, requires=[*pins, *everything])


def written(folder: Path, *hosts: Path) -> dict[str, Path]:
    made = write_selectors(plan_choices(map(open_wheel, hosts)), folder)
    return {path.name.removeprefix(f"amd_torch_device-{VERSION}-py3-none-"): path for path in made}


def texts(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist()}


PLATFORM = "manylinux_2_28_x86_64"


def test_a_host_gets_a_plain_a_null_and_a_selector_for_each_target(tmp_path: Path) -> None:
    found = written(tmp_path / "out", host(tmp_path))
    assert list(found) == [
        f"{PLATFORM}.whl",
        f"{PLATFORM}-null.whl",
        f"{PLATFORM}-gfx942.whl",
        f"{PLATFORM}-gfx1151.whl",
    ]
    needs = {
        name: [line for line in texts(path)["METADATA"].splitlines() if line.startswith("Requires-Dist")]
        for name, path in found.items()
    }
    assert needs == {
        f"{PLATFORM}.whl": [],
        f"{PLATFORM}-null.whl": [],
        f"{PLATFORM}-gfx942.whl": [f"Requires-Dist: amd-torch-device-gfx942=={VERSION}"],
        f"{PLATFORM}-gfx1151.whl": [f"Requires-Dist: amd-torch-device-gfx1151=={VERSION}"],
    }
    assert [("variant.json" in texts(path)) for path in found.values()] == [False, True, True, True]
    for path in found.values():
        assert path.stat().st_size < 2048
        wheel = open_wheel(path)
        assert (wheel.name, wheel.version) == ("amd-torch-device", VERSION)
        assert {row.path for row in wheel.record} == set(wheel.member)


def test_what_chooses_is_required_by_the_host_at_its_own_version(tmp_path: Path) -> None:
    [choice] = plan_choices([open_wheel(host(tmp_path))])
    assert choice.requirement == f"amd-torch-device=={VERSION}"


def test_hosts_for_several_pythons_share_their_selectors(tmp_path: Path) -> None:
    hosts = [host(tmp_path, tag=f"{python}-{python}-{PLATFORM}") for python in ("cp311", "cp312")]
    assert len(written(tmp_path / "out", *hosts)) == 4


def test_each_platform_has_selectors_for_its_own_targets(tmp_path: Path) -> None:
    windows = host(tmp_path, tag="cp312-cp312-win_amd64", targets=("gfx1151",))
    found = written(tmp_path / "out", host(tmp_path), windows)
    assert [name for name in found if "win" in name] == [
        "win_amd64.whl",
        "win_amd64-null.whl",
        "win_amd64-gfx1151.whl",
    ]
    assert len(found) == 7


def test_the_bytes_follow_from_version_target_and_platform(tmp_path: Path) -> None:
    """A set with fewer targets, or of another Python, has the same files under the same names."""
    one = written(tmp_path / "one", host(tmp_path / "a"))
    other = written(
        tmp_path / "two", host(tmp_path / "b", tag=f"cp311-cp311-{PLATFORM}", targets=("gfx1151",))
    )
    assert set(other) < set(one)
    for name, path in other.items():
        assert path.read_bytes() == one[name].read_bytes()
    # Neither a version of this program nor one of a compressor decides them.
    with zipfile.ZipFile(one[f"{PLATFORM}-gfx942.whl"]) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert "Generator: rocwright\n" in texts(one[f"{PLATFORM}-gfx942.whl"])["WHEEL"]


def test_a_group_and_a_target_that_no_value_can_name_are_not_chosen(tmp_path: Path) -> None:
    path = host(tmp_path, targets=("gfx942", "gfx9-4-generic"), more=("gfx110x",))
    assert [name.removeprefix(PLATFORM) for name in written(tmp_path / "out", path)] == [
        ".whl",
        "-null.whl",
        "-gfx942.whl",
    ]


def test_wheels_without_device_packages_are_left_alone(tmp_path: Path) -> None:
    plain = write_wheel(tmp_path, "torch", VERSION, {}, requires=["filelock"])
    assert plan_choices([open_wheel(plain)]) == ()


def test_hosts_of_one_version_and_platform_offer_the_same(tmp_path: Path) -> None:
    hosts = [host(tmp_path, tag=f"cp311-cp311-{PLATFORM}"), host(tmp_path, targets=("gfx942",))]
    with pytest.raises(InvalidInput, match=r"cp311.* and .*cp312.* for different targets"):
        plan_choices(map(open_wheel, hosts))


@pytest.mark.parametrize("stem", ["torch-", "amdtorch"])
def test_a_name_that_leads_to_no_selector_is_refused(tmp_path: Path, stem: str) -> None:
    path = host(tmp_path, stem=stem)
    with pytest.raises(InvalidInput, match="no name for what chooses it follows from that"):
        plan_choices([open_wheel(path)])
