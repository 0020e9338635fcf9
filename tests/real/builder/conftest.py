"""Hipified checkouts of the miniature family and ROCm's packages, from the demo of this session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

FOLDERS = {
    "triton": "triton",
    "torch": "pytorch",
    "torchaudio": "pytorch_audio",
    "torchvision": "pytorch_vision",
    "apex": "apex",
}


@dataclass
class Builder:
    """`rocwright build` on checkouts of one's own, in a directory that is gone afterwards."""

    root: Path
    demo: Path
    projects: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def work(self) -> Path:
        return self.root / "out-work"

    @property
    def rocm(self) -> tuple[str, str]:
        """The demo's environment: of its own a build would install 2 GB first."""
        return "--rocm-environment", str(self.demo / "env" / "build")

    @property
    def find_links(self) -> tuple[str, str]:
        return "--find-links", str(self.demo / "dist" / "rocm")

    @property
    def prefix(self) -> tuple[str, str]:
        return "--rocm-prefix", str(self.demo / "rocm")

    def source(self, project: str) -> Path:
        return self.root / "src" / FOLDERS[project]

    def argv(self, *options: str) -> list[str]:
        words = ["--output-dir", str(self.out), "--root-checkout-dir", str(self.root / "src")]
        return [sys.executable, "-m", "rocwright", "build", *words, "--pytorch-rocm-arch", "gfx90a", *options]

    def env(self, **more: str) -> dict[str, str]:
        return {**os.environ, **self.environment, **more}

    def run(self, *options: str, ok: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(*options), cwd=self.root, env=self.env(**more), capture_output=True, text=True
        )
        if ok and done.returncode != 0:
            pytest.fail(
                f"{options} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
            )
        return done

    def calls(self, kind: str) -> list[dict[str, str]]:
        """The compiler calls of the last run, as recorded."""
        path = self.work / "units" / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [call for call in map(json.loads, lines) if call["kind"] == kind]

    def changes(self) -> dict[str, str]:
        """`git status` of every checkout that has something to say."""
        found = {}
        for project in self.projects:
            done = subprocess.run(
                ["git", "status", "--porcelain"],
                cwd=self.source(project),
                capture_output=True,
                text=True,
                check=True,
            )
            found[project] = done.stdout
        return {project: text for project, text in found.items() if text}


@pytest.fixture
def builder(demo, tmp_path: Path):
    """Gives a builder of the projects that it is asked for; what it made is gone afterwards."""

    def make(*projects: str) -> Builder:
        for project in projects:
            shutil.copytree(
                demo.work / "src" / FOLDERS[project],
                tmp_path / "src" / FOLDERS[project],
                symlinks=True,
                ignore=shutil.ignore_patterns("build"),
            )
        return Builder(tmp_path, demo.work, projects)

    yield make
    shutil.rmtree(tmp_path)
