"""What becomes of work in a checkout that is not ours: refused, kept on a branch, or discarded on request.

Deciding looks at everything and writes only objects; then all branches are made; only then files move. So
a run that is killed in between has lost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import CommandFailed, RocwrightError, UnsavedWork, UsageError
from rocwright.sources.tree import state as states
from rocwright.sources.tree import whole
from rocwright.sources.tree.move import blocked, in_the_way, remove_locks
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import Survey
from rocwright.sources.tree.survey import HELD, behind_a_link
from rocwright.sources.tree.whole import Surveys
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import files
from rocwright.system.git import Git

_COMMITS_SHOWN = 20
_SHOWN = 10
# What git keeps in its directory while a command of several steps waits for the user, and the way out.
_UNFINISHED = {
    "rebase-merge": "git rebase --continue, or git rebase --abort",
    "rebase-apply": "git am --continue or git rebase --continue, or --abort",
    "sequencer": "git cherry-pick --continue or git revert --continue, or --abort",
    "BISECT_LOG": "git bisect reset",
    "MERGE_HEAD": "git merge --continue, or git merge --abort",
    "CHERRY_PICK_HEAD": "git cherry-pick --continue, or git cherry-pick --abort",
    "REVERT_HEAD": "git revert --continue, or git revert --abort",
}
# These hold nothing but what lies in the work tree; discarding that ends them.
_DISCARDABLE = {"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"}


@dataclass(frozen=True)
class Work:
    """What to do with changes and commits that are not ours; by default they stop everything.

    `keep_branch` names the branch that gets them, `discard` throws them away. More may turn out to be in the
    way later in the same run; that is kept on `keep_branch`-2 and so on (`kept` counts, by directory).
    Raises `UsageError` for both.
    """

    keep_branch: str | None = None
    discard: bool = False
    kept: dict[Path, int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.keep_branch is not None and self.discard:
            raise UsageError("work is either kept on a branch or discarded", next_step="give one of the two")


REFUSE = Work()


class KeptWork(msgspec.Struct, frozen=True):
    """What became of the work in one repository (`repository`: path of the submodule, "" for the project).

    `kept`: `branch` holds it, up to `commit`. `left`: HEAD was at `commit`, which the user's own `branch`
    (or tag) contains and goes on containing. `discarded`: `commit` is what HEAD was at when commits went
    that only HEAD held; git finds it for some weeks. `items` lists the changes and commits.
    """

    repository: str
    fate: Literal["kept", "left", "discarded"]
    branch: str | None
    commit: str | None
    items: tuple[str, ...]

    def said(self) -> str:
        """In one line, for a log or a user; of many items the first."""
        more = f"; and {len(self.items) - _SHOWN} more" if len(self.items) > _SHOWN else ""
        items = "; ".join(self.items[:_SHOWN]) + more
        where = f"{self.repository}: " if self.repository else ""
        if self.fate == "kept":
            return f"{where}kept on branch {self.branch}: {items or 'its submodules'}"
        if self.fate == "left":
            return f"{where}HEAD was at {str(self.commit)[:12]}, which stays in {self.branch}"
        found = f" (git branch NAME {self.commit} brings the commits back)" if self.commit else ""
        return f"{where}discarded: {items}{found}"


def set_aside(
    surveys: Surveys, work: Work, directory: Path, *, watch: Watch = NOBODY
) -> tuple[KeptWork, ...]:
    """Clear foreign work out of the way of a move, as `work` says; nothing to do is the usual case.

    With `keep_branch` every repository with work, and those around it, gets that branch: the commits of
    HEAD, then one commit with all changes and the new files that git does not ignore. With `discard` they
    are gone. Files that git ignores stay. Afterwards the files are those of the tip, HEAD detached at it.

    Raises `UnsavedWork` for work that nobody decided about or that cannot be taken as a whole (a merge or
    rebase under way, another repository inside), `UsageError` for a branch that exists or cannot be; all
    is left as it is then.
    """
    _refuse_unfinished(surveys, work, directory)
    affected = {path: item for path, item in surveys.items() if item[1].foreign}
    left = tuple(
        KeptWork(path, "left", re.sub(r"^refs/(heads|tags|remotes)/", "", seen.held_by), seen.head, ())
        for path, (_, seen) in surveys.items()
        if seen.held_by is not None
    )
    if not affected:
        return left
    if work == REFUSE:
        whole.refuse_foreign(directory, whole.obstacles(surveys))
    affected = {path: (node, _with_hidden(node, seen, directory)) for path, (node, seen) in affected.items()}
    surveys = surveys | affected
    for path, (_, seen) in affected.items():
        _refuse_repositories(path, seen, surveys, directory)
    if work.keep_branch is not None:
        earlier = work.kept.get(directory, 0)
        branch = f"{work.keep_branch}-{earlier + 1}" if earlier else work.keep_branch
        commits = keep(surveys, affected, branch, directory)
        done = tuple(
            KeptWork(path, "kept", branch, commit, surveys[path][1].foreign)
            for path, commit in reversed(commits.items())
        )
        work.kept[directory] = earlier + 1
    else:
        done = tuple(_lost(path, node, seen) for path, (node, seen) in affected.items())
        for each in done:
            watch.note(each.repository or directory.name, each.said())
    for _, (node, seen) in sorted(affected.items(), reverse=True):
        _reset(node, seen, _target(node, seen, directory))
    return (*left, *done)


def _refuse_unfinished(surveys: Surveys, work: Work, directory: Path) -> None:
    for path, (node, seen) in surveys.items():
        for name, way_out in _UNFINISHED.items():
            if (node.git.git_dir / name).exists() and not (work.discard and name in _DISCARDABLE):
                what = name.lower().removesuffix("_head").removesuffix("_log").replace("_", "-")
                raise UnsavedWork(
                    f"{node.git.work_tree}: a {what} of yours is under way; nothing was changed",
                    where=directory,
                    next_step=f"end it there first: {way_out}",
                )
        unmerged = [text for text in seen.foreign if text.startswith("unmerged")]
        if work.keep_branch is not None and unmerged:
            where = f"{path}: " if path else ""
            raise UnsavedWork(
                f"a conflict is not resolved yet, so no branch can hold it: {where}{unmerged[0]}",
                where=directory,
                next_step="resolve it and `git add` the files, or `git checkout HEAD -- FILE`",
            )


def _refuse_repositories(path: str, seen: Survey, surveys: Surveys, directory: Path) -> None:
    """Raise for a repository of the user's among the new files; git shows one as a directory."""
    inside = [
        name for name in seen.added if name.endswith("/") and _join(path, name.rstrip("/")) not in surveys
    ]
    if inside:
        raise UnsavedWork(
            f"another repository lies in the checkout and is never touched: {', '.join(inside[:5])}",
            where=directory / path,
            next_step="move it elsewhere, then run again",
        )


