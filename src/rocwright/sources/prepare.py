"""The whole way of a locked source: checkout, hipify, patches; and of all projects of a lock side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import msgspec

from rocwright.errors import IntegrityError, Interrupted, RocwrightError, UsageError
from rocwright.sources.apply_patches import PatchedTree, apply_patches, has_patches
from rocwright.sources.aside import REFUSE, KeptWork, Work
from rocwright.sources.checkout import Checkout, checked_out
from rocwright.sources.hipify import HipifiedTree, hipify
from rocwright.sources.lock import LockedSource, Outcome, SourceLock
from rocwright.sources.mirror import Mirrors
from rocwright.sources.patch_files import Patch, read_patches
from rocwright.sources.plan import PLATFORM
from rocwright.sources.tree import state as states
from rocwright.sources.tree.state import Head
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system.git import Git
from rocwright.system.parallel import ready_for_threads


class Prepared(msgspec.Struct, frozen=True):
    """A project whose sources are as locked.

    `hipified` is `None` where the lock does not want hipify, `patched` where there are no patches. `kept` is
    what became of work that was in the way.
    """

    checkout: Checkout
    hipified: HipifiedTree | None
    patched: PatchedTree | None
    outcome: Outcome
    kept: tuple[KeptWork, ...]


class FamilyFailed(RocwrightError):
    """Some projects could not be prepared; what became of the others is kept.

    `lock` has the outcomes of those that succeeded, `prepared` their trees, `errors` what failed. The exit
    code is that of the first failure.
    """

    def __init__(
        self, lock: SourceLock, prepared: dict[str, Prepared], errors: dict[str, RocwrightError]
    ) -> None:
        first = next(iter(errors.values()))
        if len(errors) == 1:
            super().__init__(
                f"{next(iter(errors))}: {first.what}", where=first.where, next_step=first.next_step
            )
        else:
            told = "".join(f"\n  {name}: {_indented(error)}" for name, error in errors.items())
            steps = {error.next_step or error.usual_step for error in errors.values()}
            super().__init__(
                f"{len(errors)} of {len(lock.sources)} projects failed:{told}",
                next_step=steps.pop() if len(steps) == 1 else "try one alone: rocwright checkout PROJECT",
            )
        self.exit_code = first.exit_code
        self.lock = lock
        self.prepared = prepared
        self.errors = errors


def _indented(error: RocwrightError) -> str:
    """The message below a project's name; what to do next stands below all of them."""
    return "\n    ".join(line for line in str(error).splitlines() if not line.startswith("  next: "))


def prepare(
    locked: LockedSource,
    directory: Path,
    *,
    head: Head = "tip",
    patches: Path | None = None,
    jobs: int = 10,
    depth: int | None = None,
    mirrors: Mirrors | None = None,
    work: Work = REFUSE,
    python: Path | None = None,
    watch: Watch = NOBODY,
    log: Path | None = None,
    platform: str = PLATFORM,
) -> Prepared:
    """Bring one project to its locked commit, hipify it as locked, apply the patches below `patches`.

    Patches that were applied earlier and are not wanted any more are taken away. The result has to be what
    the lock says became of it, where it says so.

    Raises whatever checkout, hipify and patches raise, and `IntegrityError` when the result differs from
    the lock's.
    """
    # Patches that cannot be read stop everything before anything is touched.
    wanted = _patches_for(locked, directory, patches) if patches is not None else ()
    brought = checked_out(
        locked, directory, jobs=jobs, depth=depth, mirrors=mirrors, work=work, watch=watch, log=log,
        platform=platform,
    )  # fmt: skip
    done = brought.checkout
    hipified = None
    if locked.hipify:
        hipified = hipify(
            done,
            head=head,
            hip_clang=locked.hip_clang,
            python=python,
            jobs=jobs,
            mirrors=mirrors,
            watch=watch,
            work=work,
            log=log,
            surveys=brought.surveys,
        )
    place = Path(done.directory)
    patched = None
    if wanted or has_patches(place):
        patched = apply_patches(done, wanted, head=head, jobs=jobs, work=work, watch=watch, log=log)
    outcome = _outcome(place, hipified)
    if locked.outcome is not None:
        _compare(locked, outcome, place, patched=bool(wanted))
    kept = tuple(each for part in (done, hipified, patched) if part is not None for each in part.kept)
    return Prepared(done, hipified, patched if wanted else None, outcome, kept)


def _patches_for(locked: LockedSource, directory: Path, patches: Path) -> tuple[Patch, ...]:
    """The patches in the folder named like the checkout, else like the project's usual one."""
    own = directory.expanduser().resolve().name
    return read_patches(patches, own if (patches / own).is_dir() else locked.directory)


def _outcome(place: Path, hipified: HipifiedTree | None) -> Outcome:
    state = states.load(Git(place / ".git", place))
    assert state.tip is not None
    if hipified is None or hipified.script is None:
        return Outcome(state.tip)
    return Outcome(state.tip, state.hipify, hipified.rules, hipified.python)


