"""Decides once which commit of which repository is meant; everything after reads the answer from the lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import CommandFailed, InvalidPin, RocwrightError, UsageError
from rocwright.model.platforms import PLATFORMS
from rocwright.model.project import (
    ALL,
    TORCH,
    CommitFilePin,
    Line,
    Project,
    ProjectTable,
    RelatedCommitsPin,
    is_path,
    origin_problem,
)
from rocwright.sources.fetch import read_files
from rocwright.sources.lock import SCHEMA, LockedSource, SourceLock
from rocwright.sources.mirror import Mirrors
from rocwright.sources.pins import (
    TORCH_FIRST,
    CommitPins,
    Pinned,
    Pins,
    TreePins,
    read_checkout,
    read_pin,
)
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import git

Why = Literal["flag", "line", "pin", "default"]


class Request(msgspec.Struct, frozen=True):
    """What the user asks for; `None` leaves the choice to the line, the pin, then the project's row.

    `release` takes the release branch that belongs to the version in the torch tree instead of the
    pinned commit (triton). `line` is a version of PyTorch by the name it has in the table.
    """

    project: str
    origin: str | None = None
    ref: str | None = None
    hipify: bool | None = None
    hip_clang: bool = False
    submodules: bool | None = None
    release: bool = False
    line: str | None = None


def requests_for(
    names: Sequence[str], table: ProjectTable, *, line: str | None = None, platform: str = "linux"
) -> tuple[Request, ...]:
    """A request for every named project, each once; `all` means every row a release needs on the platform.

    Raises `UsageError` for an unknown project, line or platform, and for a line that is not looked after
    on the platform.
    """
    _check_platform(platform)
    chosen = None if line is None else _line(table, line, platform)
    rows: dict[str, Project] = {}
    for name in names:
        found = (
            [row for row in table.projects if not row.optional(platform)]
            if name == ALL
            else [table.get(name)]
        )
        rows |= {row.name: row for row in found}
    return tuple(Request(name, line=None if chosen is None else chosen.name) for name in rows)


def _line(table: ProjectTable, name: str, platform: str) -> Line:
    line = table.get_line(name)
    if line.on(platform) == "unsupported":
        fit = ", ".join(each.name for each in table.lines if each.on(platform) != "unsupported")
        raise UsageError(
            f"PyTorch {line.name} is not supported on {platform}",
            next_step=f"choose one of: {fit}; or give --gitrepo-origin and --repo-hashtag",
        )
    return line


def _check_platform(platform: str) -> None:
    if platform not in PLATFORMS:
        raise UsageError(f"unknown platform {platform!r}", next_step=f"choose one of: {', '.join(PLATFORMS)}")


def resolve(
    requests: Sequence[Request],
    *,
    projects: ProjectTable,
    torch_dir: Path | None = None,
    require_related_commit: bool = False,
    platform: str = "linux",
    mirrors: Mirrors | None = None,
    log: Path | None = None,
    watch: Watch = NOBODY,
) -> SourceLock:
    """Turn requests into exact commits; asks the remote repositories, checks nothing out.

    For origin and ref alike a flag goes before the line, the line before a pin, a pin before the project's
    row. Pins are read at the torch commit that the same call locks; without torch among the requests at
    the commit that their line means now; without a line in the files of `torch_dir`.

    Raises `InvalidPin` for a missing but required or malformed pin, `UsageError` for an unknown project, a
    ref nobody names or options that contradict each other, `Unreachable` for a repository or ref that is
    not there. Of several projects all problems are told.
    """
    _check_platform(platform)
    asked = [_Asked.of(request, projects, platform) for request in requests]
    _check(asked, require_related_commit)
    watch.expect(len(asked))

    def locked(one: _Asked, tree: Pins | None) -> LockedSource:
        return _watched(watch, one, lambda: _lock_one(one, tree, require_related_commit, log))

    torch = [locked(one, None) for one in asked if one.project.name == TORCH]
    others = [one for one in asked if one.project.name != TORCH]
    tree = _pins(torch, others, projects, torch_dir, mirrors, platform, log) if others else None
    found = torch + _together(lambda one: locked(one, tree), others)
    return SourceLock(SCHEMA, platform, tuple(found)).in_order()


class _Asked(msgspec.Struct, frozen=True):
    """A request with the row and the line it is about."""

    request: Request
    project: Project
    line: Line | None

    @staticmethod
    def of(request: Request, table: ProjectTable, platform: str) -> _Asked:
        line = None if request.line is None else _line(table, request.line, platform)
        return _Asked(request, table.get(request.project).on(platform), line)

    @property
    def line_ref(self) -> str | None:
        """The ref that the line names for the project."""
        if self.line is None:
            return None
        return self.line.ref if self.project.name == TORCH else self.line.refs.get(self.project.name)

    @property
    def line_origin(self) -> str | None:
        """The repository that the line names; it names torch's alone."""
        return self.line.origin if self.line is not None and self.project.name == TORCH else None


