"""`rocwright pipeline render` at its door: what it writes, what it finds stale, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rocwright.data import parse_table
from rocwright.errors import InvalidData
from rocwright.model.workflows import Action, WorkflowTable

ROOT = Path(__file__).resolve().parents[3]


def render(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rocwright", "pipeline", "render", *words]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)


def test_it_writes_once_and_finds_what_was_edited(tmp_path: Path) -> None:
    first = render(tmp_path)
    assert first.returncode == 0
    assert ".github/workflows/ci.yml" in first.stdout.splitlines()
    assert render(tmp_path).stdout == ""
    edited = tmp_path / ".github/workflows/ci.yml"
    edited.write_text(edited.read_text().replace("cancel-in-progress", "cancel"))
    (tmp_path / ".github/workflows/ci_linux.yml").unlink()
    found = render(tmp_path, "--check")
    assert found.returncode == 1
    assert "2 files are missing or out of date: .github/workflows/ci.yml and others" in found.stderr
    assert "rocwright pipeline render\n" in found.stderr
    for name in ("ci.yml", "ci_linux.yml"):
        assert f".github/workflows/{name}" in found.stdout
    assert "-  cancel: " in found.stdout
    assert "+  cancel-in-progress: " in found.stdout
    # Checking mends nothing; writing writes what differs.
    assert json.loads(render(tmp_path, "--json").stdout)["written"] == [
        ".github/workflows/ci.yml",
        ".github/workflows/ci_linux.yml",
    ]
    assert render(tmp_path, "--check").returncode == 0


def test_a_root_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    done = render(tmp_path, "--output", "nowhere")
    assert done.returncode == 2
    assert "nowhere" in done.stderr


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / ".github/workflows/ci.yml"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe\x00")
    done = render(tmp_path, "--check")
    assert done.returncode == 3
    assert "ci.yml" in done.stderr


def test_only_whole_digests_pin() -> None:
    with pytest.raises(ValueError, match="40 hexadecimal digits, not 'v6'"):
        Action("actions/checkout", "v6", "v6")
    text = (ROOT / "src/rocwright/data/workflows.toml").read_text()
    with pytest.raises(InvalidData, match="debian is pinned by sha256"):
        parse_table(
            text.replace("sha256:9344f8b8992482f80cba753f323adeaf17690076c095ccff6cc9536be98185dc", "latest"),
            WorkflowTable,
            where="workflows.toml",
        )
    with pytest.raises(InvalidData, match="unknown field"):
        parse_table(text.replace("variable =", "varable ="), WorkflowTable, where="workflows.toml")


def test_without_pyyaml_it_names_the_extra(tmp_path: Path) -> None:
    program = "import sys; sys.modules['yaml'] = None; from rocwright.cli import main; main()"
    command = [sys.executable, "-c", program, "pipeline", "render"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "pip install 'rocwright[pipeline]'" in done.stderr
    assert not (tmp_path / ".github").exists()
