"""`rocwright sources`: locks of source commits, and patches on top of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli import show_sources
from rocwright.cli.checkout import Places, SourceRequest
from rocwright.cli.help import names_family
from rocwright.cli.reply import Reply, replies
from rocwright.cli.source_options import (
    Cache,
    What,
    project_table,
)
from rocwright.errors import UsageError
from rocwright.model.platforms import Platform, this_platform
from rocwright.sources.changes import Change, Log, commits_between, compare
from rocwright.sources.lock import LOCK_NAME, SourceLock, read_lock, record_lock
from rocwright.sources.patch_files import save_patches
from rocwright.system.git import Git

_WHAT, _CACHE = What(), Cache()


@names_family
@replies
def lock(
    *projects: str,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    pytorch_version: str | None = None,
    what: What = _WHAT,
    release: bool = False,
    torch_dir: Path | None = None,
    require_related_commit: bool = False,
    directory: Path = Path(),
    cache: Cache = _CACHE,
    platform: Platform | None = None,
    config: Path | None = None,
) -> Reply:
    """Resolve each project to a commit, and write the lock; nothing is checked out.

    Projects of an existing lock that are not named stay as they are.

    Parameters
    ----------
    projects
        {short}, projects of rocwright.toml, or all (the default).
    output
        The lock (default: sources.lock.json in the directory of the checkouts).
    pytorch_version
        A version of PyTorch, such as 2.9, nightly or main: decides torch's repository and branch.
    release
        Take triton's release branch for the version that torch names, instead of the pinned commit.
    torch_dir
        The torch checkout whose pins are read when torch itself is not asked for.
    require_related_commit
        Fail where torch pins no commit of a project.
    directory
        Where the checkouts are or will be.
    platform
        linux or windows (default: this machine's).
    config
        A rocwright.toml with projects of your own.
    json
        Print the lock as JSON.
    """
    places = Places(directory, None, output)
    wanted = SourceRequest(
        projects or ("all",),
        what,
        platform or this_platform(),
        line=pytorch_version,
        torch_dir=torch_dir,
        require_related_commit=require_related_commit,
        release=release,
    )
    resolved = wanted.resolved(project_table(config), places, cache.mirrors())
    whole = record_lock(resolved, places.lock)
    return Reply(whole, lambda: show_sources.show_lock(whole, places.lock))


@replies
def show(
    lock: Path = Path(LOCK_NAME),
    /,
) -> Reply:
    """Show a lock: every project's repository, branch and commit, and why that commit.

    Parameters
    ----------
    lock
        The lock, or the directory that holds it.
    json
        Print it as JSON.
    """
    path, held = _read(lock)
    return Reply(held, lambda: show_sources.show_lock(held, path))


@replies
def diff(
    old: Path,
    new: Path,
    /,
    *,
    exit_code: bool = False,
    cache: Cache = _CACHE,
) -> Iterator[Reply]:
    """Compare two locks: projects that came, went or moved, and the commits between.

    Commits are counted where a checkout beside one of the locks, or a mirror, has them.

    Parameters
    ----------
    old
        A lock, or the directory that holds it.
    new
        Another.
    exit_code
        End with exit code 1 when they differ.
    json
        Print the differences as JSON.
    """
    (old_path, before), (new_path, after) = _read(old), _read(new)
    changes = compare(before, after)
    logs = {
        change.project: _log(change, (old_path.parent, new_path.parent), (before, after), cache)
        for change in changes
    }
    rows = [{"change": change, "commits": logs[change.project]} for change in changes]
    yield Reply({"changes": rows}, lambda: show_sources.show_changes(changes, logs))
    if exit_code and changes:
        raise SystemExit(1)


def _read(path: Path) -> tuple[Path, SourceLock]:
    path = path / LOCK_NAME if path.is_dir() else path
    return path, read_lock(path)


def _log(change: Change, beside: tuple[Path, ...], locks: tuple[SourceLock, ...], cache: Cache) -> Log | None:
    """The commits between, from whatever repository of this machine has both."""
    if change.old_commit is None or change.new_commit is None or change.old_commit == change.new_commit:
        return None
    names = {each.directory for held in locks for each in held.sources if each.project == change.project}
    places = [folder.resolve() / name for folder in beside for name in sorted(names)]
    repositories = [Git(place / ".git", place) for place in places if (place / ".git" / "HEAD").is_file()]
    mirrors = cache.mirrors()
    origin = change.new_origin or change.old_origin or ""
    mirror = None if mirrors is None else mirrors.repository(origin)
    repositories += [] if mirror is None else [mirror]
    return commits_between(origin, change.old_commit, change.new_commit, repositories)


@replies
def save(
    directory: Path,
    /,
    *,
    output_dir: Annotated[Path, Parameter(name=["--output-dir", "--patch-dir"])] = Path("patches"),
) -> Reply:
    """Write your commits in a checkout, and in its submodules, as patch files.

    These are the commits above THEROCK_HIPIFY_DIFFBASE, or above THEROCK_UPSTREAM_DIFFBASE where nothing was
    hipified. `rocwright checkout --patches` applies them again.

    Parameters
    ----------
    directory
        The checkout.
    output_dir
        Where the patches go, in a folder named after the checkout's; earlier ones are replaced.
    json
        Print the paths as JSON.
    """
    return show_sources.saved_reply(save_patches_of(directory, output_dir))


def save_patches_of(directory: Path, output_dir: Path) -> tuple[Path, ...]:
    """`save_patches` of a directory that must be a checkout."""
    if not (directory / ".git").exists():
        raise UsageError(f"{directory} is not a git checkout", next_step="name the directory of a checkout")
    return save_patches(directory, output_dir)
