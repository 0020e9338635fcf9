"""Patch files: reads a directory of them, writes local commits as one, and replays them on a commit.

A directory holds a folder for each checkout, in it `NNNN-subject.patch` for the project and a folder for each
submodule, at its path.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from email.header import decode_header, make_header
from email.parser import BytesHeaderParser
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, InvalidPatch, RocwrightError, UsageError, see_who_may_read
from rocwright.sources.tree import state as states
from rocwright.sources.tree import whole
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import Survey
from rocwright.system import files, git
from rocwright.system.git import Git

# The first line of what `save_patches` writes: the id is left out, so that equal commits give equal bytes.
_OURS = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001\n"
_MAIL_BEGINS = re.compile(rb"^From \S+ .*\d\d:\d\d:\d\d \d{4}\r?$", re.MULTILINE)
_DIFF_BEGINS = re.compile(rb"^(diff --git |--- \S)", re.MULTILINE)
_ADVICE = (
    "make it with `git format-patch`, or commit the change in a checkout and run "
    "`rocwright sources save-patches`"
)
_FORMAT = (
    "format-patch", "--quiet", "--binary", "--full-index", "--zero-commit", "--no-signature", "--no-stat",
    "--no-numbered", "--find-renames", "--diff-algorithm=myers", "--no-thread", "--no-cover-letter",
    "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--filename-max-length=64",
)  # fmt: skip


class Patch(msgspec.Struct, frozen=True):
    """One patch file; `repository` is the path of the submodule it is for, "" for the project.

    A file may hold several patches one after the other; `subject` is that of the first.
    """

    path: str
    repository: str
    subject: str
    sha256: str


def read_patches(directory: Path, folder: str) -> tuple[Patch, ...]:
    """The patches for the checkout folder `folder` below `directory`, in the order of their names.

    Those of submodules come first, the project's own last. Nothing for this folder is fine.

    Raises `UsageError` for a directory that is none or holds patches outside of a folder, `InvalidPatch`
    for a file that is empty, cannot be read, or does not say whose change it is and when it was made.
    """
    if not directory.is_dir():
        raise UsageError(
            f"there is no directory {directory}", next_step="give the one that holds the patches"
        )
    loose = sorted(path.name for path in directory.glob("*.patch"))
    if loose:
        raise UsageError(
            f"{directory} has patches outside of any folder: {', '.join(loose[:3])}",
            where=directory,
            next_step=f"put them into a folder named like the checkout: {directory / folder}",
        )
    root = directory / folder
    if not root.is_dir():
        return ()
    found = [path for path in files.walk_files(root) if path.suffix == ".patch" and path.is_file()]
    read = [_read_patch(path, path.parent.relative_to(root).as_posix()) for path in found]
    return tuple(sorted(read, key=lambda patch: (patch.repository == "", patch.repository, patch.path)))


def _read_patch(path: Path, repository: str) -> Patch:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidPatch(
            f"cannot read {path.name}: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
    if not data.strip():
        raise InvalidPatch(f"{path.name} is empty", where=path, next_step=_ADVICE)
    starts = [match.start() for match in _MAIL_BEGINS.finditer(data)]
    if not starts or data[: starts[0]].strip():
        starts.insert(0, 0)
    mails = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    subjects = [_check_mail(path, mail) for mail in mails]
    return Patch(
        path=str(path.resolve()),
        repository="" if repository == "." else repository,
        subject=subjects[0],
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _check_mail(path: Path, mail: bytes) -> str:
    """The subject of one patch; raises for one that cannot become a commit, or not the same one twice."""
    lines = mail.splitlines(keepends=True)
    header = BytesHeaderParser().parsebytes(b"".join(lines[1:] if mail.startswith(b"From ") else lines))
    lacking = [name for name in ("From", "Date") if not header.get(name)]
    if lacking:
        raise InvalidPatch(
            f"{path.name} is not a patch that git made: its header lacks {' and '.join(lacking)}",
            where=path,
            next_step=_ADVICE,
        )
    if _DIFF_BEGINS.search(mail) is None:
        raise InvalidPatch(f"{path.name} changes nothing", where=path, next_step=_ADVICE)
    try:
        subject = str(make_header(decode_header(str(header.get("Subject", "")))))
    except (UnicodeDecodeError, LookupError):
        subject = str(header.get("Subject", ""))
    return re.sub(r"^\[PATCH[^]]*\]\s*", "", " ".join(subject.split()))


# --- saving ---


class _Commits(msgspec.Struct, frozen=True):
    """The commits of one repository that are to be saved: those above `base`, up to `top`."""

    node: Node
    base: str
    top: str
    ids: tuple[str, ...]


def save_patches(directory: Path, out: Path) -> tuple[Path, ...]:
    """Write the local commits of a checkout and its submodules as patch files below `out`.

    Local are those above `THEROCK_HIPIFY_DIFFBASE`, or `THEROCK_UPSTREAM_DIFFBASE` where there was no
    hipify; those that change no file are left out. Equal commits give equal bytes. Patches of an earlier
    time in the same folder are replaced; empty when there is nothing to save. What is written is proven
    first: replayed, it gives the same files.

    Raises `UsageError` for a directory without these tags, and for patches in the folder that were not
    written by this function; `RocwrightError` for merges and for commits that no patch can carry.
    """
    place = directory.expanduser().resolve()
    if not (place / ".git" / "HEAD").is_file():
        raise UsageError(
            f"{directory} is not a checkout",
            where=directory,
            next_step="name the directory of one: rocwright sources save-patches DIR",
        )
    target = out.expanduser().resolve() / place.name
    with git.exclusive(place / ".git"):
        surveys = whole.survey_tree(Node(Git(place / ".git", place), "", "", ""), jobs=4)
        found = {path: _local_commits(node, seen) for path, (node, seen) in surveys.items()}
        for each in found.values():
            _refuse_foreign_submodules(each, found)
        earlier = _earlier(target)
        area = place / ".git" / "rocwright" / "save"
        files.remove_tree(area)
        try:
            made: list[Path] = []
            for path, commits in sorted(found.items()):
                made += _write(commits, area, path)
            written = [_put(file, target / file.relative_to(area)) for file in made]
        finally:
            files.remove_tree(area)
    for stale in {*earlier} - {*written}:
        stale.unlink()
        states.remove_empty_parents(stale, target.parent)
    return tuple(written)


def _put(file: Path, target: Path) -> Path:
    with files.atomic_write(target) as stream:
        stream.write(file.read_bytes())
    return target


def _earlier(target: Path) -> list[Path]:
    """The patches of an earlier time; raises when one has another origin, because it would be lost."""
    if not target.is_dir():
        return []
    found = [path for path in files.walk_files(target) if path.suffix == ".patch"]
    for path in found:
        if path.is_symlink() or not path.read_bytes().startswith(_OURS):
            raise UsageError(
                f"{path} was not written by save-patches and would be replaced",
                where=path,
                next_step="move it away, or apply it first (checkout --patches), or save elsewhere",
            )
    return found


def _local_commits(node: Node, seen: Survey) -> _Commits:
    base = seen.hipify_tag or seen.upstream_tag
    if base is None or seen.head is None:
        raise UsageError(
            f"{node.git.work_tree} has no tag THEROCK_UPSTREAM_DIFFBASE to tell local commits by",
            where=node.git.work_tree,
            next_step="run checkout first",
        )
    state, top = seen.state, seen.head
    below = base
    if state.head == "upstream" and state.upstream is not None and state.tip is not None:
        below = state.upstream
    if not _contains(node.git, below, top):
        raise RocwrightError(
            f"HEAD of {node.git.work_tree} is not above {below[:12]}, the base of local commits",
            where=node.git.work_tree,
            next_step=f"bring your commits there: git rebase {below[:12]}",
        )
    if below != base or state.head == "upstream":
        # HEAD stays at the upstream commit while the files are those of the tip: so are local commits.
        top = _lifted(node.git, _listed(node, below, top), state.tip or base)
    return _Commits(node, base, top, _listed(node, base, top))


def _contains(repository: Git, commit: str, top: str) -> bool:
    return repository.run("merge-base", commit, top, ok=(0, 1)).strip() == commit


def _listed(node: Node, base: str, top: str) -> tuple[str, ...]:
    """The commits above `base`, oldest first; raises for merges."""
    commits = node.git.run(
        "rev-list", "--reverse", "--topo-order", "--parents", f"{base}..{top}"
    ).splitlines()
    merges = [line.split()[0] for line in commits if line.count(" ") > 1]
    if merges:
        subject = node.git.run("show", "--no-patch", "--format=%h %s", merges[0]).strip()
        raise RocwrightError(
            f"a merge cannot be a patch: {subject}",
            where=node.git.work_tree,
            next_step=f"make the commits a line: git rebase {base[:12]}",
        )
    return tuple(line.split()[0] for line in commits)


def _lifted(repository: Git, commits: tuple[str, ...], onto: str) -> str:
    """The same files, messages and authors as commits above `onto`."""
    top = onto
    for commit in commits:
        fields = repository.run(
            "show", "--no-patch", "--format=%an%x00%ae%x00%ad%x00%B", "--date=raw", commit
        )
        name, address, date, message = fields.split("\0", 3)
        env = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": date}
        env |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address, "GIT_COMMITTER_DATE": date}
        words = ("commit-tree", f"{commit}^{{tree}}", "-p", top, "-m", message.strip())
        top = repository.run(*words, env=env).strip()
    return top


def _refuse_foreign_submodules(commits: _Commits, found: dict[str, _Commits]) -> None:
    """Raise when commits move a submodule to something that its own patches do not give."""
    repository = commits.node.git
    after = states.gitlinks(repository, commits.top)
    for path, before in states.gitlinks(repository, commits.base).items():
        inside = found.get(f"{commits.node.path}/{path}" if commits.node.path else path)
        held = {before}
        if inside is not None:
            # Where HEAD stays upstream, the index names the upstream commits of submodules.
            held |= {inside.base, *inside.ids, states.load(inside.node.git).upstream or before}
        if after.get(path) not in held:
            raise RocwrightError(
                f"a local commit moves submodule {path}, which no patch can carry",
                where=repository.work_tree,
                next_step="commit inside the submodule instead; its commits become patches of their own",
            )


def _write(commits: _Commits, area: Path, path: str) -> list[Path]:
    """Write the patches of one repository below `area`, and prove that they give the same files."""
    if not commits.ids:
        return []
    where = area / path
    where.mkdir(parents=True, exist_ok=True)
    repository = commits.node.git
    repository.run(*_FORMAT, f"--output-directory={where}", f"{commits.base}..{commits.top}")
    made = _numbered(sorted(file for file in where.iterdir() if file.suffix == ".patch"))
    again = replay(repository, commits.base, made)
    differing = states.difference(repository, commits.top, again)
    if differing:
        raise RocwrightError(
            f"as patches these commits would not give the same files: {', '.join(sorted(differing)[:5])}",
            where=os.fspath(repository.work_tree),
            next_step="look for lines in a commit message that look like a patch, and reword it",
        )
    return made


def _numbered(made: list[Path]) -> list[Path]:
    """The patches without those of commits that change no file (only entries of submodules, or nothing)."""
    kept: list[Path] = []
    for file in made:
        if file.stat().st_size == 0:
            file.unlink()
            continue
        number = f"{len(kept) + 1:04d}-"
        kept.append(file.rename(file.with_name(number + file.name.split("-", 1)[1])))
    return kept


# --- replaying: without touching a checkout, in a repository for the moment ---

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
