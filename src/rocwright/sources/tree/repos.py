"""A checkout as a tree of repositories: the project, its submodules, theirs, and how to populate them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from rocwright.errors import CommandFailed, Interrupted, InvalidInput, NoSpace, RocwrightError
from rocwright.sources.fetch import COMMITS, fetch_from, is_complete, noting
from rocwright.sources.mirror import Mirrors
from rocwright.sources.tree import state as states
from rocwright.sources.tree.survey import behind_a_link
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import files, git
from rocwright.system.git import Git
from rocwright.system.remote import PAUSES_S

T = TypeVar("T")
R = TypeVar("R")


class Node(msgspec.Struct, frozen=True):
    """One repository of a checkout: `path` from the top (empty for the project itself), address, commit."""

    git: Git
    path: str
    url: str
    commit: str


class Submodule(msgspec.Struct, frozen=True):
    """One submodule of a commit, as `.gitmodules` and the tree describe it; `path` from its parent."""

    name: str
    path: str
    url: str
    commit: str


def submodules(repository: Git, commit: str, origin: str) -> tuple[Submodule, ...]:
    """The submodules of a commit; relative addresses are resolved against `origin`.

    Raises `InvalidInput` for one without an address or with a path or name that leaves the repository.
    """
    links = states.gitlinks(repository, commit)
    if not links:
        return ()
    settings: dict[str, dict[str, str]] = {}
    try:
        listing = repository.records("config", "--blob", f"{commit}:.gitmodules", "-z", "--list")
    except CommandFailed:
        listing = []
    for record in listing:
        key, _, value = record.partition("\n")
        section, _, rest = key.partition(".")
        name, _, setting = rest.rpartition(".")
        if section == "submodule":
            settings.setdefault(name, {})[setting] = value
    by_path = {
        values["path"]: (name, values.get("url", "")) for name, values in settings.items() if "path" in values
    }
    found = []
    for path, pinned in sorted(links.items()):
        name, url = by_path.get(path, ("", ""))
        if not url:
            raise InvalidInput(
                f"submodule {path} has no address in .gitmodules of {commit[:12]}", where=repository.work_tree
            )
        for text in (name, path):
            if not _stays_inside(text):
                raise InvalidInput(f"submodule {text!r} leaves its repository", where=repository.work_tree)
        if url.startswith("-"):
            raise InvalidInput(f"submodule {path} has the address {url!r}", where=repository.work_tree)
        # A login that someone published is not used, nor written into a configuration.
        address = git.without_login(resolve_url(url, origin))
        if git.is_local(address) and not git.is_local(origin):
            raise InvalidInput(
                f"submodule {path} of {git.shown(origin)} wants {address} of this machine",
                where=repository.work_tree,
                next_step="have its .gitmodules corrected, or leave submodules out with --no-submodules",
            )
        found.append(Submodule(name, path, address, pinned))
    return tuple(found)


def _stays_inside(text: str) -> bool:
    parts = PurePosixPath(text).parts
    return (
        bool(parts)
        and parts[0] != "/"
        and not text.startswith("-")
        and not {"..", ".git"} & {p.lower() for p in parts}
    )


def resolve_url(url: str, origin: str) -> str:
    """A submodule address; `./` and `../` are relative to the parent's address, as git resolves them."""
    if not url.startswith(("./", "../")):
        return url
    base, separator = origin.rstrip("/"), "/"
    while url.startswith(("./", "../")):
        if url.startswith("./"):
            url = url[2:]
            continue
        url = url[3:]
        cut = max(base.rfind("/"), base.rfind(":"))
        if cut < 0:
            raise InvalidInput(f"submodule address {url!r} climbs above {git.shown(origin)}")
        base, separator = base[:cut], base[cut]
    return base + separator + url


def populated(parent: Git, path: str) -> Git | None:
    """The repository of the submodule at `path`, `None` where there is none.

    What a symbolic link leads to belongs to somebody else, wherever that is.
    """
    work_tree = parent.work_tree / path
    if work_tree.is_symlink() or behind_a_link(parent.work_tree, path):
        return None
    git_dir = git_dir_of(work_tree)
    return None if git_dir is None else Git(git_dir, work_tree, parent.log)


def git_dir_of(work_tree: Path) -> Path | None:
    """The git directory of a populated repository, `None` when there is none."""
    marker = work_tree / ".git"
    if marker.is_dir():
        return marker
    if not marker.is_file():
        return None
    text = marker.read_text(encoding="utf-8").strip()
    return (work_tree / text.removeprefix("gitdir: ")).resolve()


def children(node: Node, commits: Iterable[str]) -> list[Node]:
    """The populated submodules of a repository, at any path that one of `commits` has a submodule at."""
    links: dict[str, str] = {}
    for commit in commits:
        links |= {path: oid for path, oid in states.gitlinks(node.git, commit).items() if path not in links}
    found = []
    for path, oid in sorted(links.items()):
        repository = populated(node.git, path)
        if repository is not None:
            found.append(Node(repository, _join(node.path, path), "", oid))
    return found


def _join(parent: str, path: str) -> str:
    return f"{parent}/{path}" if parent else path


