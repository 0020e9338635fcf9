"""Pages for installers as JSON (PEP 691): as those in HTML, with sizes, versions, upload times (PEP 700)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rocwright.store.index.html import REPOSITORY_VERSION, address
from rocwright.store.index.listed import ListedFile, newest_last

_META = {"api-version": REPOSITORY_VERSION}


class _Sha256(msgspec.Struct, frozen=True, gc=False):
    sha256: str


class _File(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="kebab"):
    filename: str
    url: str
    hashes: _Sha256
    size: int
    requires_python: str | None = None
    # Only by its new name: pip before 23.2 ends in a traceback at the old one in JSON (PEP 714).
    core_metadata: _Sha256 | None = None
    upload_time: str | None = None
    yanked: str | bool = False


def root_json(projects: Iterable[str]) -> bytes:
    """The root: the name of each project, sorted."""
    return msgspec.json.encode({"meta": _META, "projects": [{"name": name} for name in sorted(projects)]})


def project_json(project: str, files: Iterable[ListedFile], *, base: str) -> bytes:
    """The page of one project; `base` as for `html.link`."""
    return sorted_json(project, [(one, address(one, base)) for one in newest_last(files)])


def sorted_json(project: str, files: Sequence[tuple[ListedFile, str]], *, up: str = "") -> bytes:
    """As `project_json`, of files in order with their addresses; `up` leads from here to where these hold."""
    return msgspec.json.encode(
        {
            "meta": _META,
            "name": project,
            "versions": list(dict.fromkeys(one.entry.version for one, _ in files)),
            "files": [_file(one, url if "://" in url else up + url) for one, url in files],
        }
    )


def _file(one: ListedFile, url: str) -> _File:
    entry = one.entry
    metadata = _Sha256(entry.metadata_sha256) if entry.metadata_sha256 else None
    return _File(
        entry.name,
        url,
        _Sha256(entry.sha256),
        entry.size,
        entry.requires_python or None,
        metadata,
        one.uploaded,
        # An empty reason would read as false.
        False if one.yanked is None else one.yanked or True,
    )
