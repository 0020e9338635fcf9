"""Which files a change touches, by git's answer, and what the table `data/triggers.toml` starts for them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import CommandFailed, InvalidInput
from rocwright.model.patterns import fits
from rocwright.system.git import Git, is_repository

Level = Literal["nothing", "tests", "pytorch", "rocm", "everything"]
# From the least to the most.
LEVELS: tuple[Level, ...] = ("nothing", "tests", "pytorch", "rocm", "everything")


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


class PathRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files whose change starts the same; the patterns are those of every table."""

    name: str
    starts: Level
    paths: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError(f"the rule {self.name!r} has no paths: no file would be its")


class Triggers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table: rules in order, and the branches that more families are tried on."""

    branches: tuple[str, ...]
    rule: tuple[PathRule, ...]

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rule]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules are called {name!r}")

    def rule_of(self, path: str) -> PathRule | None:
        """The first rule that fits a file; None where none does, and the file counts as everything."""
        return next((rule for rule in self.rule if fits(path, rule.paths)), None)

    def is_main(self, branch: str) -> bool:
        """Whether pushes to a branch try the families of the tier postsubmit."""
        return fits(branch, self.branches)


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a change starts, and the files that say so: one of each rule of that level."""

    level: Level
    because: tuple[str, ...] = ()


def started(changed: Iterable[str] | None, triggers: Triggers) -> Started:
    """What a change of these files starts: all where nobody knows them, nothing where there are none."""
    if changed is None:
        return Started("everything", ("nobody knows which files changed",))
    found: dict[Level, dict[str, str]] = {}
    for path in sorted(set(changed)):
        rule = triggers.rule_of(path)
        level: Level = "everything" if rule is None else rule.starts
        name = "no rule of triggers.toml" if rule is None else rule.name
        found.setdefault(level, {}).setdefault(name, path)
    if not found:
        return Started("nothing", ("no file changed",))
    most = max(found, key=LEVELS.index)
    return Started(most, tuple(f"{path} ({name})" for name, path in found[most].items()))
