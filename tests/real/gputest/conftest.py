"""A real torch, the PyTorch tests of its version, and the newcomer who runs them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from real.gputest import userland
from real.gputest.desk import Desk


@pytest.fixture(scope="session")
def desk(newcomer) -> Iterator[Desk]:
    """Debian's torch and its sources, the newcomer's own; about 30 seconds, once."""
    root = newcomer.home / "torch"
    root.mkdir()
    python = userland.make(root / "userland")
    checkout = userland.make_checkout(root / "pytorch")
    newcomer.own(root)
    yield Desk(newcomer, root, python, checkout)
    shutil.rmtree(root)
