"""The names by which AMD's packages of ROCm tell what they are, as programs written for those read them."""

from __future__ import annotations

import json
from pathlib import Path

import fake_rocm as fake

PACKAGES = """
import json
from rocm_sdk import _dist_info as di
family = di.determine_target_family()
def told(package):
    try:
        return [package.get_dist_package_require(family), package.get_py_package_name(family),
                package.has_py_package(family)]
    except ValueError as error:
        return str(error)
print(json.dumps([family, {name: told(package) for name, package in di.ALL_PACKAGES.items()}]))
"""
LIBRARIES = """
import json
from rocm_sdk import _dist_info as di
print(json.dumps({name: entry.package.logical_name for name, entry in di.ALL_LIBRARIES.items()}))
"""


def told(site: Path, code: str, **environ: str) -> object:
    return json.loads(fake.python(site, code, **environ).stdout)


def test_packages_of_a_family(site: Path) -> None:
    family, packages = told(site, PACKAGES)
    assert family == "gfx90X-dcgpu"
    assert packages == {
        "meta": ["rocm==5.2.3", "rocm_sdk", True],
        "core": ["rocm-sdk-core==5.2.3", "_rocm_sdk_core", True],
        "libraries": ["rocm-sdk-libraries-gfx90X-dcgpu==5.2.3", "_rocm_sdk_libraries_gfx90x_dcgpu", True],
        "device": "ROCm 5.2.3 has no package device for gfx90X-dcgpu",
        "devel": ["rocm-sdk-devel==5.2.3", "_rocm_sdk_devel", False],
        "profiler": "ROCm 5.2.3 has no package profiler for gfx90X-dcgpu",
    }
    fake.rocm_sdk(site, "init")
    assert told(site, PACKAGES)[1]["devel"] == ["rocm-sdk-devel==5.2.3", "_rocm_sdk_devel", True]


def test_the_expanded_tree_is_a_package_of_its_own(site: Path) -> None:
    fake.rocm_sdk(site, "init")
    done = fake.python(site, "import _rocm_sdk_devel as d; print(d.__version__, d.__file__)")
    assert done.stdout == f"5.2.3 {site}/_rocm_sdk_devel/__init__.py\n"


def test_another_family_is_asked_for_by_the_variable(site: Path) -> None:
    family, packages = told(site, PACKAGES, ROCM_SDK_TARGET_FAMILY="gfx103X-dgpu")
    assert family == "gfx103X-dgpu"
    assert packages["libraries"][2] is False
    done = fake.python(site, PACKAGES, ROCM_SDK_TARGET_FAMILY="gfx1")
    assert done.stderr.splitlines()[-1] == (
        "ValueError: ROCM_SDK_TARGET_FAMILY=gfx1 is not part of ROCm 5.2.3; it has: gfx103X-dgpu gfx90X-dcgpu"
    )


def test_packages_of_a_split_rocm(kpack_site: Path, kpack_wheels) -> None:
    fake.unpack(kpack_site, kpack_wheels["gfx906"])
    family, packages = told(kpack_site, PACKAGES)
    assert family == "gfx906"
    assert packages["libraries"] == ["rocm-sdk-libraries==5.2.3", "_rocm_sdk_libraries", True]
    assert packages["device"] == ["rocm-sdk-device-gfx906==5.2.3", "_rocm_sdk_libraries", True]
    assert packages["profiler"] == ["rocm-profiler==5.2.3", "_rocm_profiler", False]


def test_libraries_are_those_that_can_be_loaded(site: Path, tmp_path: Path, wheels) -> None:
    # This ROCm ships neither hiprtc nor hipblas nor rccl, although it knows their names.
    assert told(site, LIBRARIES) == {"amdhip64": "core", "amd_comgr": "core", "rocblas": "libraries"}
    alone = fake.unpack(tmp_path / "alone", wheels["rocm"], wheels["core"])
    assert told(alone, LIBRARIES) == {
        "amdhip64": "core",
        "amd_comgr": "core",
        "rocblas": "libraries",
        "hipblas": "libraries",
        "rccl": "libraries",
    }
