"""Brings a project to its locked commit: fetches exactly it, populates submodules, tags; loses no work.

Everything is fetched and looked at before the first file moves, so that a server that does not answer or a
file in the way leaves the checkout as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from rocwright.sources.bring import populate
from rocwright.sources.bring.plan import PLATFORM, decide, usable
from rocwright.sources.fetch.mirror import Mirrors
from rocwright.sources.lock import LockedSource
from rocwright.sources.tree import whole
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.whole import Surveys
from rocwright.sources.watch import NOBODY, Watch
from rocwright.sources.work.aside import REFUSE, KeptWork, Work, set_aside
from rocwright.system import git
from rocwright.system.git import Git


class PinnedSubmodule(msgspec.Struct, frozen=True):
    """A populated submodule: `path` from the top of the checkout, address, upstream commit."""

    path: str
    origin: str
    commit: str


class Checkout(msgspec.Struct, frozen=True):
    """A project at its commit.

    `commit` and `tree` are upstream's, also where a hipify commit lies on top. `changed` is false when
    everything was in place and only verified. `kept` says what became of work that lay there.
    """

    project: str
    directory: str
    origin: str
    commit: str
    tree: str
    submodules: tuple[PinnedSubmodule, ...]
    changed: bool
    kept: tuple[KeptWork, ...] = ()


@dataclass(frozen=True)
class CheckedOut:
    """A checkout, and what a look at its repositories found: `None` where something moved since."""

    checkout: Checkout
    surveys: Surveys | None


def checkout(
    locked: LockedSource,
    directory: Path,
    *,
    jobs: int = 10,
    depth: int | None = None,
    mirrors: Mirrors | None = None,
    work: Work = REFUSE,
    watch: Watch = NOBODY,
    log: Path | None = None,
    platform: str = PLATFORM,
) -> Checkout:
    """Bring `directory` to the locked commit.

    Fetches one commit per repository, no tags, at most `jobs` submodules at a time; `depth` limits the
    history of what is newly fetched. Detaches HEAD and tags `THEROCK_UPSTREAM_DIFFBASE` here and in every
    submodule. A tree that is in place, hipified and patched or not, is only verified. An interrupted run is
    resumed.

    Raises `UnsavedWork` when the directory holds commits or changes that are not ours and `work` does not
    say what becomes of them, `Unreachable` when a commit cannot be had, `UsageError` for an unusable
    directory; the files are as they were then.
    """
    return checked_out(
        locked, directory, jobs=jobs, depth=depth, mirrors=mirrors, work=work, watch=watch, log=log,
        platform=platform,
    ).checkout  # fmt: skip


def checked_out(
    locked: LockedSource,
    directory: Path,
    *,
    jobs: int = 10,
    depth: int | None = None,
    mirrors: Mirrors | None = None,
    work: Work = REFUSE,
    watch: Watch = NOBODY,
    log: Path | None = None,
    platform: str = PLATFORM,
) -> CheckedOut:
    """As `checkout`; where nothing moved it hands on what it saw, so that nobody has to look again."""
    place = usable(directory)
    with git.exclusive(place / ".git"):
        plan, surveys = decide(locked, place, jobs, depth, log)
        kept = set_aside(surveys, work, place, watch=watch)
        if kept:
            plan, surveys = decide(locked, place, jobs, depth, log)
        main = Node(Git(place / ".git", place, log), "", locked.origin, locked.commit)
        if plan.action == "verify":
            nodes = [main, *(whole.descendants(main, surveys) if plan.submodules else [])]
        else:
            targets = populate.fetch(main, plan, locked, surveys, mirrors, watch)
            if platform == "windows":
                whole.refuse_long_paths(place, populate.paths(targets), hipify=locked.hipify)
            targets, more = populate.cleared(targets, surveys, work, place, watch, jobs)
            kept += more
            nodes = populate.apply(targets, plan, locked)
        done = Checkout(
            project=locked.project,
            directory=str(place),
            origin=locked.origin,
            commit=locked.commit,
            tree=main.git.run("rev-parse", f"{locked.commit}^{{tree}}").strip(),
            submodules=tuple(PinnedSubmodule(n.path, n.url, n.commit) for n in nodes if n.path),
            changed=plan.action != "verify",
            kept=kept,
        )
        return CheckedOut(done, surveys if plan.action == "verify" and not kept else None)
