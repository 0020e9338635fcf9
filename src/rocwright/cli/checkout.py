"""`rocwright checkout | hipify`: sources at exact commits; their hipification, also where a checkout lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rocwright.cli import show_sources
from rocwright.cli.help import names_family
from rocwright.cli.options import Count
from rocwright.cli.reply import Reply, replies
from rocwright.cli.source_options import (
    Cache,
    Head,
    How,
    Leave,
    What,
    project_table,
)
from rocwright.errors import RocwrightError, UsageError
from rocwright.model.platforms import Platform, this_platform
from rocwright.model.project import ProjectTable
from rocwright.sources.aside import Work
from rocwright.sources.checkout import checked_out, found
from rocwright.sources.hipify import HipifiedTree
from rocwright.sources.hipify import hipify as hipify_tree
from rocwright.sources.lock import LOCK_NAME, LockedSource, SourceLock, read_lock, record_lock
from rocwright.sources.mirror import Mirrors
from rocwright.sources.plan import plan_checkout
from rocwright.sources.prepare import FamilyFailed, prepare_family
from rocwright.sources.resolve import Request, requests_for, resolve
from rocwright.system import console
from rocwright.system.progress import Progress

_WHAT, _HOW, _HEAD, _LEAVE, _CACHE = What(), How(), Head(), Leave(), Cache()


@names_family
@replies
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
) -> Reply:
    """Check projects out at exact commits, submodules included, and hipify them.

    Every branch is resolved to a commit first, and the commits are written to sources.lock.json. A checkout
    with changes or commits of yours is not touched: they are listed, and the exit code is 11.

    Parameters
    ----------
    projects
        {short}, projects of rocwright.toml, or all (the default).
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


@replies
def hipify(
    directory: Path,
    /,
    *,
    head: Head = _HEAD,
    hip_clang: bool = False,
    jobs: Count = 10,
    leave: Leave = _LEAVE,
    cache: Cache = _CACHE,
) -> Reply:
    """Hipify an existing checkout with its own script, on the pristine upstream files, as one commit.

    Any git clone will do. Its commit stays as it is; the result is the same wherever and however often it is
    made.

    Parameters
    ----------
    directory
        The checkout.
    hip_clang
        Let the script write kernel launches for hip-clang.
    jobs
        Repositories at once.
    json
        Print the result as JSON.
    """
    tree = hipified(directory, head=head, hip_clang=hip_clang, jobs=jobs, leave=leave, cache=cache)
    return show_sources.hipified_reply(tree)


def _require_locked(given: dict[str, bool]) -> None:
    more = [name for name, is_given in given.items() if is_given]
    if more:
        raise UsageError(
            f"--locked takes everything from the lock; {', '.join(more)} would override it",
            next_step="leave one of them out",
        )


@dataclass(frozen=True)
class Places:
    """Where checkouts and their lock lie: folders below `base`, or one project in `checkout_dir`."""

    base: Path
    checkout_dir: Path | None = None
    lock_file: Path | None = None

    @property
    def lock(self) -> Path:
        """The lock file: beside the checkouts where no other is named."""
        if self.lock_file is not None:
            return self.lock_file
        beside = self.base if self.checkout_dir is None else self.checkout_dir.expanduser().resolve().parent
        return beside / LOCK_NAME

    def of(self, locked: LockedSource) -> Path:
        """The directory of a locked project."""
        return self.checkout_dir or self.base / locked.directory

    def require_outside(self) -> None:
        """Raise `UsageError` where checkouts would lie inside one, as files that are not its own."""
        single = self.checkout_dir
        base = self.base.resolve() if single is None else single.expanduser().resolve().parent
        for place in (base, *base.parents):
            if (place / ".git" / "rocwright").is_dir():
                raise UsageError(
                    f"{base} lies inside the checkout {place}",
                    next_step=f"change to {place.parent}, or name a directory outside",
                )


