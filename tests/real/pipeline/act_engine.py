"""act, another engine of GitHub's workflows than our own stand-in, and what it needs to run ours here.

Jobs run without containers, each in a copy of the checkout that goes when the job ends. Three actions are
stand-ins, named as such: checkout (act has copied the tree itself), setup-python (this Python, in an
environment of its own), and the role (the keys of the S3 server on loopback, or a refusal). So is the image
that act leaves out: this machine, whose os-release says that it is AlmaLinux 8.

Unlike GitHub, act ends at once where a workflow that is called fails, or where the first job does, since it
reads matrices of jobs that are not to run: then no summary is made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from index_server import IndexServer
from real.pipeline.conftest import OTHERS
from real.store.servers import S3Server
from rocwright.data import load_table
from rocwright.model.workflows import WorkflowTable

REPOSITORY = Path(__file__).resolve().parents[3]
ACT = Path(sys.executable).with_name("act")
ROLE = "arn:aws:iam::1:role/x"
# What the image of the builds says of itself.
ALMALINUX = """NAME="AlmaLinux"
VERSION="8.10 (Cerulean Leopard)"
ID="almalinux"
ID_LIKE="rhel centos fedora"
VERSION_ID="8.10"
PLATFORM_ID="platform:el8"
PRETTY_NAME="AlmaLinux 8.10 (Cerulean Leopard)"
"""
# What GitHub says of the repository with each event.
OWN = {"full_name": "example/rocwright", "fork": False, "default_branch": "main"}


@dataclass
class Acted:
    """How act ended, and what it told: an object a line, beside the words of its own."""

    code: int
    printed: str

    @cached_property
    def told(self) -> list[dict[str, Any]]:
        lines = [line for line in self.printed.splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]

    @property
    def jobs(self) -> dict[str, str]:
        """How each job ended, by its name in its workflow."""
        return {one["jobID"]: one["jobResult"] for one in self.told if "jobResult" in one}

    @property
    def pages(self) -> dict[str, str]:
        """What each job wrote on the page of the run; a composite action's is told twice."""
        found: dict[str, dict[str, None]] = {}
        for one in self.told:
            if one.get("command") == "summary":
                found.setdefault(one["jobID"], {})[one["content"]] = None
        return {job: "".join(pages) for job, pages in found.items()}

    def output(self, name: str) -> str:
        """What a step handed to the workflow under a name; the last that is not empty."""
        outputs = [one for one in self.told if one.get("command") == "set-output"]
        said = [one["arg"] for one in outputs if one["name"] == name]
        return next((one for one in reversed(said) if one), "")

    def log(self, job: str = "") -> str:
        """What is printed in a job; of all where none is named."""
        return "\n".join(one["msg"] for one in self.told if job in ("", one.get("jobID")))


class Attempts(NamedTuple):
    """A run over one store: an attempt that fails, and the next one."""

    store: str
    failed: Acted
    again: Acted


