"""All pages of a view, rendered and written: of a channel and family, a set, or a few files for a test.

Only what changed is rendered. The pages of a project follow from the sets that have it: their ids, when they
came in, what is yanked, and where files lie outside of the store. A seal is a digest of all that, with the
digests of the pages that were rendered from it. Pages in the store that fit their seal are what rendering
would give.

Only what differs is written. What is there is read, not remembered: a record of what was written is wrong as
soon as a writer was killed in the middle, or two wrote at the same time. So only the bytes of a page say that
it is right: a size only spares reading one that is not, and what fits its seal is not read again. No file is
looked at.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from rocwright import __version__
from rocwright.data import load_table
from rocwright.errors import InvalidData
from rocwright.model.sets import FileEntry, canonical_json
from rocwright.model.variants import VariantTable
from rocwright.store.index.listed import (
    LINE_END,
    REPOSITORY_VERSION,
    YANKED,
    Lines,
    ListedFile,
    ListedSet,
    address,
    by_project,
    file_line,
    link,
    listed_files,
    newest_last,
    page,
    page_lines,
    root_page,
)
from rocwright.store.index.projects import (
    NOTHING,
    ProjectFacts,
    html_facts,
    json_facts,
    read_facts,
    version_of,
)
from rocwright.store.index.stated import StatedFile, all_there, stated_line, stated_variants
from rocwright.store.layout import FLAT_PAGE, JSON_PAGES
from rocwright.store.objects.protocol import ObjectStore, read_there, side_by_side

_NO_FACTS: Mapping[str, ProjectFacts] = MappingProxyType({})
_PROJECT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PAGE = re.compile(
    rf"(?:{re.escape(JSON_PAGES)})?(?:[a-z0-9][a-z0-9-]*/)?index\.html|{re.escape(FLAT_PAGE)}", re.ASCII
)


class ProjectPages(NamedTuple):
    """The pages of one project in a view, and what they lead to besides files: by key."""

    html: bytes
    json: bytes
    stated: Mapping[str, bytes]


def view_pages(
    files: Iterable[ListedFile], prefix: str, facts: Mapping[str, ProjectFacts] = _NO_FACTS
) -> Mapping[str, bytes]:
    """Every page of a view by its key, in the order in which to publish them when something is added.

    `prefix` ends with `/`, or is empty for a view at the root of the store. A client reads several pages,
    each perhaps as old as its `max_age`: a project stands behind those it depends on, the flat page and the
    roots last. `facts` are what is said of projects, by name.
    Raises `InvalidData` for a file whose project or version is none, `InvalidVariant` where wheels of a
    version contradict each other about variants.
    """
    listed = tuple(files)
    return pages_beside({}, listed, prefix, dependency_order(one.entry for one in listed), facts)


def pages_beside(
    there: Mapping[str, Lines],
    files: Iterable[ListedFile],
    prefix: str,
    order: Iterable[str],
    facts: Mapping[str, ProjectFacts] = _NO_FACTS,
) -> Mapping[str, bytes]:
    """As `view_pages`, but for the projects whose own pages are there: of these only `flat_lines` are known.

    `order` is the `dependency_order` of the whole view.
    """
    projects = tuple(order)
    rendered = {
        project: _project(project, listed, prefix, facts.get(project, NOTHING))
        for project, listed in by_project(files).items()
    }
    pages: dict[str, bytes] = {}
    for project in projects:
        keys = project_keys(prefix, project)
        if project in rendered:
            html, json, stated = rendered[project]
            pages.update({**stated, **dict(zip(keys, (html, json), strict=True))})
    lines = {**there, **{project: flat_lines(own.html) for project, own in rendered.items()}}
    pages[f"{prefix}{FLAT_PAGE}"] = page(prefix.rstrip("/"), *(lines[project] for project in sorted(lines)))
    pages[f"{prefix}index.html"] = root_page(projects).encode()
    pages[f"{prefix}{JSON_PAGES}index.html"] = root_json(projects)
    return pages


def _project(project: str, files: list[ListedFile], prefix: str, facts: ProjectFacts) -> ProjectPages:
    # The flat page is as deep as those of projects, so their lines are its lines; JSON is one folder deeper.
    base = "../" * (prefix.count("/") + 1)
    # Project by project, so that what a project took in memory serves for the next.
    placed = [(one, address(one, base)) for one in files if facts.offered]
    stated = stated_variants((one for one, _ in placed), prefix)
    lines = "".join([*(file_line(*pair) for pair in placed), *(stated_line(one, base) for one in stated)])
    version = version_of(facts, provenance=' data-provenance="' in lines)
    html = page(_title(project), lines.encode(), version=version, more=html_facts(facts))
    beside = [_stated_file(one, link(one.key, f"../{base}")) for one in stated]
    json = sorted_json(project, placed, up="../", facts=facts, version=version, beside=beside)
    return ProjectPages(html, json, {one.key: one.data for one in stated})


def _title(project: str) -> str:
    return f"Links for {project}"


def flat_lines(html: bytes) -> Lines:
    """What the flat page has of a project's page in HTML.

    Installers do not all look on a flat page for what is yanked (uv 0.13 does not): it is not there.
    """
    lines = page_lines(html)
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
        raise InvalidData(f"{project!r} is not the normalised name of a project")
    return f"{prefix}{project}/index.html", f"{prefix}{JSON_PAGES}{project}/index.html"


def dependency_order(files: Iterable[FileEntry]) -> list[str]:
    """Projects so that each stands behind those it depends on; equal projects by name.

    A client that reads a new page of a project then finds the new pages of what it needs. Packages may need
    each other, which graphlib and `engine/graph` refuse: a cycle is cut at its first project by name.
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
    # Only by its new name: pip before 23.2 ends in a traceback at the old name in JSON (PEP 714).
    core_metadata: _Sha256 | None = None
    upload_time: str | None = None
    yanked: str | bool = False
    provenance: str | None = None


