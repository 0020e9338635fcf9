"""Remembers what this tool put into a repository, so that it is never mistaken for somebody's work.

Each repository (a checkout and every submodule) remembers in its git directory which commits this tool put
there. A file is ours when its bytes are those of one of these commits; everything else is foreign and is
never overwritten.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.system import files
from rocwright.system.git import Git

UPSTREAM_TAG = "refs/tags/THEROCK_UPSTREAM_DIFFBASE"
HIPIFY_TAG = "refs/tags/THEROCK_HIPIFY_DIFFBASE"
GITLINK = "160000"
_ABSENT = "000000"
Head = Literal["tip", "upstream"]
# Mode and object id of a file, link or submodule in a tree or index; `None`: absent.
Entry = tuple[str, str] | None


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What this tool put into one repository.

    `upstream` is the commit checked out, `hipify` the hipify commit applied to it and `patched` the last
    commit of the patches applied on top (`None`: none). Files and index are those of `tip`; `head` says
    whether HEAD is that commit, too, or stays at `upstream` (submodule entries of the index then are
    upstream's). `pending` is the commit a move was going to when it was interrupted.
    """

    schema: int = 2
    upstream: str | None = None
    hipify: str | None = None
    patched: str | None = None
    head: Head = "tip"
    pending: str | None = None

    @property
    def tip(self) -> str | None:
        """The commit whose files lie in the work tree."""
        return self.patched or self.hipify or self.upstream

    @property
    def at(self) -> str | None:
        """The commit that HEAD is at."""
        return self.tip if self.head == "tip" else self.upstream

    @property
    def known(self) -> tuple[str, ...]:
        """The commits whose files may lie in the work tree."""
        commits = (self.upstream, self.hipify, self.patched, self.pending)
        return tuple(dict.fromkeys(commit for commit in commits if commit is not None))


class Survey(msgspec.Struct, frozen=True):
    """What lies in one repository.

    `branch` is complete (`refs/heads/…`) when HEAD is on one. `refs` are the two tags and everything below
    `refs/rocwright/`, `links` the submodule entries of the index.

    `foreign` describes work that is not ours: `commits` of HEAD that no branch, tag or remote ref holds
    (`held_by` names the ref that holds HEAD's commits otherwise), the tracked paths `edited` and the
    untracked paths `added`. `hidden` are paths that git was told not to look at, `torn` lists paths that
    an interrupted move left in a state no commit has; `settled` says that everything is as the state
    promises.
    """

    state: State
    head: str | None
    branch: str | None
    refs: dict[str, str]
    links: dict[str, str]
    foreign: tuple[str, ...]
    commits: int
    held_by: str | None
    edited: tuple[str, ...]
    added: tuple[str, ...]
    hidden: tuple[str, ...]
    torn: tuple[str, ...]
    settled: bool

    @property
    def upstream_tag(self) -> str | None:
        """What `THEROCK_UPSTREAM_DIFFBASE` names."""
        return self.refs.get(UPSTREAM_TAG)

    @property
    def hipify_tag(self) -> str | None:
        """What `THEROCK_HIPIFY_DIFFBASE` names."""
        return self.refs.get(HIPIFY_TAG)


class _AnySchema(msgspec.Struct, frozen=True):
    schema: int


class _Schema1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    upstream: str | None = None
    hipify: str | None = None
    committed: bool = False
    pending: str | None = None


def load(git: Git) -> State:
    """The recorded state; a repository that this tool never touched has an empty one.

    Raises `InvalidData` for a state that cannot be read, or that a later version wrote.
    """
    path = git.git_dir / "rocwright" / "state.json"
    advice = "make a new checkout in another directory; this one keeps its files"
    try:
        data = path.read_bytes()
        schema = msgspec.json.decode(data, type=_AnySchema).schema
        if schema == 1:
            old = msgspec.json.decode(data, type=_Schema1)
            head: Head = "tip" if old.committed or old.hipify is None else "upstream"
            return State(upstream=old.upstream, hipify=old.hipify, head=head, pending=old.pending)
        if schema == 2:
            return msgspec.json.decode(data, type=State)
    except FileNotFoundError:
        return State()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path} is damaged: {error}", where=path, next_step=advice) from error
    raise InvalidData(f"{path} has schema {schema}, this version reads 2", where=path, next_step=advice)


def save(git: Git, state: State) -> None:
    """Record the state, atomically."""
    files.write_text(git.git_dir / "rocwright" / "state.json", msgspec.json.encode(state).decode() + "\n")


@lru_cache(maxsize=512)
def tree(git: Git, commit: str) -> dict[str, tuple[str, str]]:
    """Every path of a commit with its mode and object id; submodules have mode `160000`."""
    entries = {}
    for record in git.records("ls-tree", "-r", "-z", "--full-tree", commit):
        facts, path = record.split("\t", 1)
        mode, _, oid = facts.split(" ")
        entries[path] = (mode, oid)
    return entries


def gitlinks(git: Git, commit: str) -> dict[str, str]:
    """The submodule paths of a commit and the commits they are pinned to."""
    return {path: oid for path, (mode, oid) in tree(git, commit).items() if mode == GITLINK}


@lru_cache(maxsize=512)
def changes(git: Git, before: str, after: str) -> dict[str, tuple[Entry, Entry]]:
    """The paths that differ between two commits, as they are in the one and in the other."""
    if before == after:
        return {}
    return raw_changes(git.records("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after))


def raw_changes(records: list[str]) -> dict[str, tuple[Entry, Entry]]:
    """What `git diff-tree` and its kin print with `-z --raw`."""
    found: dict[str, tuple[Entry, Entry]] = {}
    for facts, path in zip(records[::2], records[1::2], strict=True):
        old_mode, new_mode, old, new, _ = facts.removeprefix(":").split(" ")
        found[path] = (
            None if old_mode == _ABSENT else (old_mode, old),
            None if new_mode == _ABSENT else (new_mode, new),
        )
    return found


def difference(git: Git, before: str, after: str) -> dict[str, Entry]:
    """The files that differ between two commits, as they are in `after` (`None`: absent); no submodules."""
    return {
        path: new
        for path, (old, new) in changes(git, before, after).items()
        if (new or old or ("",))[0] != GITLINK
    }


def moved_links(git: Git, before: str, after: str) -> dict[str, tuple[str, str]]:
    """The submodules that both commits have, at different commits: path -> (before, after)."""
    return {
        path: (old[1], new[1])
        for path, (old, new) in changes(git, before, after).items()
        if old is not None and new is not None and old[0] == new[0] == GITLINK
    }


def tag(git: Git, name: str, commit: str | None, current: str | None) -> None:
    """Move a tag to `commit` (`None`: delete it), when it is not there already."""
    if commit is not None and commit != current:
        git.set_ref(name, commit)
    elif commit is None and current is not None:
        git.delete_ref(name)


def remove_empty_parents(path: Path, root: Path) -> None:
    """Remove the directories between `path` and `root` that became empty."""
    for parent in path.parents:
        if parent == root or any(parent.iterdir()):
            return
        parent.rmdir()
