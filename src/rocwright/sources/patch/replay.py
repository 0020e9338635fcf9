"""Replays patch files on a commit without touching a checkout: in a repository for the moment.

`git am` itself does it, so everything it understands works: renames, modes, binary files. It finds the files
it needs in an index and writes them into an empty directory; the commits go into the real repository.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rocwright.errors import CommandFailed, InvalidPatch
from rocwright.sources.tree import state as states
from rocwright.system import files, git
from rocwright.system.git import Git

_COMMITTER = {"GIT_COMMITTER_NAME": "rocwright", "GIT_COMMITTER_EMAIL": "rocwright@localhost"}
_AM = (
    "am", "--quiet", "--patch-format=mbox", "--keep-cr", "--keep-non-patch", "--no-3way", "--no-gpg-sign",
    "--committer-date-is-author-date",
)  # fmt: skip


def replay(repository: Git, base: str, patches: Sequence[Path]) -> str:
    """The last commit of `patches` (mail format), applied in order on `base`.

    Authors and their dates come from the patches, the committer is fixed and dated like the author: the
    same patches on the same commit give the same ids everywhere. Nothing but objects is written.

    Raises `InvalidPatch` naming the patch and each file and line that does not fit.
    """
    area = repository.git_dir / "rocwright" / "replay"
    files.remove_tree(area)
    try:
        scratch = _scratch(repository, area, base)
        env = {**_COMMITTER, "GIT_OBJECT_DIRECTORY": str(repository.git_dir.resolve() / "objects")}
        scratch.run("update-ref", "--no-deref", "HEAD", base, env=env)
        scratch.run("read-tree", base, env=env)
        for patch in patches:
            try:
                scratch.run(*_AM, "--", str(patch.resolve()), env=env)
            except CommandFailed as error:
                raise _refusal(scratch, patch, base, error, env) from error
        made = scratch.run("rev-parse", "HEAD", env=env).strip()
        _refuse_moved_submodules(repository, base, made, patches)
        return made
    finally:
        files.remove_tree(area)


def _scratch(repository: Git, area: Path, base: str) -> Git:
    scratch = git.scratch(area / "git", area / "files", base, log=repository.log)
    shallow = repository.git_dir / "shallow"
    if shallow.is_file():
        # History ends here; without this git would look for the parents.
        (scratch.git_dir / "shallow").write_bytes(shallow.read_bytes())
    return scratch


def _refusal(scratch: Git, patch: Path, base: str, error: CommandFailed, env: dict[str, str]) -> InvalidPatch:
    """What does not fit, from the words of git."""
    current = scratch.git_dir / "rebase-apply" / "patch"
    if current.is_file() and current.stat().st_size and _reverts(scratch, current, env):
        return InvalidPatch(
            f"{patch.name} is in the sources already (on {base[:12]})",
            where=patch,
            next_step="remove it from the patches; the checkout is as it was",
        )
    lines = error.tail.splitlines()
    hunks = [
        f"{found[1]}, hunk at line {found[2]}"
        for line in lines
        if (found := re.fullmatch(r"error: patch failed: (.+):(\d+)", line))
    ]
    others = [
        line.removeprefix("error: ")
        for line in lines
        if line.startswith("error: ")
        and not re.search(r"patch failed: |: patch does not apply$|could not build fake ancestor", line)
    ]
    reasons = [*hunks, *others] or [line.removeprefix("fatal: ") for line in lines if line.strip()][:3]
    listing = "".join(f"\n    {reason}" for reason in reasons[:10])
    return InvalidPatch(
        f"{patch.name} does not apply on {base[:12]}:{listing}",
        where=patch,
        next_step="make it again for these sources (check out, change by hand, commit, save-patches) or "
        "leave it out; the checkout is as it was",
    )


def _reverts(scratch: Git, patch: Path, env: dict[str, str]) -> bool:
    try:
        scratch.run("apply", "--cached", "--check", "--reverse", str(patch), env=env)
    except CommandFailed:
        return False
    return True


def _refuse_moved_submodules(repository: Git, base: str, made: str, patches: Sequence[Path]) -> None:
    before, after = states.gitlinks(repository, base), states.gitlinks(repository, made)
    moved = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if moved:
        raise InvalidPatch(
            f"the patches move submodules, which no patch can carry: {', '.join(moved)}",
            where=patches[0].parent,
            next_step="keep the commits of a submodule as patches in a folder of its path",
        )