def root_json(projects: Iterable[str]) -> bytes:
    """The root: the name of each project, sorted."""
    return msgspec.json.encode({"meta": _META, "projects": [{"name": name} for name in sorted(projects)]})


def project_json(project: str, files: Iterable[ListedFile], *, base: str) -> bytes:
    """The page of one project; `base` as for `link`."""
    return sorted_json(project, [(one, address(one, base)) for one in newest_last(files)])


def sorted_json(
    project: str,
    files: Sequence[tuple[ListedFile, str]],
    *,
    up: str = "",
    facts: ProjectFacts = NOTHING,
    version: str | None = None,
    beside: Sequence[_File] = (),
) -> bytes:
    """As `project_json`, of files in order with their addresses; `up` leads from here to where these hold.

    `beside` is listed behind the files.
    """
    meta, own = json_facts(facts)
    return msgspec.json.encode(
        {
            "meta": {"api-version": version or version_of(facts, provenance=_attested(files)), **meta},
            "name": project,
            **own,
            "versions": list(dict.fromkeys(one.entry.version for one, _ in files)),
            "files": [*(_file(one, url if "://" in url else up + url) for one, url in files), *beside],
        }
    )


def _attested(files: Iterable[tuple[ListedFile, str]]) -> bool:
    return any(one.provenance is not None for one, _ in files)


def _stated_file(one: StatedFile, url: str) -> _File:
    return _File(one.name, url, _Sha256(one.sha256), len(one.data), upload_time=one.uploaded)


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
        one.provenance,
    )


