"""The rules of a set: several files looked at together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocwright.check.report import Report
from rocwright.check.run import check_paths
from wheels import write_sdist


@pytest.fixture
def family(build: Any) -> Path:
    write_sdist(build.folder, "rocm", "7.1")
    build.torch()
    build.extension("torchvision", "0.24+rocm7.1")
    return build.folder


def rules(report: Report) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity) for finding in report.findings]


def test_a_whole_family_is_without_findings(family: Path) -> None:
    report = check_paths([family], closed=True, expect=["torch", "torchvision", "rocm"])
    assert report.findings == ()
    assert report.files == (
        "rocm-7.1.tar.gz",
        "torch-2.9.0+rocm7.1-cp311-cp311-linux_x86_64.whl",
        "torchvision-0.24+rocm7.1-cp311-cp311-linux_x86_64.whl",
    )


def test_a_missing_project_is_an_error(family: Path) -> None:
    report = check_paths([family], expect=["torchaudio", "torch"])
    assert [(one.rule, one.file) for one in report.findings] == [("expected", "torchaudio")]


def test_two_versions_of_a_package(family: Path, build: Any) -> None:
    build.extension("torchvision", "0.23+rocm7.1")
    assert rules(check_paths([family])) == [("set-one-version", "error")]


def test_a_file_that_is_named_twice_is_checked_once(family: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(family)
    names = sorted(path.name for path in family.iterdir())
    report = check_paths([Path(), *(family / name for name in names), Path("..") / family.name])
    assert report.files == tuple(names)
    assert report.findings == ()


def test_one_version_for_two_pythons_is_fine(family: Path, build: Any) -> None:
    build.torch(tag="cp312-cp312-linux_x86_64")
    assert check_paths([family], closed=True).findings == ()


def test_two_packages_that_own_a_path(family: Path, build: Any) -> None:
    build.extension("apex", files={"torch/__init__.py": ""})
    report = check_paths([family])
    assert rules(report) == [("set-ownership", "error")]
    assert report.findings[0].members == ("torch/__init__.py",)


def test_a_pin_on_a_version_that_the_set_does_not_hold(family: Path, build: Any) -> None:
    build.extension("apex", torch="2.8.0+rocm7.1")
    report = check_paths([family])
    assert rules(report) == [("set-pins", "error")]
    assert "the set holds torch 2.9.0+rocm7.1" in report.findings[0].cause


def test_a_pin_that_leads_out_of_the_set(family: Path, build: Any) -> None:
    (family / "rocm-7.1.tar.gz").unlink()
    assert rules(check_paths([family])) == [("set-closed", "warning")]
    assert check_paths([family]).passed
    report = check_paths([family], closed=True)
    assert rules(report) == [("set-closed", "error")]
    assert not report.passed


def test_a_pin_on_a_public_package_is_nobodys_business(family: Path, build: Any) -> None:
    build.extension("apex", requires=["torch==2.9.0+rocm7.1", "sympy==1.13.1"])
    assert check_paths([family], closed=True).findings == ()


def test_versions_are_compared_not_their_spelling(family: Path, build: Any) -> None:
    build.extension("apex", requires=["Torch==2.9+ROCM7.1"])
    build.extension("torchaudio", "1", torch="2.9.0")
    # 2.9 and 2.9.0 are equal versions; a pin without a local part admits 2.9.0+rocm7.1.
    assert check_paths([family], closed=True).findings == ()


def test_an_sdist_that_calls_itself_otherwise(build: Any) -> None:
    report = check_paths([write_sdist(build.folder, "rocm", "7.1", said="7.2")])
    assert rules(report) == [("metadata-identity", "error")]
    (build.folder / "rocm-7.1.tar.gz").write_bytes(b"no archive")
    assert rules(check_paths([build.folder])) == [("readable", "error")]
