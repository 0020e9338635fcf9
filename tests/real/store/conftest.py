"""Real S3 servers for the tests of the store, each started once, and real clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from real.store.clients import CLIENTS, Client, make_clients
from real.store.servers import JuiceFS, Moto, S3Server, running, use
from rocwright.store.objects.address import open_store
from rocwright.store.objects.protocol import ObjectStore

_names = count()


@pytest.fixture(scope="session")
def juicefs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A persistent server with authentication and multipart uploads."""
    with running(JuiceFS(tmp_path_factory.mktemp("juicefs"))) as server:
        yield server


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that honours conditional writes."""
    with running(Moto(tmp_path_factory.mktemp("moto"))) as server:
        yield server


@pytest.fixture
def addresses(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """The address of a fresh, empty store of a kind: `folder`, `memory`, `juicefs` or `moto`.

    For the last two the environment leads to the server until the test ends: one of them in a test.
    """

    def address(kind: str) -> str:
        if kind == "folder":
            return str(tmp_path / f"store-{next(_names)}")
        if kind == "memory":
            return f"memory://test-{next(_names)}"
        server: S3Server = request.getfixturevalue(kind)
        use(monkeypatch, server.environment())
        return f"s3://{server.new_bucket()}/some/prefix"

    return address


@pytest.fixture(params=["folder", "memory", "juicefs", "moto"])
def store(request: pytest.FixtureRequest, addresses: Callable[[str], str]) -> ObjectStore:
    """A fresh, empty store, once of each kind."""
    return open_store(addresses(request.param))


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Client]:
    """Every pip and uv by name, each in an environment of its own."""
    return make_clients(tmp_path_factory.mktemp("clients"))


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    """Each of them in turn."""
    return clients[request.param]