def _join(path: str, inner: str) -> str:
    return f"{path}/{inner}" if path else inner


def _lost(path: str, node: Node, seen: Survey) -> KeptWork:
    """What discarding throws away: the changes, and the commits that nothing but HEAD holds."""
    commits: list[str] = []
    if seen.commits and seen.head is not None:
        commits = node.git.run(
            "log", f"-{_COMMITS_SHOWN}", "--format=commit %h %s", seen.head,
            "--not", *seen.state.known, *HELD,
        ).splitlines()  # fmt: skip
    return KeptWork(path, "discarded", None, seen.head if commits else None, (*commits, *seen.foreign))


def _target(node: Node, seen: Survey, directory: Path) -> str:
    """The commit whose files are to lie there: the tip, or in a foreign clone the last published one."""
    if seen.state.tip is not None:
        return seen.state.tip
    for commit in (seen.upstream_tag, node.commit or None):
        if commit is not None and node.git.has_commit(commit):
            return commit
    if seen.head is not None:
        own = node.git.run("rev-list", "--boundary", seen.head, "--not", "--remotes", "--tags", "--branches")
        if not own.strip():
            return seen.head
        boundary = [line[1:] for line in own.splitlines() if line.startswith("-")]
        if boundary:
            return boundary[0]
    raise UnsavedWork(
        f"{directory} has commits that were never published, and no published commit below them",
        where=directory,
        next_step="choose another directory",
    )


