"""Small real wheels and sdists of one module each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Ended, Run
from wheels import ANY, write_sdist, write_wheel

MakeWheel = Callable[..., Path]


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Writes a wheel of one module, `body`, into `folder`; the options are those of `write_wheel`."""

    def make(
        name: str, version: str, *, folder: Path = tmp_path / "dist", body: str = "", **options: Any
    ) -> Path:
        files = {f"{name}/__init__.py": body or f"version = {version!r}\n"}
        return write_wheel(folder, name, version, files, **{"tag": ANY, "python": ">=3.10", **options})

    return make


@pytest.fixture
def make_sdist(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes an sdist that needs ROCm."""

    def make(name: str, version: str) -> Path:
        return write_sdist(tmp_path / "dist", name, version, headers="Requires-Dist: rocm-sdk-core\n")

    return make


@pytest.fixture
def create(rocwright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`set create`, with a cache of its own; without a proof that installers take the set, unless told."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words: str | Path, resolve: bool = False) -> Ended:
        more = () if resolve else ("--no-resolve", "--no-install")
        return rocwright("set", "create", *words, *more)

    return run
