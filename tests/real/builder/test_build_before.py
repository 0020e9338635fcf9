"""`rocwright build` on machines that cannot build: everything is said at once, and nothing is begun."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

# `rocwright build` when it refuses to begin.
NOT_READY = 12


class Ground:
    """A directory of the newcomer's with what a test puts there."""

    def __init__(self, newcomer, root: Path) -> None:
        self.newcomer, self.root = newcomer, root
        root.mkdir()

    def sources(self, name: str, directory: str) -> Path:
        """A miniature checkout as it is before hipify."""
        target = self.root / name
        shutil.copytree(self.newcomer.clone / "examples/mini-pytorch" / directory, target)
        return target

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def build(self, *words: str | Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run it as the newcomer, with this PATH; whatever it says, it must have left no trace."""
        self.newcomer.own(self.root)
        (self.root / "closed").mkdir(exist_ok=True)
        (self.root / "closed").chmod(0o555)
        before = self._listing()
        tool = self.newcomer.clone / ".venv/bin/rocwright"
        found = path or self.newcomer.environment["PATH"]
        done = self.newcomer.run(
            "/usr/bin/env", f"PATH={found}", tool, "build", *words, ok=False, cwd=self.root
        )
        assert self._listing() == before
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done

    def _listing(self) -> list[tuple[str, int]]:
        paths = sorted(self.root.rglob("*"))
        return [(str(path), path.lstat().st_mtime_ns) for path in paths if "__pycache__" not in path.parts]


@pytest.fixture
def ground(newcomer, request):
    root = newcomer.home / request.node.name
    yield Ground(newcomer, root)
    shutil.rmtree(root)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What each finding says, without where it is and what is next."""
    lines = done.stderr.splitlines()
    found = [line.removeprefix("  - ") for line in lines if line.startswith("  - ")]
    # Each of them says what to do.
    assert sum(line.startswith("    next: ") for line in lines) == len(found)
    return found


def test_everything_is_said_at_once(ground: Ground) -> None:
    torch = ground.sources("pytorch", "pytorch")
    (ground.root / "triton").mkdir()
    # An interpreter as a distribution ships it: without headers.
    answer = {
        "path": str(ground.root / "bin/python3.12"),
        "version": "3.12",
        "full": "3.12.1",
        "include": "/usr/include/python3.12",
        "has_headers": False,
    }
    ground.program("python3.12", f"echo '{json.dumps(answer)}'")
    for name in ("cc", "git"):
        ground.program(name, "exit 0")
    done = ground.build(
        *("--output-dir", ground.root / "closed/out", "--work-dir", torch / "work"),
        *("--pytorch-dir", torch, "--triton-dir", "triton", "--pytorch-vision-dir", "nowhere"),
        *("--rocm-prefix", ground.root / "rocm", "--pytorch-rocm-arch", "gfx942"),
        *("--python", "3.12,3.99", "--use-ccache"),
        path=str(ground.root / "bin"),
    )
    assert done.returncode == NOT_READY
    found = said(done)
    root = ground.root
    expected = [
        f"the output directory {root}/closed/out is not writable: nothing can be made in {root}/closed",
        "Python 3.99 was not found on PATH, with pyenv, in /opt/python or with uv",
        f"{root}/rocm does not exist",
        f"triton: the checkout {root}/triton is empty",
        "torch: the sources are CUDA's, not translated to HIP: there is no .hip file",
        f"torchvision: the checkout {root}/nowhere does not exist",
        f"the work directory {torch}/work lies in the checkout of torch, where a build may take "
        "files for sources or remove them",
        "ccache was not found on PATH; it is needed to keep what compilers made, as --use-ccache asks",
        "c++ was not found on PATH; it is needed to compile C++",
        "Python 3.12 has no headers: /usr/include/python3.12/Python.h is missing; extensions need it",
    ]
    assert sorted(found) == sorted(expected)
    assert "the build has not begun: 10 things are missing or wrong" in done.stderr


def test_a_wheel_of_another_version_is_not_taken_for_this_builds(ground: Ground) -> None:
    torch = ground.sources("pytorch", "pytorch")
    (torch / "aten/src/ATen/hip").mkdir(parents=True)
    (torch / "aten/src/ATen/hip/Sort.hip").touch()
    (ground.root / "out").mkdir()
    stale = ground.root / "out/torch-1.0-cp311-cp311-linux_x86_64.whl"
    stale.touch()
    (ground.root / "packages").mkdir()
    version = (torch / "version.txt").read_text().strip()
    done = ground.build(
        *("--output-dir", "out", "--pytorch-dir", torch, "--pytorch-rocm-arch", "gfx942"),
        *("--find-links", ground.root / "packages", "--version-suffix", "+rocm7.10.0"),
    )
    assert done.returncode == NOT_READY
    assert (
        f"torch: {version}+rocm7.10.0 is to be built, but the output directory holds a wheel of another "
        f"version ({stale.name})" in said(done)
    )


def test_a_build_for_no_rocm_at_all_says_where_it_could_come_from(ground: Ground) -> None:
    torch = ground.sources("pytorch", "pytorch")
    done = ground.build("--output-dir", "out", "--pytorch-dir", torch, "--pytorch-rocm-arch", "gfx942")
    assert done.returncode == NOT_READY
    assert any(text.startswith("no ROCm to build against: ") for text in said(done))
    for flag in ("--index-url", "--find-links", "--rocm-environment", "--rocm-prefix"):
        assert flag in done.stderr


def test_what_another_user_keeps_to_himself(ground: Ground) -> None:
    """Even whether something is there cannot be seen then."""
    torch = ground.sources("pytorch", "pytorch")
    closed = ground.root / "private"
    closed.mkdir()
    ground.newcomer.own(ground.root)
    closed.chmod(0)
    asked = ("--output-dir", "out", "--pytorch-rocm-arch", "gfx942")
    for words in (
        ("--pytorch-dir", torch, "--rocm-prefix", closed / "rocm"),
        ("--pytorch-dir", torch, "--rocm-environment", closed / "env"),
        ("--pytorch-dir", torch, "--find-links", closed / "dist"),
        ("--pytorch-dir", closed / "pytorch", "--rocm-prefix", "rocm"),
    ):
        done = ground.build(*asked, *words)
        assert done.returncode in (3, NOT_READY)
        assert str(closed) in done.stderr
