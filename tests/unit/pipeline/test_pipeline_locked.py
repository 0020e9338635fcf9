"""The commits of torch in a lock of the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.errors import InvalidData, UsageError
from rocwright.pipeline.locked import torch_commits
from rocwright.sources.lock import LockedSource, Outcome, SourceLock, write_lock

A, B, C = "a" * 40, "b" * 40, "c" * 40


def locked(path: Path, project: str, outcome: Outcome | None) -> Path:
    source = LockedSource(
        project, "https://example.org/it", "refs/heads/main", A, "default", "it", True, outcome=outcome
    )
    write_lock(SourceLock(1, "linux", (source,)), path)
    return path


def test_upstream_then_hipified_then_with_patches(tmp_path: Path) -> None:
    lock = tmp_path / "sources.lock.json"
    assert torch_commits(locked(lock, "torch", None)) == (A,)
    assert torch_commits(locked(lock, "torch", Outcome(tip=C, hipify_commit=B))) == (A, B, C)
    # Nothing to hipify, no patches: the files are upstream's.
    assert torch_commits(locked(lock, "torch", Outcome(tip=A))) == (A,)


def test_a_lock_that_says_nothing_of_torch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not hold torch"):
        torch_commits(locked(tmp_path / "sources.lock.json", "torchaudio", None))
    with pytest.raises(InvalidData, match="does not exist"):
        torch_commits(tmp_path / "absent.json")
