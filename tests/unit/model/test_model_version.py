"""Versions: every row of the suffix table, as normalised by packaging, in the order they must sort."""

from __future__ import annotations

import subprocess

import pytest
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from needs import needs
from rocwright.errors import InvalidInput
from rocwright.model.version import (
    RELEASE_TYPES,
    InvalidVersion,
    RocmVersions,
    check_pattern,
    parse_version,
    rocm_package_versions,
    rocm_suffix,
    with_commit,
    with_suffix,
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
    assert with_suffix(base, suffix) == wheel
    # The spelling that is normal already: what a file name, an index and METADATA can share.
    assert str(Version(wheel)) == wheel
    assert str(parse_wheel_filename(f"torch-{wheel}-cp311-cp311-linux_x86_64.whl")[1]) == wheel


def test_dev_nightly_candidate_and_stable_sort_in_this_order() -> None:
    rocm = ["7.10.0.dev0+efed3c", "7.10.0a20251124", "7.10.0rc2", "7.10.0"]
    torch = [Version(with_suffix("2.9.0", rocm_suffix(text))) for text in rocm]
    assert torch == sorted(torch)
    assert len(set(torch)) == 4
    assert [Version(text) for text in rocm] == sorted(Version(text) for text in rocm)


@pytest.mark.parametrize(
    ("commit", "version"),
    [
        ("1a2b3c4d5e6f7a8b9c0d", "2.12.0a0+git1a2b3c4d.rocm7.10.0"),
        ("0000000012345678", "2.12.0a0+git00000000.rocm7.10.0"),
    ],
)
def test_a_dev_wheel_carries_its_commit(commit: str, version: str) -> None:
    assert with_suffix("2.12.0a0\n", with_commit("+rocm7.10.0", commit)) == version


def test_a_dev_wheel_against_a_dev_rocm() -> None:
    made = with_suffix("2.9.0", with_commit(rocm_suffix("7.10.0.dev0+ab12"), "1a2b3c4d5e"))
    assert made == "2.9.0+git1a2b3c4d.devrocm7.10.0.dev0.ab12"


@pytest.mark.parametrize(
    ("base", "suffix", "named"),
    [
        ("2.9.0", "rocm7", "'rocm7' must start with"),
        ("2.9.0", "", "must start with"),
        ("3.4.0+git12345678", "+rocm7", r"3\.4\.0\+git12345678\+rocm7"),
        ("two", "+rocm7", "two"),
        ("", "+rocm7", "rocm7"),
    ],
)
def test_a_version_that_cannot_be_is_named(base: str, suffix: str, named: str) -> None:
    with pytest.raises(InvalidVersion, match=named) as caught:
        with_suffix(base, suffix)
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


SHA = "efed3c3b10a5cce8578f58f8eb288582c26d18c4"
DATES = {"date": "20251203", "bkc_date": "20260814"}

# What is asked, and the version in the spellings of Python, Debian and RPM packages.
ROCM_TABLE = [
    ({"release_type": "release"}, "7.10.0", "7.10.0", "7.10.0"),
    ({"release_type": "prerelease", "prerelease": 2}, "7.10.0rc2", "7.10.0~pre2", "7.10.0~rc2"),
    (
        {"release_type": "nightly", "date": "20251124"},
        "7.10.0a20251124",
        "7.10.0~20251124",
        "7.10.0~20251124",
    ),
    ({"release_type": "dev"}, f"7.10.0.dev0+{SHA}", "7.10.0~dev20251203", "7.10.0~20251203gefed3c3b"),
    ({"release_type": "ci"}, f"7.10.0.dev0+{SHA}", "7.10.0~dev20251203", "7.10.0~20251203gefed3c3b"),
    ({"release_type": "dev-bkc"}, f"7.10.0.dev0+{SHA}", "7.10.0~dev20251203", "7.10.0~20251203gefed3c3b"),
    (
        {"release_type": "nightly-bkc", "date": "20260811"},
        "7.10.0a20260811+bkc.20260814",
        "7.10.0~20260811.bkc.20260814",
        "7.10.0~20260811.bkc.20260814",
    ),
    ({"custom_suffix": ".dev1+mine"}, "7.10.0.dev1+mine", "7.10.0~dev1+mine", "7.10.0~dev1+mine"),
    ({"custom_suffix": "rc3"}, "7.10.0rc3", "7.10.0~rc3", "7.10.0~rc3"),
    ({"custom_suffix": ".post1"}, "7.10.0.post1", "7.10.0.post1", "7.10.0.post1"),
    ({"custom_suffix": "+mine.2"}, "7.10.0+mine.2", "7.10.0+mine.2", "7.10.0+mine.2"),
]


def asked(options: dict[str, object]) -> RocmVersions:
    return rocm_package_versions("7.10.0", **{"sha": SHA, **DATES, **options})


@pytest.mark.parametrize(("options", "python", "deb", "rpm"), ROCM_TABLE, ids=[row[1] for row in ROCM_TABLE])
def test_the_table_of_rocm_versions(options: dict[str, object], python: str, deb: str, rpm: str) -> None:
    assert asked(options) == RocmVersions(python, deb, rpm)
    # The same text in a file name, an index and a pin.
    assert str(Version(python)) == python
    assert parse_wheel_filename(f"rocm_sdk_core-{python}-py3-none-linux_x86_64.whl")[1] == Version(python)


def test_a_release_has_only_its_base() -> None:
    assert rocm_package_versions("10.1", release_type="release") == RocmVersions("10.1", "10.1", "10.1")


def test_python_sorts_dev_nightly_candidate_and_release_in_this_order() -> None:
    types = ["dev", "nightly", "nightly-bkc", "prerelease", "release"]
    versions = [
        Version(asked({"release_type": t, **({"prerelease": 2} if t == "prerelease" else {})}).python)
        for t in types
    ]
    assert versions == sorted(versions)
    assert len(set(versions)) == 5


@needs("dpkg")
def test_debian_sorts_everything_before_the_release_and_newer_builds_later() -> None:
    def older(one: str, other: str) -> bool:
        return subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False).returncode == 0

    for options, _, deb, _ in ROCM_TABLE:
        if options.get("release_type") == "release" or str(options.get("custom_suffix", "")).startswith(
            ("+", ".post")
        ):
            continue
        assert older(deb, "7.10.0"), deb
        assert older("7.9.9", deb), deb
    for release_type in ("dev", "nightly", "nightly-bkc"):
        first, second = (
            asked({"release_type": release_type, "date": day}).deb for day in ("20251203", "20251204")
        )
        assert older(first, second)
    assert older("7.10.0~pre2", asked({"release_type": "prerelease", "prerelease": 10}).deb)
    # As the table fixes it; nightlies and dev builds live in repositories of their own.
    assert older("7.10.0~20251204", "7.10.0~dev20251203")
    assert older("7.10.0~dev20251203", "7.10.0~pre2")


