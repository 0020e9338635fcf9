"""An environment and a machine for the doctor's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.compat.doctor.desk import Room, Tree


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "venv")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")
