"""Read an index, a flat page or a folder: pages only, no files.

Pages are simple repository pages as JSON (PEP 691) or HTML (PEP 503), and flat pages. Which of the two a page
is, its Content-Type says; its first letter tells where a server gets that wrong.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import msgspec
from packaging.utils import InvalidName, canonicalize_name

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.variants import INDEX_END
from rocwright.store.adopt.offered import ENDINGS, Catalogue, Link, OfferedFiles
from rocwright.store.adopt.variants import with_statements
from rocwright.system.http import Refused, Web
from rocwright.system.http_send import shown
from rocwright.system.parallel import in_order

_T = TypeVar("_T")
_R = TypeVar("_R")

# Requests at a time.
_AT_ONCE = 8
# What a page may have; the largest of real ones has a tenth of it.
_MOST_PAGE = 32 << 20
# Of an index with more projects than that (PyPI) only the pages that are needed are read.
_MOST_PROJECTS = 1000


class Reading(msgspec.Struct):
    """An index while it is being read: `address` without a login, `catalogue` what is known of it so far."""

    web: Web | None
    address: str
    catalogue: Catalogue
    notes: list[str] = msgspec.field(default_factory=list)
    pages: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The address as it may be shown and recorded."""
        return shown(self.address)

    def more(self, projects: Iterable[str]) -> None:
        """Read the pages of further projects; a project that is not there has no files."""
        web, wanted = self.web, sorted(name for name in projects if self.catalogue.may_have(name))
        if web is None or not wanted:
            return

        def read(name: str) -> Page:
            try:
                return _page(web, self.pages.get(name) or urljoin(self.address, f"{name}/"))
            except Refused as error:
                if error.status in (404, 410):
                    return Page()
                raise

        gathered = OfferedFiles()
        for name, page in zip(wanted, at_once(read, wanted), strict=True):
            # An installer takes only files of the project from its page.
            strange = [link.name for link in page.files if not _is_of(link.name, name)]
            self.notes += [f"{one} is on the page of {name}; it is left out" for one in strange]
            gathered.add(link for link in page.files if _is_of(link.name, name))
            self.notes += page.notes
            self.notes += [f"the index says of {name}: {one}" for one in page.said]
            if name in self.pages and not page.files:
                self.notes.append(f"the index lists {name}, and no file of it")
        by_project = with_statements(gathered, web)
        self.notes += gathered.notes
        files = {**self.catalogue.files, **dict.fromkeys(wanted, ()), **by_project}
        self.catalogue = msgspec.structs.replace(self.catalogue, files=files)


def read_index(web: Web, url: str, *, only: Callable[[str], object] = lambda _: True) -> Reading:
    """A simple repository, with the pages of all its projects unless these are far too many.

    `only` tells of a project by its name whether it is looked at. Raises `InvalidInput` where there is none.
    """
    address = _with_slash(web.enter(url))
    try:
        page = _page(web, address)
    except InvalidInput as error:
        if isinstance(error, InvalidData):
            raise
        # What lists more than any page may have is asked by name.
        note = f"{shown(address)} is too long to be read; only the pages that are needed are read"
        return Reading(web, address, Catalogue({}), [note])
    if page.files and not page.projects:
        reading = _flat(web, address, page)
        reading.notes.append(
            f"{shown(address)} is a flat page, not an index: installers take it with --find-links"
        )
        return reading
    if not page.projects:
        raise InvalidInput(
            f"{shown(address)} lists no projects",
            where=shown(address),
            next_step="give the address that --index-url takes; a flat page goes with --from-page",
        )
    projects = {name: place for name, place in page.projects.items() if only(name)}
    reading = Reading(web, address, Catalogue({}, frozenset(projects)), list(page.notes), projects)
    if len(projects) <= _MOST_PROJECTS:
        reading.more(projects)
    return reading


def read_flat(web: Web, url: str) -> Reading:
    """A flat page, as `--find-links` takes it; raises `InvalidInput` where none of its links is a file."""
    address = web.enter(url)
    page = _page(web, address)
    if not page.files:
        what = "is an index, not a flat page" if page.projects else "links to no wheel or sdist"
        raise InvalidInput(
            f"{shown(address)} {what}",
            where=shown(address),
            next_step="give it as --from-index" if page.projects else "give a page with links to wheels",
        )
    return _flat(web, address, page)


