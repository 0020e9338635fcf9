"""The PyTorch family: where the projects' sources live, what pins them, which versions are looked after."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal

import msgspec

from rocwright.errors import UsageError


class RelatedCommitsPin(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="related_commits", tag_field="kind"
):
    """Pinned by a line of torch's `related_commits`; `key` is the project's name in that file."""

    file: str
    key: str


class CommitFilePin(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="commit_file", tag_field="kind"
):
    """Pinned by a file of torch that holds one commit id.

    `version_file` holds the version; `release_ref` makes a release branch out of its `{major}` and
    `{minor}`.
    """

    file: str
    version_file: str
    release_ref: str


class PlatformRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What differs on one platform; `None` means as elsewhere.

    A release for it may lack what is `optional`.
    """

    origin: str | None = None
    ref: str | None = None
    hipify: bool | None = None
    pinned: bool = True
    optional: bool = False


class Project(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of `data/projects.toml`; the file's head explains the fields."""

    name: str
    directory: str
    origin: str
    hipify: bool
    submodules: bool
    alias: str | None = None
    ref: str | None = None
    pin: RelatedCommitsPin | CommitFilePin | None = None
    build_env: dict[str, str] = {}
    windows: PlatformRow | None = None

    def optional(self, platform: str) -> bool:
        """Whether a release for `linux` or `windows` may lack it."""
        return platform == "windows" and self.windows is not None and self.windows.optional

    def on(self, platform: str) -> Project:
        """The row as it reads on `linux` or `windows`."""
        row = self.windows if platform == "windows" else None
        if row is None:
            return self
        return msgspec.structs.replace(
            self,
            origin=row.origin or self.origin,
            ref=row.ref or self.ref,
            hipify=self.hipify if row.hipify is None else row.hipify,
            pin=self.pin if row.pinned else None,
        )


Support = Literal["supported", "previous", "unsupported"]


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of PyTorch: the branch of torch, and branches of projects that torch does not pin."""

    name: str
    origin: str
    ref: str
    linux: Support
    windows: Support
    source: str
    refs: dict[str, str] = {}

    def on(self, platform: str) -> Support:
        """How it is looked after on `linux` or `windows`."""
        return self.windows if platform == "windows" else self.linux


class ProjectTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rows of `data/projects.toml` (and of a `rocwright.toml`)."""

    project: tuple[Project, ...]
    line: tuple[Line, ...]

    @property
    def projects(self) -> tuple[Project, ...]:
        """One row for each name, in order; the last of a name counts."""
        return tuple({row.name: row for row in self.project}.values())

    @property
    def lines(self) -> tuple[Line, ...]:
        """One row for each version of PyTorch, in order; the last of a name counts."""
        return tuple({row.name: row for row in self.line}.values())

    def get(self, name: str) -> Project:
        """The row called `name`, in full or by its short name; raises `UsageError` listing the known ones."""
        for project in self.projects:
            if name in (project.name, project.alias):
                return project
        known = [project.name for project in self.projects]
        raise UsageError(f"unknown project {name!r}", next_step=f"choose one of: {_listed(name, known)}")

    def get_line(self, name: str) -> Line:
        """The version of PyTorch called `name` (`2.9`, also `release/2.9`); raises `UsageError`."""
        for line in self.lines:
            if name in (line.name, line.ref):
                return line
        known = [line.name for line in self.lines]
        raise UsageError(
            f"unknown version of PyTorch: {name!r}",
            next_step=f"choose one of: {_listed(name, known)}; or name repository and ref yourself",
        )


def _listed(name: str, known: list[str]) -> str:
    """All names, those that may have been meant first."""
    near = get_close_matches(name, known, n=3)
    return ", ".join(dict.fromkeys([*near, *known]))
