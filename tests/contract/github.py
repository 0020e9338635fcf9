"""A GitHub of this machine: the repositories that documented commands name, and a git that goes there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import rocwright
from git_repos import git

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(rocwright.__file__).resolve().parents[1]
ADDRESS = "https://github.com/"
HIPIFY = """\
from pathlib import Path
for name in ("kernel.cu", "third_party/fmt/fmt.cu"):
    source = Path(name)
    if source.exists():
        source.with_suffix(".hip").write_text(source.read_text().replace("cuda", "hip"))
"""


def commit(repository: Path, message: str, files: dict[str, str], *, branch: str) -> str:
    """Commit files on a branch of a repository, which is made where it is not there."""
    if not (repository / ".git").exists():
        repository.mkdir(parents=True)
        git(repository, "init", "-q", "-b", branch)
    elif git(repository, "branch", "--show-current") != branch:
        git(repository, "checkout", "-q", "-B", branch)
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", message)
    return git(repository, "rev-parse", "HEAD")


@dataclass
class Github:
    """Repositories below `root` by owner and name; `at` has the commits that tests speak of."""

    root: Path
    at: dict[str, str] = field(default_factory=dict)

    def make(self) -> Github:
        """The family: torch upstream and ROCm's, with a submodule, pins, and branches that differ."""
        fmt = self.root / "example/fmt.git"
        self.at["fmt"] = commit(fmt, "fmt", {"fmt.cu": "cuda fmt"}, branch="main")
        for name in ("audio", "vision"):
            where = self.root / f"pytorch/{name}.git"
            self.at[f"{name} pinned"] = commit(where, f"{name} 1", {"setup.py": "1"}, branch="main")
            self.at[f"{name} main"] = commit(where, f"{name} 2", {"setup.py": "2"}, branch="main")
            self.at[f"{name} nightly"] = commit(where, f"{name} 3", {"setup.py": "3"}, branch="nightly")
        triton, apex = self.root / "ROCm/triton.git", self.root / "ROCm/apex.git"
        self.at["triton pinned"] = commit(triton, "triton 1", {"setup.py": "1"}, branch="release/3.5.x")
        self.at["triton release"] = commit(triton, "triton 2", {"setup.py": "2"}, branch="release/3.5.x")
        self.at["apex master"] = commit(apex, "apex", {"setup.py": "1"}, branch="master")
        self._torch(self.root / "pytorch/pytorch.git", ("main", "nightly"), related=False)
        self._torch(self.root / "ROCm/pytorch.git", ("release/2.9", "release/2.10"), related=True)
        return self

    def _torch(self, where: Path, branches: tuple[str, ...], *, related: bool) -> None:
        owner = where.parent.name
        commit(where, "Example upstream commit 1", {"readme": owner}, branch=branches[0])
        git(where, "submodule", "add", "-q", (self.root / "example/fmt.git").as_uri(), "third_party/fmt")
        modules = where / ".gitmodules"
        modules.write_text(modules.read_text().replace(self.root.as_uri() + "/", ADDRESS))
        files = {
            "kernel.cu": f"cuda {owner}",
            "tools/amd_build/build_amd.py": HIPIFY,
            ".ci/docker/ci_commit_pins/triton.txt": self.at["triton pinned"] + "\n",
            ".ci/docker/triton_version.txt": "3.5.1\n",
        }
        if related:
            pins = [
                (f"torch{name}", f"pytorch/{name}", self.at[f"{name} pinned"]) for name in ("audio", "vision")
            ]
            files["related_commits"] = "".join(
                f"ubuntu|pytorch|{key}|main|{pin}|{ADDRESS}{path}\n" for key, path, pin in pins
            )
        for branch in branches:
            files["version.txt"] = branch
            self.at[f"{owner} {branch}"] = commit(where, "Example upstream commit 2", files, branch=branch)


@dataclass
class Desk:
    """A user's machine: his home, whose git takes github.com from here, and a copy of the scripts."""

    home: Path
    github: Github

    def __post_init__(self) -> None:
        self.scripts = self.home / "clone/external-builds/pytorch"
        self.scripts.mkdir(parents=True)
        for script in (ROOT / "external-builds/pytorch").glob("*.py"):
            shutil.copy(script, self.scripts)
        (self.home / ".gitconfig").write_text(
            f'[url "{self.github.root.as_uri()}/"]\n\tinsteadOf = {ADDRESS}\n'
        )

    def run(self, *words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command of this machine; `python` is the one that runs the tests."""
        command = [sys.executable if word == "python" else str(word) for word in words]
        done = subprocess.run(
            command,
            cwd=cwd or self.scripts,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def documented(self, line: str, *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A documented command line, word for word; it has to succeed."""
        done = self.run(*line.split(), cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done

    def rocwright(self, *words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The command."""
        return self.run(
            "python", "-c", "from rocwright.cli import main; main()", *words, cwd=cwd or self.home
        )


_MADE: list[Github] = []


def shared(directory: Callable[[], Path]) -> Github:
    """The repositories, made once in a process; who changes a branch brings it back."""
    if not _MADE:
        _MADE.append(Github(directory()).make())
    return _MADE[0]