def read_folder(folder: Path) -> Reading:
    """The wheels and sdists in a folder, and not below it; raises `InvalidInput` where there are none."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder", where=folder, next_step="give a folder of wheels")
    gathered = OfferedFiles()
    ends = (*ENDINGS, INDEX_END)
    paths = (path for path in sorted(folder.iterdir()) if path.name.endswith(ends) and path.is_file())
    gathered.add(Link(path.name, path.resolve().as_uri(), size=path.stat().st_size) for path in paths)
    if not gathered.files:
        raise InvalidInput(
            f"{folder} contains no wheels or sdists", where=folder, next_step="give a folder of wheels"
        )
    files = with_statements(gathered, folder)
    return Reading(None, folder.name, Catalogue(files, frozenset(files)), gathered.notes)


def _flat(web: Web, address: str, page: Page) -> Reading:
    gathered = OfferedFiles()
    gathered.add(page.files)
    files = with_statements(gathered, web)
    return Reading(web, address, Catalogue(files, frozenset(files)), [*page.notes, *gathered.notes])


def _page(web: Web, url: str) -> Page:
    answer = web.get(url, limit=_MOST_PAGE, accept=ACCEPT, packed=True)
    return parse_page(answer.body, answer.content_type, answer.url, web.enter)


def _is_of(file: str, project: str) -> bool:
    # The name of an sdist may hold dashes itself.
    return canonicalize_name(file).startswith(f"{project}-")


def _with_slash(url: str) -> str:
    """An index's address ends with a slash; a page in it may be named."""
    path = urlsplit(url).path
    return url if path.endswith(("/", ".html", ".json")) else f"{url}/"


