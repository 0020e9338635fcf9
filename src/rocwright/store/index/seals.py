"""The pages of a channel, without rendering those of which the store has the right ones.

The pages of a project follow from the sets that have it: their ids, when they came in, what is yanked, and
where files lie outside of the store. A seal is a digest of all that, with the digests of the pages that were
rendered from it. Pages in the store that fit their seal are what rendering would give. No time, no size and
no memory of what was written is trusted for that: each page is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from rocwright import __version__
from rocwright.model.manifest import FileEntry, canonical_json
from rocwright.store.index.html import Lines
from rocwright.store.index.listed import ListedFile, ListedSet, listed_files
from rocwright.store.index.pages import (
    dependency_order,
    flat_lines,
    pages_beside,
    project_keys,
    view_pages,
)
from rocwright.store.objects.protocol import ObjectStore, read_there


class SealedView(NamedTuple):
    """The pages of a view to be written, the keys of those that are right, and the seal of each project."""

    pages: Mapping[str, bytes]
    right: frozenset[str]
    seals: Mapping[str, str]


def sealed_view(
    store: ObjectStore, prefix: str, sets: Mapping[str, ListedSet], seals: Mapping[str, str]
) -> SealedView:
    """`view_pages` of the sets (by id, in their order).

    `seals` are those of an earlier view of this prefix, by project; with none, everything is rendered and
    nothing read. Else one listing, and one reading for each page of a project that may be right. Raises as
    `listed_files` and `view_pages`.
    """
    origins = _origins(prefix, sets)
    hoped = [project for project, origin in origins.items() if seals.get(project, "").startswith(origin)]
    there = {one.key for one in store.list(prefix)} if hoped else set()
    lines: dict[str, Lines] = {}
    for project in hoped:
        html_key, json_key = project_keys(prefix, project)
        if there.issuperset((html_key, json_key)):
            html, json = read_there(store, html_key), read_there(store, json_key)
            if html is None or json is None:
                continue
            if _seal(origins[project], _sha256(html), _sha256(json)) == seals[project]:
                lines[project] = flat_lines(project, html)
    files = listed_files(sets.values(), where=prefix, without=lines.keys())
    order = dependency_order(entry for one in sets.values() for entry in one.manifest.files)
    pages = pages_beside(lines, files, prefix, order)
    made = {project: seals[project] for project in lines}
    for project in origins.keys() - lines.keys():
        made[project] = _seal(
            origins[project], *(_sha256(pages[key]) for key in project_keys(prefix, project))
        )
    right = frozenset(key for project in lines for key in project_keys(prefix, project))
    return SealedView(pages, right, made)


def _seal(origin: str, html_sha256: str, json_sha256: str) -> str:
    return f"{origin}.{html_sha256}.{json_sha256}"


def _origins(prefix: str, sets: Mapping[str, ListedSet]) -> dict[str, str]:
    """A digest for each project of all that its pages follow from."""
    found: dict[str, list[str]] = {}
    for digest, one in sets.items():
        told = _digest([digest, one.uploaded, one.yanked, dict(one.elsewhere), sorted(one.sidecars)])
        for project in {entry.project for entry in one.manifest.files}:
            found.setdefault(project, []).append(told)
    return {project: _digest([_form(), prefix, told]) for project, told in found.items()}


@lru_cache(maxsize=1)
def _form() -> str:
    """Differs where another version of this program may render otherwise: a sample of all that pages say."""
    wheel = FileEntry("a-1+b-py3-none-any.whl", "0" * 64, 1, "a", "1+b", "<4", "1" * 64, ("b",))
    sdist = FileEntry("a-2.tar.gz", "2" * 64, 2, "a", "2")
    files = (
        ListedFile(wheel, f"files/{wheel.sha256}/{wheel.name}", uploaded="2026-01-01T00:00:00Z"),
        ListedFile(sdist, "https://example.org/a+b&c", yanked="<why>"),
    )
    return _digest([__version__, *(page.decode() for page in view_pages(files, "a/b/").values())])


def _digest(value: object) -> str:
    return _sha256(canonical_json(value))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
