"""Looks at one repository without changing it and tells our work in it from everybody else's."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from rocwright.sources.tree import state as states
from rocwright.sources.tree.state import GITLINK, HIPIFY_TAG, UPSTREAM_TAG, Entry, Survey
from rocwright.system import files
from rocwright.system.git import Git

_BATCH = 400
# What the user's own branches and tags hold, for `git rev-list`; our tags hold nothing of his.
HELD = (
    "--branches", "--remotes",
    *(f"--exclude={tag.removeprefix('refs/tags/')}" for tag in (UPSTREAM_TAG, HIPIFY_TAG)), "--tags",
)  # fmt: skip
_NOTHING = "000000"


class _Record(msgspec.Struct, frozen=True):
    """A path that `git status` reports: its index entry, and whether the file differs from that entry."""

    index: Entry
    edited: bool
    mode: str


class _Status(msgspec.Struct, frozen=True):
    head: str | None
    branch: str | None
    tracked: dict[str, _Record]
    untracked: tuple[str, ...]
    unmerged: tuple[str, ...]


def survey(git: Git, expected: Iterable[str] = ()) -> Survey:
    """Look at a repository; `expected` are further commits HEAD may be at.

    Costs three git processes where everything is as it was left.
    """
    state = states.load(git)
    refs, (links, hidden), status = _refs(git), _index(git), _status(git)
    known = list(state.known)
    foreign: list[str] = []
    commits, held_by = 0, None
    if status.head is not None and status.head not in known:
        # Where this tool never was, the tags are of another one that works alike.
        tags = () if known else (refs.get(UPSTREAM_TAG), refs.get(HIPIFY_TAG))
        if status.head not in {*expected, *tags}:
            base = [*known, *(commit for commit in tags if commit is not None)]
            commits, held_by = own_commits(git, status.head, base)
        if commits:
            many = "1 commit of yours" if commits == 1 else f"{commits} commits of yours"
            foreign.append(f"{many}, up to {status.head[:12]}")
        # Files that are as HEAD has them are in no danger: its commits are judged by themselves.
        known.append(status.head)
    seen = Survey(
        state=state, head=status.head, branch=status.branch, refs=refs, links=links, hidden=tuple(hidden),
        foreign=tuple(foreign), commits=commits, held_by=held_by, edited=(), added=(), torn=(), settled=False,
    )  # fmt: skip
    return _judged(git, seen, status, hidden, tuple(known))


def own_commits(git: Git, head: str, known: Sequence[str]) -> tuple[int, str | None]:
    """How many commits only HEAD holds, and the branch, tag or remote ref that holds them otherwise."""
    holders = git.run(
        "for-each-ref", "--contains", head, "--format=%(refname)", "refs/heads", "refs/remotes", "refs/tags"
    ).split("\n")
    held_by = next((name for name in holders if name and name not in (UPSTREAM_TAG, HIPIFY_TAG)), None)
    if held_by is not None:
        return 0, held_by
    return int(git.run("rev-list", "--count", head, "--not", *known, *HELD)), None


def _refs(git: Git) -> dict[str, str]:
    text = git.run(
        "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)",
        UPSTREAM_TAG, HIPIFY_TAG, "refs/rocwright",
    )  # fmt: skip
    # An annotated tag stands for what it tags.
    return {words[0]: words[-1] for words in (line.split() for line in text.splitlines())}


def _index(git: Git) -> tuple[dict[str, str], dict[str, Entry]]:
    """The submodule entries of the index, and the entries whose changes git was told to overlook."""
    links: dict[str, str] = {}
    hidden: dict[str, Entry] = {}
    for record in git.records("ls-files", "-z", "-s", "-v"):
        if record.startswith("H 1006"):
            continue
        facts, path = record.split("\t", 1)
        letter, mode, oid, _ = facts.split(" ")
        if mode == GITLINK:
            links[path] = oid
        if letter == "S" or letter.islower():
            hidden[path] = (mode, oid)
    return links, hidden


def _status(git: Git) -> _Status:
    head, branch = None, None
    tracked: dict[str, _Record] = {}
    untracked: list[str] = []
    unmerged: list[str] = []
    for record in git.records(
        "status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--untracked-files=all",
        "--ignore-submodules=dirty", "--no-renames",
    ):  # fmt: skip
        if record.startswith("1 "):
            _, code, _, _, index_mode, mode, _, oid, path = record.split(" ", 8)
            index = None if index_mode == _NOTHING else (index_mode, oid)
            tracked[path] = _Record(index, code[1] != ".", mode)
        elif record.startswith("? "):
            untracked.append(record[2:])
        elif record.startswith("u "):
            unmerged.append(record.split(" ", 10)[10])
        elif record.startswith("# branch.oid "):
            oid = record.split(" ", 2)[2]
            head = None if oid == "(initial)" else oid
        elif record.startswith("# branch.head "):
            name = record.split(" ", 2)[2]
            branch = None if name == "(detached)" else f"refs/heads/{name}"
    return _Status(head, branch, tracked, tuple(untracked), tuple(unmerged))


def _judged(
    git: Git, seen: Survey, status: _Status, hidden: dict[str, Entry], known: tuple[str, ...]
) -> Survey:
    state = seen.state
    outputs: dict[str, Entry] = {}
    if state.head == "upstream" and state.upstream is not None and state.tip is not None:
        # HEAD is upstream and the index the tip's, so git reports exactly this as staged.
        outputs = states.difference(git, state.upstream, state.tip)
    in_order = {
        path
        for path, record in status.tracked.items()
        if not record.edited and path in outputs and record.index == outputs[path]
    }
    odd = {path: record for path, record in status.tracked.items() if path not in in_order}
    odd |= {path: _Record(entry, True, entry[0] if entry else "") for path, entry in hidden.items()}
    settled = (
        state.pending is None
        and not (odd or status.untracked or status.unmerged or seen.branch)
        and seen.head == state.at
        and in_order == outputs.keys()
    )
    odd |= {path: _Record(None, True, "") for path in status.untracked if path not in odd}
    edited, added, torn = _foreign_paths(git, seen, odd, known) if odd else ([], [], [])
    described = [
        *(f"unmerged: {path}" for path in status.unmerged),
        *(f"changed: {path}" for path in edited),
        *(f"added: {path}" for path in added),
    ]
    return msgspec.structs.replace(
        seen,
        foreign=(*seen.foreign, *described),
        edited=(*status.unmerged, *edited),
        added=tuple(added),
        torn=tuple(torn),
        settled=settled,
    )


def _foreign_paths(
    git: Git, seen: Survey, odd: dict[str, _Record], known: tuple[str, ...]
) -> tuple[list[str], list[str], list[str]]:
    """The tracked and the untracked paths that are not ours, and those that a killed move left half done."""
    trees = [states.tree(git, commit) for commit in known]
    wanted = {path: {entries.get(path) for entries in trees} for path in odd}
    # The commit of a submodule is judged in its own repository; what left the index may still lie here.
    looked_at = [path for path, r in odd.items() if (r.edited and r.mode != GITLINK) or r.index is None]
    found = contents(git, looked_at, known)
    staged = {path for path, record in odd.items() if record.index not in {None, *wanted[path]}}
    strange = {path for path, entry in found.items() if _is_strange(path, entry, wanted[path], seen)}
    strange -= _as_written(
        git, sorted(p for p in strange - staged if odd[p].index is not None and found[p] is not None)
    )
    half_written = unfinished(git, sorted(strange - staged), seen.state.pending)
    edited, added, torn = [], [], []
    for path in odd:
        if path not in staged and path not in strange:
            continue
        in_a_tree = any(entry is not None for entry in wanted[path])
        if path in half_written:
            torn.append(path)
        elif in_a_tree or odd[path].index is not None:
            edited.append(path)
        else:
            added.append(path)
    return edited, added, torn


def _is_strange(path: str, found: Entry, wanted: set[Entry], seen: Survey) -> bool:
    """Whether a file is none that we wrote."""
    if found in wanted or (found is None and path in seen.hidden):
        return False
    # A submodule whose directory is missing or empty holds no work.
    is_link = any(entry is not None and entry[0] == GITLINK for entry in wanted)
    return not (is_link and found in (None, ("040000", "")))


def contents(git: Git, paths: Sequence[str], known: Sequence[str] = ()) -> dict[str, Entry]:
    """Mode and object id of the files as they lie in the work tree; `None` for absent ones.

    A directory has mode `040000`. The id is that of what git would store, after its line-end conversion.
    """
    algorithm = "sha256" if any(len(commit) == 64 for commit in known) else "sha1"
    found: dict[str, Entry] = {}
    regular: list[tuple[str, str]] = []
    for path in paths:
        file = git.work_tree / path
        try:
            mode = file.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            found[path] = None
            continue
        if behind_a_link(git.work_tree, path):
            found[path] = None
        elif stat.S_ISLNK(mode):
            target = os.fsencode(file.readlink())
            blob = b"blob %d\0" % len(target) + target
            found[path] = ("120000", hashlib.new(algorithm, blob, usedforsecurity=False).hexdigest())
        elif stat.S_ISREG(mode):
            regular.append((path, "100755" if mode & stat.S_IXUSR else "100644"))
        else:
            found[path] = ("040000", "")
    for batch in batches(regular):
        oids = git.run("hash-object", "--", *(path for path, _ in batch)).split()
        found.update({path: (mode, oid) for (path, mode), oid in zip(batch, oids, strict=True)})
    return found


def batches(items: Sequence[tuple[str, str]]) -> Iterable[Sequence[tuple[str, str]]]:
    """Pieces that fit on a command line."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def behind_a_link(root: Path, path: str) -> bool:
    """Whether a directory between `root` and `path` is a symbolic link, which may lead anywhere."""
    above = root
    for name in Path(path).parts[:-1]:
        above = above / name
        if above.is_symlink():
            return True
    return False


