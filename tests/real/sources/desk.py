"""A user's desk: an empty directory and home, the command line, and plain git to look at what came of it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import git_repos

SUBMODULES = ("third_party/fmt lib", "third_party/nest", "third_party/nest/deep/inner")
UPSTREAM, HIPIFY = "refs/tags/THEROCK_UPSTREAM_DIFFBASE", "refs/tags/THEROCK_HIPIFY_DIFFBASE"
LOCK = "sources.lock.json"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Uma",
    "GIT_AUTHOR_EMAIL": "uma@example.org",
    "GIT_COMMITTER_NAME": "Uma",
    "GIT_COMMITTER_EMAIL": "uma@example.org",
}


@dataclass
class Desk:
    """Where a user works: commands run in `place`, as somebody who owns that directory and nothing else.

    `urls` are the addresses of the repositories; `torch` is the one that is checked out unless said.
    """

    newcomer: Any
    place: Path
    urls: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.newcomer.own(self.place)
        self.environment.setdefault("HOME", str(self.home))

    @property
    def home(self) -> Path:
        """The user's home, which holds his caches."""
        return self.place / ".home"

    def command(self, *argv: str | Path) -> list[str]:
        """The words that run a `rocwright` command as this user."""
        words: list[str] = self.newcomer.command(self.newcomer.clone / ".venv/bin/rocwright", *argv)
        return words

    def env(self, **more: str) -> dict[str, str]:
        """The environment of this user's commands."""
        merged: dict[str, str] = self.newcomer.env(**{**self.environment, **more})
        return merged

    def run(
        self, *argv: str | Path, code: int | tuple[int, ...] = 0, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """`rocwright ARGV…`, which has to end with `code` and never with a traceback."""
        done = subprocess.run(
            self.command(*argv), cwd=cwd or self.place, env=self.env(**env), text=True, capture_output=True
        )
        return judged(done, code)

    def script(
        self,
        project: str,
        *argv: str | Path,
        code: int | tuple[int, ...] = 0,
        cwd: Path | None = None,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        """The documented `pytorch_PROJECT_repo.py ARGV…`."""
        clone = self.newcomer.clone
        path = clone / "external-builds/pytorch" / f"pytorch_{project}_repo.py"
        words = self.newcomer.command(clone / ".venv/bin/python", path, *argv)
        done = subprocess.run(
            words, cwd=cwd or self.place, env=self.env(**env), text=True, capture_output=True
        )
        return judged(done, code)

    def checkout(
        self,
        *more: str | Path,
        ref: str = "main",
        project: str = "torch",
        code: int | tuple[int, ...] = 0,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        """`rocwright checkout` of a generated repository at `ref`, into `place` unless said otherwise."""
        asked = ["--gitrepo-origin", self.urls[project], "--repo-hashtag", ref]
        return self.run("checkout", project, *asked, *more, code=code, **env)

    def git(self, *words: str, at: str | Path = "pytorch", ok: tuple[int, ...] = (0,)) -> str:
        """Standard output of plain git in a checkout, as its owner."""
        settings = [word for setting in git_repos.SETTINGS for word in ("-c", setting)]
        done = subprocess.run(
            self.newcomer.command("git", *settings, *words),
            cwd=self.place / at,
            env=self.env(GIT_CONFIG_NOSYSTEM="1", GIT_TERMINAL_PROMPT="0", **_IDENTITY),
            text=True,
            capture_output=True,
        )
        assert done.returncode in ok, f"git {words} in {at}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def ref(self, name: str, at: str | Path = "pytorch") -> str:
        """The commit that a name stands for, "" where it stands for nothing."""
        return self.git("rev-parse", "--verify", "-q", f"{name}^{{commit}}", at=at, ok=(0, 1))

    def write(self, path: str | Path, text: str | bytes) -> Path:
        """A file of the user's."""
        target = self.place / path
        data = text.encode() if isinstance(text, str) else text
        shell = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
        subprocess.run(
            self.newcomer.command("sh", "-c", shell, "sh", target), input=data, env=self.env(), check=True
        )
        return target

    def lock(self, at: str | Path = "") -> dict[str, Any]:
        """The lock file of a directory."""
        found: dict[str, Any] = json.loads((self.place / at / LOCK).read_text())
        return found

    def copy(self, source: str | Path, target: str | Path) -> Path:
        """Copy a directory with all that is in it, as the user would."""
        command = self.newcomer.command("cp", "-a", "--", self.place / source, self.place / target)
        subprocess.run(command, check=True)
        return self.place / target


def judged(
    done: subprocess.CompletedProcess[str], code: int | tuple[int, ...]
) -> subprocess.CompletedProcess[str]:
    """`done`, after asserting its exit code (one of several) and that no user meets a traceback."""
    said = f"{done.args}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    assert "Traceback (most recent call last)" not in done.stdout + done.stderr, said
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), (
        f"ended with {done.returncode}, not {code}: {said}"
    )
    return done


def listing(directory: Path) -> dict[str, bytes | str]:
    """Every file of a checkout and its content, git's own excepted; links as what they name."""
    found: dict[str, bytes | str] = {}
    for folder, folders, names in os.walk(directory):
        if ".git" in folders:
            folders.remove(".git")
        for name in names:
            path = Path(folder) / name
            if name != ".git":
                key = path.relative_to(directory).as_posix()
                found[key] = str(path.readlink()) if path.is_symlink() else path.read_bytes()
    return found


def facts(desk: Desk, at: str | Path = "pytorch") -> dict[str, tuple[str, ...]]:
    """Of the project and every submodule: HEAD, the index as a tree, both tags, what git calls changed."""
    return {
        path: (
            desk.ref("HEAD", where),
            desk.git("write-tree", at=where, ok=(0, 128)),
            desk.ref(UPSTREAM, where),
            desk.ref(HIPIFY, where),
            desk.git("status", "--porcelain", "--untracked-files=all", at=where),
        )
        for path in ("", *SUBMODULES)
        if (where := Path(at) / path) and (desk.place / where / ".git").exists()
    }


def said(report: Any, key: str) -> list[Any]:
    """Every value that stands at `key` anywhere in a JSON document."""
    if isinstance(report, dict):
        here = [report[key]] if key in report else []
        return here + [value for inner in report.values() for value in said(inner, key)]
    return [value for inner in report for value in said(inner, key)] if isinstance(report, list) else []