def _compare(locked: LockedSource, found: Outcome, place: Path, *, patched: bool) -> None:
    """Raise when a replay became something else, with every difference that may be the reason."""
    said = locked.outcome
    assert said is not None
    if found.tip == said.tip:
        return
    reasons = []
    if found.hipify_commit != said.hipify_commit:
        reasons.append(f"hipify made {_short(found.hipify_commit)}, not {_short(said.hipify_commit)}")
        if found.rules != said.rules:
            reasons.append("the hipify script or its modules differ")
        if found.python != said.python:
            reasons.append(f"Python {found.python} ran it, not {said.python}")
    elif patched:
        reasons.append("the patches, or their order, are not those that were applied")
    elif said.tip != (said.hipify_commit or locked.commit):
        reasons.append("the lock was made with patches on top; give the same with --patches DIR")
    why = "".join(f"\n    {reason}" for reason in reasons)
    raise IntegrityError(
        f"{locked.project} became {_short(found.tip)}, the lock says {_short(said.tip)}:{why}",
        where=place,
        next_step="use what the lock was made with, or lock again to accept the new result",
    )


def _short(commit: str | None) -> str:
    return commit[:12] if commit is not None else "nothing"


# --- all projects ---


def prepare_family(
    lock: SourceLock,
    directories: Mapping[str, Path],
    *,
    head: Head = "tip",
    patches: Path | None = None,
    jobs: int = 10,
    depth: int | None = None,
    mirrors: Mirrors | None = None,
    work: Work = REFUSE,
    python: Path | None = None,
    watch: Watch = NOBODY,
    log: Path | None = None,
) -> tuple[SourceLock, dict[str, Prepared]]:
    """Prepare every source of the lock side by side; returns the lock with what became of them.

    About `jobs` fetches run at a time over all projects; the first, which has most submodules, gets those
    that the others do not need. One failure does not stop the others.

    Raises `FamilyFailed` with all failures and the lock as far as it came; `Interrupted` at once.
    """
    places = {source.project: directories[source.project] for source in lock.sources}
    _refuse_shared(places)
    if patches is not None:
        _refuse_unused(lock, places, patches)
    side_by_side = max(1, min(jobs, len(lock.sources)))
    every = partial(
        prepare, head=head, patches=patches, depth=depth, mirrors=mirrors, work=work, python=python,
        watch=watch, log=log,
        # Paths have to fit where the sources are meant for, and here.
        platform="windows" if "windows" in (lock.platform, PLATFORM) else "linux",
    )  # fmt: skip
    shares = [max(1, jobs - side_by_side + 1), *([1] * len(lock.sources))]
    tasks = {
        source.project: _told(partial(every, source, places[source.project], jobs=share), source, watch)
        for source, share in zip(lock.sources, shares, strict=False)
    }
    watch.expect(len(tasks))
    prepared, errors = _run(tasks, side_by_side)
    done = tuple(
        msgspec.structs.replace(source, outcome=prepared[source.project].outcome)
        for source in lock.sources
        if source.project in prepared
    )
    result = lock.updated(msgspec.structs.replace(lock, sources=done))
    if errors:
        raise FamilyFailed(result, prepared, errors) from next(iter(errors.values()))
    return result, prepared


def _told(work: Callable[[], Prepared], source: LockedSource, watch: Watch) -> Callable[[], Prepared]:
    """Preparing one project, told to the watch from its beginning to its end."""

    def run() -> Prepared:
        watch.start(source.project)
        try:
            done = work()
        except RocwrightError:
            watch.end(source.project, "failed")
            raise
        parts = (done.checkout, done.hipified, done.patched)
        watch.end(source.project, "done" if any(part and part.changed for part in parts) else "cached")
        return done

    return run


def _run(
    tasks: Mapping[str, Callable[[], Prepared]], side_by_side: int
) -> tuple[dict[str, Prepared], dict[str, RocwrightError]]:
    """Results and failures by project, in the order of the tasks."""
    errors: dict[str, RocwrightError] = {}
    prepared: dict[str, Prepared] = {}
    ready_for_threads()
    pool = ThreadPoolExecutor(max_workers=side_by_side, thread_name_prefix="rocwright-sources")
    try:
        futures: dict[str, Future[Prepared]] = {name: pool.submit(task) for name, task in tasks.items()}
        pending = {*futures.values()}
        while pending:
            ended, pending = wait(pending, return_when=FIRST_EXCEPTION)
            for future in ended:
                error = future.exception()
                if error is not None and (isinstance(error, Interrupted) or not _is_ours(error)):
                    raise error
        for name, future in futures.items():
            problem = future.exception()
            if isinstance(problem, RocwrightError):
                errors[name] = problem
            else:
                prepared[name] = future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return prepared, errors


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, RocwrightError)


def _refuse_shared(places: Mapping[str, Path]) -> None:
    resolved = {name: place.expanduser().resolve() for name, place in places.items()}
    for name, place in resolved.items():
        for other, around in resolved.items():
            if name != other and place.is_relative_to(around):
                raise UsageError(
                    f"{name} would lie inside the checkout of {other}: {place}",
                    where=place,
                    next_step="name another place with --directory or --checkout-dir",
                )


def _refuse_unused(lock: SourceLock, places: Mapping[str, Path], patches: Path) -> None:
    """Raise when a directory of patches has nothing for any of the projects: it is the wrong one."""
    used = [bool(_patches_for(source, places[source.project], patches)) for source in lock.sources]
    if not any(used):
        folders = ", ".join(source.directory for source in lock.sources)
        raise UsageError(
            f"{patches} holds no patches for these projects",
            where=patches,
            next_step=f"put them into folders named like the checkouts: {folders}",
        )
