"""Moves one repository from what it holds to what it is to hold; can be killed at any moment.

Files and index move by `git read-tree`, which rewrites only what differs (so builds redo only that), HEAD
by itself afterwards. What is being moved to is recorded first: the next survey knows where it was going.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocwright.errors import RocwrightError
from rocwright.sources.tree import state as states
from rocwright.sources.tree.state import GITLINK, State, Survey
from rocwright.sources.tree.survey import behind_a_link, contents, unfinished
from rocwright.system import process
from rocwright.system.git import Git

# The user's editor looks at the state of files now and then, which takes a moment.
_WAITS, _WAIT_S = 20, 0.1
_LOCKS = ("index.lock", "HEAD.lock", "shallow.lock", "config.lock", "packed-refs.lock")


def move(git: Git, seen: Survey | None, after: State) -> bool:
    """Bring a repository without foreign work to `after`; returns whether there was anything to do.

    HEAD is detached: a branch it was on stays where it is. `seen` is `None` for one without files. Files
    that the target would overwrite have to be out of the way (`in_the_way`).
    """
    before = states.load(git)
    if seen is not None and seen.settled and before == after:
        return False
    tip, at = after.tip, after.at
    assert tip is not None and at is not None
    if before.pending is None:
        _wait_for_others(git)
    states.save(git, msgspec.structs.replace(before, pending=tip))
    if before.pending is not None:
        remove_locks(git)
        if seen is not None:
            _keep_torn(git, seen.torn)
    if seen is not None and seen.hidden and seen.head is not None:
        _look_at_everything(git, seen.head)
    # Where files are ours but not as promised, git must not insist on what its index says of them.
    untouched = seen is not None and seen.settled
    read_tree(git, "-m" if untouched else "--reset", "-u", tip)
    if seen is None or seen.head != at or seen.branch is not None:
        git.run("update-ref", "--no-deref", "-m", "rocwright", "HEAD", at)
    if after.head == "upstream" and after.upstream is not None:
        links = states.moved_links(git, after.upstream, tip)
        words = [w for path, (old, _) in links.items() for w in ("--cacheinfo", f"{GITLINK},{old},{path}")]
        if words:
            git.run("update-index", *words)
    if not untouched:
        _remove_leftovers(git, before.known, tip)
    states.save(git, after)
    return True


def remove_locks(git: Git) -> None:
    """Remove what a git left that was killed during a move of ours: we hold the checkout's own lock."""
    for name in _LOCKS:
        (git.git_dir / name).unlink(missing_ok=True)


def _wait_for_others(git: Git) -> None:
    """Let a git of the user's end that is at work here; raises when it does not, before anything changed."""
    lock = git.git_dir / "index.lock"
    for _ in range(_WAITS):
        if not lock.exists():
            return
        process.pause(_WAIT_S)
    raise RocwrightError(
        f"another git is at work in {git.work_tree}, or was killed there",
        where=lock,
        next_step=f"wait until it has ended; when none is running, remove {lock}; then run again",
    )


def read_tree(git: Git, *words: str) -> None:
    """`git read-tree` of everything, also in a clone that somebody made sparse."""
    # As many writers as there are cores: files of a large tree take a third less time with two.
    git.run("-c", "core.sparseCheckout=false", "-c", "checkout.workers=0", "read-tree", *words)


def _look_at_everything(git: Git, head: str) -> None:
    """Forget which files git was told to overlook or leave out; other tools hide changes this way."""
    # A sparse clone says so in a configuration of the work tree.
    # Refused where several work trees share one configuration; what counts is said to every read-tree.
    git.run("config", "--worktree", "core.sparseCheckout", "false", ok=(0, 128))
    read_tree(git, head)


