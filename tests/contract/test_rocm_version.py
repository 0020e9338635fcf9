"""`compute_rocm_package_version.py` and `rocwright sdk compute-version`: one function, documented flags."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import status
from git_repos import git

SCRIPT = Path(__file__).parents[2] / "build_tools/compute_rocm_package_version.py"
SHA = "efed3c3b10a5cce8578f58f8eb288582c26d18c4"


@pytest.fixture(autouse=True)
def nothing_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_SHA", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    # 2025-11-24, half an hour before midnight in UTC.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764027000")
    (tmp_path / "version.json").write_text('{"rocm-version": "7.10.0", "other": 1}')


def call(*words: str) -> int:
    return status("sdk", "compute-version", *words)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    assert call(*words) == 0
    return dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())


def test_the_documented_script_works_from_any_directory(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, SCRIPT, "--release-type", "nightly", "--version-file", "../version.json"],
        cwd=tmp_path / "elsewhere",
        env={**os.environ, "GITHUB_OUTPUT": str(tmp_path / "output")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "rocm_package_version=7.10.0a20251124",
        "rocm_deb_package_version=7.10.0~20251124",
        "rocm_rpm_package_version=7.10.0~20251124",
    ]
    assert (tmp_path / "output").read_text() == done.stdout


def test_the_workflow_s_file_is_added_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "output").write_text("before=1\n")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    assert call("--release-type", "prerelease", "--prerelease-version", "2", "--json") == 0
    assert (tmp_path / "output").read_text().splitlines() == [
        "before=1",
        "rocm_package_version=7.10.0rc2",
        "rocm_deb_package_version=7.10.0~pre2",
        "rocm_rpm_package_version=7.10.0~rc2",
    ]
    assert json.loads(capsys.readouterr().out)["rocm_deb_package_version"] == "7.10.0~pre2"


def test_the_commit_is_the_given_one_then_the_workflow_s_then_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert said(capsys, "--release-type", "dev") == {
        "rocm_package_version": f"7.10.0.dev0+{head}",
        "rocm_deb_package_version": "7.10.0~dev20251124",
        "rocm_rpm_package_version": f"7.10.0~20251124g{head[:8]}",
    }
    monkeypatch.setenv("GITHUB_SHA", "1" * 40)
    assert said(capsys, "--release-type", "ci")["rocm_package_version"] == "7.10.0.dev0+" + "1" * 40
    given = said(capsys, "--release-type", "dev", "--override-git-sha", SHA)
    assert given["rocm_package_version"] == f"7.10.0.dev0+{SHA}"


def test_without_a_repository_the_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--release-type", "dev") == 3
    assert "--override-git-sha" in capsys.readouterr().err
    # A nightly carries no commit and asks for none.
    assert call("--release-type", "nightly") == 0


def test_a_bkc_has_a_day_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--release-type", "nightly-bkc", "--override-base-version", "10.1.0", "--date", "20260811")
    assert said(capsys, *words, "--bkc-date", "20260814") == {
        "rocm_package_version": "10.1.0a20260811+bkc.20260814",
        "rocm_deb_package_version": "10.1.0~20260811.bkc.20260814",
        "rocm_rpm_package_version": "10.1.0~20260811.bkc.20260814",
    }


def test_a_suffix_of_one_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "--custom-version-suffix", ".dev1+mine", "--prerelease-version", "")
    assert found["rocm_package_version"] == "7.10.0.dev1+mine"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "--custom-version-suffix"),
        (("--release-type", "dev", "--custom-version-suffix", "+x"), 2, "--custom-version-suffix"),
        (("--release-type", "prerelease"), 2, "--prerelease-version"),
        (("--release-type", "nightly", "--prerelease-version", "2"), 2, "--prerelease-version"),
        (("--release-type", "prerelease", "--prerelease-version", "two"), 2, "'two'"),
        (("--release-type", "release", "--version-file", "nowhere.json"), 3, "--override-base-version"),
        (
            ("--release-type", "release", "--version-file", "broken.json"),
            3,
            "broken.json is not a JSON object",
        ),
        (("--release-type", "release", "--version-file", "keyless.json"), 3, "rocm-version"),
        (("--release-type", "nightly", "--date", "yesterday"), 3, "'yesterday'"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "keyless.json").write_text('{"rocm_version": "7"}')
    assert call(*words) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_source_date_that_is_none_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "noon")
    assert call("--release-type", "nightly") == 3
    assert "SOURCE_DATE_EPOCH" in capsys.readouterr().err