@pytest.mark.parametrize(
    ("base", "options", "named"),
    [
        ("7.10.0rc1", {"release_type": "release"}, "'7.10.0rc1' is not a plain release"),
        ("7.10.0+x", {"release_type": "release"}, "not a plain release"),
        ("07.10.0", {"release_type": "release"}, "not a plain release"),
        ("v7.10.0", {"release_type": "release"}, "not a plain release"),
        ("1!7.10.0", {"release_type": "release"}, "not a plain release"),
        ("seven", {"release_type": "release"}, "'seven' is not a valid version"),
        ("7.10.0", {}, "either a release type or a suffix"),
        ("7.10.0", {"release_type": "dev", "custom_suffix": "+x"}, "either a release type or a suffix"),
        ("7.10.0", {"release_type": "weekly"}, "'weekly' is not one of"),
        ("7.10.0", {"release_type": "prerelease"}, "number of a release candidate"),
        ("7.10.0", {"release_type": "nightly", "prerelease": 1}, "number of a release candidate"),
        ("7.10.0", {"release_type": "prerelease", "prerelease": -1}, "not in normal form"),
        ("7.10.0", {"release_type": "nightly", "date": None}, "date of the build must be YYYYMMDD"),
        ("7.10.0", {"release_type": "nightly", "date": "20251301"}, "not '20251301'"),
        ("7.10.0", {"release_type": "nightly", "date": "2025121"}, "not '2025121'"),
        ("7.10.0", {"release_type": "nightly-bkc", "bkc_date": ""}, "date of the bkc"),
        ("7.10.0", {"release_type": "dev", "sha": None}, "None is not a commit"),
        ("7.10.0", {"release_type": "dev", "sha": "main"}, "'main' is not a commit"),
        # Python reads a local part of digits as a number and drops the zero.
        ("7.10.0", {"release_type": "dev", "sha": "01234567"}, "not in normal form"),
        ("7.10.0", {"custom_suffix": ".1"}, "changes the release"),
        ("7.10.0", {"custom_suffix": "-dev1"}, "not in normal form"),
        ("7.10.0", {"custom_suffix": "nonsense"}, "not a valid version"),
    ],
)
def test_a_rocm_version_that_cannot_be_is_named(base: str, options: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidVersion, match=named):
        rocm_package_versions(base, **{"sha": SHA, **DATES, **options})