def _with_hidden(node: Node, seen: Survey, directory: Path) -> Survey:
    """The survey with what git would overwrite without a word because commits of the user's ignore it."""
    lying = in_the_way(node.git, _target(node, seen, directory))
    return blocked(seen, tuple(path for path in lying if path not in {*seen.edited, *seen.added}))


def _reset(node: Node, seen: Survey, target: str) -> None:
    if seen.state.pending is not None:
        remove_locks(node.git)
    for name in seen.added:
        path = node.git.work_tree / name
        if is_file(path) and not behind_a_link(node.git.work_tree, name):
            path.unlink()
            states.remove_empty_parents(path, node.git.work_tree)
    if seen.hidden:
        # Forget what git was told to overlook: it would go on overlooking the files that go.
        node.git.run("config", "--local", "core.sparseCheckout", "false")
        node.git.run("read-tree", target)
    # Detaching leaves the user's branch where it is.
    node.git.run("checkout", "--quiet", "--force", "--detach", target)


# -- keeping: commits made through an index of their own, no file of the user's changes

_SUBJECT = "Work in progress, kept by rocwright"
_STAGED_SUBJECT = "Staged work in progress, kept by rocwright"
_WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "rocwright"), ("EMAIL", "rocwright@localhost"))
}
_BATCH = 400


def keep(surveys: Surveys, affected: Iterable[str], branch: str, directory: Path) -> dict[str, str]:
    """Put the work of the repositories `affected` (paths) on a new branch; returns its commits by path.

    The repositories around one get the branch, too, and name the commit of their submodule, so that the
    branch is complete. No file, index or HEAD changes.

    Raises `UsageError` for a name that is taken or none, `RocwrightError` for a file that cannot be read;
    no branch is made then.
    """
    inside = {*affected}
    around = {path for path in surveys for inner in inside if inner.startswith(f"{path}/" if path else "")}
    places = sorted({*inside, *around}, key=lambda path: (-path.count("/"), path == "", path))
    for path in places:
        _refuse_name(surveys[path][0].git, branch, path)
    commits: dict[str, str] = {}
    for path in places:
        node, seen = surveys[path]
        commits[path] = _commit_work(node, seen, surveys, commits, directory)
    for path, commit in commits.items():
        # The branch must still be absent.
        surveys[path][0].git.run("update-ref", f"refs/heads/{branch}", commit, "0" * len(commit))
    return commits


def _refuse_name(git: Git, branch: str, path: str) -> None:
    where = f" of {path}" if path else ""
    ref = f"refs/heads/{branch}"
    try:
        git.run("check-ref-format", ref)
    except CommandFailed as error:
        raise UsageError(
            f"{branch!r} cannot be the name of a branch", next_step="write it like keep/mine"
        ) from error
    if branch.startswith("-") or branch == "HEAD":
        raise UsageError(f"{branch!r} cannot be the name of a branch", next_step="write it like keep/mine")
    above = [f"refs/heads/{'/'.join(branch.split('/')[:n])}" for n in range(1, branch.count("/") + 1)]
    taken = git.run("for-each-ref", "--format=%(refname:short)", ref).split()
    taken += [name.removeprefix("refs/heads/") for name in git.refs(*above)] if above else []
    if taken:
        raise UsageError(
            f"there is a branch {taken[0]}{where} already; work is kept on a new one",
            where=git.work_tree,
            next_step="choose another name",
        )


