"""The lock: which commit of which repository is meant, and what it became; the input of every later step."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import InvalidData, UsageError
from rocwright.sources import pins
from rocwright.system import files

SCHEMA = 1
LOCK_NAME = "sources.lock.json"


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a checkout of a locked commit became; a replay has to become the same.

    `tip` is the commit whose files lie in the directory: the last patch, else `hipify_commit`, else the
    upstream commit. `hipify_commit` is None where hipify was not wanted, not there, or changed nothing;
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

    def updated(self, other: SourceLock) -> SourceLock:
        """This lock with the sources of `other` added or put in place of older ones."""
        newer = {source.project: source for source in other.sources}
        kept = tuple(newer.pop(source.project, source) for source in self.sources)
        return SourceLock(SCHEMA, other.platform, kept + tuple(newer.values()))


def write_lock(lock: SourceLock, path: Path) -> None:
    """Write a lock as indented JSON, atomically."""
    files.write_text(path, msgspec.json.format(msgspec.json.encode(lock), indent=2).decode() + "\n")


def read_lock(path: Path) -> SourceLock:
    """Read a lock; raises `InvalidData` for another schema, unknown fields or commits that are none."""
    try:
        lock = msgspec.json.decode(path.read_bytes(), type=SourceLock)
    except FileNotFoundError as error:
        raise InvalidData(f"the lock {path} does not exist", where=path, next_step="make it first") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path} is no source lock: {error}", where=path) from error
    if lock.schema != SCHEMA:
        raise InvalidData(f"{path} has schema {lock.schema}, this version reads {SCHEMA}", where=path)
    for source in lock.sources:
        if not pins.is_commit_id(source.commit):
            raise InvalidData(f"{path}: {source.commit!r} of {source.project} is no commit id", where=path)
    return lock
