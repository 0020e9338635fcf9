"""Versions, specifiers and markers as the detector reads them, against the library that installers use."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import fake_machine
import pytest
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.version import Version

VERSIONS = [
    *("0.9", "1", "1.0", "1.0.0", "1.0.1", "1.10", "1.9", "2!0.1", "1.0a1", "1.0.alpha.2", "1.0b3", "1.0rc1"),
    *("1.0c2", "1.0-preview-3", "1.0.post1", "1.0-2", "1.0.rev3", "1.0.dev4", "1.0a1.dev5", "1.0a1.post2"),
    *("1.0.post1.dev2", "1.0+abc", "1.0+5", "1.0+abc.5", "1.0+abc.d", "1.0+5.1", "V1.0", "1.0a", "1.0dev"),
    *("2.10.0a0+rocm7.11.0a20261120", "2.10.0+rocm7.11.0a20261119", "2.10.0+rocm7.11.0a20261120"),
]
SPECIFIERS = [
    *("==1.0", "==1.0.*", "!=1.0", "!=1.0.*", ">=1.0", "<=1.0", ">1.0.1", "<2", "~=1.0", "~=1.0.0"),
    *(">=1.0,<1.10", "==2.10.0+rocm7.11.0a20261120", "==2.10.0", "==1.0a1", ""),
]
PLACE = {
    "python_version": "3.12",
    "python_full_version": "3.12.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
MARKERS = [
    'platform_system == "Linux"',
    "platform_system != 'Linux'",
    'python_version < "3.9"',
    'python_version >= "3.10" and platform_machine == "x86_64"',
    '(sys_platform == "win32" or sys_platform == "linux") and python_version > "3.8"',
    'sys_platform in "linux darwin"',
    'sys_platform not in "linux darwin"',
    'extra == "device-gfx942"',
    'extra == "device_gfx942" and python_version >= "3.10"',
    'extra == "dev"',
    '"3.11" <= python_version',
]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    path = fake_machine.package(tmp_path_factory.mktemp("site")) / "rocwright_detect/_versions.py"
    yield _loaded(path)
    sys.modules.pop("detect_versions")


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("detect_versions", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["detect_versions"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_versions_have_the_order_of_installers(versions: ModuleType) -> None:
    for one, other in itertools.product(VERSIONS, repeat=2):
        assert (versions.key(one) < versions.key(other)) == (Version(one) < Version(other)), (one, other)
        assert (versions.key(one) == versions.key(other)) == (Version(one) == Version(other)), (one, other)
    for one in VERSIONS:
        assert versions.is_pre(one) == Version(one).is_prerelease, one


@pytest.mark.parametrize("text", ["", "x", "1.0+", "1..0", "1.0 2", "1.0+a_", "latest", "1.0`id`"])
def test_what_is_no_version(versions: ModuleType, text: str) -> None:
    assert versions.key(text) is None


def test_specifiers_allow_what_installers_allow(versions: ModuleType) -> None:
    # Pre-releases on either side of < and > are a matter of their own.
    settled = [one for one in VERSIONS if not Version(one).is_prerelease and "post" not in str(Version(one))]
    for specifier, one in itertools.product(SPECIFIERS, settled):
        if ">1.0.1" in specifier and "+" in one:
            continue
        wanted = SpecifierSet(specifier).contains(one, prereleases=True)
        assert versions.allows(specifier, one) == wanted, (specifier, one)


def test_markers_hold_where_installers_think_so(versions: ModuleType) -> None:
    for text in MARKERS:
        wanted = Marker(text).evaluate({**PLACE, "extra": "device-gfx942"})
        assert versions.applies(text, PLACE, ["device-gfx942"]) == wanted, text
    assert versions.applies("", PLACE, [])
    assert not versions.applies('extra == "dev"', PLACE, [])


@pytest.mark.parametrize(
    "text",
    ["python_version ~= '3.8'", "(", "1 + 1", "nothing == '3'", "f(x) == 'y'", "(" * 3000, "not os_name"],
)
def test_a_marker_that_cannot_be_read_leaves_the_requirement(versions: ModuleType, text: str) -> None:
    assert versions.applies(text, PLACE, [])


def test_requirements(versions: ModuleType) -> None:
    read = versions.requirement
    assert read("torch (==2.9.0+rocm7.1)") == ("torch", set(), "==2.9.0+rocm7.1", "")
    assert read("rocm[libraries, Device_gfx942]==7.1 ; os_name == 'nt'") == (
        *("rocm", {"libraries", "device-gfx942"}),
        *("==7.1", "os_name == 'nt'"),
    )
    assert read("typing_extensions>=4.8.0") == ("typing-extensions", set(), ">=4.8.0", "")
    assert read("x @ https://x.example/x.whl") is None
    assert versions.pinned("==7.1") == "7.1"
    assert [versions.pinned(one) for one in ("==7.*", ">=7.1", "==7.1,<8", "")] == [None] * 4
