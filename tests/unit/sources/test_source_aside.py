"""Work of a user's that no way of setting it aside may touch, in the smallest repositories that have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_repos import commit, git
from rocwright.errors import UnsavedWork, UsageError
from rocwright.sources.aside import REFUSE, KeptWork, Work, set_aside
from rocwright.sources.tree import whole
from rocwright.sources.tree.repos import Node
from rocwright.system.git import Git


def aside(place: Path, work: Work) -> tuple[KeptWork, ...]:
    return set_aside(whole.survey_tree(Node(Git(place / ".git", place), "", "", ""), jobs=1), work, place)


def test_both_ways_contradict() -> None:
    with pytest.raises(UsageError, match="either kept on a branch or discarded"):
        Work(keep_branch="mine", discard=True)


@pytest.mark.parametrize("work", [REFUSE, Work(discard=True), Work(keep_branch="mine")], ids=str)
def test_another_repository_inside_is_never_touched(place: Path, work: Work) -> None:
    commit(place, {"readme": "one\n"})
    commit(place / "experiments/clone", {"thesis": "x\n"})
    (place / "experiments/notes").write_text("n\n")
    before = [git(place, *words) for words in (("for-each-ref",), ("status", "--porcelain", "-uall"))]
    with pytest.raises(UnsavedWork, match="experiments/clone"):
        aside(place, work)
    assert [git(place, *words) for words in (("for-each-ref",), ("status", "--porcelain", "-uall"))] == before
    assert (place / "experiments/clone/thesis").read_text() == "x\n"


def test_commits_with_nothing_published_below_them_stay(place: Path) -> None:
    own = commit(place, {"thesis": "x\n"})
    git(place, "checkout", "-q", "--detach")
    git(place, "branch", "-q", "-D", "main")
    with pytest.raises(UnsavedWork, match="no published commit below them") as caught:
        aside(place, Work(discard=True))
    assert "another directory" in str(caught.value.next_step)
    assert git(place, "rev-parse", "HEAD") == own
    assert (place / "thesis").read_text() == "x\n"
