"""Generated repositories and a world without a user's git configuration."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from git_repos import Family, git
from rocwright.sources.checkout import Checkout, checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.lock import LockedSource


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
def lock(family: Family) -> Callable[..., LockedSource]:
    """The generated project, locked at a branch or commit."""

    def make(ref: str = "main", *, hipify: bool = True, submodules: bool = True) -> LockedSource:
        return LockedSource(
            project="torch",
            origin=family.url,
            ref=ref if len(ref) == 40 else f"refs/heads/{ref}",
            commit=git(family.torch, "rev-parse", ref),
            why="flag",
            directory="pytorch",
            hipify=hipify,
            submodules=submodules,
        )

    return make


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where tests check out by default."""
    return tmp_path / "work/pytorch"


@pytest.fixture
def bring(place: Path) -> Callable[..., Checkout]:
    """Check a locked project out at `place`, or in the directory given."""

    def run(locked: LockedSource, directory: Path | None = None, **choices: Any) -> Checkout:
        return checkout(locked, directory or place, **choices)

    return run


@pytest.fixture(scope="session")
def published(_family_template: Path) -> LockedSource:
    """The generated project at a repository that no test changes."""
    torch = _family_template / "torch"
    return LockedSource(
        project="torch",
        origin=torch.as_uri(),
        ref="refs/heads/main",
        commit=git(torch, "rev-parse", "main"),
        why="flag",
        directory="pytorch",
        hipify=True,
    )


@pytest.fixture(scope="session")
def _standing(published: LockedSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkouts of `published` to copy, which is quicker than making them: `pristine` and `hipified`."""
    root = tmp_path_factory.mktemp("standing")
    checkout(msgspec.structs.replace(published, hipify=False), root / "pristine")
    hipify(checkout(published, root / "hipified"))
    return root


@pytest.fixture
def pristine(_standing: Path, place: Path) -> Path:
    """A checkout of `published` at `place` that was never hipified."""
    return Path(shutil.copytree(_standing / "pristine", place, symlinks=True))


@pytest.fixture
def hipified(_standing: Path, place: Path) -> Path:
    """A hipified checkout of `published` at `place`."""
    return Path(shutil.copytree(_standing / "hipified", place, symlinks=True))


@pytest.fixture
def patches(tmp_path: Path) -> Path:
    """Where the patches of a test lie."""
    return tmp_path / "patches"
