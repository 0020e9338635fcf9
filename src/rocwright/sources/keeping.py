"""Puts the work that lies in a checkout on a branch: commits made through an index of their own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rocwright.errors import CommandFailed, RocwrightError, UsageError
from rocwright.sources.tree import state as states
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import Survey
from rocwright.sources.tree.survey import behind_a_link
from rocwright.sources.tree.whole import Surveys
from rocwright.system import files
from rocwright.system.git import Git

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
