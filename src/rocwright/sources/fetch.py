"""Brings exactly one commit from a server into a repository, or only some of its files to whoever reads them.

Servers differ in what they hand out: any commit or tips alone, single files or whole commits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from rocwright.errors import CommandFailed, NotOffered, Unreachable
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import git
from rocwright.system.git import Git
from rocwright.system.remote import PAUSES_S

COMMITS = "refs/rocwright/commits/"
_FOUND = "refs/rocwright/found/"


def is_fetched(repository: Git, commit: str) -> bool:
    """Whether a commit was fetched to its end; the ref is set only after git checked all its objects."""
    return repository.refs(COMMITS + commit).get(COMMITS + commit) == commit


def is_complete(repository: Git, commit: str) -> bool:
    """Whether a commit is here with everything below it; remembers it where it is part of what is."""
    if is_fetched(repository, commit):
        return True
    if not repository.has_commit(commit):
        return False
    # An object alone may come from an interrupted fetch; below a ref everything is complete.
    if not repository.run("for-each-ref", "--contains", commit, "--count=1"):
        return False
    # A mirror that this user may only read is as good without.
    with suppress(CommandFailed):
        repository.set_ref(COMMITS + commit, commit)
    return True


def fetch_from(
    repository: Git,
    origin: str,
    commit: str,
    *,
    ref: str | None = None,
    depth: int | None = None,
    blobs: bool = True,
    note: Callable[[str], None] | None = None,
    pauses_s: Sequence[float] = PAUSES_S,
) -> None:
    """Fetch one commit from `origin`: exactly it where the server allows that.

    Where the server hands out only tips, `ref` (and then all branches and tags) is fetched and must
    contain the commit. Raises `Unreachable` when the commit is not to be had or the server is not.
    """
    # An earlier fetch that was killed leaves its half of a pack.
    for left in (repository.git_dir / "objects" / "pack").glob("tmp_*"):
        left.unlink(missing_ok=True)

    def attempt(*refspecs: str, depth: int | None = None) -> bool:
        try:
            repository.fetch(origin, *refspecs, depth=depth, blobs=blobs, note=note, pauses_s=pauses_s)
        except NotOffered:
            return False
        return True

    kept = COMMITS + commit
    if attempt(f"{commit}:{kept}", depth=depth):
        return
    wider: list[tuple[str, ...]] = [(f"{ref}:{_FOUND}ref",)] if ref and ref.startswith("refs/") else []
    wider.append((f"refs/heads/*:{_FOUND}heads/*", f"refs/tags/*:{_FOUND}tags/*"))
    try:
        # No depth: the commit may lie anywhere below the tip.
        if any(attempt(*refspecs) and _found(repository, commit) for refspecs in wider):
            repository.set_ref(kept, commit)
            return
    finally:
        for name in repository.run("for-each-ref", "--format=%(refname)", _FOUND).split():
            repository.delete_ref(name)
    raise Unreachable(
        f"commit {commit} is in no branch or tag of {git.shown(origin)}",
        where=git.shown(origin),
        next_step="check the commit id and the repository; a force-push may have removed it",
    )


def _found(repository: Git, commit: str) -> bool:
    return repository.has_commit(commit) and bool(
        repository.run("for-each-ref", "--contains", commit, "--count=1", _FOUND)
    )


def read_files(
    origin: str,
    commit: str,
    names: Sequence[str],
    *,
    mirror: Git | None = None,
    ref: str | None = None,
    log: Path | None = None,
    pauses_s: Sequence[float] = PAUSES_S,
) -> dict[str, str]:
    """The text of some files of a commit that need not be checked out; absent ones are left out.

    Read from `mirror` when that has the commit, else fetched: this commit alone, and of its files only
    these where the server can do that. Raises as `fetch_from` does.
    """
    with suppress(CommandFailed):
        if mirror is not None and is_complete(mirror, commit):
            return _texts(mirror, _blobs(mirror, commit, names))
    with tempfile.TemporaryDirectory(prefix="rocwright-") as area:
        few, all_ = (git.init(Path(area) / name, Path(area) / name, log=log) for name in ("few", "all"))
        fetch_from(few, origin, commit, ref=ref, depth=1, blobs=False, pauses_s=pauses_s)
        blobs = _blobs(few, commit, names)
        try:
            if blobs:
                few.fetch(origin, *blobs.values(), blobs=False, pauses_s=pauses_s)
            return _texts(few, blobs)
        except NotOffered:
            # A server that leaves files out but does not hand them out singly either.
            fetch_from(all_, origin, commit, ref=ref, depth=1, pauses_s=pauses_s)
            return _texts(all_, blobs)


def _blobs(repository: Git, commit: str, names: Sequence[str]) -> dict[str, str]:
    """Which of the files a commit has, and their objects."""
    found = {}
    for record in repository.records("ls-tree", "-z", "--full-tree", commit, "--", *names):
        facts, name = record.split("\t", 1)
        mode, kind, oid = facts.split(" ")
        if kind == "blob" and mode != "120000":
            found[name] = oid
    return found


def _texts(repository: Git, blobs: dict[str, str]) -> dict[str, str]:
    return {name: repository.run("cat-file", "blob", oid) for name, oid in blobs.items()}


def noting(watch: Watch, name: str) -> Callable[[str], None] | None:
    """What tells `watch` how far `name` is; `None` where nobody wants to know."""
    return None if watch is NOBODY else lambda text: watch.note(name, text)
