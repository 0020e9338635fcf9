"""GitHub's repositories of the PyTorch family on this machine: the miniature one under the public addresses.

Upstream has branches main and nightly, ROCm's fork the release branches with pins of their own; every branch
is at a commit, and names a version, that no other branch has.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

from conformance.world import ROOT, Shell
from contract.github import ADDRESS, commit
from git_repos import git

MINIATURE = ROOT / "examples/mini-pytorch/make_origins.py"
TRITON_PIN = ".ci/docker/ci_commit_pins/triton.txt"
UPSTREAM_TAG, HIPIFY_TAG = "THEROCK_UPSTREAM_DIFFBASE", "THEROCK_HIPIFY_DIFFBASE"
# Branch of upstream or of the fork, and what its version.txt says: an alpha until there is a release.
UPSTREAM = {"main": "2.11.0a0", "nightly": "2.10.0a0"}
RELEASES = {"release/2.7": "2.7.1", "release/2.8": "2.8.0", "release/2.9": "2.9.1", "release/2.10": "2.10.0"}
# GitHub's repositories and which of the miniature they have the files of.
REPOSITORIES = {
    "pytorch/pytorch": "pytorch",
    "pytorch/audio": "audio",
    "pytorch/vision": "vision",
    "pytorch/minifmt": "minifmt",
    "ROCm/pytorch": "pytorch",
    "ROCm/minifmt": "minifmt",
    "ROCm/triton": "triton",
    "ROCm/apex": "apex",
}


def go_to_origins(shell: Shell) -> dict[str, Any]:
    """Let the git of a shell's user find github.com here; the fact `at` has commits by repository and branch.

    Names of tags and branches stand in his log as in a terminal.
    """
    place = shell.world.once("checkout-github", _make)
    (shell.home / ".gitconfig").write_text(
        f'[url "{(place / "github").as_uri()}/"]\n\tinsteadOf = {ADDRESS}\n'
        "[log]\n\tdecorate = short\n[user]\n\tname = Ann\n\temail = ann@example.org\n"
    )
    return {"at": json.loads((place / "commits.json").read_text())}


def _make(place: Path) -> None:
    github, at = place / "github", dict[str, str]()
    runpy.run_path(str(MINIATURE))["make_origins"](place / "miniature", ADDRESS.rstrip("/"))
    for public, name in REPOSITORIES.items():
        (github / public).parent.mkdir(parents=True, exist_ok=True)
        git(place, "clone", "-q", str(place / "miniature" / name), str(github / f"{public}.git"))
    for public in ("pytorch/audio", "pytorch/vision", "ROCm/triton"):
        for branch in (*RELEASES, *UPSTREAM):
            at[f"{public} {branch}"] = _ahead(github, public, branch, {"branch.txt": f"{branch}\n"})
            if branch in RELEASES:
                # A branch goes on, and what a release pins is not its tip.
                later = {"branch.txt": f"later on {branch}\n"}
                commit(github / f"{public}.git", f"More work on {branch}", later, branch=branch)
    git(github / "pytorch/audio.git", "tag", "v2.9.1", at["pytorch/audio release/2.9"])
    for branch, version in UPSTREAM.items():
        files = {"version.txt": f"{version}\n", TRITON_PIN: at[f"ROCm/triton {branch}"] + "\n"}
        at[f"pytorch/pytorch {branch}"] = _ahead(
            github, "pytorch/pytorch", branch, files, without="related_commits"
        )
    for branch, version in RELEASES.items():
        files = {"version.txt": f"{version}\n", TRITON_PIN: at[f"ROCm/triton {branch}"] + "\n"}
        files["related_commits"] = "".join(
            f"{system}|pytorch|torch{name}|{branch}|{at[f'{path} {branch}']}|{ADDRESS}{path}\n"
            for name, path in (("audio", "pytorch/audio"), ("vision", "pytorch/vision"))
            for system in ("ubuntu", "centos")
        )
        at[f"ROCm/pytorch {branch}"] = _ahead(github, "ROCm/pytorch", branch, files)
    (place / "commits.json").write_text(json.dumps(at))


def _ahead(github: Path, public: str, branch: str, files: dict[str, str], *, without: str = "") -> str:
    """A commit on a branch that begins at the miniature's; it changes these files and drops one."""
    repository = github / f"{public}.git"
    git(repository, "checkout", "-q", "-B", branch, "origin/main")
    if without:
        git(repository, "rm", "-q", "--ignore-unmatch", without)
    return commit(repository, f"Work on {branch} of {public}", files, branch=branch)


def seen(checkout: Path) -> dict[str, str]:
    """What a checkout is at: commits by HEAD and by tag, what git calls changed, its address and files."""
    head, parent, subject = git(checkout, "log", "-1", "--format=%H%n%P%n%s").split("\n")
    tags = git(checkout, "tag", "--format=%(refname:short) %(objectname)").splitlines()
    return {
        **dict(tag.split() for tag in tags),
        "head": head,
        "parent": parent,
        "subject": subject,
        "status": git(checkout, "status", "--porcelain"),
        "origin": git(checkout, "config", "remote.origin.url"),
        "files": " ".join(sorted(path.name for path in checkout.iterdir())),
    }


def planned_version(shell: Shell, *ids: str) -> str:
    """The version of the torch wheel that a build beside the scripts would make; nothing is built."""
    line = "python build_prod_wheels.py build --output-dir out --dry-run --json"
    plan = shell(line, *ids, more="--version-suffix +rocm7.10.0 --pytorch-rocm-arch gfx1100").out
    (version,) = [build["version"] for build in json.loads(plan)["builds"] if build["project"] == "torch"]
    return str(version)


def locked(scripts: Path) -> dict[str, dict[str, Any]]:
    """What the lock beside the scripts says of each project."""
    found = json.loads((scripts / "sources.lock.json").read_text())["sources"]
    return {source["project"]: source for source in found}
