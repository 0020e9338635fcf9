"""What moved between two locks, and whether checkouts are where a lock says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import CommandFailed, IntegrityError, UsageError
from rocwright.sources.lock import LockedSource, SourceLock
from rocwright.sources.tree import repos
from rocwright.sources.tree import state as states
from rocwright.system.git import Git

_SUBJECTS = 10


class Change(msgspec.Struct, frozen=True):
    """A project that two locks say different things about; `fields` names what differs when both hold it."""

    project: str
    kind: Literal["added", "removed", "changed"]
    old: LockedSource | None
    new: LockedSource | None
    fields: tuple[str, ...] = ()

    @property
    def old_commit(self) -> str | None:
        """The upstream commit of the older lock."""
        return None if self.old is None else self.old.commit

    @property
    def new_commit(self) -> str | None:
        """The upstream commit of the newer lock."""
        return None if self.new is None else self.new.commit

    @property
    def old_origin(self) -> str | None:
        """The repository of the older lock."""
        return None if self.old is None else self.old.origin

    @property
    def new_origin(self) -> str | None:
        """The repository of the newer lock."""
        return None if self.new is None else self.new.origin


def compare(old: SourceLock, new: SourceLock) -> tuple[Change, ...]:
    """The projects that two locks disagree on, in the order of a lock; pure.

    Every field counts, also those that say only why a commit was chosen: a pin that was read at another
    torch commit is a difference of the locks, though none of the sources.
    """
    before = {source.project: source for source in old.sources}
    after = {source.project: source for source in new.sources}
    together = old.updated(msgspec.structs.replace(new, platform=old.platform))
    changes = []
    for name in (source.project for source in together.sources):
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            changes.append(Change(name, "added" if one is None else "removed", one, other))
        elif one != other:
            changes.append(Change(name, "changed", one, other, _differing(one, other)))
    return tuple(changes)


def _differing(one: LockedSource, other: LockedSource) -> tuple[str, ...]:
    return tuple(name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name))


class Log(msgspec.Struct, frozen=True):
    """The way from one commit to another: `count` commits came, `left` went, newest subjects first.

    `link` is a page that shows them, where the origin has one.
    """

    count: int
    left: int
    subjects: tuple[str, ...]
    link: str | None = None

    @property
    def descends(self) -> bool:
        """Whether the new commit has the old one among its ancestors."""
        return self.left == 0


def commits_between(origin: str, old: str, new: str, repositories: Sequence[Git]) -> Log | None:
    """What came and went between two commits, from the first repository that has the history of both.

    Asks no server; `None` when no local repository knows enough. A shallow one does not: where its history
    was cut, counts would be too small.
    """
    for repository in repositories:
        if not (repository.has_commit(old) and repository.has_commit(new)):
            continue
        if (_common_dir(repository.git_dir) / "shallow").exists():
            continue
        try:
            sides = repository.run("rev-list", "--left-right", "--count", f"{old}...{new}").split()
            listing = repository.run("log", "-z", "--format=%s", f"-n{_SUBJECTS}", f"{old}..{new}")
        except CommandFailed:
            # The commits are here, but not everything below them.
            continue
        subjects = tuple(subject for subject in listing.split("\0") if subject)
        return Log(int(sides[1]), int(sides[0]), subjects, compare_link(origin, old, new))
    return None


def _common_dir(git_dir: Path) -> Path:
    """Where a further work tree of a repository keeps what all of them share."""
    pointer = git_dir / "commondir"
    return git_dir / pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else git_dir


def compare_link(origin: str, old: str, new: str) -> str | None:
    """The page of GitHub that shows the commits between two, `None` for other origins."""
    match = re.fullmatch(
        r"(?:https?://|ssh://git@|git@)github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?", origin
    )
    return None if match is None else f"https://github.com/{match[1]}/compare/{old}...{new}"


def verify_checkouts(lock: SourceLock, directories: Mapping[str, Path]) -> None:
    """Raise unless every project of `directories` is at its locked commit, hipified and patched as locked.

    Submodules have to be where that says, too.

    Raises `UsageError` for a project that the lock does not hold or that is not checked out there, and
    `IntegrityError` naming every project that is at something else. Edits of files, which
    every build makes, are not looked for.
    """
    missing, differing = [], []
    for project, directory in directories.items():
        locked = lock.get(project)
        # git is started in the work tree, where a relative path means something else.
        directory = directory.expanduser().resolve()
        git_dir = repos.git_dir_of(directory)
        if git_dir is None:
            missing.append(f"{project} is not checked out in {directory}")
            continue
        problem = _departure(locked, Git(git_dir, directory))
        if problem is not None:
            differing.append(f"{project} in {directory} {problem}")
    if missing:
        raise UsageError("\n".join(missing), next_step="run `rocwright checkout --locked` first")
    if differing:
        raise IntegrityError(
            "\n".join(differing),
            next_step="run `rocwright checkout --locked`, or lock what is there with `rocwright checkout`",
        )


def _departure(locked: LockedSource, repository: Git) -> str | None:
    """How a checkout differs from what is locked, `None` when it does not."""
    state = states.load(repository)
    if state.pending is not None:
        return "was left half-way by an interrupted run"
    refs = repository.refs("HEAD", states.UPSTREAM_TAG)
    head = refs.get("HEAD")
    upstream = state.upstream or refs.get(states.UPSTREAM_TAG) or head
    if head is None or upstream is None:
        return "has no commit"
    if upstream != locked.commit:
        return f"is at {upstream[:12]}, and {locked.commit[:12]} is locked"
    outcome = locked.outcome
    tip = state.tip or head
    if outcome is not None and tip != outcome.tip:
        return f"became {tip[:12]} after hipify and patches, and {outcome.tip[:12]} is locked"
    expected = upstream if state.head == "upstream" else tip
    if head != expected:
        return f"has HEAD at {head[:12]}, and what is locked became {expected[:12]}"
    return _submodule_departure(repository, expected) if locked.submodules else None


def _submodule_departure(repository: Git, commit: str, above: str = "") -> str | None:
    """How the submodules of a commit differ from what it names, all the way down."""
    for path, pinned in states.gitlinks(repository, commit).items():
        git_dir = repos.git_dir_of(repository.work_tree / path)
        if git_dir is None:
            return f"lacks its submodule {above}{path}"
        inner = Git(git_dir, repository.work_tree / path)
        head = inner.refs("HEAD").get("HEAD")
        if head != pinned:
            at = "no commit" if head is None else head[:12]
            return f"has its submodule {above}{path} at {at}, and {pinned[:12]} is locked"
        problem = _submodule_departure(inner, pinned, f"{above}{path}/")
        if problem is not None:
            return problem
    return None
