"""The lock: which commit of which repository is meant, and what it became; the input of every later step."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.errors import InvalidData, UsageError
from rocwright.model.build_env import variable_problem
from rocwright.model.platforms import PLATFORMS
from rocwright.model.project import TORCH, folder_problem, origin_problem, ref_problem
from rocwright.sources.pins import is_commit_id
from rocwright.system import files, locks

SCHEMA = 1
LOCK_NAME = "sources.lock.json"


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a checkout of a locked commit became; a replay has to become the same.

    `tip` is the commit whose files lie in the directory: the last patch, else `hipify_commit`, else the
    upstream commit. `hipify_commit` is null where hipify was not wanted, not there, or changed nothing;
    `rules` is the digest of the script and its modules, `python` the version that ran it.
    """

    tip: str
    hipify_commit: str | None = None
    rules: str | None = None
    python: str | None = None


class LockedSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One project at one commit.

    `ref` is complete (`refs/heads/…`), or the commit id itself. `why` says where the ref came from, `pin`
    the file (and line) that said so and the torch commit it was read at. `directory` is the name of the
    checkout's folder, below whatever directory a step works in. `hip_clang` is the flag that
    the hipify script would otherwise read from the ROCm that happens to be installed.
    """

    project: str
    origin: str
    ref: str
    commit: str
    why: Literal["flag", "line", "pin", "default"]
    directory: str
    hipify: bool
    hip_clang: bool = False
    submodules: bool = True
    pin: str | None = None
    build_env: dict[str, str] = {}
    outcome: Outcome | None = None


class SourceLock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The commits of a set of projects for one platform (`linux` or `windows`)."""

    schema: int
    platform: str
    sources: tuple[LockedSource, ...]

    def get(self, project: str) -> LockedSource:
        """The locked source of a project; raises `UsageError` when the lock does not hold it."""
        for source in self.sources:
            if source.project == project:
                return source
        held = ", ".join(source.project for source in self.sources) or "nothing"
        raise UsageError(f"the lock does not hold {project}", next_step=f"it holds {held}; lock it first")

    def in_order(self) -> SourceLock:
        """The same sources in the order in which a lock is written: torch, then the others by name."""
        ordered = sorted(self.sources, key=lambda source: (source.project != TORCH, source.project))
        return msgspec.structs.replace(self, sources=tuple(ordered))

    def for_platform(self, platform: str) -> SourceLock:
        """This lock, when it was made for `platform`; raises `UsageError` for another one.

        Origins, pins and whether a project is hipified differ between platforms, so a lock is only
        replayed on its own; reading and comparing it is possible anywhere.
        """
        if platform != self.platform:
            raise UsageError(
                f"the lock was made for {self.platform}, not for {platform}",
                next_step=f"name the platform {self.platform}, or lock for {platform} in another file",
            )
        return self

    def updated(self, other: SourceLock) -> SourceLock:
        """This lock with the sources of `other` added or put in place of older ones.

        Raises `UsageError` for a lock of another platform.
        """
        self.for_platform(other.platform)
        newer = {source.project: source for source in (*self.sources, *other.sources)}
        return SourceLock(SCHEMA, self.platform, tuple(newer.values())).in_order()

    def only(self, projects: tuple[str, ...]) -> SourceLock:
        """The named projects, in this order; raises `UsageError` for one that the lock does not hold."""
        return msgspec.structs.replace(self, sources=tuple(map(self.get, projects)))

    def bare(self, *, hipify: bool, submodules: bool) -> SourceLock:
        """The lock without hipifying or without submodules where these are not wanted."""
        if hipify and submodules:
            return self
        sources = tuple(
            msgspec.structs.replace(
                source,
                hipify=source.hipify and hipify,
                submodules=source.submodules and submodules,
                # It became this with all of its parts.
                outcome=None,
            )
            for source in self.sources
        )
        return msgspec.structs.replace(self, sources=sources)

    def with_outcomes_of(self, earlier: SourceLock) -> SourceLock:
        """This lock with outcomes of an earlier one where that says the same of a project otherwise."""
        bare = {each.project: (msgspec.structs.replace(each, outcome=None), each) for each in earlier.sources}
        kept = []
        for source in self.sources:
            said, before = bare.get(source.project, (None, source))
            kept.append(before if said == source else source)
        return msgspec.structs.replace(self, sources=tuple(kept))


def record_lock(lock: SourceLock, path: Path) -> SourceLock:
    """Write these projects into the lock at `path`, beside those it holds already; returns the whole.

    A project of which the same is said as before keeps what an earlier checkout made of it, until another
    result is there. Raises `InvalidData` for a lock that cannot be read, `UsageError` for one of another
    platform that holds other projects, too.
    """
    files.make_directory(path.parent)
    with locks.turn_in(path.parent):
        whole = lock
        if path.exists():
            earlier = read_lock(path)
            replaced = {source.project for source in earlier.sources} <= {one.project for one in lock.sources}
            if earlier.platform == lock.platform or not replaced:
                whole = earlier.updated(lock)
            whole = whole.with_outcomes_of(earlier)
        write_lock(whole, path)
    return whole


