"""All pages of a view: of a channel and family, of a single set, of a few files for a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.manifest import FileEntry
from rocwright.store.index.html import (
    LINE_END,
    REPOSITORY_VERSION,
    YANKED,
    Lines,
    address,
    file_line,
    page,
    page_lines,
    root_page,
)
from rocwright.store.index.listed import ListedFile, by_project, newest_last
from rocwright.store.layout import FLAT_PAGE, JSON_PAGES

_PROJECT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class ProjectPages(NamedTuple):
    """The pages of one project in a view."""

    html: bytes
    json: bytes


def view_pages(files: Iterable[ListedFile], prefix: str) -> Mapping[str, bytes]:
    """Every page of a view by its key, in the order in which to publish them when something is added.

    `prefix` ends with `/`, or is empty for a view at the root of the store. A client reads several pages,
    each perhaps as old as its `max_age`: a project stands behind those it depends on, the root page last.
    Raises `InvalidData` for a file whose project or version is none.
    """
    listed = tuple(files)
    return pages_beside({}, listed, prefix, dependency_order(one.entry for one in listed))


def pages_beside(
    there: Mapping[str, Lines], files: Iterable[ListedFile], prefix: str, order: Iterable[str]
) -> Mapping[str, bytes]:
    """As `view_pages`, but for the projects whose own pages are there: of these only `flat_lines` are known.

    `order` is the `dependency_order` of the whole view.
    """
    # The flat page is as deep as those of projects, so their lines are its lines; JSON is one folder deeper.
    base = "../" * (prefix.count("/") + 1)
    projects = tuple(order)
    rendered = {project: _project(project, listed, base) for project, listed in by_project(files).items()}
    pages: dict[str, bytes] = {}
    for project in projects:
        keys = project_keys(prefix, project)
        if project in rendered:
            pages.update(zip(keys, rendered[project], strict=True))
    lines = {**there, **{project: flat_lines(project, own.html) for project, own in rendered.items()}}
    pages[f"{prefix}{FLAT_PAGE}"] = page(prefix.rstrip("/"), *(lines[project] for project in sorted(lines)))
    pages[f"{prefix}index.html"] = root_page(projects).encode()
    pages[f"{prefix}{JSON_PAGES}index.html"] = root_json(projects)
    return pages


def _project(project: str, files: list[ListedFile], base: str) -> ProjectPages:
    # Project by project, so that the memory of one serves for the next.
    placed = [(one, address(one, base)) for one in files]
    lines = "".join([file_line(*pair) for pair in placed]).encode()
    return ProjectPages(page(_title(project), lines), sorted_json(project, placed, up="../"))


def _title(project: str) -> str:
    return f"Links for {project}"


def flat_lines(project: str, html: bytes) -> Lines:
    """What the flat page has of a project's page in HTML.

    Installers do not all look on a flat page for what is yanked (uv 0.13 does not): it is not there.
    """
    lines = page_lines(_title(project), html)
    if YANKED not in html:
        return lines
    return b"".join(line + LINE_END for line in bytes(lines).split(LINE_END)[:-1] if YANKED not in line)


def page_keys(files: Iterable[FileEntry], prefix: str) -> tuple[str, ...]:
    """The keys of `view_pages` in its order, for `write_pages` to go by when pages are withdrawn."""
    keys = [key for project in dependency_order(files) for key in project_keys(prefix, project)]
    return (*keys, f"{prefix}{FLAT_PAGE}", f"{prefix}index.html", f"{prefix}{JSON_PAGES}index.html")


def project_keys(prefix: str, project: str) -> tuple[str, str]:
    """The keys of a project's pages, as in `ProjectPages`; raises `InvalidData` for a name that is none."""
    if _PROJECT.fullmatch(project) is None:
        raise InvalidData(f"{project!r} is no normalised name of a project")
    return f"{prefix}{project}/index.html", f"{prefix}{JSON_PAGES}{project}/index.html"


def dependency_order(files: Iterable[FileEntry]) -> list[str]:
    """Projects so that each stands behind those it depends on; equal ones by name.

    A client that reads a new page of a project then finds the new pages of what it needs. Packages may need
    each other, which graphlib and `model/order` refuse: a cycle is cut at its first project by name.
    """
    needs: dict[str, set[str]] = {}
    for project, depends in {(entry.project, entry.depends) for entry in files}:
        needs.setdefault(project, set()).update(depends)
    order: dict[str, None] = {}
    entered: set[str] = set()
    for first in sorted(needs):
        path = [first]
        while path:
            project = path[-1]
            # What is entered and not left again is above in the path: a cycle, cut here.
            waits = (
                [] if project in entered else sorted(needs[project] & needs.keys() - entered, reverse=True)
            )
            entered.add(project)
            path += waits
            if not waits:
                order.setdefault(path.pop())
    return list(order)


# -- pages for installers as JSON (PEP 691): as those in HTML, with sizes, versions, upload times (PEP 700)


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