@dataclass
class Workshop:
    """A checkout, the stand-ins of the actions, and what act is told in every run."""

    root: Path
    server: S3Server
    index: IndexServer

    def __post_init__(self) -> None:
        clone = self.root / "repository"
        subprocess.run(["git", "clone", "-q", REPOSITORY, clone], check=True)
        # act takes the name of the repository from there.
        origin = f"https://github.com/{OWN['full_name']}"
        subprocess.run(["git", "remote", "set-url", "origin", origin], cwd=clone, check=True)
        self._stand_in("checkout", ["true"])
        site, python = sysconfig.get_path("purelib"), f"python{sys.version_info[0]}.{sys.version_info[1]}"
        # Jobs run side by side: each has an environment of its own, which sees what is installed here.
        own = [
            f'place=$(mktemp -d "{self.root}/python-XXXXXX")',
            f'"{sys.executable}" -m venv --without-pip "$place"',
            f'echo "{site}" > "$place/lib/{python}/site-packages/here.pth"',
            f'echo "{Path(sys.executable).parent}" >> "$GITHUB_PATH"',
            'echo "$place/bin" >> "$GITHUB_PATH"',
            '. /etc/os-release && echo "on $PRETTY_NAME"',
        ]
        self._stand_in("setup-python", own)
        told = "Not authorized to perform sts:AssumeRoleWithWebIdentity"
        refusal = f'! grep -qsx "$GITHUB_JOB" "$REFUSED" || {{ echo "{told}"; exit 1; }}'
        keys = self.server.environment().items()
        given = [f'echo "{name}={value}" >> "$GITHUB_ENV"' for name, value in keys]
        self._stand_in("configure-aws-credentials", [refusal, *given])

    @property
    def refused(self) -> Path:
        """The names of jobs that are not given the role, a line each."""
        return self.root / "refused"

    @cached_property
    def almalinux(self) -> list[str]:
        """What runs a command where os-release is AlmaLinux's; nothing where no mounts are allowed."""
        told = self.root / "os-release"
        told.write_text(ALMALINUX)
        mounts = 'mount --bind "$0" /etc/os-release && exec "$@"'
        argv = ["unshare", "--mount", "sh", "-c", mounts, str(told)]
        tried = subprocess.run([*argv, "true"], capture_output=True)
        return argv if tried.returncode == 0 else []

    def new_store(self) -> str:
        return f"s3://{self.server.new_bucket()}/wheels"

    def act(
        self,
        event: str,
        workflow: str,
        payload: dict[str, object],
        *words: str,
        attempt: int = 1,
        within: Sequence[str] = (),
        **more: str,
    ) -> Acted:
        """What act makes of an event; `words` are its own options, `more` variables of the repository."""
        where = self.root / f"{event}.json"
        where.write_text(json.dumps({"repository": OWN, **payload}))
        table = load_table("workflows", WorkflowTable)
        argv = [*within, str(ACT), event, "-W", f".github/workflows/{workflow}", "-e", str(where), *words]
        argv += ["--json", "--no-cache-server", "--action-cache-path", str(self.root / "cache")]
        argv += ["-P", f"{table.machine_of('linux').label}=-self-hosted"]
        for action in table.action:
            stand_in = self.root / "actions" / action.name.rpartition("/")[2]
            if not stand_in.exists():
                # Not needed where a store is named, but act reads it.
                self._stand_in(stand_in.name, ["true"])
            argv += ["--local-repository", f"{action.name}@{action.commit}={stand_in}"]
        told = {"ROCWRIGHT_SOURCES": "miniature", "ROCWRIGHT_BUILD_IMAGE": "none"}
        told |= {"ROCWRIGHT_ROCM": f"index:{self.index.url()}", **more}
        for name, value in told.items():
            argv += ["--var", f"{name}={value}"]
        said = {"AWS_ENDPOINT_URL": self.server.endpoint, "GITHUB_RUN_ATTEMPT": str(attempt)}
        # Nobody is asked for the run's jobs: no GitHub is there.
        said |= {"REFUSED": str(self.refused), "GITHUB_API_URL": "http://127.0.0.1:9"}
        for name, value in said.items():
            argv += ["--env", f"{name}={value}"]
        own = {name: value for name, value in os.environ.items() if not name.startswith((*OTHERS, "AWS_"))}
        own.pop("PYTHONPATH", None)
        done = subprocess.run(argv, cwd=self.root / "repository", env=own, capture_output=True, text=True)
        return Acted(done.returncode, done.stdout + done.stderr)

    def _stand_in(self, name: str, lines: list[str]) -> None:
        folder = self.root / "actions" / name
        folder.mkdir(parents=True)
        steps = [{"run": "\n".join(lines), "shell": "bash"}]
        action = {
            "name": f"stand-in for {name}",
            "description": "",
            "runs": {"using": "composite", "steps": steps},
        }
        (folder / "action.yml").write_text(json.dumps(action))
        commit = ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]
        for words in (["init", "-q"], ["add", "-A"], commit):
            subprocess.run(["git", *words], cwd=folder, check=True)