def write_lock(lock: SourceLock, path: Path) -> None:
    """Write a lock as indented JSON, atomically; equal locks are equal bytes.

    Raises `InvalidData` for a lock that `read_lock` would refuse.
    """
    _refuse(_problems(lock), path)
    encoder = msgspec.json.Encoder(order="deterministic")
    text = msgspec.json.format(encoder.encode(lock.in_order()), indent=2).decode()
    files.write_text(path, text + "\n")


def read_lock(path: Path) -> SourceLock:
    """Read a lock; raises `InvalidData` naming every field that is not what a lock may hold.

    That is another schema, unknown, missing or doubled fields, a project or folder named twice, folders
    that are no bare names, commits that are no complete ids, and addresses with a login or an option.
    """
    try:
        values = json.loads(path.read_bytes(), object_pairs_hook=_once)
        # A later version may say things this one cannot tell from mistakes.
        _check_schema(values, path)
        lock = msgspec.convert(values, SourceLock)
    except FileNotFoundError as error:
        raise InvalidData(
            f"the lock {path} does not exist", where=path, next_step="make it with `rocwright sources lock`"
        ) from error
    except OSError as error:
        raise InvalidData(
            f"the lock {path} cannot be read: {error.strerror}",
            where=path,
            next_step="name a lock, or a directory that holds one",
        ) from error
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise InvalidData(f"{path} is not a source lock: {why}", where=path, next_step=_NEXT) from error
    _refuse(_problems(lock), path)
    return lock


def torch_commits(path: Path) -> tuple[str, ...]:
    """The commits of torch in a lock: upstream's, hipified, with patches; each once.

    Raises `InvalidData` for a file that is no lock, `UsageError` for one that does not hold torch.
    """
    source = read_lock(path).get(TORCH)
    outcome = source.outcome
    more = (outcome.hipify_commit, outcome.tip) if outcome is not None else ()
    return tuple(dict.fromkeys(commit for commit in (source.commit, *more) if commit))


_NEXT = "correct the field that is named, or make the lock again with `rocwright sources lock`"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of two values of one name most readers would silently take the last."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the field {name!r} appears twice in one object")
        values[name] = value
    return values


def _check_schema(values: object, path: Path) -> None:
    schema = values.get("schema") if isinstance(values, dict) else None
    if type(schema) is int and schema != SCHEMA:
        raise InvalidData(
            f"{path} has schema {schema}, this version reads {SCHEMA}",
            where=path,
            next_step="use the version that wrote it, or make it again with `rocwright sources lock`",
        )


def _refuse(problems: list[str], path: Path) -> None:
    if problems:
        raise InvalidData("\n".join(f"{path}: {text}" for text in problems), where=path, next_step=_NEXT)


def _problems(lock: SourceLock) -> list[str]:
    """Everything in a lock that a checkout could not, or must not, follow."""
    found = []
    if lock.platform not in PLATFORMS:
        found.append(f"platform {lock.platform!r} is not one of {', '.join(PLATFORMS)}")
    projects: dict[str, int] = {}
    folders: dict[str, int] = {}
    for number, source in enumerate(lock.sources):
        place = f"sources[{number}]"
        found += [f"{place}.{text}" for text in _source_problems(source)]
        # Windows and macOS do not tell capital letters apart.
        for field, seen, value in (
            ("project", projects, source.project),
            ("directory", folders, source.directory.lower()),
        ):
            earlier = seen.setdefault(value, number)
            if earlier != number:
                found.append(f"{place}.{field} {value!r} is already in sources[{earlier}]")
    return found


def _source_problems(source: LockedSource) -> Iterable[str]:
    named: list[tuple[str, str, str | None]] = [
        ("project", source.project, folder_problem(source.project)),
        ("directory", source.directory, folder_problem(source.directory)),
        ("commit", source.commit, _commit_problem(source.commit)),
        ("ref", source.ref, _ref_problem(source.ref, source.commit)),
        ("pin", source.pin or "", None if (source.pin or "").isprintable() else "holds control characters"),
    ]
    if source.outcome is not None:
        named.append(("outcome.tip", source.outcome.tip, _commit_problem(source.outcome.tip)))
        hipified = source.outcome.hipify_commit
        named.append(
            ("outcome.hipify_commit", hipified or "", None if hipified is None else _commit_problem(hipified))
        )
    named += [("build_env", name, variable_problem(name, value)) for name, value in source.build_env.items()]
    problem = origin_problem(source.origin)
    # The address may hold a password; it is never shown.
    shown = [] if problem is None else [f"origin {problem}"]
    return shown + [f"{field} {value!r} {why}" for field, value, why in named if why is not None]


def _commit_problem(commit: str) -> str | None:
    return None if is_commit_id(commit) else "is not a complete commit id"


def _ref_problem(ref: str, commit: str) -> str | None:
    if ref == commit:
        return None
    if ref != "HEAD" and not ref.startswith("refs/"):
        return "is neither a complete ref nor the commit"
    return ref_problem(ref)
