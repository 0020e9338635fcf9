"""Which files a change touches: git's answer, from the commit that the event names."""

from __future__ import annotations

from pathlib import Path

from rocwright.errors import CommandFailed, InvalidInput
from rocwright.system.git import Git, is_repository


def changed_files(tree: Path, base: str, *, merged: bool) -> tuple[str, ...] | None:
    """Paths that differ between a commit and HEAD of the work tree, both names of a renamed file.

    With `merged`, HEAD may be a merge of a pull request: what its base has beside is not counted. None where
    the commit is not here, as in a checkout of little history.
    """
    git_dir = tree / ".git"
    if not is_repository(git_dir):
        return None
    git = Git(git_dir, tree)
    commit = git.resolve(base) if base else None
    if commit is None and merged and git.resolve("HEAD^2") is not None:
        # GitHub checks out the merge: its first parent is the base as it was then.
        commit = git.resolve("HEAD^1")
    if commit is None or git.resolve("HEAD") is None:
        return None
    words = ["diff", "--name-only", "--no-renames", "-z"]
    if merged:
        try:
            return tuple(git.records(*words, f"{commit}...HEAD"))
        except CommandFailed:
            # A checkout without the history between them: their difference says at least as much.
            pass
    return tuple(git.records(*words, commit, "HEAD"))


def changed_since(tree: Path, name: str) -> tuple[str, ...]:
    """As `changed_files`; raises `InvalidInput` for a name that git does not know."""
    found = changed_files(tree, name, merged=True)
    if found is None:
        raise InvalidInput(
            f"git knows no commit {name!r} here", where=tree, next_step="name a branch, a tag or a commit"
        )
    return found
