"""Brings a project to its locked commit: fetches exactly it, populates submodules, tags; loses no work.

Everything is fetched and looked at before the first file moves, so that a server that does not answer or a
file in the way leaves the checkout as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput, UsageError
from rocwright.sources import build_env, tree, whole
from rocwright.sources import state as states
from rocwright.sources.fetch import COMMITS
from rocwright.sources.lock import LockedSource
from rocwright.sources.mirror import Mirrors
from rocwright.sources.move import in_the_way, look_ahead, move
from rocwright.sources.state import HIPIFY_TAG, UPSTREAM_TAG, State, Survey
from rocwright.sources.survey import own_commits
from rocwright.sources.tree import Node, Submodule
from rocwright.sources.watch import NOBODY, Watch
from rocwright.sources.whole import Surveys
from rocwright.sources.work import REFUSE, Kept, Work, set_aside
from rocwright.system import git
from rocwright.system.git import Git

PLATFORM = "windows" if sys.platform == "win32" else "linux"


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
    kept: tuple[Kept, ...] = ()


@dataclass(frozen=True)
class CheckoutPlan:
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


@dataclass(frozen=True)
class _Target:
    """A repository to bring to `node.commit`, with its submodules there; `seen`: it has files already..

    `parent` is the path of the repository it is a submodule of.
    """

    node: Node
    seen: Survey | None
    submodules: tuple[Submodule, ...]
    parent: str | None


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
    plan, surveys = _plan(locked, directory, jobs, depth)
    if platform == "windows" and surveys:
        repository = surveys[""][0].git
        if repository.has_commit(locked.commit):
            paths = states.tree(repository, locked.commit)
            whole.refuse_long_paths(plan.directory, paths, hipify=locked.hipify)
    return plan


def _plan(
    locked: LockedSource, directory: Path, jobs: int, depth: int | None, log: Path | None = None
) -> tuple[CheckoutPlan, Surveys]:
    place = _usable(directory)
    action: Literal["clone", "move", "verify"] = "clone"
    surveys: Surveys = {}
    if (place / ".git" / "HEAD").is_file():
        main = Node(Git(place / ".git", place, log), "", locked.origin, locked.commit)
        surveys = whole.survey_tree(main, jobs=jobs)
        action = "verify" if _in_place(main, locked, surveys) else "move"
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


def _in_place(main: Node, locked: LockedSource, surveys: Surveys) -> bool:
    """Whether every repository is at its upstream commit and in order, hipified or not, patched or not."""
    top = surveys[""][1]
    if any(not seen.settled or seen.foreign for _, seen in surveys.values()):
        return False
    if top.state.upstream != locked.commit or not build_env.in_place(main.git, locked.build_env):
        return False
    if main.git.run("config", "--get", "remote.origin.url", ok=(0, 1)).strip() != _address(locked):
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


def _address(locked: LockedSource) -> str:
    return git.without_login(locked.origin)


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
    place = _usable(directory)
    with git.exclusive(place / ".git"):
        plan, surveys = _plan(locked, place, jobs, depth, log)
        kept = set_aside(surveys, work, place, watch=watch)
        if kept:
            plan, surveys = _plan(locked, place, jobs, depth, log)
        main = Node(Git(place / ".git", place, log), "", locked.origin, locked.commit)
        if plan.action == "verify":
            nodes = [main, *(whole.descendants(main, surveys) if plan.submodules else [])]
        else:
            targets = _fetch(main, plan, locked, surveys, mirrors, watch)
            if platform == "windows":
                whole.refuse_long_paths(place, _paths(targets), hipify=locked.hipify)
            targets, more = _cleared(targets, work, place, watch, jobs)
            kept += more
            nodes = _apply(targets, plan, locked)
        return Checkout(
            project=locked.project,
            directory=str(place),
            origin=locked.origin,
            commit=locked.commit,
            tree=main.git.run("rev-parse", f"{locked.commit}^{{tree}}").strip(),
            submodules=tuple(PinnedSubmodule(n.path, n.url, n.commit) for n in nodes if n.path),
            changed=plan.action != "verify",
            kept=kept,
        )


# --- fetching ---


def _fetch(
    main: Node,
    plan: CheckoutPlan,
    locked: LockedSource,
    surveys: Surveys,
    mirrors: Mirrors | None,
    watch: Watch,
) -> list[_Target]:
    """Fetch every repository of the checkout, parents before children; touches no file of a work tree."""
    if not (main.git.git_dir / "HEAD").is_file():
        git.init(main.git.git_dir, main.git.work_tree, log=main.git.log)

    def bring(item: tuple[Node, str | None]) -> _Target:
        node, parent = item
        if not node.path:
            # The project is a piece of whoever prepares it, from here to its patches.
            return _fetch_one(node, parent, plan, surveys, mirrors, watch, locked.project)[0]
        name = f"{locked.project}/{node.path}"
        watch.start(name)
        try:
            target, fetched = _fetch_one(node, parent, plan, surveys, mirrors, watch, name)
        except BaseException:
            watch.end(name, "failed")
            raise
        watch.end(name, "done" if fetched else "cached")
        return target

    targets: list[_Target] = []
    frontier: list[tuple[Node, str | None]] = [(main, None)]
    while frontier:
        watch.expect(sum(bool(node.path) for node, _ in frontier))
        brought = tree.parallel(bring, frontier, plan.jobs)
        targets += brought
        frontier = [
            (_place(target.node, sub, surveys), target.node.path)
            for target in brought
            for sub in target.submodules
        ]
    return targets


def _fetch_one(
    node: Node,
    parent: str | None,
    plan: CheckoutPlan,
    surveys: Surveys,
    mirrors: Mirrors | None,
    watch: Watch,
    name: str,
) -> tuple[_Target, bool]:
    seen = surveys[node.path][1] if node.path in surveys else None
    bare = _bare(node)
    if not (bare.git_dir / "HEAD").is_file():
        git.init(bare.git_dir, bare.git_dir, log=bare.log)
    if seen is None and parent is not None:
        # Its files went earlier; what an index says of them would only mislead.
        (bare.git_dir / "index").unlink(missing_ok=True)
    missing = seen is None or COMMITS + node.commit not in seen.refs
    if missing:
        ref = plan.ref if not node.path else None
        tree.fetch_commit(
            bare, node.url, node.commit, ref=ref, depth=plan.depth, mirrors=mirrors, watch=watch, name=name
        )
    look = plan.submodules and whole.has_submodules(node, seen)
    wanted = tree.submodules(bare, node.commit, node.url) if look else ()
    return _Target(node, seen, wanted, parent), missing


def _bare(node: Node) -> Git:
    """The repository alone: its work tree may not be there yet."""
    return Git(node.git.git_dir, node.git.git_dir, node.git.log)


def _place(parent: Node, sub: Submodule, surveys: Surveys) -> Node:
    """Where the repository of a submodule is, or will be."""
    path = whole.join(parent.path, sub.path)
    work_tree = parent.git.work_tree / sub.path
    git_dir = parent.git.git_dir / "modules" / sub.name
    if path in surveys:
        git_dir = surveys[path][0].git.git_dir
    return Node(Git(git_dir, work_tree, parent.git.log), path, sub.url, sub.commit)


def _paths(targets: list[_Target]) -> list[str]:
    return [
        whole.join(target.node.path, path)
        for target in targets
        for path in states.tree(_bare(target.node), target.node.commit)
    ]


# --- moving ---


def _cleared(
    targets: list[_Target], work: Work, place: Path, watch: Watch, jobs: int
) -> tuple[list[_Target], tuple[Kept, ...]]:
    """See that nothing untracked would be overwritten, ignored files included."""
    there = [target for target in targets if target.node.git.work_tree.is_dir()]
    ahead = dict(tree.parallel(_look_ahead, there, jobs))
    targets = [replace(target, seen=ahead.get(target.node.path, target.seen)) for target in targets]
    surveys = {t.node.path: (t.node, t.seen) for t in targets if t.seen is not None}
    kept: tuple[Kept, ...] = ()
    if any(seen.foreign for _, seen in surveys.values()):
        kept = set_aside(surveys, work, place, watch=watch)
        again = whole.survey_tree(targets[0].node, jobs=jobs)
        targets = [
            replace(target, seen=again[target.node.path][1] if target.node.path in again else None)
            for target in targets
        ]
    return targets, kept


def _look_ahead(target: _Target) -> tuple[str, Survey | None]:
    node = target.node
    if target.seen is not None:
        return node.path, look_ahead(node.git, target.seen, node.commit)
    # A submodule that has no files yet, and a directory there that has some.
    lying = in_the_way(node.git, node.commit)
    whole.refuse_foreign(
        node.git.work_tree, tuple(f"in the way: {whole.join(node.path, path)}" for path in lying)
    )
    return node.path, None


def _apply(targets: list[_Target], plan: CheckoutPlan, locked: LockedSource) -> list[Node]:
    main = targets[0].node
    settings = {
        "remote.origin.url": _address(locked),
        "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
    }
    tree.configure(main.git, settings)
    nodes: dict[str, Node] = {}
    waiting = targets
    while waiting:
        # A submodule has its place once the repository around it has moved.
        ready = [target for target in waiting if target.parent is None or target.parent in nodes]
        moved = tree.parallel(partial(_move, around=nodes), ready, plan.jobs)
        nodes |= {node.path: node for node in moved}
        waiting = [target for target in waiting if target.node.path not in nodes]
    if locked.ref.startswith("refs/heads/") and locked.why != "pin":
        main.git.set_ref("refs/remotes/origin/" + locked.ref.removeprefix("refs/heads/"), locked.commit)
    build_env.write(main.git, locked)
    return [nodes[target.node.path] for target in targets]


def _move(target: _Target, around: Mapping[str, Node]) -> Node:
    """Bring one repository to its commit, which is here."""
    node, seen = target.node, target.seen
    if seen is None and target.parent is not None:
        node = _attach(target, around[target.parent])
    if seen is not None and (seen.links or not seen.settled):
        known = (*seen.state.known, *([seen.head] if seen.head else []))
        tree.remove_unwanted_submodules(node, dict.fromkeys(known), [sub.path for sub in target.submodules])
    refs = seen.refs if seen is not None else node.git.refs(UPSTREAM_TAG, HIPIFY_TAG)
    # Not the tag of another commit at any moment: hipify sets it again.
    states.tag(node.git, HIPIFY_TAG, None, refs.get(HIPIFY_TAG))
    move(node.git, seen, State(upstream=node.commit))
    states.tag(node.git, UPSTREAM_TAG, node.commit, refs.get(UPSTREAM_TAG))
    if seen is not None and (seen.links or not seen.settled):
        show_submodules(node.git)
    settings = {f"submodule.{sub.name}.url": git.without_login(sub.url) for sub in target.submodules}
    if settings:
        tree.configure(node.git, settings)
    return node


def _attach(target: _Target, parent: Node) -> Node:
    """Give a submodule without files its work tree; its repository may be left from an earlier time."""
    sub = Submodule(
        target.node.git.git_dir.relative_to(parent.git.git_dir / "modules").as_posix(),
        target.node.git.work_tree.relative_to(parent.git.work_tree).as_posix(),
        target.node.url,
        target.node.commit,
    )
    work_tree = target.node.git.work_tree
    if work_tree.is_file() and not work_tree.is_symlink():
        raise InvalidInput(f"a file lies where submodule {target.node.path} belongs", where=work_tree)
    bare = _bare(target.node)
    head = bare.resolve("HEAD")
    if head is not None:
        before = states.load(bare)
        if head not in before.known and own_commits(bare, head, [*before.known, target.node.commit])[0]:
            # Left when its files went; going on would leave it to the reflog.
            bare.set_ref(f"refs/heads/left-{head[:12]}", head)
        states.save(bare, State())
    return tree.set_up_submodule(parent, sub)


def show_submodules(repository: Git, but: frozenset[str] = frozenset()) -> None:
    """Undo what hides changed submodules from git; those in `but` (names) show their commit alone."""
    found: dict[str, str] = {}
    listed = repository.run("config", "--local", "-z", "--get-regexp", r"^submodule\..*\.ignore$", ok=(0, 1))
    for record in listed.split("\0"):
        key, _, value = record.partition("\n")
        if key:
            found[key] = value
    wanted = {f"submodule.{name}.ignore" for name in but}
    for key in found.keys() - wanted:
        repository.run("config", "--local", "--unset-all", key)
    for key in sorted(wanted):
        if found.get(key) != "dirty":
            repository.run("config", "--local", key, "dirty")