def _as_written(git: Git, paths: Sequence[str]) -> set[str]:
    """Those files that are byte for byte what git writes for their index entries.

    With `.gitattributes` (`text`, `eol`, `ident`) storing such a file again may give another object, so
    that an untouched file looks changed.
    """
    if not paths:
        return set()
    area = git.git_dir / "rocwright" / "written"
    same: set[str] = set()
    try:
        for batch in batches([(path, "") for path in paths]):
            names = [path for path, _ in batch]
            git.run("checkout-index", "--quiet", "--force", f"--prefix={area}/", "--", *names, ok=(0, 1, 128))
            same.update(path for path in names if same_file(area / path, git.work_tree / path))
    finally:
        files.remove_tree(area)
    return same


def unfinished(git: Git, paths: Sequence[str], pending: str | None) -> set[str]:
    """Those paths that a killed move to `pending` left: a file that is not there, or the beginning of one.

    Anything else that lies there was written by somebody since.
    """
    if pending is None or not paths:
        return set()
    coming = states.tree(git, pending)
    found = {path for path in paths if not os.path.lexists(git.work_tree / path)}
    found |= {
        path for path in paths if _is_directory(git, path) and any(p.startswith(f"{path}/") for p in coming)
    }
    names = [path for path in paths if path in coming and coming[path][0] in ("100644", "100755")]
    area = git.git_dir / "rocwright" / "written"
    files.remove_tree(area)
    area.mkdir(parents=True)
    try:
        scratch = msgspec.structs.replace(git, index=area / "index")
        scratch.run("read-tree", pending)
        for batch in batches([(path, "") for path in names]):
            some = [path for path, _ in batch]
            scratch.run("checkout-index", "--quiet", "--force", f"--prefix={area}/files/", "--", *some)
        return found | {path for path in names if _begins(area / "files" / path, git.work_tree / path)}
    finally:
        files.remove_tree(area)


def _is_directory(git: Git, path: str) -> bool:
    return (git.work_tree / path).is_dir() and not (git.work_tree / path).is_symlink()


def _begins(whole: Path, part: Path) -> bool:
    """Whether one regular file holds the beginning of another, or all of it."""
    if any(path.is_symlink() or not path.is_file() for path in (whole, part)):
        return False
    return part.stat().st_size <= whole.stat().st_size and whole.read_bytes().startswith(part.read_bytes())


def same_file(one: Path, other: Path) -> bool:
    """Whether two regular files have the same bytes and both or neither can be executed."""
    if any(path.is_symlink() or not path.is_file() for path in (one, other)):
        return False
    if (one.stat().st_mode ^ other.stat().st_mode) & stat.S_IXUSR:
        return False
    return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()
