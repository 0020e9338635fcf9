"""What `benchmarks/sources.py` checks out: the miniature family, a project with submodules."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FAMILY = {
    "torch": "pytorch",
    "torchaudio": "audio",
    "torchvision": "vision",
    "triton": "triton",
    "apex": "apex",
}
SETTINGS = ("init.defaultBranch=main", "init.templateDir=", "gc.auto=0", "protocol.file.allow=always")
PLAIN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}


def plain_git(*words: str | Path) -> list[str | Path]:
    """The words of a git command that reads nobody's configuration (with `PLAIN` as environment)."""
    return ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *words]


def git(where: Path, *words: str | Path) -> str:
    """Run plain git."""
    done = subprocess.run(
        plain_git(*words), cwd=where, env={**os.environ, **PLAIN}, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def mini_family(root: Path) -> None:
    """The miniature family as repositories below `root`."""
    script = REPOSITORY / "examples/mini-pytorch/make_origins.py"
    # Submodules are named relative to their parent, so that they come from the same server.
    subprocess.run(
        [sys.executable, script, root, "--url-prefix", ".."], check=True, stdout=subprocess.DEVNULL
    )


def config(path: Path, urls: dict[str, str]) -> Path:
    """A rocwright.toml that takes the five projects from these addresses."""
    rows = []
    for project, url in urls.items():
        row = {
            "name": f'"{project}"',
            "directory": f'"{project}"',
            "origin": f'"{url}"',
            "ref": '"main"',
            "hipify": str(project.startswith("torch")).lower(),
            "submodules": "true",
        }
        rows.append("[[projects.project]]\n" + "".join(f"{key} = {value}\n" for key, value in row.items()))
    path.write_text("\n".join(rows))
    return path


@dataclass
class Modules:
    """A project `top` with submodules `m0` … below the same root."""

    root: Path
    count: int

    def make(self) -> None:
        """Make the repositories, each with one commit."""
        for name in self.names:
            self._commit(name, "1")
        git(self.root, "init", "-q", "top")
        for name in self.names:
            git(self.root / "top", "submodule", "add", "-q", f"../{name}", f"third_party/{name}")
        git(self.root / "top", "commit", "-qm", "1")

    @property
    def names(self) -> list[str]:
        """The submodules' repositories."""
        return [f"m{number}" for number in range(self.count)]

    def step(self, text: str) -> None:
        """One more commit in every submodule, and one of the project that names them."""
        for name in self.names:
            self._commit(name, text)
            git(self.root / "top/third_party" / name, "pull", "-q")
        git(self.root / "top", "commit", "-qam", text)

    def _commit(self, name: str, text: str) -> None:
        where = self.root / name
        if not where.exists():
            git(self.root, "init", "-q", name)
        (where / "file").write_text(text)
        git(where, "add", "file")
        git(where, "commit", "-qm", text)