def _keep_torn(git: Git, torn: Iterable[str]) -> None:
    """Copy torn files aside before a resumed move overwrites them: somebody may have cut one himself."""
    aside = git.git_dir / "rocwright" / "saved"
    for path in torn:
        source = git.work_tree / path
        if source.is_file() and not source.is_symlink():
            target = aside / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _leftovers(git: Git, known: Iterable[str], target: str) -> dict[str, bool]:
    """Files of known commits that lie there and that `target` does not have; whether they are unchanged."""
    trees = [states.tree(git, commit) for commit in known if commit != target]
    if not trees:
        return {}
    paths = {path for entries in trees for path in entries} - states.tree(git, target).keys()
    there = sorted(path for path in paths if _is_file(git.work_tree, path))
    found = contents(git, there, (target,))
    return {path: any(entries.get(path) == found[path] for entries in trees) for path in there}


def _is_file(root: Path, path: str) -> bool:
    file = root / path
    return (file.is_symlink() or file.is_file()) and not behind_a_link(root, path)


def _remove_leftovers(git: Git, known: Iterable[str], target: str) -> None:
    """Remove what an interrupted move had written, or an index did not list, and `target` does not have."""
    for path in _leftovers(git, known, target):
        file = git.work_tree / path
        file.unlink()
        states.remove_empty_parents(file, git.work_tree)


def in_the_way(git: Git, target: str) -> tuple[str, ...]:
    """Untracked files, ignored ones included, that going to `target` would overwrite with something else.

    git takes ignored files for worthless and overwrites them without a word.
    """
    found = states.raw_changes(
        git.records(
            # Told what counts of submodules, git does not read a .gitmodules that may lie there torn.
            "diff-index", "--cached", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty", target
        )
    )  # fmt: skip
    tracked = {path for path, (old, _) in found.items() if old is None}
    arriving = {path: old for path, (old, new) in found.items() if old is not None and new is None}
    blocking: dict[str, None] = {}
    plain: list[str] = []
    for path, entry in arriving.items():
        above = _file_above(git.work_tree, path)
        if above is not None:
            if above not in tracked:
                blocking[above] = None
            continue
        file = git.work_tree / path
        if not os.path.lexists(file):
            continue
        if not file.is_dir() or file.is_symlink():
            plain.append(path)
        elif entry is None or entry[0] != GITLINK:
            blocking |= dict.fromkeys(p for p in _files_below(file, path) if p not in tracked)
    lying = contents(git, plain, (target,))
    return (*blocking, *(path for path in plain if lying[path] != arriving[path]))


def _file_above(root: Path, path: str) -> str | None:
    """The parent of `path` that is no directory."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        file = root / above
        if file.is_symlink() or file.is_file():
            return above
        if not file.exists():
            return None
    return None


def _files_below(directory: Path, path: str) -> Iterable[str]:
    for here, names, plain in os.walk(directory):
        below = Path(here).relative_to(directory).as_posix()
        prefix = path if below == "." else f"{path}/{below}"
        if ".git" in names or ".git" in plain:
            names.clear()
            yield f"{prefix}/"
            continue
        yield from (f"{prefix}/{name}" for name in plain)
        yield from (f"{prefix}/{name}" for name in names if (Path(here) / name).is_symlink())


def look_ahead(git: Git, seen: Survey, target: str) -> Survey:
    """A survey that counts what going to `target` would overwrite or remove as foreign, too.

    After a killed move it is what that was writing.
    """
    if seen.settled and seen.state.tip == target:
        return seen
    lying = in_the_way(git, target)
    if not seen.settled:
        left = _leftovers(git, seen.state.known, target)
        lying += tuple(path for path, ours in left.items() if not ours)
    under_way = unfinished(git, lying, seen.state.pending)
    torn = tuple(path for path in lying if path in under_way)
    paths = tuple(path for path in lying if path not in under_way)
    return msgspec.structs.replace(blocked(seen, paths), torn=tuple(dict.fromkeys((*seen.torn, *torn))))


def blocked(seen: Survey, paths: tuple[str, ...]) -> Survey:
    """A survey that counts what lies in the way of a target as foreign, too."""
    described = tuple(f"in the way: {path}" for path in paths)
    return msgspec.structs.replace(seen, foreign=(*seen.foreign, *described), added=(*seen.added, *paths))