def at_once(work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    """Outcomes of requests in the order of `items`, several under way at a time; the first error ends all."""
    yield from in_order(work, ((item, 1) for item in items), threads=_AT_ONCE, window=1 << 20)


ACCEPT = ", ".join(
    (
        "application/vnd.pypi.simple.v1+json",
        "application/vnd.pypi.simple.v1+html;q=0.2",
        "text/html;q=0.1",
        "*/*;q=0.01",
    )
)
_JSON = ("application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.latest+json", "application/json")
_SHA256 = re.compile(r"(?:.*&)?sha256=(?P<digest>[0-9a-fA-F]{64})(?:&.*)?")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")

Enter = Callable[[str], str]


class Page(msgspec.Struct, frozen=True):
    """What a page links to: files, and pages of projects by canonical name.

    `said` is, in words, what it says of its own project: the status, where else it is (PEP 792, PEP 708).
    """

    files: tuple[Link, ...] = ()
    projects: Mapping[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


def parse_page(data: bytes, content_type: str, url: str, enter: Enter) -> Page:
    """The links of a page at `url`; `enter` takes the login out of an address.

    Raises `InvalidData` for what is neither of the two forms, or of a version that is not known.
    """
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    looks_json = text.startswith(("{", "["))
    said_json = content_type in _JSON
    notes = []
    if said_json != looks_json and text:
        is_what, called = "JSON" if looks_json else "HTML", content_type or "nothing"
        notes.append(
            f"{shown(url)} is {is_what}, but its server calls it {called}, and installers believe it"
        )
    found = _json_page(text, url, enter) if looks_json else _html_page(text, url, enter)
    return Page(found.files, found.projects, (*notes, *found.notes), found.said)


def _json_page(text: str, url: str, enter: Enter) -> Page:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidData(
            f"{shown(url)} is not JSON: {error}",
            where=shown(url),
            next_step="give the address of an index, such as https://host/simple/",
        ) from error
    if not isinstance(value, dict):
        raise InvalidData(
            f"{shown(url)} is not a page of an index",
            where=shown(url),
            next_step="give the address of an index, such as https://host/simple/",
        )
    meta = value.get("meta")
    _require_known(meta.get("api-version") if isinstance(meta, dict) else None, url)
    files, projects, notes = [], {}, []
    for item in _list(value, "files", url):
        try:
            files.append(_json_link(item, url, enter))
        except (InvalidInput, TypeError, KeyError, AttributeError, ValueError) as error:
            notes.append(f"an entry of {shown(url)} cannot be read: {type(error).__name__} {error}")
    for item in _list(value, "projects", url):
        name = item.get("name") if isinstance(item, dict) else None
        canonical = _canonical(name) if isinstance(name, str) else None
        if canonical is None:
            notes.append(f"{name!r} on {shown(url)} is not the name of a project")
        else:
            projects[canonical] = urljoin(url, f"{canonical}/")
    status = value.get("project-status")
    status = status if isinstance(status, dict) else {}
    said = _said(
        status.get("status"),
        status.get("reason"),
        meta.get("tracks") if isinstance(meta, dict) else None,
        value.get("alternate-locations"),
    )
    return Page(tuple(files), projects, tuple(notes), said)


def _said(status: object, reason: object, tracks: object, alternates: object) -> tuple[str, ...]:
    """What a page says of its project, in words."""
    said = []
    if isinstance(status, str) and status != "active":
        said.append(f"it is {status}: {reason}" if isinstance(reason, str) and reason else f"it is {status}")
    for what, urls in (("it tracks", tracks), ("it is at", alternates)):
        if isinstance(urls, list):
            said += [f"{what} {url}" for url in urls if isinstance(url, str)]
    return tuple(said)


def _list(value: Mapping[str, Any], key: str, url: str) -> list[Any]:
    found = value.get(key, [])
    if not isinstance(found, list):
        raise InvalidData(
            f"{shown(url)} has no list of {key}",
            where=shown(url),
            next_step="give the address of an index, such as https://host/simple/",
        )
    return found


def _json_link(item: Mapping[str, Any], url: str, enter: Enter) -> Link:
    digest = item.get("hashes", {}).get("sha256")
    size, yanked, requires = item.get("size"), item.get("yanked", False), item.get("requires-python")
    metadata = item.get("core-metadata", item.get("dist-info-metadata", False))
    if isinstance(metadata, dict):
        metadata = _told(metadata.get("sha256")) or True
    return Link(
        name=_text(item["filename"]),
        url=enter(urljoin(url, _text(item["url"]))),
        sha256=_told(digest),
        size=size if isinstance(size, int) and size >= 0 else None,
        requires_python=requires if isinstance(requires, str) else None,
        metadata=metadata if isinstance(metadata, str) else bool(metadata),
        yanked=yanked if isinstance(yanked, str) else ("" if yanked else None),
        provenance=_provenance(item.get("provenance"), url, enter),
    )


def _provenance(place: object, url: str, enter: Enter) -> str | None:
    return enter(urljoin(url, place)) if isinstance(place, str) and place else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _told(digest: object) -> str | None:
    return digest.lower() if isinstance(digest, str) and _DIGEST.fullmatch(digest) else None


class _Anchors(HTMLParser):
    """The anchors of a page, `<base href>`, and what its head says by name."""

    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.anchors: list[Mapping[str, str | None]] = []
        self.metas: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a" and found.get("href"):
            self.anchors.append(found)
        elif tag == "base" and self.base is None:
            self.base = found.get("href")
        elif tag == "meta":
            self.metas.setdefault(found.get("name") or "", []).append(found.get("content") or "")

    def first(self, name: str) -> str | None:
        """What the head says under a name, the first time."""
        return next(iter(self.metas.get(name, ())), None)


def _html_page(text: str, url: str, enter: Enter) -> Page:
    parser = _Anchors()
    parser.feed(text)
    parser.close()
    if not parser.anchors and "<" not in text:
        raise InvalidData(
            f"{shown(url)} is neither HTML nor JSON",
            where=shown(url),
            next_step="give the address of an index or a page",
        )
    _require_known(parser.first("pypi:repository-version"), url)
    base = urljoin(url, (parser.base or "").strip())
    files, projects, notes = [], {}, []
    for anchor in parser.anchors:
        try:
            target, fragment = urldefrag(urljoin(base, (anchor["href"] or "").strip()))
            parts = urlsplit(target)
        except ValueError:
            notes.append(f"a link of {shown(url)} is not an address: {anchor['href']!r}")
            continue
        name = unquote(posixpath.basename(parts.path))
        if name.endswith((*ENDINGS, INDEX_END)):
            try:
                files.append(_html_link(name, enter(target), fragment, anchor, base, enter))
            except InvalidInput as error:
                notes.append(error.what)
            continue
        # Only right below the page: other links lead to whatever the page is about.
        folder = target.removesuffix("index.html").rstrip("/")
        canonical = _canonical(unquote(posixpath.basename(folder)))
        if canonical is not None and folder.rpartition("/")[0] + "/" == _folder(base):
            projects[canonical] = enter(target)
    said = _said(
        parser.first("pypi:project-status"),
        parser.first("pypi:project-status-reason"),
        parser.metas.get("pypi:tracks"),
        parser.metas.get("pypi:alternate-locations"),
    )
    return Page(tuple(files), projects, tuple(notes), said)


def _folder(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[0] + "/"


def _html_link(
    name: str, url: str, fragment: str, anchor: Mapping[str, str | None], base: str, enter: Enter
) -> Link:
    digest = _SHA256.fullmatch(fragment)
    told = anchor.get("data-core-metadata", anchor.get("data-dist-info-metadata"))
    metadata: bool | str = told is not None and told.lower() != "false"
    if told is not None and (match := _SHA256.fullmatch(told)) is not None:
        metadata = match["digest"].lower()
    return Link(
        name=name,
        url=url,
        sha256=digest["digest"].lower() if digest else None,
        requires_python=anchor.get("data-requires-python"),
        metadata=metadata,
        yanked=(anchor["data-yanked"] or "") if "data-yanked" in anchor else None,
        provenance=_provenance(anchor.get("data-provenance"), base, enter),
    )


def _canonical(name: str) -> str | None:
    try:
        return canonicalize_name(name, validate=True)
    except InvalidName:
        return None


def _require_known(version: object, url: str) -> None:
    if isinstance(version, str) and version.partition(".")[0] != "1":
        raise InvalidData(
            f"{shown(url)} is of version {version} of the simple repository API; this tool reads version 1",
            where=shown(url),
            next_step="use a newer rocwright",
        )
