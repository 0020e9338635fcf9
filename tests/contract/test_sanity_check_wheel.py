"""`sanity_check_wheel.py WHEEL_DIR`: the documented name of `rocwright wheel sanity-check`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocwright.cli.documented import run
from wheels import LOCAL, write_family, write_torch, write_wheel

SCRIPT = Path(__file__).parents[2] / "external-builds/pytorch/sanity_check_wheel.py"
FOR_LINUX = ("--python-version", "3.12", "--platform", "linux")
TORCH = f"torch-2.9.0+{LOCAL}-cp312-cp312-linux_x86_64.whl"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    write_family(tmp_path / "dist")
    return tmp_path / "dist"


Findings = set[tuple[str, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Findings]]:
    """Exit code, and severity, rule and file of every finding."""

    def call(*words: object) -> tuple[int, Findings]:
        with pytest.raises(SystemExit) as ended:
            run(str(SCRIPT), [*map(str, words), "--json"])
        out = capsys.readouterr().out
        found = json.loads(out)["findings"] if out else []
        return int(ended.value.code or 0), {(one["severity"], one["rule"], one["file"]) for one in found}

    return call


Call = Callable[..., tuple[int, Findings]]


def errors(findings: Findings) -> set[tuple[str, str]]:
    return {(rule, file) for severity, rule, file in findings if severity == "error"}


def test_the_documented_script_works_from_any_directory(tmp_path: Path, dist: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        [sys.executable, SCRIPT, "../dist", *FOR_LINUX],
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert TORCH in done.stdout
    assert done.stdout.splitlines()[-1].startswith("5 files, ")


def test_a_good_family_has_no_error(call: Call, dist: Path) -> None:
    code, findings = call(dist, *FOR_LINUX)
    assert (code, errors(findings)) == (0, set())


def test_small_wheels_are_a_warning(call: Call, dist: Path) -> None:
    _, findings = call(dist, *FOR_LINUX)
    assert ("warning", "sanity-size", TORCH) in findings


def test_a_version_that_names_no_rocm_is_a_warning(call: Call, tmp_path: Path) -> None:
    write_wheel(
        tmp_path / "dist", "torchvision", "0.24.0", {"torchvision/__init__.py": "", "torchvision/_C.so": ""}
    )
    code, findings = call(tmp_path / "dist", *FOR_LINUX, "--expect", "torchvision")
    name = "torchvision-0.24.0-cp312-cp312-linux_x86_64.whl"
    assert ("warning", "sanity-name", name) in findings
    # It requires no torch: that is what ends the command.
    assert (code, errors(findings)) == (1, {("torch-pin", name)})


def test_an_empty_directory_fails(call: Call, tmp_path: Path) -> None:
    code, findings = call(tmp_path, *FOR_LINUX)
    assert code == 1
    assert ("empty-folder", tmp_path.name) in errors(findings)


@pytest.mark.parametrize("project", ["torch", "torchaudio", "torchvision"])
def test_a_project_that_was_not_built_fails(call: Call, dist: Path, project: str) -> None:
    next(dist.glob(f"{project}-*")).unlink()
    code, findings = call(dist, *FOR_LINUX)
    assert code == 1
    assert ("expected", project) in errors(findings)


@pytest.mark.parametrize("project", ["triton", "apex"])
def test_a_build_without_triton_or_apex_passes(call: Call, dist: Path, project: str) -> None:
    next(dist.glob(f"{project}-*")).unlink()
    assert call(dist, *FOR_LINUX)[0] == 0


def test_what_is_expected_can_be_said(call: Call, tmp_path: Path) -> None:
    write_torch(tmp_path / "dist")
    assert call(tmp_path / "dist", *FOR_LINUX)[0] == 1
    assert call(tmp_path / "dist", *FOR_LINUX, "--expect", "torch")[0] == 0
    code, findings = call(tmp_path / "dist", *FOR_LINUX, "--expect", "torch", "--expect", "Apex")
    assert (code, errors(findings)) == (1, {("expected", "apex")})


def test_zeros_are_no_wheel(call: Call, dist: Path) -> None:
    (dist / TORCH).write_bytes(bytes(200_000))
    code, findings = call(dist, *FOR_LINUX)
    assert (code, errors(findings)) == (1, {("readable", TORCH)})


def test_a_wheel_that_was_cut_off_is_not_valid(call: Call, dist: Path) -> None:
    (dist / TORCH).write_bytes((dist / TORCH).read_bytes()[:-30])
    code, findings = call(dist, *FOR_LINUX)
    assert (code, errors(findings)) == (1, {("readable", TORCH)})


def test_another_version_inside_fails(call: Call, dist: Path) -> None:
    write_torch(dist, said=("torch", f"2.9.1+{LOCAL}"))
    code, findings = call(dist, *FOR_LINUX)
    assert code == 1
    assert ("metadata-identity", TORCH) in errors(findings)


@pytest.mark.parametrize(
    ("platform", "tag"), [("linux", "cp312-cp312-linux_x86_64"), ("windows", "cp312-cp312-win_amd64")]
)
def test_a_torch_that_does_not_load_rocm_fails_on_both_platforms(
    call: Call, tmp_path: Path, platform: str, tag: str
) -> None:
    write_family(tmp_path / "dist", tag=tag)
    write_torch(tmp_path / "dist", files={"torch/_rocm_init.py": None}, tag=tag)
    code, findings = call(tmp_path / "dist", "--python-version", "3.12", "--platform", platform)
    assert code == 1
    assert "torch-rocm-init" in {rule for rule, _ in errors(findings)}


@pytest.mark.parametrize("requires", [(), ("rocm[libraries]>=7.10.0",), ("rocm==7.10.0",)])
def test_a_torch_that_does_not_pin_rocm_fails(call: Call, dist: Path, requires: tuple[str, ...]) -> None:
    write_torch(dist, requires=requires)
    code, findings = call(dist, *FOR_LINUX)
    assert code == 1
    assert ("torch-requires-rocm", TORCH) in errors(findings)


@pytest.mark.parametrize(
    "words",
    [
        ("--python-version", "3.11", "--platform", "linux"),
        ("--python-version", "3.12t", "--platform", "linux"),
        ("--python-version", "3.12", "--platform", "windows"),
    ],
    ids=" ".join,
)
def test_wheels_for_another_python_or_platform_fail(call: Call, dist: Path, words: tuple[str, ...]) -> None:
    code, findings = call(dist, *words)
    assert code == 1
    assert {rule for rule, _ in errors(findings)} == {"sanity-tag"}
    assert len(errors(findings)) == 5


def test_the_tag_that_does_not_fit_is_named(capsys: pytest.CaptureFixture[str], dist: Path) -> None:
    with pytest.raises(SystemExit):
        run(str(SCRIPT), [str(dist), "--python-version", "3.11", "--platform", "linux"])
    assert (
        "  error [sanity-tag] its tag cp312-cp312-linux_x86_64 does not fit Python 3.11 on linux\n"
        in capsys.readouterr().out
    )


def test_by_default_wheels_must_fit_the_python_that_checks(call: Call, tmp_path: Path) -> None:
    version = f"{sys.version_info[0]}{sys.version_info[1]}"
    write_family(tmp_path / "mine", tag=f"cp{version}-cp{version}-linux_x86_64")
    write_family(tmp_path / "other", tag="cp38-cp38-linux_x86_64")
    assert call(tmp_path / "mine")[0] == 0
    assert {rule for rule, _ in errors(call(tmp_path / "other")[1])} == {"sanity-tag"}


def test_missing_device_code_fails_when_targets_are_told(call: Call, dist: Path) -> None:
    code, findings = call(dist, *FOR_LINUX, "--targets", "gfx942")
    assert code == 1
    assert ("device-missing", TORCH) in errors(findings)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "needs WHEEL_DIR"),
        (("nowhere",), "nowhere is not a directory"),
        ((".", "--targets", "mi300"), "'mi300'"),
        ((".", "--python-version", "py3"), "'py3'"),
        ((".", "--platform", "mars"), "mars"),
        ((".", "--nope"), "--nope"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else None,
)
def test_wrong_usage_ends_with_1(
    words: tuple[str, ...],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(str(SCRIPT), words)
    assert ended.value.code == 1
    captured = capsys.readouterr()
    assert named in captured.out + captured.err