def _check(asked: Sequence[_Asked], require: bool) -> None:
    """Refuse requests that contradict themselves or each other; asks nobody."""
    names = [one.project.name for one in asked]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is asked for twice", next_step="ask for it once")
    if len({one.request.line for one in asked}) > 1:
        raise UsageError(
            "the projects are asked for at different versions of PyTorch",
            next_step="ask for one version at a time",
        )
    for one in asked:
        request, project = one.request, one.project
        problem = None if request.origin is None else origin_problem(request.origin, relative=True)
        if problem is not None:
            raise UsageError(
                f"the origin given for {project.name} {problem}",
                next_step="write it like https://github.com/ORG/REPOSITORY",
            )
        release_ref = project.pin.release_ref if isinstance(project.pin, CommitFilePin) else None
        if request.release and release_ref is None:
            raise UsageError(
                f"{project.name} has no release branch that follows torch's pins",
                next_step="leave the release option out, or name the branch as its ref",
            )
        if request.release and request.ref is not None:
            raise UsageError(
                f"{project.name} is asked for at its release branch and at {request.ref}",
                next_step="leave one of the two out",
            )
        if require and project.pin is None and (project.name != TORCH or len(asked) == 1):
            raise UsageError(
                f"torch pins no commit of {project.name}, so none can be required",
                next_step="require pinned commits of other projects alone",
            )


def _pins(
    torch: Sequence[LockedSource],
    others: Sequence[_Asked],
    table: ProjectTable,
    torch_dir: Path | None,
    mirrors: Mirrors | None,
    platform: str,
    log: Path | None,
) -> Pins | None:
    """The torch tree that pins `others`."""
    line = others[0].line
    if not torch and line is None:
        return None if torch_dir is None else TreePins(torch_dir)
    if torch:
        origin, ref, commit = torch[0].origin, torch[0].ref, torch[0].commit
    else:
        row = table.get(TORCH).on(platform)
        origin = line.origin if line is not None else row.origin
        found = git.resolve_remote(origin, line.ref if line is not None else row.ref or "HEAD", log=log)
        ref, commit = found.ref, found.commit
    names: dict[str, None] = {}
    for one in others:
        pin = one.project.pin
        names |= dict.fromkeys([] if pin is None else [pin.file])
        if isinstance(pin, CommitFilePin) and pin.version_file is not None:
            names[pin.version_file] = None

    def read(origin: str, commit: str, names: Sequence[str]) -> Mapping[str, str]:
        here = None if torch_dir is None else read_checkout(torch_dir, commit, names)
        if here is not None:
            return here
        if mirrors is None:
            return read_files(origin, commit, names, ref=ref, log=log)
        mirror, pauses = mirrors.repository(origin), mirrors.pauses_s
        return read_files(origin, commit, names, mirror=mirror, ref=ref, log=log, pauses_s=pauses)

    return CommitPins(origin, commit, read, tuple(names))