def _commit_work(
    node: Node,
    seen: Survey,
    surveys: Surveys,
    commits: dict[str, str],
    directory: Path,
) -> str:
    """The commit that holds all work of one repository, made through an index of its own."""
    # Above the tip a commit shows the user's changes alone, also where HEAD stays at the upstream commit.
    base = seen.state.tip if seen.head is None or seen.head in seen.state.known else seen.head
    area = node.git.git_dir / "rocwright" / "keep"
    files.remove_tree(area)
    area.mkdir(parents=True)
    try:
        scratch = Git(node.git.git_dir, node.git.work_tree, node.git.log, area / "index")
        scratch.run("read-tree", base or "--empty")
        _add_files(scratch, seen, area)
        tree = scratch.run("write-tree").strip()
        parent = _commit_staged(node.git, seen, base, tree, area)
        _name_submodules(scratch, node, base, surveys, commits)
        return _commit_index(scratch, parent, _SUBJECT)
    except CommandFailed as error:
        reason = next((line for line in error.tail.splitlines() if line.strip()), "")
        raise RocwrightError(
            f"the work in {node.git.work_tree} cannot be kept; nothing was changed: {reason}",
            where=directory,
            next_step="see that all files can be read, or move them elsewhere",
        ) from error
    finally:
        files.remove_tree(area)


def _commit_index(scratch: Git, parent: str | None, subject: str) -> str:
    made = scratch.run("write-tree").strip()
    if parent is not None and made == scratch.run("rev-parse", f"{parent}^{{tree}}").strip():
        return parent
    above = ("-p", parent) if parent is not None else ()
    return scratch.run("commit-tree", made, *above, "-m", subject, env=_WHO).strip()


def _add_files(scratch: Git, seen: Survey, area: Path) -> None:
    """Put exactly the user's files into an index, as they lie there; whatever git is told to overlook."""
    root = scratch.work_tree
    # What a submodule is at is named later; a file or link in its place is work like any other.
    paths = [
        path
        for path in (*seen.edited, *seen.added)
        if path.rstrip("/") not in seen.links or is_file(root / path)
    ]
    there = [path for path in paths if not behind_a_link(root, path) and is_file(root / path)]
    gone = sorted({*paths} - {*there})
    for start in range(0, len(gone), _BATCH):
        scratch.run("update-index", "--force-remove", "--", *gone[start : start + _BATCH])
    if there:
        listing = area / "paths"
        files.write_text(listing, "".join(f"{path}\0" for path in there))
        scratch.run("add", "--force", f"--pathspec-from-file={listing}", "--pathspec-file-nul")


def is_file(path: Path) -> bool:
    """Whether a file or link lies there."""
    return path.is_symlink() or path.is_file()


def _commit_staged(git: Git, seen: Survey, base: str | None, tree: str, area: Path) -> str | None:
    """A commit of its own for staged versions that the files have left behind; usually there are none."""
    if base is None or not seen.edited:
        return base
    touched = {*seen.edited, *seen.added}
    staged = states.raw_changes(
        git.records("diff-index", "--cached", "-z", "--raw", "--no-renames", "--ignore-submodules=all", base)
    )
    after = states.tree(git, tree)
    behind = [
        f"{new[0]},{new[1]},{path}"
        for path, (_, new) in staged.items()
        if new is not None and path in touched and path not in seen.links and after.get(path) != new
    ]
    if not behind:
        return base
    scratch = Git(git.git_dir, git.work_tree, git.log, area / "staged")
    scratch.run("read-tree", base)
    for start in range(0, len(behind), _BATCH):
        words = [word for entry in behind[start : start + _BATCH] for word in ("--cacheinfo", entry)]
        scratch.run("update-index", "--add", "--replace", *words)
    return _commit_index(scratch, base, _STAGED_SUBJECT)


def _name_submodules(
    scratch: Git,
    node: Node,
    base: str | None,
    surveys: Surveys,
    commits: dict[str, str],
) -> None:
    """Let the kept commit name the kept commits of its submodules, and ours where the user did nothing."""
    named = states.gitlinks(scratch, base) if base is not None else {}
    for path, (child, seen) in surveys.items():
        inner = path.removeprefix(f"{node.path}/" if node.path else "")
        if path == node.path or not path.startswith(f"{node.path}/" if node.path else ""):
            continue
        if any(inner.startswith(f"{other}/") for other in named):
            continue  # a submodule of a submodule
        moved = seen.head if seen.head not in seen.state.known else named.get(inner)
        target = commits.get(child.path, moved)
        if target is not None:
            scratch.run("update-index", "--add", "--cacheinfo", f"160000,{target},{inner}")
