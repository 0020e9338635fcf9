"""What a checkout that is already there is at, as a locked source, which everything else takes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocwright.errors import UsageError
from rocwright.model.project import Project, ProjectTable
from rocwright.sources.lock import LockedSource
from rocwright.sources.tree import state as states
from rocwright.sources.tree.state import UPSTREAM_TAG
from rocwright.system.git import Git, is_repository


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
            f"{place} is no git checkout",
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
        text = (repository.git_dir / "rocwright" / "build_env.json").read_bytes()
    except FileNotFoundError:
        return {}
    return msgspec.json.decode(text, type=dict[str, str])
