"""Fetches the repositories of a checkout, then moves them; nothing moves before everything is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import msgspec

from rocwright.errors import InvalidInput, RocwrightError, UnsavedWork
from rocwright.sources.aside import KeptWork, Work, set_aside
from rocwright.sources.fetch import COMMITS
from rocwright.sources.lock import LockedSource
from rocwright.sources.mirror import Mirrors
from rocwright.sources.plan import BUILD_ENV, CheckoutPlan, address, build_env_text
from rocwright.sources.tree import repos, whole
from rocwright.sources.tree import state as states
from rocwright.sources.tree.move import blocked, in_the_way, look_ahead, move
from rocwright.sources.tree.repos import Node, Submodule
from rocwright.sources.tree.state import HIPIFY_TAG, UPSTREAM_TAG, State, Survey
from rocwright.sources.tree.survey import own_commits
from rocwright.sources.tree.whole import Surveys
from rocwright.sources.watch import Watch
from rocwright.system import files, git
from rocwright.system.git import Git


class Target(msgspec.Struct, frozen=True):
    """A repository to bring to `node.commit`, with its submodules there; `seen`: it has files already.

    `parent` is the path of the repository it is a submodule of.
    """

    node: Node
    seen: Survey | None
    submodules: tuple[Submodule, ...]
    parent: str | None


# --- fetching ---


def fetch(
    main: Node,
    plan: CheckoutPlan,
    locked: LockedSource,
    surveys: Surveys,
    mirrors: Mirrors | None,
    watch: Watch,
) -> list[Target]:
    """Fetch every repository of the checkout, parents before children; touches no file of a work tree."""
    if not git.is_repository(main.git.git_dir):
        git.init(main.git.git_dir, main.git.work_tree, log=main.git.log)

    def bring(item: tuple[Node, str | None]) -> Target:
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

    targets: list[Target] = []
    frontier: list[tuple[Node, str | None]] = [(main, None)]
    while frontier:
        watch.expect(sum(bool(node.path) for node, _ in frontier))
        brought = repos.parallel(bring, frontier, plan.jobs)
        targets += brought
        frontier = [
            (node, target.node.path)
            for target in brought
            for node in _places(target.node, target.submodules, surveys)
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
) -> tuple[Target, bool]:
    seen = surveys[node.path][1] if node.path in surveys else None
    bare = _bare(node)
    if not git.is_repository(bare.git_dir):
        git.init(bare.git_dir, bare.git_dir, log=bare.log)
    if seen is None and parent is not None:
        # Its files went earlier; what an index says of them would only mislead.
        (bare.git_dir / "index").unlink(missing_ok=True)
    missing = seen is None or COMMITS + node.commit not in seen.refs
    if missing:
        ref = plan.ref if not node.path else None
        repos.fetch_commit(
            bare, node.url, node.commit, ref=ref, depth=plan.depth, mirrors=mirrors, watch=watch, name=name
        )
    look = plan.submodules and whole.has_submodules(node, seen)
    wanted = repos.submodules(bare, node.commit, node.url) if look else ()
    return Target(node, seen, wanted, parent), missing


def _bare(node: Node) -> Git:
    """The repository alone: its work tree may not be there yet."""
    return Git(node.git.git_dir, node.git.git_dir, node.git.log)


def _places(parent: Node, submodules: Sequence[Submodule], surveys: Surveys) -> Iterator[Node]:
    """Where the repositories of submodules are, or will be.

    One that stays at its path keeps its repository, whatever its name is now.
    """
    paths = {sub.name: whole.join(parent.path, sub.path) for sub in submodules}
    there = {name: surveys[path][0].git.git_dir for name, path in paths.items() if path in surveys}
    taken = {*there.values()}
    for sub in submodules:
        modules = parent.git.git_dir / "modules"
        git_dir = there.get(sub.name) or modules / sub.name
        for number in count(2):
            if sub.name in there or git_dir not in taken:
                break
            # The one that had this name until now goes on living there.
            git_dir = modules / f"{sub.name}.{number}"
        taken.add(git_dir)
        work_tree = parent.git.work_tree / sub.path
        yield Node(Git(git_dir, work_tree, parent.git.log), paths[sub.name], sub.url, sub.commit)


def paths(targets: list[Target]) -> list[str]:
    """Every path that the checkout is going to have, from its top."""
    return [
        whole.join(target.node.path, path)
        for target in targets
        for path in states.tree(_bare(target.node), target.node.commit)
    ]


# --- moving ---


def cleared(
    targets: list[Target], surveys: Surveys, work: Work, place: Path, watch: Watch, jobs: int
) -> tuple[list[Target], tuple[KeptWork, ...]]:
    """See that nothing untracked would be overwritten or go with a submodule, ignored files included."""
    there = [target for target in targets if target.node.git.work_tree.is_dir()]
    ahead = dict(repos.parallel(_look_ahead, there, jobs))
    targets = [
        msgspec.structs.replace(target, seen=ahead.get(target.node.path, target.seen)) for target in targets
    ]
    leaving = [item for path, item in surveys.items() if path not in {t.node.path for t in targets}]
    surveys = dict(repos.parallel(_going, leaving, jobs))
    surveys |= {t.node.path: (t.node, t.seen) for t in targets if t.seen is not None}
    kept: tuple[KeptWork, ...] = ()
    if any(seen.foreign for _, seen in surveys.values()):
        kept = set_aside(surveys, work, place, watch=watch)
        again = whole.survey_tree(targets[0].node, jobs=jobs)
        targets = [
            msgspec.structs.replace(
                target, seen=again[target.node.path][1] if target.node.path in again else None
            )
            for target in targets
        ]
    return targets, kept


def _going(item: tuple[Node, Survey]) -> tuple[str, tuple[Node, Survey]]:
    """What would be lost with the work tree of a submodule that the commit does not have."""
    node, seen = item
    if (node.git.work_tree / ".git").is_dir():
        raise UnsavedWork(
            f"the submodule {node.path} is to be removed, and with it your own repository in its place",
            where=node.git.work_tree,
            next_step="move it elsewhere, then run again",
        )
    ignored = node.git.records("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
    return node.path, (node, blocked(seen, tuple(ignored)))


def _look_ahead(target: Target) -> tuple[str, Survey | None]:
    node = target.node
    if target.seen is not None:
        return node.path, look_ahead(node.git, target.seen, node.commit)
    # A submodule that has no files yet, and a directory there that has some.
    lying = in_the_way(node.git, node.commit)
    whole.refuse_foreign(
        node.git.work_tree,
        tuple(f"in the way: {whole.join(node.path, path)}" for path in lying),
        "there is no repository here yet that could hold it: move it elsewhere, then run again",
    )
    return node.path, None


def apply(targets: list[Target], plan: CheckoutPlan, locked: LockedSource) -> list[Node]:
    """Move every repository to its commit, parents before children; at most `plan.jobs` at a time."""
    main = targets[0].node
    settings = {
        "remote.origin.url": address(locked),
        "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
    }
    repos.configure(main.git, settings)
    nodes: dict[str, Node] = {}
    waiting = targets
    while waiting:
        # A submodule has its place once the repository around it has moved.
        ready = [target for target in waiting if target.parent is None or target.parent in nodes]
        moved = repos.parallel(partial(_move, around=nodes), ready, plan.jobs)
        nodes |= {node.path: node for node in moved}
        waiting = [target for target in waiting if target.node.path not in nodes]
    if locked.ref.startswith("refs/heads/") and locked.why != "pin":
        main.git.set_ref("refs/remotes/origin/" + locked.ref.removeprefix("refs/heads/"), locked.commit)
    _write_build_env(main.git, locked)
    return [nodes[target.node.path] for target in targets]


def _move(target: Target, around: Mapping[str, Node]) -> Node:
    """Bring one repository to its commit, which is here."""
    node, seen = target.node, target.seen
    if seen is None and target.parent is not None:
        node = _attach(target, around[target.parent])
    if seen is not None and (seen.links or not seen.settled):
        known = (*seen.state.known, *([seen.head] if seen.head else []))
        repos.remove_unwanted_submodules(node, dict.fromkeys(known), [sub.path for sub in target.submodules])
    refs = seen.refs if seen is not None else node.git.refs(UPSTREAM_TAG, HIPIFY_TAG)
    # Not the tag of another commit at any moment: hipify sets it again.
    states.tag(node.git, HIPIFY_TAG, None, refs.get(HIPIFY_TAG))
    move(node.git, seen, State(upstream=node.commit))
    states.tag(node.git, UPSTREAM_TAG, node.commit, refs.get(UPSTREAM_TAG))
    if seen is not None and (seen.links or not seen.settled):
        show_submodules(node.git)
    settings = {f"submodule.{sub.name}.url": git.without_login(sub.url) for sub in target.submodules}
    if target.parent is not None:
        settings["remote.origin.url"] = node.url
    if settings:
        repos.configure(node.git, settings)
    return node


def _attach(target: Target, parent: Node) -> Node:
    """Give a submodule without files its work tree; its repository may be left from an earlier time."""
    sub = Submodule(
        target.node.git.git_dir.relative_to(parent.git.git_dir / "modules").as_posix(),
        target.node.git.work_tree.relative_to(parent.git.work_tree).as_posix(),
        target.node.url,
        target.node.commit,
    )
    work_tree = target.node.git.work_tree
    if work_tree.is_file() and not work_tree.is_symlink():
        raise InvalidInput(
            f"a file lies where submodule {target.node.path} belongs",
            where=work_tree,
            next_step="move the file away, then run again",
        )
    bare = _bare(target.node)
    head = bare.resolve("HEAD")
    if head is not None:
        before = states.load(bare)
        if head not in before.known and own_commits(bare, head, [*before.known, target.node.commit])[0]:
            # Left when its files went; going on would leave it to the reflog.
            bare.set_ref(f"refs/heads/left-{head[:12]}", head)
        states.save(bare, State())
    return repos.set_up_submodule(parent, sub)


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


def _write_build_env(repository: Git, locked: LockedSource) -> None:
    """Write or remove `build_env.json`; raises when the project has one of its own."""
    path, mark = repository.work_tree / BUILD_ENV, repository.git_dir / "rocwright" / BUILD_ENV
    text = build_env_text(locked.build_env)
    if text is None:
        if mark.is_file():
            path.unlink(missing_ok=True)
            mark.unlink()
        return
    if BUILD_ENV in states.tree(repository, locked.commit):
        raise RocwrightError(
            f"{locked.project} has a {BUILD_ENV} of its own",
            where=path,
            next_step="check it out without build variables: remove build_env from its row",
        )
    exclude = repository.git_dir / "info" / "exclude"
    lines = exclude.read_text(encoding="utf-8").splitlines() if exclude.is_file() else []
    if f"/{BUILD_ENV}" not in lines:
        files.write_text(exclude, "\n".join([*lines, f"/{BUILD_ENV}"]) + "\n")
    files.write_text(mark, text)
    files.write_text(path, text)
