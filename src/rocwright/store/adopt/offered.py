"""What an index offers, as values: files with their addresses, by project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion

# As a manifest takes them: a name becomes part of a path and of a URL.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
ENDINGS = (".whl", ".tar.gz")


@dataclass(frozen=True)
class Link:
    """A file as a page links to it; nothing of it is verified yet.

    `metadata` says whether its METADATA can be had beside it, and with which sha256 if that is told.
    """

    name: str
    url: str
    sha256: str | None = None
    size: int | None = None
    requires_python: str | None = None
    metadata: bool | str = False
    yanked: str | None = None


@dataclass(frozen=True)
class Offered:
    """A wheel or sdist that an index offers; `tags` are those of the name, none for an sdist."""

    link: Link
    project: str
    version: str
    tags: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The file's name."""
        return self.link.name

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel, and no sdist."""
        return self.name.endswith(".whl")


@dataclass(frozen=True)
class Catalogue:
    """What is known of an index: files by project, as far as their pages have been read.

    `listing` are the names of its projects, None where it does not tell them (or far too many).
    """

    files: Mapping[str, tuple[Offered, ...]]
    listing: frozenset[str] | None = None

    def versions(self, project: str) -> Mapping[str, tuple[Offered, ...]]:
        """The files of a project by version."""
        found: dict[str, tuple[Offered, ...]] = {}
        for one in self.files.get(project, ()):
            found[one.version] = (*found.get(one.version, ()), one)
        return found

    def may_have(self, project: str) -> bool:
        """Whether a page of the project is still to be read."""
        return project not in self.files and (self.listing is None or project in self.listing)


@dataclass
class OfferedFiles:
    """Files gathered from pages; `notes` say what was left out, and why."""

    files: dict[str, Offered] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, links: Iterable[Link]) -> None:
        """Take in what can be a distribution; the first of two equal names counts."""
        for link in links:
            found = _offered(link)
            if isinstance(found, str):
                self.notes.append(found)
            elif link.name in self.files:
                known = self.files[link.name].link.sha256
                if None not in (known, link.sha256) and known != link.sha256:
                    self.notes.append(f"{link.name} is offered twice with different sha256: {link.url}")
            else:
                self.files[link.name] = found

    def by_project(self) -> dict[str, tuple[Offered, ...]]:
        """The files by project, in the order of their names."""
        found: dict[str, tuple[Offered, ...]] = {}
        for name in sorted(self.files):
            one = self.files[name]
            found[one.project] = (*found.get(one.project, ()), one)
        return found


def _offered(link: Link) -> Offered | str:
    """The file behind a link; or why it is none, as text."""
    if _FILE_NAME.fullmatch(link.name) is None:
        return f"{link.name!r} is no file name of a wheel or sdist"
    try:
        if link.name.endswith(".whl"):
            project, version, _, tags = parse_wheel_filename(link.name)
            return Offered(link, project, str(version), frozenset(map(str, tags)))
        project, version = parse_sdist_filename(link.name)
        return Offered(link, canonicalize_name(project), str(version))
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion) as error:
        return str(error)
