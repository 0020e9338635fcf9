"""Decides once which commit of which repository is meant; everything after reads the answer from the lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rocwright.errors import InvalidPin, UsageError
from rocwright.model.project import CommitFilePin, Project, ProjectTable, RelatedCommitsPin
from rocwright.sources import pins
from rocwright.sources.lock import SCHEMA, LockedSource, SourceLock
from rocwright.system import git


@dataclass(frozen=True)
class Request:
    """What the user asks for; `None` leaves the choice to the line, the pin, then the project's row.

    `release` takes the release branch that belongs to the version in the torch tree instead of the
    pinned commit (triton).
    """

    project: str
    origin: str | None = None
    ref: str | None = None
    hipify: bool | None = None
    hip_clang: bool = False
    submodules: bool | None = None
    release: bool = False


@dataclass(frozen=True)
class _Pinned:
    origin: str | None
    ref: str
    commit: str | None
    said_by: str


def resolve(
    requests: Sequence[Request],
    *,
    projects: ProjectTable,
    torch_dir: Path | None = None,
    require_related_commit: bool = False,
    platform: str = "linux",
    log: Path | None = None,
) -> SourceLock:
    """Turn requests into exact commits; asks the remote repositories, writes nothing.

    For origin and ref alike a flag goes before a pin and a pin before the project's row. Pins are read
    from `torch_dir`.

    Raises `InvalidPin` for a missing but required or malformed pin, `UsageError` for an unknown project or
    a ref nobody names, `Unreachable` for a repository or ref that is not there.
    """
    names = [request.project for request in requests]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is asked for twice")
    locked = (
        _resolve_one(
            request, projects.get(request.project).on(platform), torch_dir, require_related_commit, log
        )
        for request in requests
    )
    return SourceLock(SCHEMA, platform, tuple(locked))


def _resolve_one(
    request: Request, project: Project, torch_dir: Path | None, require: bool, log: Path | None
) -> LockedSource:
    pinned = None
    if request.ref is None or request.origin is None or require:
        pinned = _pin(project, torch_dir, release=request.release)
    if require and isinstance(project.pin, RelatedCommitsPin) and pinned is None:
        raise InvalidPin(
            f"no pin for {project.name} was found, but one is required",
            where=None if torch_dir is None else torch_dir / project.pin.file,
            next_step="check torch out first (or name its directory), or do not require the pin",
        )
    origin = request.origin or (pinned.origin if pinned else None) or project.origin
    if git.is_local(origin) and "://" not in origin:
        # The lock is read from other directories.
        origin = str(Path(origin).expanduser().resolve())
    why: Literal["flag", "pin", "default"]
    if request.ref is not None:
        why, found = "flag", git.resolve_remote(origin, request.ref, log=log)
    elif pinned is not None and pinned.commit is not None:
        # The pinned commit is what counts; its branch only helps to find it on a server that hands out
        # nothing but the tips of branches.
        why, found = "pin", git.RemoteRef("commit", pinned.ref, pinned.commit)
    elif pinned is not None:
        why, found = "pin", git.resolve_remote(origin, pinned.ref, log=log)
    elif project.ref is not None:
        why, found = "default", git.resolve_remote(origin, project.ref, log=log)
    else:
        raise UsageError(
            f"which commit of {project.name} is meant is written in the torch checkout, which was not found",
            next_step="check torch out first (or name its directory), or give the ref explicitly",
        )
    return LockedSource(
        project=project.name,
        origin=origin,
        ref=found.ref,
        commit=found.commit,
        why=why,
        directory=project.directory,
        hipify=project.hipify if request.hipify is None else request.hipify,
        hip_clang=request.hip_clang,
        submodules=project.submodules if request.submodules is None else request.submodules,
        pin=pinned.said_by if pinned is not None and why == "pin" else None,
        build_env=project.build_env
        if pinned is not None and pinned.commit is not None and why == "pin"
        else {},
    )


def _pin(project: Project, torch_dir: Path | None, *, release: bool) -> _Pinned | None:
    pin = project.pin
    if release and not isinstance(pin, CommitFilePin):
        raise UsageError(f"{project.name} has no release branch that follows torch")
    if pin is None or torch_dir is None:
        return None
    path = torch_dir / pin.file
    if isinstance(pin, RelatedCommitsPin):
        record = pins.related_commit(pins.read_related_commits(path), pin.key)
        if record is None:
            return None
        at = _torch_commit(torch_dir)
        return _Pinned(
            record.origin, f"refs/heads/{record.branch}", record.commit, f"{pin.file}:{record.line}{at}"
        )
    if release:
        ref = pins.read_release_branch(torch_dir / pin.version_file, pin.release_ref)
        return _Pinned(None, ref, None, pin.version_file + _torch_commit(torch_dir))
    commit = pins.read_commit_file(path)
    if commit is None:
        return None
    return _Pinned(None, commit, commit, pin.file + _torch_commit(torch_dir))


def _torch_commit(torch_dir: Path) -> str:
    """` @ <commit>`: a pin is only sound for the torch commit it was read at; empty outside a checkout."""
    if not (torch_dir / ".git").is_dir():
        return ""
    repository = git.Git(torch_dir / ".git", torch_dir)
    # Hipify adds a commit of our own on top, which nobody else knows.
    upstream = repository.resolve("refs/tags/THEROCK_UPSTREAM_DIFFBASE") or repository.resolve("HEAD")
    return "" if upstream is None else f" @ {upstream}"
