"""pip and uv install small sets over HTTP, and what is wrong with a set is a finding, not an exception."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rocwright.check.contract import ContractTable, PackageRow
from rocwright.check.install import missing_tool
from rocwright.check.report import Report
from rocwright.check.run import CheckRequest
from rocwright.pipeline.check_set import check_set, serve_files
from wheels import ANY, write_sdist, write_wheel

pytestmark = pytest.mark.slow

HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"
# Only what is about the set: these wheels are no good examples of anything else.
CONTRACT = ContractTable(
    (PackageRow(("rocm",), extras=("libraries",)), PackageRow(("rocm-sdk-device",), refuses=True)),
    own=("rocm", "rocm-*"),
)

BACKEND = """\
import base64, hashlib, os, zipfile

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = "rocm-7.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    for file, text in files().items():
        open(os.path.join(metadata_directory, name, file), "w").write(text)
    return name

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(os.path.join(wheel_directory, "rocm-7-py3-none-any.whl"), "w") as wheel:
        for file, text in {**files(), "RECORD": ""}.items():
            wheel.writestr("rocm-7.dist-info/" + file, text)
    return "rocm-7-py3-none-any.whl"

def files():
    family = os.environ["ROCM_SDK_TARGET_FAMILY"]
    return {
        "METADATA": "Metadata-Version: 2.2\\nName: rocm\\nVersion: 7\\nProvides-Extra: libraries\\n"
        f"Requires-Dist: rocm-sdk-libraries-{family}==7; extra == 'libraries'\\n",
        "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
"""
REFUSING = "def build_wheel(*_, **__):\n    raise SystemExit('choose a device')\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dist").mkdir()
    return tmp_path / "dist"


def wheel(folder: Path, name: str, version: str = "1", *, files: Sequence[str] = (), **options: Any) -> Path:
    members = dict.fromkeys(files or [f"{name}/__init__.py"], f"# {name}\n")
    return write_wheel(folder, name, version, members, **{"tag": ANY, "python": ">=3.8", **options})


def sdist(folder: Path, name: str, headers: str, files: Mapping[str, str]) -> Path:
    """An sdist whose backend is inside it, so that building it needs nothing from anywhere."""
    backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    return write_sdist(folder, name, "7", {"pyproject.toml": backend, **files}, headers=headers)


def check(folder: Path, tmp_path: Path, *, closed: bool = True) -> Report:
    work = tmp_path / "work"
    asked = CheckRequest((folder,), closed=closed, contract=CONTRACT)
    report = check_set(asked, install=True, work_dir=work, log=tmp_path / "log.txt")
    assert list(work.iterdir()) == []
    return report


def causes(report: Report) -> list[tuple[str, str]]:
    return [(finding.rule, finding.cause) for finding in report.findings]


@pytest.mark.slow
def test_a_whole_family_installs_with_its_selector_and_stand_ins(folder: Path, tmp_path: Path) -> None:
    facts = {"rocm_set.json": '{"mode": "legacy", "default_family": "fam"}', "backend.py": BACKEND}
    sdist(folder, "rocm", "Dynamic: Requires-Dist\nDynamic: Provides-Extra\n", facts)
    sdist(folder, "rocm_sdk_device", "Dynamic: Requires-Dist\n", {"backend.py": REFUSING})
    wheel(folder, "rocm_sdk_libraries_fam", "7")
    tag = f"{HERE}-{HERE}-linux_x86_64"
    torch = ["rocm[libraries]==7", "sympy>=1.13.3", 'fsspec[http]!=2024.1; extra == "opt"']
    wheel(folder, "torch", "2.9+rocm7", tag=tag, requires=torch, extras=["opt"])
    wheel(folder, "torchvision", "0.24+rocm7", tag=tag, requires=["torch==2.9+rocm7", "sympy<2"])
    report = check(folder, tmp_path)
    assert causes(report) == []
    assert {"set-install", "set-candidates", "set-unproved"} <= set(report.rules)
    assert report.stand_ins == ("fsspec 2024.2", "sympy 1.9999")
    for installer in ("pip", "uv"):
        said = (tmp_path / f"log-{installer}.txt").read_text()
        assert "torchvision" in said
        assert "http://127.0.0.1" in said


def test_a_package_that_no_installer_takes_here(folder: Path, tmp_path: Path) -> None:
    wheel(folder, "torch", requires=["rocm"], python=">=3.99")
    wheel(folder, "rocm")
    [pip, uv] = causes(check(folder, tmp_path))
    assert pip[0] == uv[0] == "set-install"
    assert pip[1].startswith(f"pip for {HERE} on linux_x86_64: ERROR")
    assert uv[1].startswith(f"uv for {HERE} on linux_x86_64: ")
    assert "Python" in uv[1]
    assert str(tmp_path) not in pip[1] + uv[1]


@pytest.mark.slow
def test_two_files_to_choose_from_are_one_too_many(folder: Path, tmp_path: Path) -> None:
    """The newer torch is fetched first; only then is it known that vision needs the older one."""
    wheel(folder, "torch", "2")
    wheel(folder, "torch", "3")
    wheel(folder, "vision", requires=["torch<3"])
    found = causes(check(folder, tmp_path))
    tried = "tried 2 files of torch: torch-2-py3-none-any.whl, torch-3-py3-none-any.whl"
    assert found == [
        ("set-one-version", "torch is there in 2 versions: 2, 3"),
        ("set-candidates", f"pip for {HERE} on linux_x86_64 {tried}"),
        ("set-candidates", f"uv for {HERE} on linux_x86_64 {tried}"),
    ]


def test_two_packages_that_own_a_path_are_seen_after_the_installation(folder: Path, tmp_path: Path) -> None:
    wheel(folder, "one", files=["shared.py"])
    wheel(folder, "two", files=["shared.py"])
    found = causes(check(folder, tmp_path))
    assert [rule for rule, _ in found].count("set-ownership") == 1
    assert ("set-install", f"pip for {HERE} on linux_x86_64: shared.py belongs to both "
            "one-1.dist-info and two-1.dist-info") in found  # fmt: skip


def test_what_must_fail_is_not_tried_and_another_python_neither(folder: Path, tmp_path: Path) -> None:
    wheel(folder, "torch", requires=["rocm-sdk-core==7"])
    report = check(folder, tmp_path)
    assert [rule for rule, _ in causes(report)] == ["set-closed", "set-unproved", "set-unproved"]
    (folder / "torch-1-py3-none-any.whl").unlink()
    wheel(folder, "torch", tag="cp399-cp399-linux_x86_64")
    wheel(folder, "apex", tag="cp399-cp399-win_amd64")
    report = check(folder, tmp_path)
    assert [(one.rule, one.severity) for one in report.findings] == [("set-unproved", "warning")] * 4
    assert causes(report)[0][1] == "not proved with pip for cp399 on linux_x86_64: no such Python is on PATH"
    assert causes(report)[3][1] == "not proved with uv for cp399 on win_amd64: this machine is linux_x86_64"


def test_a_missing_installer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert missing_tool("pip") is None
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_tool("uv") == "pip install uv, and run again"
    assert missing_tool("pip") is not None


def test_bad_files_are_findings_and_nothing_is_installed(folder: Path, tmp_path: Path) -> None:
    wheel(folder, "good")
    (folder / "torch-1-py3-none-any.whl").write_bytes(bytes(200_000))
    (folder / "evil.whl").write_bytes(b"PK")
    report = check(folder, tmp_path)
    assert {rule for rule, _ in causes(report)} == {"readable", "set-unproved"}


def test_a_folder_without_wheels_is_not_installed(folder: Path, tmp_path: Path) -> None:
    report = check_set(CheckRequest((folder,), contract=CONTRACT), install=True, work_dir=tmp_path / "work")
    assert [rule for rule, _ in causes(report)] == ["empty-folder"]


def test_the_index_logs_files_and_not_pages(folder: Path, tmp_path: Path) -> None:
    import urllib.request

    path = wheel(folder, "torch", "2.9+rocm7")
    with serve_files([path], tmp_path / "index") as index:
        for page in ("", "torch/", "torch-2.9%2Brocm7-py3-none-any.whl.metadata"):
            urllib.request.urlopen(index.url + page, timeout=5).read()
        assert index.asked() == ["torch-2.9+rocm7-py3-none-any.whl"]
