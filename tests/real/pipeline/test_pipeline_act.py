"""The rendered workflows as they are, run by act: another engine of GitHub's workflows than our own stand-in.

act runs jobs on this machine, without containers. Three actions are stand-ins, named as such: checkout (act
has copied the tree itself), setup-python (this Python, in an environment of its own), and the role (the keys
of the S3 server on loopback). ROCm comes from an index on loopback with the packages of this session's demo;
the miniature family is built.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from index_server import IndexServer, serving
from real.pipeline.conftest import OTHERS
from real.store.servers import Moto, S3Server, running
from rocwright.data import load_table
from rocwright.model.workflows import WorkflowTable

REPOSITORY = Path(__file__).resolve().parents[3]
ACT = Path(sys.executable).with_name("act")
CI = "ci.yml"
_ROLE = "arn:aws:iam::1:role/x"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ENDED = re.compile(r"^\[([^\]]*)\] +🏁  Job (succeeded|failed)", re.MULTILINE)


@dataclass
class Acted:
    """How act ended: its exit code, what it printed, and the end of each job by the name in its log."""

    code: int
    log: str

    @property
    def jobs(self) -> dict[str, str]:
        return {name.strip().rpartition("/")[2]: end for name, end in _ENDED.findall(self.log)}


@dataclass
class Workshop:
    """A checkout, the stand-ins of the actions, and what act is told in every run."""

    root: Path
    server: S3Server
    index: IndexServer

    def act(self, event: str, workflow: str, payload: dict[str, object], **variables: str) -> Acted:
        where = self.root / f"{event}.json"
        where.write_text(json.dumps(payload))
        table = load_table("workflows", WorkflowTable)
        argv = [ACT, event, "-W", f".github/workflows/{workflow}", "-e", where]
        argv += ["-P", f"{table.machine_of('linux').label}=-self-hosted"]
        for action in table.action:
            stand_in = self.root / "actions" / action.name.rpartition("/")[2]
            argv += ["--local-repository", f"{action.name}@{action.commit}={stand_in}"]
        told = {"ROCWRIGHT_SOURCES": "miniature", "ROCWRIGHT_BUILD_IMAGE": "none"}
        for name, value in {**told, "ROCWRIGHT_ROCM": f"index:{self.index.url()}", **variables}.items():
            argv += ["--var", f"{name}={value}"]
        argv += ["--env", f"AWS_ENDPOINT_URL={self.server.endpoint}"]
        own = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        own["ACT_CACHE_DIR"] = str(self.root / "cache")
        own.pop("PYTHONPATH", None)
        done = subprocess.run(argv, cwd=self.root / "repository", env=own, capture_output=True, text=True)
        return Acted(done.returncode, _COLOUR.sub("", done.stdout + done.stderr))


@pytest.fixture(scope="module")
def workshop(demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    root = tmp_path_factory.mktemp("act")
    subprocess.run(["git", "clone", "-q", REPOSITORY, root / "repository"], check=True)
    site, python = sysconfig.get_path("purelib"), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    with running(Moto(tmp_path_factory.mktemp("moto"))) as server:
        keys = [f"{name}={value}" for name, value in server.environment().items()]
        _stand_in(root, "checkout", ["true"])
        # Jobs run side by side: each has an environment of its own, which sees what is installed here.
        own = [
            "place=$(mktemp -d)",
            f'"{sys.executable}" -m venv "$place"',
            f'echo "{site}" > "$place/lib/{python}/site-packages/here.pth"',
            f'echo "{Path(sys.executable).parent}" >> "$GITHUB_PATH"',
            'echo "$place/bin" >> "$GITHUB_PATH"',
        ]
        _stand_in(root, "setup-python", own)
        _stand_in(root, "configure-aws-credentials", [f'echo "{key}" >> "$GITHUB_ENV"' for key in keys])
        with serving(demo.work / "dist" / "rocm") as index:
            yield Workshop(root, server, index)


def _stand_in(root: Path, name: str, lines: list[str]) -> None:
    folder = root / "actions" / name
    folder.mkdir(parents=True)
    steps = [{"run": "\n".join(lines), "shell": "bash"}]
    action = {
        "name": f"stand-in for {name}",
        "description": "",
        "runs": {"using": "composite", "steps": steps},
    }
    (folder / "action.yml").write_text(json.dumps(action))
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


def _repository(**more: object) -> dict[str, object]:
    return {"repository": {"full_name": "example/rocwright", "fork": False, "default_branch": "main"}, **more}


def test_a_change_from_a_fork_builds_nothing_and_says_so(workshop: Workshop) -> None:
    fork = {"full_name": "somebody/rocwright", "fork": True}
    repository = _repository()["repository"]
    change = {
        "number": 3,
        "head": {"ref": "change", "sha": "0" * 40, "repo": fork},
        "base": {"ref": "main", "sha": "0" * 40, "repo": repository},
        "labels": [],
    }
    store = f"s3://{workshop.server.new_bucket()}/wheels"
    payload = _repository(action="opened", number=3, pull_request=change)
    acted = workshop.act("pull_request", CI, payload, ROCWRIGHT_STORE=store, ROCWRIGHT_CI_ROLE=_ROLE)
    assert acted.code == 0, acted.log[-6000:]
    assert acted.jobs == {"setup": "succeeded"}
    assert "fork" in acted.log
    assert "Run Main Assume the role" not in acted.log


def test_an_index_without_rocm_ends_the_run_red_before_it_builds(workshop: Workshop) -> None:
    store = f"s3://{workshop.server.new_bucket()}/wheels"
    acted = workshop.act(
        "push",
        CI,
        _repository(ref="refs/heads/main"),
        ROCWRIGHT_STORE=store,
        ROCWRIGHT_CI_ROLE=_ROLE,
        ROCWRIGHT_ROCM=f"index:{workshop.index.url('nothing-here/')}",
    )
    assert acted.code != 0
    assert acted.jobs["setup"] == "failed"
    assert "build_pytorch_wheels" not in acted.jobs
    assert "ROCm is not there for what is to be built" in acted.log