def parallel(work: Callable[[T], R], items: Iterable[T], jobs: int) -> list[R]:
    """Apply `work` to all items, at most `jobs` at a time; results in the order of the items."""
    listed = list(items)
    if len(listed) < 2 or jobs < 2:
        return [work(item) for item in listed]
    with ThreadPoolExecutor(max_workers=min(jobs, len(listed))) as pool:
        return list(pool.map(work, listed))


def fetch_commit(
    repository: Git,
    origin: str,
    commit: str,
    *,
    ref: str | None = None,
    depth: int | None = None,
    mirrors: Mirrors | None = None,
    watch: Watch = NOBODY,
    name: str = "",
) -> None:
    """Make one commit present with everything below it: exactly it where the server allows that.

    Where the server hands out only tips, `ref` (and then all branches and tags) is fetched and must
    contain the commit. A commit that is here already costs no network, nor does one that `mirrors` have;
    with a `depth` they are only read, because a mirror needs the whole history. `watch` is told how far
    `name` is. Raises `Unreachable` when the commit is not to be had or the server is not.
    """
    if is_complete(repository, commit):
        return
    if mirrors is not None and _from_mirror(repository, origin, commit, ref, depth, mirrors, watch, name):
        return
    pauses = PAUSES_S if mirrors is None else mirrors.pauses_s
    fetch_from(repository, origin, commit, ref=ref, depth=depth, note=noting(watch, name), pauses_s=pauses)


def _from_mirror(
    repository: Git,
    origin: str,
    commit: str,
    ref: str | None,
    depth: int | None,
    mirrors: Mirrors,
    watch: Watch,
    name: str,
) -> bool:
    """Whether the commit came from a mirror; one that cannot give it is no reason to fail."""
    mirror = mirrors.repository(origin)
    if depth is None:
        mirror = mirrors.fetch(origin, commit, ref=ref, watch=watch, name=name, log=repository.log)
    if mirror is None:
        return False
    try:
        if depth is None:
            mirrors.share(mirror, repository, commit)
        elif not is_complete(mirror, commit):
            return False
        else:
            repository.fetch(str(mirror.git_dir), f"{commit}:{COMMITS}{commit}", depth=depth)
    except (Interrupted, NoSpace):
        raise
    except RocwrightError:
        watch.note(name, "its mirror cannot be read")
        return False
    return True


def set_up_submodule(parent: Node, submodule: Submodule) -> Node:
    """Make the (possibly still empty) repository of a submodule, laid out as git itself lays it out."""
    work_tree = parent.git.work_tree / submodule.path
    for above in [work_tree, *work_tree.parents]:
        if above == parent.git.work_tree:
            break
        if above.is_symlink():
            raise InvalidInput(f"submodule {submodule.path} lies behind a symbolic link", where=above)
    git_dir = git_dir_of(work_tree)
    if git_dir is None or not git.is_repository(git_dir):
        git_dir = parent.git.git_dir / "modules" / submodule.name
        if not git.is_repository(git_dir):
            git.init(git_dir, work_tree, log=parent.git.log)
        work_tree.mkdir(parents=True, exist_ok=True)
        # Relative, so that the checkout can be moved.
        files.write_text(work_tree / ".git", f"gitdir: {_relative(git_dir, work_tree)}\n")
    repository = Git(git_dir, work_tree, parent.git.log)
    configure(
        repository,
        {
            "core.bare": "false",
            "core.worktree": _relative(work_tree, git_dir),
            "remote.origin.url": submodule.url,
        },
    )
    return Node(repository, _join(parent.path, submodule.path), submodule.url, submodule.commit)


def _relative(path: Path, start: Path) -> str:
    return PurePosixPath(os.path.relpath(path.resolve(), start.resolve())).as_posix()


def configure(repository: Git, wanted: dict[str, str]) -> None:
    """Set those settings of a repository that have another value."""
    current = {}
    for record in repository.records("config", "--local", "-z", "--list"):
        key, _, value = record.partition("\n")
        current[key] = value
    for key, value in wanted.items():
        # git prints section and variable in lower case, the part between as it is.
        section, middle, variable = key.split(".", 1)[0], key.split(".")[1:-1], key.rsplit(".", 1)[1]
        if current.get(".".join([section.lower(), *middle, variable.lower()])) != value:
            repository.run("config", "--local", key, value)


def remove_unwanted_submodules(node: Node, before: Iterable[str], wanted: Iterable[str]) -> None:
    """Remove the work trees of submodules that `wanted` (paths) does not name; their repositories stay."""
    keep = {*wanted}
    for child in children(node, before):
        path = child.git.work_tree.relative_to(node.git.work_tree).as_posix()
        if path not in keep:
            _let_stand_alone(child)
            files.remove_tree(child.git.work_tree)
            # An unpopulated submodule is an empty directory; git removes it where the commit has none.
            child.git.work_tree.mkdir()


def _let_stand_alone(node: Node) -> None:
    """Have a repository not name a work tree that goes: git would not show what it holds."""
    head = node.git.resolve("HEAD")
    for child in children(node, [head] if head is not None else []):
        _let_stand_alone(child)
    node.git.run("config", "--local", "--unset-all", "core.worktree", ok=(0, 5))
