"""Versions with another ROCm in them, by a table written by hand; unknown forms are refused."""

from __future__ import annotations

import pytest
from packaging.version import Version

from rocwright.errors import UsageError
from rocwright.model.version import InvalidVersion
from rocwright.wheel.reversion.versions import new_version, parse_rule, rocm_version

OWN, FRAMEWORK = True, False


@pytest.mark.parametrize(
    ("old", "own", "to", "new"),
    [
        ("7.10.0rc2", OWN, "release", "7.10.0"),
        ("7.10.0rc12", OWN, "release", "7.10.0"),
        ("7.10.0rc12", OWN, "rc1", "7.10.0rc1"),
        ("7.13.0a20260430", OWN, "release", "7.13.0"),
        ("7.13.0a20260430", OWN, "rc2", "7.13.0rc2"),
        ("7.13.0rc2", OWN, "a20260430", "7.13.0a20260430"),
        ("7.13.0rc2", OWN, "7.13.0", "7.13.0"),
        ("7.13.0rc2", OWN, "7.13.0rc3", "7.13.0rc3"),
        ("1!7.10.0rc2", OWN, "release", "1!7.10.0"),
        # A nightly with a best known configuration says so in its own local part, which stays.
        ("7.13.0a20260430+bkc.20260501", OWN, "release", "7.13.0+bkc.20260501"),
        ("7.13.0a20260430+asan", OWN, "release", "7.13.0+asan"),
        # An alpha of torch stays an alpha.
        ("2.10.0a0+rocm7.13.0a20260430", FRAMEWORK, "release", "2.10.0a0+rocm7.13.0"),
        ("2.10.0a0+rocm7.13.0a20260430.asan", FRAMEWORK, "release", "2.10.0a0+rocm7.13.0.asan"),
        ("2.10.0+rocm7.13.0a20260430.gitdeadbeef", FRAMEWORK, "rc1", "2.10.0+rocm7.13.0rc1.gitdeadbeef"),
        ("2.9.0+git1a2b3c4d.rocm7.10.0rc1", FRAMEWORK, "release", "2.9.0+git1a2b3c4d.rocm7.10.0"),
        ("2.9.0+rocm.rocm7.10.0rc1", FRAMEWORK, "release", "2.9.0+rocm.rocm7.10.0"),
        ("2.9.0rc3+rocm7.10.0rc1", FRAMEWORK, "release", "2.9.0rc3+rocm7.10.0"),
        ("2.9.0.post1+rocm7.10.0rc2", FRAMEWORK, "release", "2.9.0.post1+rocm7.10.0"),
        ("1!2.9.0+rocm7.10.0rc2", FRAMEWORK, "release", "1!2.9.0+rocm7.10.0"),
        ("2.9.0+rocm7.10.0rc1.12345678", FRAMEWORK, "release", "2.9.0+rocm7.10.0.12345678"),
        ("2.9.0+rocm7.10rc1", FRAMEWORK, "release", "2.9.0+rocm7.10"),
        ("2.9.0+rocm7.10.0a20260430-bkc.20260501", FRAMEWORK, "release", "2.9.0+rocm7.10.0.bkc.20260501"),
        # What names no ROCm stays.
        ("3.5.0", FRAMEWORK, "release", "3.5.0"),
        ("3.5.0rc1", FRAMEWORK, "release", "3.5.0rc1"),
        ("2.9.0+cpu", FRAMEWORK, "release", "2.9.0+cpu"),
        ("2.9.0+rocmless", FRAMEWORK, "release", "2.9.0+rocmless"),
    ],
)
def test_only_the_part_of_rocm_changes(old: str, own: bool, to: str, new: str) -> None:
    assert str(new_version(Version(old), parse_rule(to), own=own)) == new


@pytest.mark.parametrize(
    ("text", "own", "why"),
    [
        ("7.10.0rc1.dev3", OWN, "a development version"),
        ("7.10.0.dev0+efed3c", OWN, "a development version"),
        ("7.10.0rc2.post1", OWN, "neither a candidate"),
        ("7.10.0b1", OWN, "neither a candidate"),
        ("7.10.0a1", OWN, "neither a candidate"),
        ("2.9.0+devrocm7.10.0.dev0-efed3c", FRAMEWORK, "a development version"),
        ("2.9.0+rocm7.10.0rc1.dev3", FRAMEWORK, "a development version"),
        ("2.9.0+rocm7.10.0b2", FRAMEWORK, "neither a candidate"),
        ("2.9.0+rocm7x", FRAMEWORK, "rocm7x is not a version number"),
        ("2.9.0+rocm7.10.0rc1.rocm7.11.0rc1", FRAMEWORK, "names ROCm twice"),
    ],
)
def test_other_forms_are_refused_by_name(text: str, own: bool, why: str) -> None:
    with pytest.raises(InvalidVersion, match=why) as caught:
        new_version(Version(text), parse_rule("release"), own=own)
    assert str(Version(text)) in caught.value.what


@pytest.mark.parametrize(
    ("text", "own", "to"),
    [
        ("7.10.0", OWN, "release"),
        ("7.10.0.post1", OWN, "release"),
        ("7.10.0", OWN, "rc1"),
        ("7.10.0rc2", OWN, "rc2"),
        ("2.9.0+rocm7.10.0", FRAMEWORK, "release"),
        ("2.9.0a0+rocm7.10.0", FRAMEWORK, "release"),
    ],
)
def test_what_has_its_version_is_only_promoted(text: str, own: bool, to: str) -> None:
    with pytest.raises(UsageError) as caught:
        new_version(Version(text), parse_rule(to), own=own)
    assert "promote it as it is" in str(caught.value.next_step)


def test_another_release_cannot_be_reached() -> None:
    with pytest.raises(UsageError, match=r"cannot become 7\.14\.0"):
        new_version(Version("7.13.0rc1"), parse_rule("7.14.0"), own=OWN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "final",
        "rc",
        "rc02",
        "a2026",
        "7.13.0b1",
        "7.13.0.post1",
        "7.13.0.dev1",
        "v7.13.0",
        "7.13.0+x",
        "1 .0",
    ],
)
def test_unknown_rules_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a version that a candidate or nightly can become"):
        parse_rule(text)


def test_the_rocm_of_a_version() -> None:
    assert rocm_version(Version("7.13.0rc1+asan"), own=OWN) == Version("7.13.0rc1")
    assert rocm_version(Version("2.10.0a0+rocm7.13.0a20260430.asan"), own=FRAMEWORK) == Version(
        "7.13.0a20260430"
    )
    assert rocm_version(Version("2.10.0"), own=FRAMEWORK) is None