def _watched(watch: Watch, one: _Asked, work: Callable[[], LockedSource]) -> LockedSource:
    name = f"resolve {one.project.name}"
    watch.start(name)
    try:
        locked = work()
    except BaseException:
        watch.end(name, "failed")
        raise
    watch.end(name, "done", f"{locked.commit[:12]} ({locked.why})")
    return locked


def _together(work: Callable[[_Asked], LockedSource], asked: Sequence[_Asked]) -> list[LockedSource]:
    """Ask the servers side by side; every project is tried, so that every problem is told."""
    with ThreadPoolExecutor(max_workers=max(1, len(asked))) as pool:
        futures: list[Future[LockedSource]] = [pool.submit(partial(work, one)) for one in asked]
    errors = [error for future in futures if (error := future.exception()) is not None]
    told = {str(error): error for error in errors if isinstance(error, RocwrightError)}
    if len(told) == len(errors) > 1 and not any(isinstance(error, CommandFailed) for error in errors):
        raise type(next(iter(told.values())))("\n".join(told))
    for error in errors:
        raise error
    return [future.result() for future in futures]


def _lock_one(one: _Asked, tree: Pins | None, require: bool, log: Path | None) -> LockedSource:
    request, project = one.request, one.project
    pinned = _pinned(one, tree, require)
    origin = request.origin or one.line_origin or (pinned.origin if pinned else None) or project.origin
    if is_path(origin):
        # The lock is read from other directories.
        origin = str(Path(origin).expanduser().resolve())
    why, found = _found(one, pinned, origin, tree, log)
    pin = pinned if why == "pin" else None
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
        pin=pin.said if pin is not None else None,
        build_env=project.build_env if pin is not None and pin.commit is not None else {},
    )


def _found(
    one: _Asked, pinned: Pinned | None, origin: str, tree: Pins | None, log: Path | None
) -> tuple[Why, git.RemoteRef]:
    """What names the commit, and the commit."""
    request, project = one.request, one.project
    if request.ref is not None:
        return "flag", git.resolve_remote(origin, request.ref, log=log)
    if one.line_ref is not None and not request.release:
        return "line", git.resolve_remote(origin, one.line_ref, log=log)
    if pinned is not None and pinned.commit is not None:
        # The pinned commit is what counts; its branch only helps to find it on a server that hands out
        # nothing but the tips of branches.
        return "pin", git.RemoteRef("commit", pinned.ref, pinned.commit)
    if pinned is not None:
        return "pin", git.resolve_remote(origin, pinned.ref, log=log)
    if project.ref is not None and not request.release:
        return "default", git.resolve_remote(origin, project.ref, log=log)
    raise UsageError(
        f"which commit of {project.name} is meant is written in the torch checkout, which was not found",
        where=tree.where(project.pin.file) if tree is not None and project.pin is not None else None,
        next_step=TORCH_FIRST,
    )


def _pinned(one: _Asked, tree: Pins | None, require: bool) -> Pinned | None:
    """The pin, where it has a say; raises `InvalidPin` where one has to be there and is not."""
    request, pin = one.request, one.project.pin
    named = request.ref is not None or (one.line_ref is not None and not request.release)
    # Only a related commit says where the repository is.
    asked = require or not named or (
        request.ref is not None and request.origin is None and isinstance(pin, RelatedCommitsPin)
    )  # fmt: skip
    if pin is None or not asked:
        return None
    found = None if tree is None else read_pin(pin, tree, release=request.release)
    needed = require or (one.line is not None and one.line.pinned and not named)
    if found is None and needed:
        place = f" in {tree.where(pin.file)}" if tree is not None else ""
        raise InvalidPin(
            f"no pin for {one.project.name} was found{place}, but one is required",
            next_step=f"{TORCH_FIRST} and require no pin",
        )
    return found
