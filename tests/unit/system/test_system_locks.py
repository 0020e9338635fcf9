"""Locks between runs: one at a time, and free again the moment that a block is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocwright.errors import RocwrightError
from rocwright.system import locks


def test_one_at_a_time(tmp_path: Path) -> None:
    with locks.exclusive(tmp_path), pytest.raises(RocwrightError, match="another run is working"):
        locks.exclusive(tmp_path).__enter__()
    with locks.exclusive(tmp_path):
        pass


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks its own files up in /proc")
def test_a_copy_of_the_file_in_a_child_that_just_starts_holds_nothing(tmp_path: Path) -> None:
    # What a fork in another thread does: the copy lives on when ours is closed.
    with locks.exclusive(tmp_path):
        lock = str(tmp_path / "rocwright.lock")
        files = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
        (held,) = [number for number in files if _target(number) == lock]
        copy = os.dup(held)
    try:
        with locks.exclusive(tmp_path):
            pass
    finally:
        os.close(copy)


def _target(number: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{number}").readlink())
    except FileNotFoundError:
        return ""
