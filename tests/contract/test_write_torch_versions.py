"""`write_torch_versions.py` and `python_to_cp_version.py`: what later jobs of a workflow read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocwright.cli.documented import DOCUMENTED, run
from wheels import LOCAL, write_family, write_torch

ROOT = Path(__file__).parents[2]
VERSIONS = ROOT / "build_tools/github_actions/write_torch_versions.py"
PYTHON = ROOT / "build_tools/github_actions/python_to_cp_version.py"
WRITTEN = [
    f"torch_version=2.9.0+{LOCAL}",
    f"torchaudio_version=2.9.0+{LOCAL}",
    f"torchvision_version=0.24.0+{LOCAL}",
    f"triton_version=3.5.1+{LOCAL}",
    f"apex_version=1.9.0+{LOCAL}",
]


@pytest.fixture(autouse=True)
def no_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "PACKAGE_DIST_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    write_family(tmp_path / "dist")
    return tmp_path / "dist"


def call(script: Path, *words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run(str(script), list(map(str, words)))
    return int(ended.value.code or 0)


def test_every_documented_script_is_there_and_can_be_run() -> None:
    for name in DOCUMENTED:
        assert os.access(ROOT / name, os.X_OK), name
        assert "run(__file__)" in (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_without_rocwright_a_script_says_how_to_get_it(name: str) -> None:
    # -S: no site-packages, so that nothing is installed.
    done = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    said, next_step = done.stderr.splitlines()
    assert said == "error: this Python has no rocwright"
    python, _, arguments = next_step.removeprefix("  next: ").partition(" ")
    assert Path(python).samefile(sys.executable)
    assert arguments == f"-m pip install {ROOT}"


def test_the_documented_script_tells_the_workflow(tmp_path: Path, dist: Path) -> None:
    (tmp_path / "output").write_text("earlier=1\n")
    done = subprocess.run(
        [sys.executable, VERSIONS, "--dist-dir", "dist"],
        cwd=tmp_path,
        env={**os.environ, "GITHUB_OUTPUT": str(tmp_path / "output")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text().splitlines() == ["earlier=1", *WRITTEN]
    assert done.stdout.splitlines() == WRITTEN
    assert done.stderr == ""


def test_the_directory_may_stand_in_the_environment(
    dist: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACKAGE_DIST_DIR", str(dist))
    assert call(VERSIONS) == 0
    assert capsys.readouterr().out.splitlines() == WRITTEN


def test_without_a_workflow_it_prints_and_warns(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(VERSIONS, "--dist-dir", dist) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == WRITTEN
    assert captured.err.startswith("warning: GITHUB_OUTPUT is not set")


@pytest.mark.parametrize("project", ["torch", "torchaudio", "torchvision", "triton", "apex"])
def test_on_linux_every_project_must_be_there(
    dist: Path, project: str, capsys: pytest.CaptureFixture[str]
) -> None:
    next(dist.glob(f"{project}-*")).unlink()
    assert call(VERSIONS, "--dist-dir", dist, "--platform", "windows") == 9
    captured = capsys.readouterr()
    # The wheels' tags say what they are for, whatever the option says.
    assert f"there is no wheel of {project}" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("project", "code"), [("torch", 9), ("torchaudio", 9), ("torchvision", 9), ("triton", 0), ("apex", 0)]
)
def test_on_windows_triton_and_apex_may_be_missing(
    tmp_path: Path, project: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    dist = tmp_path / "dist"
    write_family(dist, tag="cp312-cp312-win_amd64")[project].unlink()
    assert call(VERSIONS, "--dist-dir", dist) == code
    captured = capsys.readouterr()
    assert f"there is no wheel of {project}" in captured.err
    expected = [line for line in WRITTEN if not line.startswith(f"{project}_")]
    assert captured.out.splitlines() == (expected if code == 0 else [])


def test_several_versions_are_an_error_that_names_the_files(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    stale = write_torch(dist, version=f"2.8.0+{LOCAL}")
    assert call(VERSIONS, "--dist-dir", dist) == 9
    error = capsys.readouterr().err
    assert stale.name in error
    assert f"torch-2.9.0+{LOCAL}-cp312-cp312-linux_x86_64.whl" in error
    assert not (tmp_path / "output").exists()


def test_one_version_for_several_pythons_is_one_version(
    dist: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_family(dist, tag="cp311-cp311-linux_x86_64")
    assert call(VERSIONS, "--dist-dir", dist) == 0
    assert capsys.readouterr().out.splitlines() == WRITTEN


def test_linux_and_windows_wheels_do_not_belong_together(
    dist: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_family(dist, tag="cp312-cp312-win_amd64")
    assert call(VERSIONS, "--dist-dir", dist) == 9
    assert "Linux and for Windows are mixed" in capsys.readouterr().err


def test_names_are_read_as_installers_read_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dist = tmp_path / "dist"
    write_family(dist)["torch"].unlink()
    # A build number, and a version that is not spelled canonically.
    (dist / "torch-2.10.0.RC1+ROCm7.10.0-3-cp312-cp312-linux_x86_64.whl").write_bytes(b"")
    # Device wheels and other projects whose names begin alike are not torch.
    (dist / f"torch_geometric-2.6.0+{LOCAL}-py3-none-any.whl").write_bytes(b"")
    assert call(VERSIONS, "--dist-dir", dist) == 0
    assert capsys.readouterr().out.splitlines()[0] == "torch_version=2.10.0rc1+rocm7.10.0"


def test_a_file_without_a_wheel_name_is_an_error(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dist / "torch.whl").write_bytes(b"")
    assert call(VERSIONS, "--dist-dir", dist) == 9
    assert "torch.whl is not a valid wheel name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [((), "PACKAGE_DIST_DIR"), (("--dist-dir", "nowhere"), "nowhere is not a directory")],
    ids=["none", "missing"],
)
def test_no_directory_is_wrong_usage(
    words: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(VERSIONS, *words) == 2
    assert named in capsys.readouterr().err


# ---- python_to_cp_version.py ----


@pytest.mark.parametrize(
    ("python", "cp"),
    [("3.10", "cp310-cp310"), ("3.12", "cp312-cp312"), ("3.13t", "cp313-cp313t"), ("3.14", "cp314-cp314")],
)
def test_a_python_as_wheel_tags_spell_it(python: str, cp: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(PYTHON, "--python-version", python, "--no-write-env-file") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (f"cp_version={cp}\n", "")


def test_it_is_written_to_the_workflow_s_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ENV", str(tmp_path / "env"))
    assert call(PYTHON, "--python-version", "3.12", "--no-write-env-file") == 0
    assert not (tmp_path / "env").exists()
    assert call(PYTHON, "--python-version", "3.12") == 0
    assert (tmp_path / "env").read_text() == "cp_version=cp312-cp312\n"


def test_without_a_workflow_the_python_is_printed_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(PYTHON, "--python-version", "3.12") == 0
    captured = capsys.readouterr()
    assert captured.out == "cp_version=cp312-cp312\n"
    assert captured.err.startswith("warning: GITHUB_ENV is not set")


@pytest.mark.parametrize("python", ["3", "312", "cp312", "2.7", "3.7", "3.12.1", "3.x", ""])
def test_what_is_no_python_is_refused(python: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(PYTHON, "--python-version", python) == 3
    assert repr(python) in capsys.readouterr().err
