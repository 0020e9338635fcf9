"""Brings a project to its locked commit: fetches exactly it, populates submodules, tags; loses no work."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import RocwrightError, UsageError
from rocwright.sources import state as states
from rocwright.sources import tree, whole
from rocwright.sources.lock import LockedSource
from rocwright.sources.mirror import Mirrors
from rocwright.sources.state import HIPIFY_TAG, UPSTREAM_TAG, State, Survey
from rocwright.sources.tree import Node
from rocwright.sources.watch import NOBODY, Watch
from rocwright.sources.work import REFUSE, Work, set_aside
from rocwright.system import files, git
from rocwright.system.git import Git

_BUILD_ENV = "build_env.json"
PLATFORM = "windows" if sys.platform == "win32" else "linux"


class PinnedSubmodule(msgspec.Struct, frozen=True):
    """A populated submodule: `path` from the top of the checkout, address, upstream commit."""

    path: str
    origin: str
    commit: str


class Checkout(msgspec.Struct, frozen=True):
    """A project at its commit.

    `commit` and `tree` are upstream's, also where a hipify commit lies on top. `changed` is false when
    everything was in place and only verified.
    """

    project: str
    directory: str
    origin: str
    commit: str
    tree: str
    submodules: tuple[PinnedSubmodule, ...]
    changed: bool


@dataclass(frozen=True)
class CheckoutPlan:
    """What `checkout` will do, and what stands in its way.

    `current` is the commit HEAD is at; `obstacles` describes work in the directory that is not ours: with
    any, nothing is done.
    """

    project: str
    directory: Path
    origin: str
    ref: str
    commit: str
    action: Literal["clone", "move", "verify"]
    current: str | None
    submodules: bool
    depth: int | None
    jobs: int
    obstacles: tuple[str, ...]

    def steps(self) -> tuple[str, ...]:
        """The plan in words, one step each."""
        if self.action == "verify":
            return (f"verify {self.project} at {self.commit} in {self.directory}",)
        whole = f"with {self.depth} commits of history" if self.depth else "with its history"
        return (
            f"fetch {self.commit} ({self.ref}) from {git.shown(self.origin)} {whole}, no tags",
            f"check it out, detached, in {self.directory}",
            f"populate its submodules, {self.jobs} at a time"
            if self.submodules
            else "leave submodules empty",
            "tag THEROCK_UPSTREAM_DIFFBASE, remove THEROCK_HIPIFY_DIFFBASE",
        )


def plan_checkout(
    locked: LockedSource,
    directory: Path,
    *,
    jobs: int = 10,
    depth: int | None = None,
    platform: str = PLATFORM,
) -> CheckoutPlan:
    """Look at the directory and decide; changes nothing, uses no network.

    Raises `UsageError` for a directory that is in use for something else.
    """
    return _plan(locked, directory, jobs, depth)[0]


def _plan(
    locked: LockedSource, directory: Path, jobs: int, depth: int | None
) -> tuple[CheckoutPlan, dict[str, tuple[Node, Survey]]]:
    place = _usable(directory)
    wanted = locked.submodules
    action: Literal["clone", "move", "verify"] = "clone"
    surveys: dict[str, tuple[Node, Survey]] = {}
    if (place / ".git" / "HEAD").is_file():
        main = Node(Git(place / ".git", place), "", locked.origin, locked.commit)
        surveys = whole.survey_tree(main, jobs=jobs)
        action = "verify" if _in_place(main, locked, surveys) else "move"
    current = surveys[""][1].head if surveys else None
    plan = CheckoutPlan(
        project=locked.project,
        directory=place,
        origin=locked.origin,
        ref=locked.ref,
        commit=locked.commit,
        action=action if current is not None or action == "verify" else "clone",
        current=current,
        submodules=wanted,
        depth=depth,
        jobs=jobs,
        obstacles=whole.obstacles(surveys),
    )
    return plan, surveys


def _usable(directory: Path) -> Path:
    place = directory.expanduser().resolve()
    marker = place / ".git"
    if marker.is_file():
        raise UsageError(f"{place} is a work tree of another repository", where=place)
    if place.exists() and not marker.is_dir() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(
            f"{place} exists and is no checkout",
            where=place,
            next_step="choose another directory, or remove it",
        )
    return place


def _in_place(main: Node, locked: LockedSource, surveys: dict[str, tuple[Node, Survey]]) -> bool:
    if not tree.is_fetched(main.git, locked.commit) or any(s.foreign for _, s in surveys.values()):
        return False
    top = surveys[""][1].state
    if top.hipify is not None and not locked.hipify:
        return False
    if _build_env_text(locked) != _read_build_env(main.git):
        return False
    if main.git.run("config", "--get", "remote.origin.url", ok=(0, 1)).strip() != locked.origin:
        return False
    wanted = {main.path: main} | {
        n.path: n for n in (whole.descendants(main, surveys) if locked.submodules else [])
    }
    if wanted.keys() != surveys.keys():
        return False
    hipified = whole.hipified_commits(main, top.hipify, list(wanted.values()))
    return all(
        _is_at(surveys[path][1], node.commit, hipified[path], committed=top.head == "tip", locked=locked)
        for path, node in wanted.items()
    )


def _is_at(seen: Survey, commit: str, hipified: str | None, *, committed: bool, locked: LockedSource) -> bool:
    state = seen.state
    applied = hipified if hipified != commit else None
    head = applied if applied is not None and committed else commit
    stale_tag = seen.hipify_tag is not None and (not locked.hipify or seen.hipify_tag != (hipified or commit))
    return (
        state.pending is None
        and seen.settled
        and (state.upstream, state.hipify) == (commit, applied)
        and seen.head == head
        and seen.upstream_tag == commit
        and not stale_tag
    )


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
) -> Checkout:
    """Bring `directory` to the locked commit.

    Fetches one commit per repository, no tags, at most `jobs` submodules at a time; `depth` limits the
    history of what is newly fetched. Detaches HEAD and tags `THEROCK_UPSTREAM_DIFFBASE` here and in every
    submodule. A tree that is in place, hipified or not, is only verified. An interrupted run is resumed.

    Raises `RocwrightError` when the directory holds commits or changes that are not ours (nothing is
    touched then), `Unreachable` when a commit cannot be had, `UsageError` for an unusable directory.
    """
    place = _usable(directory)
    with git.exclusive(place / ".git"):
        plan, surveys = _plan(locked, place, jobs, depth)
        set_aside(surveys, work, place)
        main = Node(Git(place / ".git", place, log), "", locked.origin, locked.commit)
        if plan.action == "verify":
            nodes = [main, *(whole.descendants(main, surveys) if plan.submodules else [])]
        else:
            nodes = _apply(plan, locked, main, surveys)
        return Checkout(
            project=locked.project,
            directory=str(place),
            origin=locked.origin,
            commit=locked.commit,
            tree=main.git.run("rev-parse", f"{locked.commit}^{{tree}}").strip(),
            submodules=tuple(PinnedSubmodule(n.path, n.url, n.commit) for n in nodes if n.path),
            changed=plan.action != "verify",
        )


def _apply(
    plan: CheckoutPlan, locked: LockedSource, main: Node, surveys: dict[str, tuple[Node, Survey]]
) -> list[Node]:
    if not (main.git.git_dir / "HEAD").is_file():
        git.init(main.git.git_dir, main.git.work_tree, log=main.git.log)
    tree.configure(
        main.git,
        {"remote.origin.url": locked.origin, "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*"},
    )
    nodes: list[Node] = []
    frontier = [main]
    while frontier:
        brought = tree.parallel(lambda node: _bring(node, plan, locked, surveys), frontier, plan.jobs)
        nodes += frontier
        frontier = [child for children in brought for child in children]
    if locked.ref.startswith("refs/heads/") and locked.why != "pin":
        main.git.set_ref("refs/remotes/origin/" + locked.ref.removeprefix("refs/heads/"), locked.commit)
    _write_build_env(main.git, locked)
    return nodes


def _bring(
    node: Node, plan: CheckoutPlan, locked: LockedSource, surveys: dict[str, tuple[Node, Survey]]
) -> list[Node]:
    """Bring one repository to its commit; returns its submodules, set up but still empty."""
    ref = locked.ref if not node.path else None
    tree.fetch_commit(node.git, node.url, node.commit, ref=ref, depth=plan.depth)
    wanted = tree.submodules(node.git, node.commit, node.url) if plan.submodules else ()
    seen = surveys[node.path][1] if node.path in surveys else None
    before = states.load(node.git)
    if seen is not None:
        commits = dict.fromkeys((*before.known, *([seen.head] if seen.head else [])))
        tree.remove_unwanted_submodules(node, commits, [sub.path for sub in wanted])
        skipped = list(states.gitlinks(node.git, seen.head)) if seen.head and before == State() else []
        if skipped:
            # Other tools hide changed submodules from git this way; ours are never changed unnoticed.
            node.git.run("update-index", "--no-skip-worktree", "--", *skipped)
    states.move(node.git, node.commit, State(upstream=node.commit), seen.torn if seen is not None else ())
    refs = node.git.refs(UPSTREAM_TAG, HIPIFY_TAG)
    states.tag(node.git, UPSTREAM_TAG, node.commit, refs.get(UPSTREAM_TAG))
    states.tag(node.git, HIPIFY_TAG, None, refs.get(HIPIFY_TAG))
    children = [tree.set_up_submodule(node, sub) for sub in wanted]
    settings = {f"submodule.{sub.name}.url": sub.url for sub in wanted}
    tree.configure(node.git, settings | {f"submodule.{sub.name}.active": "true" for sub in wanted})
    return children


def _build_env_text(locked: LockedSource) -> str | None:
    return msgspec.json.encode(locked.build_env).decode() + "\n" if locked.build_env else None


def _read_build_env(repository: Git) -> str | None:
    """Our `build_env.json`; a project's own one of that name is not ours."""
    if not (repository.git_dir / "rocwright" / _BUILD_ENV).is_file():
        return None
    path = repository.work_tree / _BUILD_ENV
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _write_build_env(repository: Git, locked: LockedSource) -> None:
    """Write or remove the variables that the wheel build merges into its environment."""
    path, mark = repository.work_tree / _BUILD_ENV, repository.git_dir / "rocwright" / _BUILD_ENV
    text = _build_env_text(locked)
    if text is None:
        if mark.is_file():
            path.unlink(missing_ok=True)
            mark.unlink()
        return
    if _BUILD_ENV in states.tree(repository, locked.commit):
        raise RocwrightError(f"{locked.project} has a {_BUILD_ENV} of its own", where=path)
    exclude = repository.git_dir / "info" / "exclude"
    lines = exclude.read_text(encoding="utf-8").splitlines() if exclude.is_file() else []
    if f"/{_BUILD_ENV}" not in lines:
        files.write_text(exclude, "\n".join([*lines, f"/{_BUILD_ENV}"]) + "\n")
    files.write_text(mark, text)
    files.write_text(path, text)
