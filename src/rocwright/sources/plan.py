"""Decides what bringing a directory to a locked commit takes, and what stands in its way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import UsageError
from rocwright.model.platforms import this_platform
from rocwright.sources.lock import LockedSource
from rocwright.sources.tree import state as states
from rocwright.sources.tree import whole
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import Survey
from rocwright.sources.tree.whole import Surveys
from rocwright.system import git
from rocwright.system.git import Git

PLATFORM = this_platform()
BUILD_ENV = "build_env.json"


class CheckoutPlan(msgspec.Struct, frozen=True):
    """What `checkout` will do, and what stands in its way.

    `current` is the commit HEAD is at; `obstacles` describes work in the directory that is not ours: with
    any, nothing is done unless it is kept or discarded.
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
        history = f"with {self.depth} commits of history" if self.depth else "with its history"
        return (
            f"fetch {self.commit} ({self.ref}) from {git.shown(self.origin)} {history}, no tags",
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

    Raises `UsageError` for a directory that is in use for something else, and on Windows for one whose name
    is too long for the files of a commit that is here already.
    """
    plan, surveys = decide(locked, directory, jobs, depth)
    if platform == "windows" and surveys:
        repository = surveys[""][0].git
        if repository.has_commit(locked.commit):
            paths = states.tree(repository, locked.commit)
            whole.refuse_long_paths(plan.directory, paths, hipify=locked.hipify)
    return plan


def decide(
    locked: LockedSource, directory: Path, jobs: int, depth: int | None, log: Path | None = None
) -> tuple[CheckoutPlan, Surveys]:
    """The plan, and what lies in each repository of the directory now."""
    place = usable(directory)
    action: Literal["clone", "move", "verify"] = "clone"
    surveys: Surveys = {}
    if git.is_repository(place / ".git"):
        main = Node(Git(place / ".git", place, log), "", locked.origin, locked.commit)
        surveys = whole.survey_tree(main, jobs=jobs)
        action = "verify" if in_place(main, locked, surveys) else "move"
    current = surveys[""][1].head if surveys else None
    plan = CheckoutPlan(
        project=locked.project,
        directory=place,
        origin=locked.origin,
        ref=locked.ref,
        commit=locked.commit,
        action=action if current is not None else "clone",
        current=current,
        submodules=locked.submodules,
        depth=depth,
        jobs=jobs,
        obstacles=whole.obstacles(surveys),
    )
    return plan, surveys


def usable(directory: Path) -> Path:
    """The directory as a complete path; raises `UsageError` when it is in use for something else."""
    place = directory.expanduser().resolve()
    marker = place / ".git"
    if marker.is_file():
        raise UsageError(
            f"{place} is a work tree of another repository",
            where=place,
            next_step="name another directory: --directory or --checkout-dir",
        )
    # One look at what is there: another run may be about to make the repository.
    names = {path.name for path in place.iterdir()} if place.is_dir() else set()
    if (place.exists() and not place.is_dir()) or (names and not (".git" in names and marker.is_dir())):
        raise UsageError(
            f"{place} exists and is not a checkout",
            where=place,
            next_step="choose another directory, or remove it",
        )
    return place


def in_place(main: Node, locked: LockedSource, surveys: Surveys) -> bool:
    """Whether every repository is at its upstream commit and in order, hipified or not, patched or not."""
    top = surveys[""][1]
    if any(not seen.settled or seen.foreign for _, seen in surveys.values()):
        return False
    if top.state.upstream != locked.commit or not build_env_in_place(main.git, locked.build_env):
        return False
    if main.git.run("config", "--get", "remote.origin.url", ok=(0, 1)).strip() != address(locked):
        return False
    wanted = [main, *(whole.descendants(main, surveys) if locked.submodules else [])]
    if {node.path for node in wanted} != surveys.keys():
        return False
    hipified = top.hipify_tag is not None
    if hipified and not locked.hipify:
        return False
    return all(_is_at(surveys[node.path][1], node.commit, hipified=hipified) for node in wanted)


def _is_at(seen: Survey, commit: str, *, hipified: bool) -> bool:
    state = seen.state
    tag = (state.hipify or commit) if hipified else None
    return (state.upstream, seen.upstream_tag, seen.hipify_tag) == (commit, commit, tag) and (
        hipified or state.hipify is None
    )


def address(locked: LockedSource) -> str:
    """The origin as the checkout remembers it, without a login."""
    return git.without_login(locked.origin)


# -- `build_env.json`: variables that the wheel build merges into its environment


def build_env_in_place(repository: Git, wanted: Mapping[str, str]) -> bool:
    """Whether the file says what is wanted, or is absent where nothing is."""
    return _build_env(repository) == build_env_text(wanted)


def build_env_text(variables: Mapping[str, str]) -> str | None:
    """The file's text; None where nothing is wanted, so that there is no file."""
    return msgspec.json.encode(dict(variables)).decode() + "\n" if variables else None


def _build_env(repository: Git) -> str | None:
    """Our file; a project's own one of that name is not ours."""
    if not (repository.git_dir / "rocwright" / BUILD_ENV).is_file():
        return None
    path = repository.work_tree / BUILD_ENV
    return path.read_text(encoding="utf-8") if path.is_file() else None
