"""Looks at a checkout as a whole: what lies in each of its repositories, and what each should be at."""

from __future__ import annotations

from pathlib import Path

from rocwright.errors import UnsavedWork
from rocwright.sources import state as states
from rocwright.sources import tree
from rocwright.sources.state import Survey
from rocwright.sources.tree import Node
from rocwright.system.git import Git

_SHOWN = 10


def survey_tree(main: Node, *, jobs: int) -> dict[str, tuple[Node, Survey]]:
    """Survey a checkout and its populated submodules, keyed by path; changes nothing."""
    found: dict[str, tuple[Node, Survey]] = {}
    frontier: list[tuple[Node, tuple[str, ...]]] = [(main, ())]
    while frontier:
        surveys = tree.parallel(lambda item: states.survey(item[0].git, item[1]), frontier, jobs)
        following: list[tuple[Node, tuple[str, ...]]] = []
        for (node, _), seen in zip(frontier, surveys, strict=True):
            found[node.path] = (node, seen)
            commits = dict.fromkeys((*seen.state.known, *([seen.head] if seen.head else [])))
            following += [
                # A submodule that someone else populated is at the commit its parent names.
                (child, (child.commit,))
                for child in tree.children(node, commits)
            ]
        frontier = following
    return found


def obstacles(surveys: dict[str, tuple[Node, Survey]]) -> tuple[str, ...]:
    """The work that is not ours, each item with the path of its submodule."""
    return tuple(
        f"{path}: {problem}" if path else problem
        for path, (_, seen) in surveys.items()
        for problem in seen.foreign
    )


def refuse_foreign(directory: Path, found: tuple[str, ...]) -> None:
    """Raise when there is work that is not ours; it is left as it is."""
    if not found:
        return
    more = f"\n    … and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    listing = "".join(f"\n    {text}" for text in found[:_SHOWN])
    raise UnsavedWork(
        f"the checkout holds work that is not from this tool; nothing was changed:{listing}{more}",
        where=directory,
        next_step="--keep-branch NAME keeps it on a branch, --discard throws it away; or leave it and choose "
        "another directory",
    )


def descendants(main: Node, surveys: dict[str, tuple[Node, Survey]]) -> list[Node]:
    """The submodules that the commit of `main` wants, as far down as they are populated."""
    found: list[Node] = []
    frontier = [main]
    while frontier:
        following = []
        for node in frontier:
            for sub in tree.submodules(node.git, node.commit, node.url):
                path = f"{node.path}/{sub.path}" if node.path else sub.path
                work_tree = node.git.work_tree / sub.path
                git_dir = surveys[path][0].git.git_dir if path in surveys else work_tree / ".git"
                child = Node(Git(git_dir, work_tree, node.git.log), path, sub.url, sub.commit)
                found.append(child)
                if path in surveys and tree.is_fetched(child.git, sub.commit):
                    following.append(child)
        frontier = following
    return found


def hipified_commits(main: Node, top: str | None, nodes: list[Node]) -> dict[str, str | None]:
    """The hipify commit of every repository, read from the submodule entries of the top one's.

    A repository that hipify left alone has its upstream commit. All `None` without a hipify commit.
    """
    found: dict[str, str | None] = {main.path: top}
    for node in sorted((n for n in nodes if n.path != main.path), key=lambda n: n.path.count("/")):
        parents = (n for n in nodes if n.path == "" or node.path.startswith(n.path + "/"))
        owner = max(parents, key=lambda parent: len(parent.path))
        above = found[owner.path]
        inner = node.path[len(owner.path) :].lstrip("/")
        found[node.path] = None if above is None else states.gitlinks(owner.git, above)[inner]
    return found
