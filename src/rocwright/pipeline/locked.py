"""What a lock of the sources says of torch, for those who only test it."""

from __future__ import annotations

from pathlib import Path

from rocwright.model.project import TORCH
from rocwright.sources.lock import read_lock


def torch_commits(path: Path) -> tuple[str, ...]:
    """The commits of torch in a lock: upstream's, hipified, with patches; each once.

    Raises `InvalidData` for a file that is no lock, `UsageError` for one that does not hold torch.
    """
    source = read_lock(path).get(TORCH)
    outcome = source.outcome
    more = (outcome.hipify_commit, outcome.tip) if outcome is not None else ()
    return tuple(dict.fromkeys(commit for commit in (source.commit, *more) if commit))
