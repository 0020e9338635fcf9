"""A fork's pull request, which has neither the repository's store nor its role, run by act to its summary.

Results travel as artifacts. The actions that keep them are stand-ins, as are those of `act_engine`. One
group, one Python and torch alone: how the rest is done is not another thing here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from index_server import serving
from real.pipeline.act_engine import OWN, ROLE, Acted, Workshop
from real.pipeline.artifact_actions import stand_in_artifacts

FORK = {"full_name": "somebody/rocwright", "fork": True}
CHANGE = {
    "number": 3,
    "head": {"ref": "change", "sha": "0" * 40, "repo": FORK},
    "base": {"ref": "main", "sha": "0" * 40, "repo": OWN},
    "labels": [{"name": "pytorch:torch-only"}],
}


@dataclass
class Nowhere:
    """Stands for a server that nobody may ask."""

    endpoint: str = "http://127.0.0.1:9"

    def environment(self) -> dict[str, str]:
        return {}


@pytest.fixture(scope="module")
def fork(real_sets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Acted]]:
    """The folder with the artifacts of the pull request, and what became of it."""
    root = tmp_path_factory.mktemp("fork")
    with serving(real_sets.kpack) as index:
        workshop = Workshop(root, Nowhere(), index)
        stand_in_artifacts(root / "actions", root / "kept")
        named = {"ROCWRIGHT_STORE": "s3://nobody/wheels", "ROCWRIGHT_CI_ROLE": ROLE}
        payload = {"action": "opened", "number": 3, "pull_request": CHANGE}
        yield root / "kept", workshop.act("pull_request", "ci.yml", payload, **named)


def test_a_change_from_a_fork_is_built_and_tested(fork: tuple[Path, Acted]) -> None:
    _, acted = fork
    assert acted.code == 0, acted.log()[-6000:]
    assert acted.jobs == dict.fromkeys(
        (
            "setup",
            "lock_sources",
            "build_portable_linux_artifacts",
            "build_portable_linux_python_packages",
            "build_pytorch_wheels",
            "install_pytorch_wheels",
            "ci_summary",
        ),
        "success",
    )
    assert "Run Main Assume the role" not in acted.log()
    assert "s3://" not in acted.log()


def test_it_says_that_it_publishes_nothing(fork: tuple[Path, Acted]) -> None:
    _, acted = fork
    why = "the pull request is a fork's: results are artifacts of this run, and nothing is published"
    assert why in acted.pages["setup"]
    assert why in acted.pages["ci_summary"]
    assert "## ✅ All required jobs ended well" in acted.pages["ci_summary"]


def test_its_wheels_are_installed_from_its_artifacts(fork: tuple[Path, Acted], tmp_path: Path) -> None:
    kept, acted = fork
    (group,) = {path.name.split(".")[1] for path in kept.iterdir()} - {"records"}
    assert f"`rocwright.{group}.*`" in acted.pages["build_pytorch_wheels"]
    pages = list(kept.glob(f"rocwright.{group}.*/packages"))
    python = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", python], check=True)
    words = ["install", "-q", "--no-index", "--no-deps", "torch", *(f"--find-links={page}" for page in pages)]
    own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    subprocess.run([python / "bin/pip", *words], check=True, env=own)
    told = subprocess.run([python / "bin/pip", "show", "torch"], check=True, capture_output=True, text=True)
    assert "Version: 2.9.0+rocm" in told.stdout
    assert len(pages) == 2, "ROCm's packages, and PyTorch's"
