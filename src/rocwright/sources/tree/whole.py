"""Looks at a checkout as a whole: what lies in each of its repositories, and what each should be at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from rocwright.errors import UnsavedWork, UsageError
from rocwright.sources.tree import repos
from rocwright.sources.tree import state as states
from rocwright.sources.tree.repos import Node
from rocwright.sources.tree.state import Survey
from rocwright.sources.tree.survey import survey
from rocwright.system.git import Git

_SHOWN = 10
_WAYS_ON = (
    "--keep-branch NAME keeps it on a branch, --discard throws it away; or leave it and choose another "
    "directory"
)
# What Windows takes as a path, without the NUL that ends it.
LONGEST = 259
# Hipify writes these beside, in a folder `hip`, `.cu` as `.hip`.
_OUTPUT = 5
_HIPIFIED = (".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".in", ".hpp")

Surveys = dict[str, tuple[Node, Survey]]


def survey_tree(main: Node, *, jobs: int) -> Surveys:
    """Survey a checkout and its populated submodules, keyed by path; changes nothing."""
    found: Surveys = {}
    frontier: list[tuple[Node, tuple[str, ...]]] = [(main, ())]
    while frontier:
        surveys = repos.parallel(lambda item: survey(item[0].git, item[1]), frontier, jobs)
        following: list[tuple[Node, tuple[str, ...]]] = []
        for (node, expected), seen in zip(frontier, surveys, strict=True):
            found[node.path] = (node, seen)
            following += _populated(node, seen, expected)
        frontier = following
    return found


def _populated(node: Node, seen: Survey, expected: tuple[str, ...]) -> list[tuple[Node, tuple[str, ...]]]:
    """The submodules that lie in the work tree, at any path that HEAD, index or a killed move has one at.

    Each with the commits that it may be at without holding work: somebody else may have populated it, to
    what a published commit names. What a commit or index of the user's names may exist nowhere else.
    """
    links = dict(seen.links)
    named: dict[str, tuple[str, ...]] = {path: (oid,) for path, oid in links.items()}
    if not seen.settled:
        ours = seen.state.known
        if (
            not ours
            and seen.head is not None
            and (seen.head in expected or _is_published(node.git, seen.head))
        ):
            ours = (seen.head,)
        listed = [states.gitlinks(node.git, commit) for commit in ours]
        for commit in (*seen.state.known, *([seen.head] if seen.head else [])):
            links = states.gitlinks(node.git, commit) | links
        named = {path: tuple(each[path] for each in listed if path in each) for path in links}
    found = []
    for path, oid in sorted(links.items()):
        repository = repos.populated(node.git, path)
        if repository is not None:
            found.append((Node(repository, join(node.path, path), "", oid), named.get(path, ())))
    return found


def _is_published(git: Git, commit: str) -> bool:
    refs = ("refs/remotes", "refs/tags", "refs/rocwright")
    return bool(git.run("for-each-ref", "--contains", commit, "--count=1", *refs))


def join(parent: str, path: str) -> str:
    """The path from the top of the checkout of what lies at `path` in the repository at `parent`."""
    return f"{parent}/{path}" if parent else path


def obstacles(surveys: Surveys) -> tuple[str, ...]:
    """The work that is not ours, each item with the path of its submodule."""
    return tuple(
        f"{path}: {problem}" if path else problem
        for path, (_, seen) in surveys.items()
        for problem in seen.foreign
    )


def refuse_foreign(directory: Path, found: tuple[str, ...], advice: str = _WAYS_ON) -> None:
    """Raise `UnsavedWork` when there is work that is not ours; it is left as it is."""
    if not found:
        return
    more = f"\n    … and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    listing = "".join(f"\n    {text}" for text in found[:_SHOWN])
    raise UnsavedWork(
        f"the checkout contains work of yours; nothing was changed:{listing}{more}",
        where=directory,
        next_step=advice,
    )


def descendants(main: Node, surveys: Surveys) -> list[Node]:
    """The submodules that the commit of `main` wants, as far down as they are populated."""
    found: list[Node] = []
    frontier = [main]
    while frontier:
        following = []
        for node in frontier:
            seen = surveys[node.path][1] if node.path in surveys else None
            if seen is None or not has_submodules(node, seen):
                continue
            for sub in repos.submodules(node.git, node.commit, node.url):
                path = join(node.path, sub.path)
                work_tree = node.git.work_tree / sub.path
                git_dir = surveys[path][0].git.git_dir if path in surveys else work_tree / ".git"
                child = Node(Git(git_dir, work_tree, node.git.log), path, sub.url, sub.commit)
                found.append(child)
                if path in surveys and sub.commit in surveys[path][1].state.known:
                    following.append(child)
        frontier = following
    return found


def has_submodules(node: Node, seen: Survey | None) -> bool:
    """Whether the commit of a repository has submodules; its index says so where it is in order."""
    # Hipify and patches move submodules; neither adds nor removes one of ours.
    return seen is None or bool(seen.links) or not (seen.settled and seen.state.upstream == node.commit)


def tips(nodes: Sequence[Node], top: str | None) -> dict[str, str | None]:
    """What each repository is at when the project is at `top`: as the submodule entries of the one above say.

    `nodes` start with the project, parents before children; `top` has the same submodules as its commit.
    All `None` without `top`.
    """
    if top is None:
        return {node.path: None for node in nodes}
    found: dict[str, str | None] = {node.path: node.commit for node in nodes}
    found[nodes[0].path] = top
    for node in nodes:
        target = found[node.path]
        if target is None or target == node.commit:
            continue
        for path, (_, after) in states.moved_links(node.git, node.commit, target).items():
            found[join(node.path, path)] = after
    return found


def long_paths(
    directory: PurePath, paths: Iterable[str], *, hipify: bool = False, limit: int = LONGEST
) -> tuple[str, ...]:
    """The paths that are longer than `limit` characters below `directory`, the longest first.

    With `hipify` a source counts as its output does, which is longer.
    """
    room = limit - len(str(directory)) - 1

    def length(path: str) -> int:
        return len(path) + (_OUTPUT if hipify and path.endswith(_HIPIFIED) else 0)

    found = [path for path in paths if length(path) > room]
    return tuple(sorted(found, key=lambda path: (-length(path), path)))


def refuse_long_paths(directory: PurePath, paths: Iterable[str], *, hipify: bool) -> None:
    """Raise `UsageError` when Windows could not open all files below `directory`."""
    found = long_paths(directory, paths, hipify=hipify)
    if not found:
        return
    longest = len(found[0]) + (_OUTPUT if hipify and found[0].endswith(_HIPIFIED) else 0)
    listing = "".join(f"\n    {path}" for path in found[:3])
    raise UsageError(
        f"{len(found)} path(s) would be longer than the {LONGEST} characters that Windows takes:{listing}",
        where=str(directory),
        next_step=f"choose a directory of at most {LONGEST - 1 - longest} characters, like C:\\b\\pytorch",
    )
