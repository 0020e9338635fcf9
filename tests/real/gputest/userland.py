"""A real torch with the PyTorch tests that belong to it: Debian's packages, unpacked and run by any user.

Debian builds its packages of torch from the very archive that `real.sources.debian` fetches, so that tests
and torch are of one version: 2.6.0, for Python 3.13. The packages and all that they need, down to the C
library, are laid out in a directory; `usr/bin/python` there starts them with their own loader, whichever
Linux this is. apt verifies them (157 packages, 210 MB; 900 MB on disk); ROCWRIGHT_TEST_CACHE keeps them.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from real import corpus
from real.sources import debian

TORCH = "2.6.0"
PACKAGES = (
    f"python3-torch={debian.VERSION}",
    "python3-pytest",
    # What PyTorch's own tests import.
    "python3-expecttest",
    "python3-hypothesis",
    "python3-setuptools",
)
# Built against the same torch, with the libraries of images that they read; all of ffmpeg, which torchvision
# names besides, only reads videos.
DOMAINS = (
    "python3-torchvision=0.21.0-3",
    "python3-torchaudio=2.6.0-1",
    "libjpeg62-turbo",
    "libpng16-16t64",
    "libwebp7",
    "libsharpyuv0",
)
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Debian links the last two in by its alternatives and with ldconfig, neither of which runs here.
_PLACES = (_LIBRARIES, f"{_LIBRARIES}/blas", f"{_LIBRARIES}/lapack", "usr/lib")
_NOT_NEEDED = tuple(f"--exclude=./usr/share/{name}" for name in ("doc", "man", "locale", "info"))


def packages() -> tuple[Path, ...]:
    """The package files, from the cache or from Debian."""
    return _cached("userland", _download)


def _cached(name: str, download: Callable[[Path], None]) -> tuple[Path, ...]:
    kept = corpus.cache_directory() / "corpus" / name
    listed = kept / "complete.txt"
    if not listed.exists():
        kept.mkdir(parents=True, exist_ok=True)
        download(kept)
        found = sorted(path.name for path in kept.glob("*.deb"))
        listed.write_text("".join(f"{name}\n" for name in found))
    return tuple(kept / name for name in listed.read_text().split())


def _apt() -> list[str]:
    state = corpus.cache_directory() / "corpus" / "apt" / debian.SUITE
    return ["apt-get", *corpus.apt_world(state, debian.SUITE)]


def _download(kept: Path) -> None:
    """The packages with all that they need."""
    (kept / "partial").mkdir(exist_ok=True)
    words = ["install", "--yes", "--no-install-recommends", "--download-only", *PACKAGES]
    corpus.run([*_apt(), "-o", f"Dir::Cache::Archives={kept}", *words])


def _download_domains(kept: Path) -> None:
    corpus.run([*_apt(), "download", *DOMAINS], cwd=kept)


def add_domains(root: Path) -> None:
    """torchvision and torchaudio, too (2 MB); they want Pillow, which any Python can install."""
    for package in _cached("domains", _download_domains):
        _unpack(package, root)


def make(root: Path) -> Path:
    """Unpack everything into the new directory `root`; returns its Python."""
    root.mkdir(parents=True)
    with ThreadPoolExecutor(max_workers=2) as pool:
        # The largest first: one package holds a third of the bytes.
        queue = sorted(packages(), key=lambda path: -path.stat().st_size)
        list(pool.map(lambda package: _unpack(package, root), queue))
    return _python(root)


def _unpack(package: Path, root: Path) -> None:
    command = f"dpkg-deb --fsys-tarfile {shlex.quote(str(package))}"
    unpack = ["tar", "--extract", "--no-same-owner", *_NOT_NEEDED, "--directory", str(root)]
    with subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE) as stream:
        subprocess.run(unpack, stdin=stream.stdout, check=True, stderr=sys.stderr)
    assert stream.returncode == 0, package


def _python(root: Path) -> Path:
    path = ":".join(str(root / place) for place in _PLACES)
    start = [str(root / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", path]
    real, python = root / "usr/bin/python3.13", root / "usr/bin/python"
    # Named as it was called, Python finds its library and gives this script as `sys.executable`.
    python.write_text(f'#!/bin/sh\nexec {shlex.join(start)} --argv0 "$0" {shlex.quote(str(real))} "$@"\n')
    python.chmod(0o755)
    return python


def make_checkout(root: Path) -> Path:
    """PyTorch's source as published, in the new directory `root`, without a repository."""
    root.mkdir(parents=True)
    words = ["tar", "--extract", "--no-same-owner", "--strip-components=1", "--file", str(debian.archive())]
    wanted = ["*/test", "*/tools", "*/pytest.ini", "*/version.txt"]
    corpus.run([*words, "--wildcards", "--no-wildcards-match-slash", *wanted], cwd=root)
    return root


_runs = count()


@dataclass
class Desk:
    """Somebody with a torch (`python`), PyTorch's sources (`checkout`), and a place for what comes out."""

    newcomer: Any
    root: Path
    python: Path
    checkout: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def tests(self) -> Path:
        return self.checkout / "test"

    def fresh(self) -> Path:
        """A directory's name that nobody has used."""
        return self.root / f"reports-{next(_runs)}"

    def units(self, *words: str | Path, reports: Path | None = None) -> Ran:
        """`rocwright test units` on the CPU, its record read from the reports."""
        reports = reports or self.fresh()
        where = ["--pytorch-dir", self.checkout, "--python", self.python, "--reports-dir", reports]
        done = self.rocwright("test", "units", "--cpu", "--no-cache", *where, *words)
        return Ran(done, reports)

    def rocwright(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return self.newcomer.rocwright(*words, ok=False, **self.env)

    def pytest(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Plain pytest over the same tests in the same torch: the oracle."""
        env = {**self.env, "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
        words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *words)
        return self.newcomer.run(self.python, *words, ok=False, cwd=self.tests, **env)


@dataclass
class Ran:
    """What a run left: how the command ended, and its records."""

    done: subprocess.CompletedProcess[str]
    reports: Path

    @property
    def record(self) -> dict:
        """The only record."""
        found = list(self.reports.rglob("results.json"))
        if len(found) != 1:
            pytest.fail(f"{len(found)} records\n{self.done.stdout[-2000:]}\n{self.done.stderr[-4000:]}")
        return json.loads(found[0].read_text())

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdicts by node id, each id once."""
        pairs = [(one["id"], one["verdict"]) for one in self.record["results"]]
        assert len(pairs) == len(dict(pairs))
        return dict(pairs)

    def result(self, name: str) -> dict:
        """The result of the only test that ends so."""
        (found,) = (one for one in self.record["results"] if one["id"].endswith(name))
        return found
