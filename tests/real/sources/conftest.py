"""Generated repositories and the real PyTorch, each behind a git server, and users who check them out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from git_repos import Family
from git_server import serving
from real.sources import debian
from real.sources.desk import Desk


@dataclass
class World:
    """A generated family of repositories, the server that offers it, and a user's desk."""

    family: Family
    server: Any
    desk: Desk


@pytest.fixture(scope="session")
def _generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("family") / "origins"
    Family(root)
    return root


def _copied(generated: Path, target: Path) -> Family:
    shutil.copytree(generated, target, symlinks=True)
    family = Family.__new__(Family)
    family.adopt(target, moved_from=generated)
    return family


@pytest.fixture
def place(newcomer, tmp_path: Path) -> Path:
    """A directory that the newcomer can reach, which pytest's own is not."""
    path = Path(newcomer.home) / "desks" / tmp_path.name
    path.mkdir(parents=True)
    return path


@pytest.fixture
def open_world(newcomer, _generated: Path, place: Path, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes a world whose server has the given faults."""
    servers = []

    def make(**faults: Any) -> World:
        family = _copied(_generated, tmp_path / "origins")
        context = serving(family.root, **faults)
        server = context.__enter__()
        servers.append(context)
        urls = {name: server.url(name) for name in ("torch", "fmt", "nest", "inner")}
        return World(family, server, Desk(newcomer, place, urls))

    yield make
    for context in servers:
        context.__exit__(None, None, None)


@pytest.fixture
def world(open_world: Callable[..., World]) -> World:
    """A family, a server without faults, an empty desk."""
    return open_world()


@dataclass
class Published:
    """The real PyTorch: the repository, its only commit, and the server that offers it as `torch`."""

    repository: Path
    commit: str
    server: Any

    @property
    def url(self) -> str:
        """The address to check out from."""
        return str(self.server.url("torch"))


@pytest.fixture(scope="session")
def pytorch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """Debian's PyTorch behind a server; several seconds, once."""
    root = tmp_path_factory.mktemp("pytorch")
    commit = debian.make_repository(root / "origins" / "torch")
    with serving(root / "origins") as server:
        yield Published(root / "origins" / "torch", commit, server)
    shutil.rmtree(root)
