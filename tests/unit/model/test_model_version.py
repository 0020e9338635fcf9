"""Versions: every row of the suffix table, as normalised by packaging, in the order they must sort."""

from __future__ import annotations

import pytest
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from rocwright.errors import InvalidInput
from rocwright.model.version import (
    RELEASE_TYPES,
    InvalidVersion,
    check_pattern,
    parse_version,
    rocm_suffix,
    wheel_version,
)

# ROCm version, suffix, base version of torch, version of the wheel as it is normalised
TABLE = [
    ("7.10.0", "+rocm7.10.0", "2.9.0", "2.9.0+rocm7.10.0"),
    ("7.10.0rc2", "+rocm7.10.0rc2", "2.9.0", "2.9.0+rocm7.10.0rc2"),
    ("7.10.0a20251124", "+rocm7.10.0a20251124", "2.10.0a0", "2.10.0a0+rocm7.10.0a20251124"),
    ("7.10.0.dev0+efed3c", "+devrocm7.10.0.dev0-efed3c", "2.9.0", "2.9.0+devrocm7.10.0.dev0.efed3c"),
    (
        "10.1.0a20260811+bkc.20260813",
        "+rocm10.1.0a20260811-bkc.20260813",
        "2.12.0a0",
        "2.12.0a0+rocm10.1.0a20260811.bkc.20260813",
    ),
]
IDS = ["release", "prerelease", "nightly", "dev", "bkc"]


@pytest.mark.parametrize(("rocm", "suffix", "base", "wheel"), TABLE, ids=IDS)
def test_the_table_of_suffixes(rocm: str, suffix: str, base: str, wheel: str) -> None:
    assert rocm_suffix(rocm) == suffix
    assert wheel_version(base, suffix, release_type="nightly") == wheel
    # The spelling that is normal already: what a file name, an index and METADATA can share.
    assert str(Version(wheel)) == wheel
    assert str(parse_wheel_filename(f"torch-{wheel}-cp311-cp311-linux_x86_64.whl")[1]) == wheel


def test_dev_nightly_candidate_and_stable_sort_in_this_order() -> None:
    rocm = ["7.10.0.dev0+efed3c", "7.10.0a20251124", "7.10.0rc2", "7.10.0"]
    torch = [Version(wheel_version("2.9.0", rocm_suffix(text), release_type="nightly")) for text in rocm]
    assert torch == sorted(torch)
    assert len(set(torch)) == 4
    assert [Version(text) for text in rocm] == sorted(Version(text) for text in rocm)


@pytest.mark.parametrize(
    ("commit", "version"),
    [
        ("1a2b3c4d5e6f7a8b9c0d", "2.12.0a0+git1a2b3c4d.rocm7.10.0"),
        ("0000000012345678", "2.12.0a0+git00000000.rocm7.10.0"),
        (None, "2.12.0a0+rocm7.10.0"),
    ],
)
def test_a_dev_wheel_carries_its_commit(commit: str | None, version: str) -> None:
    assert wheel_version("2.12.0a0", "+rocm7.10.0", release_type="dev", commit=commit) == version


@pytest.mark.parametrize("release_type", ["ci", "nightly", "prerelease", "release"])
def test_other_wheels_do_not(release_type: str) -> None:
    made = wheel_version("2.9.1\n", "+rocm7.10.0", release_type=release_type, commit="1a2b3c4d5e")
    assert made == "2.9.1+rocm7.10.0"


def test_a_dev_wheel_against_a_dev_rocm() -> None:
    made = wheel_version("2.9.0", rocm_suffix("7.10.0.dev0+ab12"), release_type="dev", commit="1a2b3c4d5e")
    assert made == "2.9.0+git1a2b3c4d.devrocm7.10.0.dev0.ab12"


@pytest.mark.parametrize(
    ("base", "suffix", "release_type", "named"),
    [
        ("2.9.0", "rocm7", "nightly", "'rocm7' must start with"),
        ("2.9.0", "", "nightly", "must start with"),
        ("2.9.0", "+rocm7", "weekly", "'weekly'"),
        ("3.4.0+git12345678", "+rocm7", "nightly", r"3\.4\.0\+git12345678\+rocm7"),
        ("two", "+rocm7", "nightly", "two"),
        ("", "+rocm7", "nightly", "rocm7"),
    ],
)
def test_a_version_that_cannot_be_is_named(base: str, suffix: str, release_type: str, named: str) -> None:
    with pytest.raises(InvalidVersion, match=named) as caught:
        wheel_version(base, suffix, release_type=release_type)
    assert isinstance(caught.value, InvalidInput)


@pytest.mark.parametrize("text", ["", "7.x", "rocm7", "7.10.0-+", "7 10"])
def test_text_that_is_no_version(text: str) -> None:
    with pytest.raises(InvalidVersion):
        rocm_suffix(text)


def test_versions_are_read_by_pep_440() -> None:
    assert parse_version("7.10.0-rc.2") == Version("7.10rc2")


@pytest.mark.parametrize(
    ("rocm", "release_type", "pattern"),
    [
        ("7.10.0", "release", "7.10.*"),
        ("7.10.0rc2", "prerelease", "7.10.*"),
        ("7.10.0a20251124", "nightly", "7.10.0a20251124"),
        ("7.10.0.dev0+efed3c", "dev", "7.10.0.dev0+efed3c"),
        ("7.10.0", "ci", "7.10.0"),
    ],
)
def test_releases_accept_every_patch_of_their_rocm(rocm: str, release_type: str, pattern: str) -> None:
    assert check_pattern(rocm, release_type) == pattern


def test_release_types() -> None:
    assert {"ci", "dev", "nightly", "prerelease", "release"} <= set(RELEASE_TYPES)
