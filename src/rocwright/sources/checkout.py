"""Brings a project to its locked commit: fetches exactly it, populates submodules, tags; loses no work.

Everything is fetched and looked at before the first file moves, so that a server that does not answer or a
file in the way leaves the checkout as it was. What a checkout of earlier days is at, `found` tells.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocwright.errors import UsageError
from rocwright.model.project import Project, ProjectTable
from rocwright.sources import populate
from rocwright.sources.aside import REFUSE, KeptWork, Work, set_aside
from rocwright.sources.lock import LockedSource
from rocwright.sources.mirror import Mirrors
from rocwright.sources.plan import BUILD_ENV, PLATFORM, decide, usable
from rocwright.sources.tree import state as states
from rocwright.sources.tree import whole
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import UPSTREAM_TAG
from rocwright.sources.tree.whole import Surveys
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import git
from rocwright.system.git import Git, is_repository


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


class CheckedOut(msgspec.Struct, frozen=True):
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


# -- a checkout that is there already


def found(directory: Path, projects: ProjectTable) -> LockedSource:
    """The upstream commit of the checkout in `directory`, with its submodules if any is populated.

    Upstream is what an earlier checkout wrote down, then what `THEROCK_UPSTREAM_DIFFBASE` names where HEAD
    is a descendant of it, then HEAD. Nothing is changed and nothing asked of a server.

    Raises `UsageError` for a directory that is no checkout, or one without any commit.
    """
    place = directory.expanduser().resolve()
    if (place / ".git").is_file():
        raise UsageError(
            f"{place} is a work tree or submodule of another repository",
            where=place,
            next_step="name the directory that holds the repository, or a clone",
        )
    if not is_repository(place / ".git"):
        raise UsageError(
            f"{place} is not a git checkout",
            where=place,
            next_step="make one with `rocwright checkout`, or name the directory that holds its .git",
        )
    repository = Git(place / ".git", place)
    commit = states.load(repository).upstream or _upstream(repository)
    if commit is None:
        raise UsageError(
            f"{place} has no commit yet", where=place, next_step="run `rocwright checkout` for it first"
        )
    origin = repository.run("config", "--get", "remote.origin.url", ok=(0, 1)).strip() or str(place)
    row = _row(place, origin, projects)
    return LockedSource(
        project=place.name if row is None else row.name,
        origin=origin,
        ref=commit,
        commit=commit,
        why="default",
        directory=place.name,
        hipify=True,
        submodules=any((place / path / ".git").exists() for path in _submodules(repository, commit)),
        build_env=_build_env(repository),
    )


def _submodules(repository: Git, commit: str) -> list[str]:
    """The paths in the commit's `.gitmodules`; reading the whole tree for them would take far longer."""
    words = ("config", "--blob", f"{commit}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    listed = repository.run(*words, ok=(0, 1, 128)).split("\0")
    return [path for record in listed if (path := record.partition("\n")[2])]


def _upstream(repository: Git) -> str | None:
    refs = repository.refs("HEAD", UPSTREAM_TAG)
    head, tagged = refs.get("HEAD"), refs.get(UPSTREAM_TAG)
    if head is None or tagged is None or head == tagged:
        return head
    # A tag that was left behind on another branch says nothing of this HEAD.
    base = repository.run("merge-base", head, tagged, ok=(0, 1)).strip()
    return tagged if base == tagged else head


def _row(place: Path, origin: str, projects: ProjectTable) -> Project | None:
    """The project that this is, by its repository, else by its folder's name."""
    rows = projects.projects
    by_origin = (row for row in rows if row.origin.removesuffix(".git") == origin.removesuffix(".git"))
    return next(by_origin, None) or next((row for row in rows if row.directory == place.name), None)


def _build_env(repository: Git) -> dict[str, str]:
    """The variables that an earlier checkout wrote for the wheel build: they stay."""
    try:
        text = (repository.git_dir / "rocwright" / BUILD_ENV).read_bytes()
    except FileNotFoundError:
        return {}
    return msgspec.json.decode(text, type=dict[str, str])
