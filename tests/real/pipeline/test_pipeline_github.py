"""The rendered workflows, done for real: every command by bash, each job on a machine of its own.

It builds the miniature family. GitHub is a stand-in (contract.workflows.github_runner); a machine is an empty
directory, and only the store, a folder here, carries anything between them. ROCm is the distribution's, its
packages those of an earlier run; the compiler is real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contract.workflows.github_runner import DONE, SKIPPED, Runner, files_of
from contract.workflows.plans import CI
from real.pipeline.conftest import OTHERS

ROOT = Path(__file__).resolve().parents[3]
FILES = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")


@dataclass
class Bash:
    """Runs commands as a runner does: in bash, with files for outputs and summaries."""

    where: Path
    event: dict[str, Any]
    name: str
    did: list[str] = field(default_factory=list)
    summaries: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def __call__(self, command: str, env: dict[str, str]) -> dict[str, str] | None:
        if "pip install" in command:
            # It is installed: this is the environment of the tests.
            return {}
        machine = self.where / f"machine-{len(self.did)}"
        machine.mkdir()
        files = {name: machine / name.lower() for name in FILES}
        for path in files.values():
            path.touch()
        event = self.where / "event.json"
        event.write_text(json.dumps(self.event))
        own = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        own |= {name: str(path) for name, path in files.items()}
        own |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": self.name,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_RUN_ID": "77",
            "GITHUB_REPOSITORY": "example/rocwright",
            "GITHUB_REF": "refs/heads/main",
            "GITHUB_REF_NAME": "main",
        }
        own |= {name: value for name, value in env.items() if value}
        own["PYTHON"] = sys.executable
        done = subprocess.run(
            ["bash", "-e", "-c", command], cwd=machine, env=own, capture_output=True, text=True, check=False
        )
        id_ = env.get("ID", "setup")
        self.did.append(id_)
        self.summaries[id_] = files["GITHUB_STEP_SUMMARY"].read_text()
        self.said[id_] = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        # A machine is given back; nothing stays but what is in the store.
        shutil.rmtree(machine / "run", ignore_errors=True)
        if done.returncode:
            return None
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


def started(where: Path, name: str, event: dict[str, Any], store: str) -> tuple[Bash, Runner, str]:
    bash = Bash(where, event, name)
    github = {"workflow": "CI", "run_id": "77", "event_name": name, "event": event}
    variables = {"ROCWRIGHT_STORE": store, "ROCWRIGHT_SOURCES": "miniature"}
    runner = Runner(files_of(ROOT), bash, github, variables)
    inputs = event.get("inputs", {})
    return bash, runner, runner.start(CI, inputs).result


def test_ci_builds_and_installs_torch_of_the_miniature_family(
    earlier: Callable[[Path, str], None], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    earlier(store, "76")
    asked = {"artifact_run_id": "76", "pytorch_projects": "torch"}
    python = ".".join(map(str, sys.version_info[:2]))
    bash, runner, ended = started(tmp_path, "workflow_dispatch", {"inputs": asked}, str(store))
    trouble = "\n".join(f"== {id_}\n{said}" for id_, said in bash.said.items())
    assert ended == DONE, trouble
    place = f"linux/cp{python.replace('.', '')}/release-2.9/debian12"
    assert bash.did == [
        "setup",
        "lock_sources/linux/release-2.9",
        "take_python_packages/linux/debian12",
        f"build_pytorch_wheels/{place}",
        f"install_pytorch_wheels/{place}",
        "summary",
    ]
    # No machine here has a GPU of the family: skipped, and told apart.
    tests = ".github/workflows/test_pytorch_wheels.yml"
    assert (tests, "test_pytorch_wheels_linux", SKIPPED) in runner.jobs
    assert "miniature" in bash.summaries["setup"]
    assert "skipped" in bash.summaries["summary"]
    for job in ("build_portable_linux_artifacts", "build_portable_linux_python_packages"):
        assert (".github/workflows/ci_linux.yml", job, SKIPPED) in runner.jobs, "nothing of ROCm is built"
    (wheel,) = (store / "77-linux" / "pytorch" / "debian12").glob("*.whl")
    assert wheel.name.startswith("torch-")
    assert not (store / "77-linux" / "python").exists()


def test_a_change_from_a_fork_is_a_dry_run(tmp_path: Path) -> None:
    repo = {"full_name": "example/rocwright", "fork": False}
    fork = {"full_name": "somebody/rocwright", "fork": True}
    event = {
        "action": "opened",
        "number": 3,
        "pull_request": {
            "number": 3,
            "head": {"ref": "change", "sha": "0" * 40, "repo": fork},
            "base": {"ref": "main", "sha": "0" * 40, "repo": repo},
            "labels": [],
        },
        "repository": repo,
    }
    store = tmp_path / "store"
    bash, runner, ended = started(tmp_path, "pull_request", event, str(store))
    assert ended == DONE, bash.said
    assert bash.did == ["setup"]
    assert "fork" in bash.summaries["setup"] + bash.said["setup"]
    assert not store.exists() or not list(store.rglob("*.json"))
    assert not [name for name, _ in runner.actions if name.startswith("aws-")]
