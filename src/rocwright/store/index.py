"""Index pages as text: pure functions from file entries, so the same set renders the same bytes.

Simple repository pages after PEP 503, with digests, Requires-Python, and the digest of the METADATA
sidecar under both its names (PEP 658 and its correction PEP 714); and a flat page for `--find-links`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import quote

from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.model.manifest import FileEntry

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="pypi:repository-version" content="1.0">
<title>{title}</title>
</head>
<body>
<h1>{title}</h1>
"""
_TAIL = "</body>\n</html>\n"


def _page(title: str, anchors: Iterable[str]) -> str:
    return _HEAD.format(title=escape(title)) + "".join(f"{line}<br>\n" for line in anchors) + _TAIL


def _newest_last(files: Iterable[FileEntry]) -> list[FileEntry]:
    return sorted(files, key=lambda entry: (entry.project, Version(entry.version), entry.name))


def file_anchor(entry: FileEntry, *, base: str = "") -> str:
    """The link to one file; `base` is the relative way from the page to the files (`""` or `"../"`)."""
    # A plus sign in a URL path may be read as a space by a server, so it travels as %2B.
    attributes = f'href="{base}{quote(entry.name, safe="")}#sha256={entry.sha256}"'
    if entry.requires_python:
        attributes += f' data-requires-python="{escape(entry.requires_python)}"'
    if entry.metadata_sha256:
        for name in ("data-dist-info-metadata", "data-core-metadata"):
            attributes += f' {name}="sha256={entry.metadata_sha256}"'
    return f"<a {attributes}>{escape(entry.name)}</a>"


def find_links_page(files: Iterable[FileEntry], *, title: str) -> str:
    """One flat page beside the files, for `pip install --find-links <url of the page>`."""
    return _page(title, (file_anchor(entry) for entry in _newest_last(files)))


def root_page(projects: Iterable[str]) -> str:
    """The root of a simple repository: one link per project, normalised, sorted."""
    names = sorted({canonicalize_name(project) for project in projects})
    return _page("Simple index", (f'<a href="{name}/">{name}</a>' for name in names))


def project_page(project: str, files: Iterable[FileEntry]) -> str:
    """The page of one project, one directory below the files."""
    name = canonicalize_name(project)
    mine = (entry for entry in _newest_last(files) if entry.project == name)
    return _page(f"Links for {name}", (file_anchor(entry, base="../") for entry in mine))


def dependency_order(files: Iterable[FileEntry]) -> list[str]:
    """Projects so that each stands behind those it depends on; equal ones by name.

    A client that reads a new page of a project then finds the new pages of what it needs. A cycle is cut
    at its first project by name.
    """
    needs: dict[str, set[str]] = {}
    for entry in files:
        needs.setdefault(entry.project, set()).update(entry.depends)
    order: list[str] = []
    seen: set[str] = set()

    def visit(project: str) -> None:
        if project in seen or project not in needs:
            return
        seen.add(project)
        for needed in sorted(needs[project]):
            visit(needed)
        order.append(project)

    for project in sorted(needs):
        visit(project)
    return order


def simple_pages(files: Iterable[FileEntry]) -> Mapping[str, str]:
    """Every page of a simple repository by its relative key, in the order in which to publish them."""
    listed = tuple(files)
    order = dependency_order(listed)
    pages = {f"{project}/index.html": project_page(project, listed) for project in order}
    pages["index.html"] = root_page(order)
    return pages