@dataclass(frozen=True)
class SourceRequest:
    """Which commits are asked for, before anything is resolved."""

    names: tuple[str, ...]
    what: What
    platform: Platform
    line: str | None = None
    torch_dir: Path | None = None
    require_related_commit: bool = False
    release: bool = False

    def requests(self, table: ProjectTable) -> tuple[Request, ...]:
        """The requests; raises `UsageError` where options for one project meet several."""
        names = table.canonical(self.names)
        requests = requests_for(names, table, line=self.line, platform=self.platform)
        if len(requests) > 1:
            self._require_no_single_option()
        return tuple(self.what.of(request, release=self.release) for request in requests)

    def _require_no_single_option(self) -> None:
        single = [name for name in self.what.fixed() if name in ("--repo-hashtag", "--gitrepo-origin")]
        single += ["--release"] if self.release else []
        if single:
            raise UsageError(
                f"{' and '.join(single)} would apply to several projects at once",
                next_step="name one project, or choose a version for all of them with --pytorch-version",
            )

    def resolved(self, table: ProjectTable, places: Places, mirrors: Mirrors | None) -> SourceLock:
        """Every project at an exact commit; asks the repositories, checks nothing out."""
        requests = self.requests(table)
        if self.torch_dir is not None and not self.torch_dir.is_dir():
            # Without pins some projects would silently come from their default branches.
            raise UsageError(
                f"there is no directory {self.torch_dir} to read torch's pins from",
                next_step="name a checkout of torch with --torch-dir, or leave the option out",
            )
        # What was resolved is told afterwards, with its reasons.
        with Progress(total=0, starts=False, ends=False).shown() as progress:
            return resolve(
                requests,
                projects=table,
                torch_dir=self.torch_dir or places.base / table.get("torch").directory,
                require_related_commit=self.require_related_commit,
                platform=self.platform,
                mirrors=mirrors,
                watch=progress,
            )


def _record_what_came(lock: SourceLock, path: Path) -> None:
    """Record what succeeded beside a failure; where even that fails, the first failure is the one to tell."""
    try:
        record_lock(lock, path)
    except RocwrightError as error:
        console.say(f"warning: what succeeded is not recorded in {path}: {error.what}")


@dataclass(frozen=True)
class Run:
    """One run of a door: what `prepare_family` takes."""

    places: Places
    how: How
    head: Head
    work: Work
    mirrors: Mirrors | None

    def directories(self, lock: SourceLock) -> Mapping[str, Path]:
        """Where each project of the lock goes."""
        return {source.project: self.places.of(source) for source in lock.sources}

    def plan(self, lock: SourceLock) -> Reply:
        """What would be done."""
        plans = [
            plan_checkout(
                source,
                self.places.of(source),
                jobs=self.how.jobs,
                depth=self.how.depth,
                platform=lock.platform,
            )
            for source in lock.sources
        ]
        return show_sources.plans_reply(lock, plans, patches=self.how.patches)

    def act(self, lock: SourceLock, *, record: bool) -> Reply:
        """Bring every project to its commit; with `record` the lock file gets commits and outcomes."""
        path = self.places.lock
        if record:
            # Before anything happens: whatever becomes of the run, what was meant is written down.
            record_lock(lock, path)
        try:
            with Progress(total=0).shown() as progress:
                done, prepared = prepare_family(
                    lock,
                    self.directories(lock),
                    head=self.head.stays(),
                    patches=self.how.patches,
                    jobs=self.how.jobs,
                    depth=self.how.depth,
                    mirrors=self.mirrors,
                    work=self.work,
                    watch=progress,
                )
        except FamilyFailed as failed:
            if record:
                _record_what_came(failed.lock, path)
            if len(failed.errors) > 1:
                raise
            # Of a single problem its own class and exit code tell more.
            (problem,) = failed.errors.values()
            raise problem from None
        if record:
            record_lock(done, path)
        return show_sources.prepared_reply(done, prepared, path)


def hipified(
    directory: Path, *, head: Head, hip_clang: bool, jobs: int, leave: Leave, cache: Cache
) -> HipifiedTree:
    """Hipify what lies in a directory; nothing is fetched but submodules that are missing."""
    work, mirrors = leave.work(), cache.mirrors()
    locked = found(directory, project_table())
    with Progress(total=0).shown() as progress:
        tree = checked_out(locked, directory, jobs=jobs, mirrors=mirrors, work=work, watch=progress)
        done = hipify_tree(
            tree.checkout,
            head=head.stays(),
            hip_clang=hip_clang,
            jobs=jobs,
            mirrors=mirrors,
            work=work,
            watch=progress,
            surveys=tree.surveys,
        )
    return msgspec.structs.replace(done, kept=tree.checkout.kept + done.kept)