# -- those that need no rendering, by seals


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
    only what is said of projects is read. Else one listing, and one reading for each page of a project that
    may be right. Raises as `read_facts`, `listed_files` and `view_pages`.
    """
    facts = read_facts(store, prefix)
    origins = _origins(prefix, sets, facts)
    hoped = [project for project, origin in origins.items() if seals.get(project, "").startswith(origin)]
    there = {one.key for one in store.list(prefix)} if hoped else set()

    def sealed_lines(project: str) -> Lines | None:
        keys = project_keys(prefix, project)
        html, json = (read_there(store, key) if key in there else None for key in keys)
        if html is None or json is None:
            return None
        sealed = _seal(origins[project], _sha256(html), _sha256(json)) == seals[project]
        return flat_lines(html) if sealed and all_there(html, there) else None

    found = zip(hoped, side_by_side(store, sealed_lines, hoped), strict=True)
    lines = {project: known for project, known in found if known is not None}
    files = listed_files(sets.values(), where=prefix, without=lines.keys())
    order = dependency_order(entry for one in sets.values() for entry in one.manifest.files)
    pages = pages_beside(lines, files, prefix, order, facts)
    made = {project: seals[project] for project in lines}
    for project in origins.keys() - lines.keys():
        made[project] = _seal(
            origins[project], *(_sha256(pages[key]) for key in project_keys(prefix, project))
        )
    right = frozenset(key for project in lines for key in project_keys(prefix, project))
    return SealedView(pages, right, made)


def _seal(origin: str, html_sha256: str, json_sha256: str) -> str:
    return f"{origin}.{html_sha256}.{json_sha256}"


def _origins(prefix: str, sets: Mapping[str, ListedSet], facts: Mapping[str, ProjectFacts]) -> dict[str, str]:
    """A digest for each project of all that its pages follow from."""
    found: dict[str, list[str]] = {}
    for digest, one in sets.items():
        places = [dict(one.elsewhere), sorted(one.sidecars), dict(one.provenance)]
        told = _digest([digest, one.uploaded, one.yanked, *places])
        for project in {entry.project for entry in one.manifest.files}:
            found.setdefault(project, []).append(told)
    return {
        project: _digest([_form(), prefix, told, msgspec.to_builtins(facts.get(project, NOTHING))])
        for project, told in found.items()
    }


@lru_cache(maxsize=1)
def _form() -> str:
    """Differs where another version of this program may render otherwise: a sample of all that pages say."""
    said = load_table("variants", VariantTable).selector(None)
    wheel = FileEntry("a-1+b-py3-none-any-null.whl", "0" * 64, 1, "a", "1+b", "<4", "1" * 64, ("b",), said)
    sdist = FileEntry("a-2.tar.gz", "2" * 64, 2, "a", "2")
    files = (
        ListedFile(wheel, uploaded="2026-01-01T00:00:00Z"),
        ListedFile(
            sdist, "https://example.org/a+b&c", yanked="<why>", provenance="https://example.org/a?b&c"
        ),
    )
    facts = {"a": ProjectFacts("archived", "<why>", ("https://a.example/a/",), ("https://b.example/a/",))}
    return _digest([__version__, *(page.decode() for page in view_pages(files, "a/b/", facts).values())])


def _digest(value: object) -> str:
    return _sha256(canonical_json(value))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- into the store


def write_pages(
    store: ObjectStore,
    prefix: str,
    pages: Mapping[str, bytes],
    *,
    order: Iterable[str] = (),
    reverse: bool = False,
    right: Collection[str] = (),
) -> tuple[str, ...]:
    """Bring the pages below `prefix` into line with `pages`; returns the keys that changed, in order.

    `order` names keys in publishing order, of pages that are and of those that go (`page_keys` of both
    views together); `reverse` walks it backwards, to withdraw. A page of the view before that is not among
    `pages` is removed at its place in that order, a page that `order` does not name at the very end.
    Pages `right` stay as they are, whether or not they are among `pages`.
    """
    found = {one.key: one.size for one in store.list(prefix) if _PAGE.fullmatch(one.key[len(prefix) :])}
    turns = list(dict.fromkeys([*order, *pages]))
    if reverse:
        turns.reverse()
    turns += sorted(set(found) - set(turns))
    changed = []
    for key in (key for key in turns if key not in right):
        page = pages.get(key)
        if page is None:
            if key in found:
                store.delete(key)
                changed.append(key)
        elif found.get(key) != len(page) or read_there(store, key) != page:
            store.put_bytes(key, page, overwrite=True)
            changed.append(key)
    return tuple(changed)
