"""What is decided about each file, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from packaging.requirements import Requirement
from packaging.version import Version

from rocwright.wheel.reversion.directory import WheelArchive
from rocwright.wheel.reversion.rewrite import Piece
from rocwright.wheel.reversion.versions import Change

_NOTHING: Mapping[str, str] = MappingProxyType({})


class WheelEdits(msgspec.Struct, frozen=True):
    """A wheel as it lies, and the pieces of the new one: bytes, and ranges of the old file."""

    archive: WheelArchive
    pieces: tuple[Piece, ...]


class SdistEdits(msgspec.Struct, frozen=True):
    """An sdist's new root folder, and new content of members by path below the old one."""

    old_root: str
    new_root: str
    changed: Mapping[str, bytes]


# None takes the file as it is.
Work: TypeAlias = "WheelEdits | SdistEdits | None"


class FileChange(msgspec.Struct, frozen=True):
    """A file and what becomes of it.

    `name` is its new name; versions are equal where it stays as it is. `edited` are members (by their old
    names) with new content, `requirements` old and new text of those that change, `dropped` members that are
    left out because they sign what changes, `left` members that still mention an old version.
    """

    source: Path
    name: str
    project: str
    old: str
    new: str
    edited: tuple[str, ...] = ()
    requirements: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    work: Work = None

    @property
    def said(self) -> dict[str, object]:
        """All of it but the bytes, to be written as JSON."""
        return {
            "source": str(self.source),
            "name": self.name,
            "project": self.project,
            "old": self.old,
            "new": self.new,
            "edited": self.edited,
            "requirements": [{"old": old, "new": new} for old, new in self.requirements],
            "dropped": self.dropped,
            "left": self.left,
        }


class ReversionPlan(msgspec.Struct, frozen=True):
    """ROCm's version before and after, and every file of the set, sorted by its old name."""

    old: str
    new: str
    files: tuple[FileChange, ...]


class PlannedDistribution(msgspec.Struct, frozen=True):
    """A wheel or sdist as far as planning for the whole set needs it.

    `requires` are its requirements as written; `extras` those it provides; `tags` of a wheel.
    """

    path: Path
    project: str
    version: Version
    own: bool
    spelled: str
    requires: tuple[str, ...]
    parsed: tuple[Requirement, ...]
    extras: tuple[str, ...]
    tags: tuple[str, ...]


class Changes(msgspec.Struct, frozen=True):
    """What changes in the whole set: versions by project, and texts that stand for versions."""

    rocm: Change
    projects: Mapping[str, tuple[Change, ...]]
    texts: Mapping[str, str]
