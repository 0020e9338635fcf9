"""`rocwright checkout`."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli import show_sources
from rocwright.cli.answer import Answer, answers
from rocwright.cli.bring import Places, Run, SourceRequest
from rocwright.cli.source_options import (
    Cache,
    Head,
    How,
    Leave,
    What,
    project_table,
)
from rocwright.errors import UsageError
from rocwright.model.platforms import Platform, this_platform
from rocwright.sources.lock import read_lock

_WHAT, _HOW, _HEAD, _LEAVE, _CACHE = What(), How(), Head(), Leave(), Cache()


@answers
def checkout(
    *projects: str,
    pytorch_version: str | None = None,
    what: What = _WHAT,
    release: bool = False,
    torch_dir: Path | None = None,
    require_related_commit: bool = False,
    directory: Path = Path(),
    checkout_dir: Path | None = None,
    how: How = _HOW,
    head: Head = _HEAD,
    leave: Leave = _LEAVE,
    locked: bool = False,
    lock_file: Path | None = None,
    cache: Cache = _CACHE,
    platform: Platform | None = None,
    config: Path | None = None,
) -> Answer:
    """Check projects out at exact commits, submodules included, and hipify them.

    Every branch is resolved to a commit first, and the commits are written to sources.lock.json. A checkout
    that holds work of yours is not touched: the list of it is printed, and the exit code is 11.

    Parameters
    ----------
    projects
        torch, audio, vision, triton, apex, projects of rocwright.toml, or all (the default).
    pytorch_version
        A version of PyTorch, such as 2.9, nightly or main: decides torch's repository and branch.
    release
        Take triton's release branch for the version that torch names, instead of the pinned commit.
    torch_dir
        The torch checkout whose pins are read when torch itself is not asked for.
    require_related_commit
        Fail where torch pins no commit of a project.
    directory
        Where the checkouts go, each into its own folder, and their lock.
    checkout_dir
        Where a single project goes.
    locked
        Check out exactly what the lock says; nothing is resolved, and the lock is not written.
        --no-hipify and --no-submodules leave out a part.
    lock_file
        The lock (default: sources.lock.json beside the checkouts).
    platform
        linux or windows (default: this machine's).
    config
        A rocwright.toml with projects of your own.
    json
        Print the result as JSON.
    """
    how.require_sense()
    names = projects or ("all",)
    if checkout_dir is not None and (len(names) > 1 or names == ("all",)):
        raise UsageError("--checkout-dir is for one project", next_step="use --directory for several")
    run = Run(Places(directory, checkout_dir, lock_file), how, head, leave.work(), cache.mirrors())
    run.places.require_outside()
    table = project_table(config)
    if locked:
        _require_locked(
            {
                "--pytorch-version": pytorch_version is not None,
                "--release": release,
                "--torch-dir": torch_dir is not None,
                "--require-related-commit": require_related_commit,
                **dict.fromkeys(what.fixed(), True),
            }
        )
        lock = read_lock(run.places.lock).for_platform(platform or this_platform())
        wanted = table.canonical(names)
        lock = what.less(lock if wanted == ("all",) else lock.only(wanted))
    else:
        asked = SourceRequest(
            names,
            what,
            platform or this_platform(),
            line=pytorch_version,
            torch_dir=torch_dir,
            require_related_commit=require_related_commit,
            release=release,
        )
        lock = asked.resolved(table, run.places, None if how.dry_run else run.mirrors)
    if how.dry_run:
        return run.plan(lock)
    show_sources.say_lock(lock)
    return run.act(lock, record=not locked)


def _require_locked(given: dict[str, bool]) -> None:
    more = [name for name, is_given in given.items() if is_given]
    if more:
        raise UsageError(
            f"--locked takes everything from the lock; {', '.join(more)} would say otherwise",
            next_step="leave one of them out",
        )
