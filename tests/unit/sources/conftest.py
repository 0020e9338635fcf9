"""Generated repositories and a world without a user's git configuration."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from git_repos import PROJECTS, Family

from rocwright.sources.lock import LockedSource, Request, resolve


@pytest.fixture(autouse=True)
def _no_git_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)


@pytest.fixture(scope="session")
def _family_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("family") / "origins"
    Family(root)
    return root


@pytest.fixture
def family(_family_template: Path, tmp_path: Path) -> Family:
    """A fresh copy of the generated project with nested submodules."""
    copy = Family.__new__(Family)
    shutil.copytree(_family_template, tmp_path / "origins", symlinks=True)
    copy.adopt(tmp_path / "origins", moved_from=_family_template)
    return copy


@pytest.fixture
def lock(family: Family, tmp_path: Path) -> Callable[..., LockedSource]:
    """Lock the generated project at a ref, for the checkout `tmp_path/work/pytorch`."""

    def make(ref: str = "main", **choices: object) -> LockedSource:
        request = Request("torch", origin=family.url, ref=ref, **choices)  # type: ignore[arg-type]
        return resolve([request], projects=PROJECTS, base=tmp_path / "work").get("torch")

    return make
