"""Read an index, a flat page or a folder: pages only, no files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from packaging.utils import canonicalize_name

from rocwright.errors import InvalidData, InvalidInput
from rocwright.store.adopt.offered import ENDINGS, Catalogue, Link, OfferedFiles
from rocwright.store.adopt.pages import ACCEPT, Page, parse_page
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


@dataclass
class Reading:
    """An index while it is being read: `address` without a login, `catalogue` what is known of it so far."""

    web: Web | None
    address: str
    catalogue: Catalogue
    notes: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The address as it may be shown and recorded."""
        return shown(self.address)

    def more(self, projects: Iterable[str]) -> None:
        """Read the pages of further projects; one that is not there has no files."""
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
            if name in self.pages and not page.files:
                self.notes.append(f"the index lists {name}, and no file of it")
        self.notes += gathered.notes
        files = {**self.catalogue.files, **dict.fromkeys(wanted, ()), **gathered.by_project()}
        self.catalogue = replace(self.catalogue, files=files)


def read_index(web: Web, url: str) -> Reading:
    """A simple repository, with the pages of all its projects unless these are far too many.

    Raises `InvalidInput` where there is none.
    """
    address = _folder(web.enter(url))
    try:
        page = _page(web, address)
    except InvalidInput as error:
        if isinstance(error, InvalidData):
            raise
        # What lists more than any page may have is asked by name.
        note = f"{shown(address)} lists too much to be read; only pages that are needed are"
        return Reading(web, address, Catalogue({}), [note])
    if page.files and not page.projects:
        reading = _flat(web, address, page)
        reading.notes.append(
            f"{shown(address)} is a flat page, no index: installers take it with --find-links"
        )
        return reading
    if not page.projects:
        raise InvalidInput(
            f"{shown(address)} lists no projects",
            where=shown(address),
            next_step="give the address that --index-url takes; a flat page goes with --from-page",
        )
    many = len(page.projects) > _MOST_PROJECTS
    reading = Reading(
        web, address, Catalogue({}, frozenset(page.projects)), list(page.notes), dict(page.projects)
    )
    if not many:
        reading.more(page.projects)
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
        raise InvalidInput(f"{folder} is no folder", where=folder, next_step="give a folder of wheels")
    gathered = OfferedFiles()
    paths = (path for path in sorted(folder.iterdir()) if path.name.endswith(ENDINGS) and path.is_file())
    gathered.add(Link(path.name, path.resolve().as_uri(), size=path.stat().st_size) for path in paths)
    if not gathered.files:
        raise InvalidInput(
            f"{folder} holds no wheels or sdists", where=folder, next_step="give a folder of wheels"
        )
    files = gathered.by_project()
    return Reading(None, folder.name, Catalogue(files, frozenset(files)), gathered.notes)


def _flat(web: Web, address: str, page: Page) -> Reading:
    gathered = OfferedFiles()
    gathered.add(page.files)
    files = gathered.by_project()
    return Reading(web, address, Catalogue(files, frozenset(files)), [*page.notes, *gathered.notes])


def _page(web: Web, url: str) -> Page:
    answer = web.get(url, limit=_MOST_PAGE, accept=ACCEPT, packed=True)
    return parse_page(answer.body, answer.content_type, answer.url, web.enter)


def _is_of(file: str, project: str) -> bool:
    # The name of an sdist may hold dashes itself.
    return canonicalize_name(file).startswith(f"{project}-")


def _folder(url: str) -> str:
    """An index's address ends with a slash; a page in it may be named."""
    path = urlsplit(url).path
    return url if path.endswith(("/", ".html", ".json")) else f"{url}/"


def at_once(work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    """Outcomes of requests in the order of `items`, several under way at a time; the first error ends all."""
    yield from in_order(work, ((item, 1) for item in items), threads=_AT_ONCE, window=1 << 20)
