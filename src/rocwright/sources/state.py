"""Tells our work in a repository from everybody else's, so that neither is mistaken for the other.

Each repository (a checkout and every submodule) remembers in its git directory which commits this tool put
there. A file is ours when its bytes are those of one of these commits; everything else is foreign and is
never overwritten.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.system import files
from rocwright.system.git import Git

UPSTREAM_TAG = "refs/tags/THEROCK_UPSTREAM_DIFFBASE"
HIPIFY_TAG = "refs/tags/THEROCK_HIPIFY_DIFFBASE"
_GITLINK = "160000"
Head = Literal["tip", "upstream"]


class _AnySchema(msgspec.Struct, frozen=True):
    schema: int


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What this tool put into one repository.

    `upstream` is the commit checked out, `hipify` the hipify commit applied to it and `patched` the last
    commit of the patches applied on top (`None`: none). Files and index are those of `tip`; `head` says
    whether HEAD is that commit, too, or stays at `upstream`. `pending` is the commit a move was going to
    when it was interrupted.
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
    def known(self) -> tuple[str, ...]:
        """The commits whose files may lie in the work tree."""
        commits = (self.upstream, self.hipify, self.patched, self.pending)
        return tuple(dict.fromkeys(commit for commit in commits if commit is not None))


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
    return {path: oid for path, (mode, oid) in tree(git, commit).items() if mode == _GITLINK}


def difference(git: Git, before: str, after: str) -> dict[str, tuple[str, str] | None]:
    """The files that differ between two commits, as they are in `after` (`None`: absent); no submodules."""
    old, new = tree(git, before), tree(git, after)
    paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    return {path: new.get(path) for path in paths if new.get(path, old.get(path, ("", "")))[0] != _GITLINK}


@dataclass(frozen=True)
class Survey:
    """What lies in one repository.

    `foreign` describes work that is not ours, `torn` lists paths that an interrupted move left in a state
    no commit has; `settled` says that every file is as the state promises.
    """

    state: State
    head: str | None
    upstream_tag: str | None
    hipify_tag: str | None
    foreign: tuple[str, ...]
    torn: tuple[str, ...]
    settled: bool


def survey(git: Git, expected: Iterable[str] = ()) -> Survey:
    """Look at a repository without changing it; `expected` are further commits HEAD may be at."""
    state = load(git)
    refs = git.refs("HEAD", UPSTREAM_TAG, HIPIFY_TAG)
    head, upstream_tag, hipify_tag = refs.get("HEAD"), refs.get(UPSTREAM_TAG), refs.get(HIPIFY_TAG)
    known = list(state.known)
    if head is not None and head not in known:
        leavable = {*expected, upstream_tag, hipify_tag}
        if head in leavable or _is_published(git, head, state):
            known.append(head)
    foreign = []
    if head is not None and head not in known:
        count = git.run("rev-list", "--count", head, *(f"^{commit}" for commit in known)).strip()
        foreign.append(f"{count} commit(s) that are not ours, up to {head[:12]}")
    changes, broken, settled = _changes(git, state, tuple(known))
    return Survey(state, head, upstream_tag, hipify_tag, (*foreign, *changes), tuple(broken), settled)


def _is_published(git: Git, head: str, state: State) -> bool:
    """Whether a checkout made by other tools may be taken over: leaving its HEAD loses nothing."""
    return state == State() and bool(git.run("for-each-ref", "--contains", head, "--count=1", "refs/remotes"))


def _changes(git: Git, state: State, known: tuple[str, ...]) -> tuple[list[str], list[str], bool]:
    status = git.records(
        "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames"
    )
    staged: dict[str, str] = {}
    paths: list[str] = []
    foreign: list[str] = []
    for record in status:
        if record.startswith("? "):
            paths.append(record[2:])
        elif record.startswith("1 "):
            _, code, _, _, _, _, _, oid, path = record.split(" ", 8)
            paths.append(path)
            if code[0] not in ".D":
                staged[path] = oid
        elif record.startswith("u "):
            foreign.append(f"unmerged: {record.split(' ', 10)[10]}")
    trees = [tree(git, commit) for commit in known]
    outputs: dict[str, tuple[str, str] | None] = {}
    if state.head == "upstream" and state.tip is not None and state.upstream is not None:
        outputs = difference(git, state.upstream, state.tip)
        # Outputs that the project's .gitignore hides from status.
        hidden = outputs.keys() - {*paths}
        paths += sorted(path for path in hidden if os.path.lexists(git.work_tree / path))
    found = _contents(git, paths)
    settled = found == outputs
    torn: list[str] = []
    for path in paths:
        wanted = {entries.get(path) for entries in trees}
        staged_oids = {entry[1] for entry in wanted if entry is not None}
        index_ours = path not in staged or staged[path] in staged_oids
        if index_ours and found[path] in wanted:
            continue
        if state.pending is not None and index_ours and staged_oids:
            torn.append(path)
        else:
            foreign.append(("changed: " if staged_oids else "added: ") + path)
    return foreign, torn, settled


def _contents(git: Git, paths: list[str]) -> dict[str, tuple[str, str] | None]:
    """Mode and object id of the files as they lie in the work tree; `None` for absent ones."""
    found: dict[str, tuple[str, str] | None] = {}
    regular: list[tuple[str, str]] = []
    for path in paths:
        file = git.work_tree / path
        try:
            mode = file.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            found[path] = None
            continue
        if stat.S_ISLNK(mode):
            target = os.fsencode(file.readlink())
            blob = b"blob %d\0" % len(target) + target
            found[path] = ("120000", hashlib.sha1(blob, usedforsecurity=False).hexdigest())
        elif stat.S_ISREG(mode):
            regular.append((path, "100755" if mode & stat.S_IXUSR else "100644"))
        else:
            found[path] = ("040000", "")
    for start in range(0, len(regular), 400):
        batch = regular[start : start + 400]
        oids = git.run("hash-object", "--", *(path for path, _ in batch)).split()
        found.update({path: (mode, oid) for (path, mode), oid in zip(batch, oids, strict=True)})
    return found


def keep_torn(git: Git, torn: tuple[str, ...]) -> None:
    """Copy torn files aside before a resumed move overwrites them: one may hold a user's edit after all."""
    aside = git.git_dir / "rocwright" / "saved"
    for path in torn:
        source = git.work_tree / path
        if source.is_file() and not source.is_symlink():
            target = aside / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def move(git: Git, target: str, after: State, torn: tuple[str, ...] = ()) -> None:
    """Bring a surveyed repository to `target`, HEAD detached, and record `after`.

    Can be killed at any moment: the next survey knows where the move was going.
    """
    before = load(git)
    save(git, msgspec.structs.replace(before, pending=target))
    if before.pending is not None:
        # We hold the repository's lock, so these belong to a git that was killed.
        for name in ("index.lock", "HEAD.lock", "shallow.lock", "config.lock", "packed-refs.lock"):
            (git.git_dir / name).unlink(missing_ok=True)
        keep_torn(git, torn)
    if before.head == "upstream" and before.tip is not None:
        # With the outputs in the index git itself removes them, ignored ones too.
        git.run("reset", "--quiet", "--mixed", before.tip)
    git.run("checkout", "--quiet", "--force", "--detach", target)
    if before.pending is not None:
        _remove_leftovers(git, before.known, target)
    save(git, after)


def _remove_leftovers(git: Git, known: tuple[str, ...], target: str) -> None:
    """Remove files that the interrupted move had already written and that `target` does not have."""
    for path in {path for commit in known for path in tree(git, commit)} - tree(git, target).keys():
        file = git.work_tree / path
        if file.is_symlink() or file.is_file():
            file.unlink()
            remove_empty_parents(file, git.work_tree)


def remove_empty_parents(path: Path, root: Path) -> None:
    """Remove the directories between `path` and `root` that became empty."""
    for parent in path.parents:
        if parent == root or any(parent.iterdir()):
            return
        parent.rmdir()


def tag(git: Git, name: str, commit: str | None, current: str | None) -> None:
    """Move a tag to `commit` (`None`: delete it), when it is not there already."""
    if commit is not None and commit != current:
        git.set_ref(name, commit)
    elif commit is None and current is not None:
        git.delete_ref(name)
