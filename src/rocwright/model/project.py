"""The projects of the PyTorch family: where their sources live and what pins them."""

from __future__ import annotations

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


class ProjectTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rows of `data/projects.toml`."""

    projects: tuple[Project, ...]

    def get(self, name: str) -> Project:
        """The row called `name`; raises `UsageError` listing the known ones."""
        for project in self.projects:
            if project.name == name:
                return project
        known = ", ".join(project.name for project in self.projects)
        raise UsageError(f"unknown project {name!r}", next_step=f"choose one of: {known}")
