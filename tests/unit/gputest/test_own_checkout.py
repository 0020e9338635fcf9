"""Whether a checkout is the installed torch's own: version, commit, lock, sources without a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_repos import git
from miniature_pytorch import commit_all, make_checkout
from rocwright.errors import InvalidInput, UsageError
from rocwright.gputest.setting import Checkout, read_checkout, require_match
from rocwright.model.testing import TorchFacts

A, B, C = "a" * 40, "b" * 40, "c" * 40
HERE = Path("/src/pytorch")


def torch(version: str = "2.9.0+rocm7.10.0", commit: str = "Unknown") -> TorchFacts:
    return TorchFacts(version=version, git_version=commit)


@pytest.mark.parametrize(
    ("checkout", "facts", "locked"),
    [
        (Checkout(HERE, "2.9.0a0"), torch(), ()),
        # Debian's torch, and the source of a release: its version.txt is that of the first one of the line.
        (Checkout(HERE, "2.6.0a0"), torch("2.6.0+debian"), ()),
        (Checkout(HERE, "2.9.0a0"), torch("2.9.1+cpu"), ()),
        (Checkout(HERE, "2.10.0a0"), torch("2.10.0a0+rocm7.10.0a20251120"), ()),
        (Checkout(HERE, "2.9.0", (A, B)), torch(commit=A), ()),
        (Checkout(HERE, "2.9.0", (A, B)), torch(commit=B), ()),
        (Checkout(HERE, "2.9.0", (A,)), torch(), ()),
        # Built from a hipified commit that is nowhere but in the lock.
        (Checkout(HERE, "2.9.0", (A,)), torch(commit=C), (A, C)),
    ],
)
def test_own(checkout: Checkout, facts: TorchFacts, locked: tuple[str, ...]) -> None:
    assert require_match(checkout, facts, locked=locked)


@pytest.mark.parametrize(
    ("checkout", "facts", "locked", "said"),
    [
        (Checkout(HERE, "2.10.0a0"), torch(), (), "PyTorch 2.10.0a0, the installed torch is 2.9.0"),
        # Read as text, 2.1 is the beginning of 2.10.
        (Checkout(HERE, "2.1.0"), torch("2.10.0"), (), "PyTorch 2.1.0"),
        (Checkout(HERE, ""), torch(), (), "no version.txt"),
        (Checkout(HERE, "next"), torch(), (), "cannot be compared"),
        (Checkout(HERE, "2.9.0", (A,)), torch(commit=B), (), "built from commit bbbbbbbbbbbb"),
        (Checkout(HERE, "2.9.0", (A,)), torch(), (B,), "the lock says bbbbbbbbbbbb"),
        (Checkout(HERE, "2.9.0", (A,)), torch(commit=C), (A, B), "built from commit cccccccccccc"),
        (Checkout(HERE, "2.9.0"), torch(commit=C), (A,), "the lock has another"),
    ],
)
def test_another(checkout: Checkout, facts: TorchFacts, locked: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        require_match(checkout, facts, locked=locked)
    assert "--allow-version-mismatch" in str(raised.value)
    assert said.split()[0] in require_match(checkout, facts, locked=locked, allow=True)


def test_the_commits_of_a_checkout_are_those_of_its_tags_and_of_its_head(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "pytorch", {"test_nn.py": ""})
    upstream = commit_all(root)
    git(root, "tag", "--annotate", "--message=x", "THEROCK_UPSTREAM_DIFFBASE")
    hipified = commit_all(root)
    git(root, "tag", "THEROCK_HIPIFY_DIFFBASE")
    mine = commit_all(root)
    assert read_checkout(root).commits == (upstream, hipified, mine)


def test_a_source_inside_of_somebody_elses_repository_has_none_of_its_own(tmp_path: Path) -> None:
    commit_all(tmp_path)
    root = make_checkout(tmp_path / "pytorch", {"test_nn.py": ""})
    assert read_checkout(root) == Checkout(root, "2.9.0a0", ())


def test_a_linked_work_tree_is_a_repository(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "pytorch", {"test_nn.py": ""})
    commit = commit_all(root)
    git(root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "other"))
    assert read_checkout(tmp_path / "other").commits == (commit,)


def test_what_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_checkout(tmp_path / "absent")
    with pytest.raises(UsageError, match="has no directory test"):
        read_checkout(tmp_path)
    (tmp_path / "test").mkdir()
    assert read_checkout(tmp_path).version == ""
    (tmp_path / "version.txt").write_bytes(b"\xff\xfe2")
    with pytest.raises(InvalidInput, match="it is not UTF-8"):
        read_checkout(tmp_path)
