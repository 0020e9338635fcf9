"""What is served or was just listed, as installers see it: every page and link, without the wheels' bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from rocwright.errors import IntegrityError, InvalidInput, UsageError
from rocwright.model.sets import SetManifest, set_id
from rocwright.model.variants import INDEX_END, InvalidVariant, parse_variants
from rocwright.store.adopt.offered import Link
from rocwright.store.adopt.pages import Page, parse_page
from rocwright.store.layout import FLAT_PAGE, JSON_PAGES, SIMPLE_JSON
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.records import located
from rocwright.system.http import NoRanges, Refused, Response, Web
from rocwright.system.parallel import in_order
from rocwright.system.progress import each

_HTML = ("text/html", "application/vnd.pypi.simple.v1+html")
_MOST_PAGE = 256 << 20
_MOST_METADATA = 16 << 20
_A = TypeVar("_A")
_B = TypeVar("_B")


class Fault(msgspec.Struct, frozen=True):
    """Something that an installer would stumble over, and the address where it is."""

    url: str
    what: str


class ServedView(msgspec.Struct, frozen=True):
    """What was looked at below `url`, how many requests it took, and what is wrong with it."""

    url: str
    pages: int
    files: int
    requests: int
    faults: tuple[Fault, ...]

    def require_sound(self, *, listed: int = 3) -> None:
        """Raise `IntegrityError` naming the first so many faults, if there are any."""
        if self.faults:
            count, more = len(self.faults), len(self.faults) - listed
            lines = [f"  {one.url}: {one.what}" for one in self.faults[:listed]]
            lines += [f"  and {more} more"] if listed and more > 0 else []
            raise IntegrityError(
                "\n".join([f"{count} fault{'s' * (count != 1)} in the index at {self.url}", *lines]),
                where=self.url,
                next_step="put back what is missing; `rocwright set repair` writes a channel's pages again",
            )


def verify_served(
    url: str,
    *,
    names: Container[str] | None = None,
    threads: int = 8,
    own: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> ServedView:
    """Look at every page of the index at `url`, and ask for every file's size and METADATA.

    An index without both `_json/` and `_flat/` was not written by rocwright: its HTML pages alone are looked
    at, and `note` is told so; with `own` it is a fault. With `names`, only these files are asked for; the
    pages are read all the same. Raises `UsageError` for what is not a web address, `Unreachable` where the
    root page cannot be had.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{url!r} is not a web address", next_step="give http://… or https://…")
    with Web() as web:
        visit = _Visit(web, web.enter(url).rstrip("/") + "/", threads, own, note)
        listed = visit.view()
        asked = [one for one in listed if names is None or one.name in names or one.name.endswith(INDEX_END)]
        visit.each(visit.file, each("asking for", asked))
        faults = tuple(sorted(visit.faults, key=lambda one: (one.url, one.what)))
        files = sum(not one.name.endswith(INDEX_END) for one in asked)
        return ServedView(visit.url, len(visit.pages), files, web.requests, faults)


def verify_listed(store: ObjectStore, prefix: str, manifest: SetManifest) -> ServedView:
    """Ask for every page of the view at `prefix` and every file of the set, over HTTP on this machine.

    No wheel's bytes are asked for, and nothing of files that lie elsewhere. Raises `IntegrityError` naming
    what an installer would stumble over.
    """
    # Whoever only shows what was found needs no server.
    from rocwright.store.objects.serve import serving

    names = {entry.name for entry in manifest.files} - located(store, set_id(manifest)).keys()
    with serving(store) as base:
        found = verify_served(base + prefix, names=names, own=True)
        if found.faults:
            # Another publisher may have been in the middle of changing pages.
            found = verify_served(base + prefix, names=names, own=True)
    found.require_sound()
    return found


class _Visit(msgspec.Struct):
    """One look at a view; faults are collected, so that all of them are named."""

    web: Web
    url: str
    threads: int
    own: bool
    note: Callable[[str], None]
    pages: list[str] = msgspec.field(default_factory=list)
    faults: list[Fault] = msgspec.field(default_factory=list)

    def each(self, work: Callable[[_A], _B], items: Iterable[_A]) -> list[_B]:
        """Several at a time, results in order."""
        return list(in_order(work, ((item, 1) for item in items), threads=self.threads, window=64))

    def fault(self, url: str, what: str) -> None:
        """Note a fault."""
        self.faults.append(Fault(url, what))

    def view(self) -> list[Link]:
        """Every file that the view lists, as its JSON pages have it, which say most, if there are any."""
        root = self._parsed(self.url, self._answer(self.url, _HTML[0]), _HTML)
        at_json, at_flat = self.url + JSON_PAGES, self.url + FLAT_PAGE.removesuffix("index.html")
        twin, flat = self._asked(at_json, SIMPLE_JSON), self._asked(at_flat, _HTML[0])
        if not self.own and isinstance(twin, Refused) and isinstance(flat, Refused):
            return self._foreign(root)
        return self._both_forms(
            root, self._read(at_json, twin, (SIMPLE_JSON,)), self._read(at_flat, flat, _HTML).files
        )

    def _foreign(self, root: Page) -> list[Link]:
        """What the pages of an index list that was not written by rocwright: HTML, or one page of links."""
        self.note("only HTML pages were checked: this index has no _json/ and _flat/ of rocwright's")
        if not root.projects and not root.files:
            self.fault(self.url, "links to no project and no file")
        pages = self.each(lambda url: self._page(url, _HTML), sorted(root.projects.values()))
        return [*root.files, *(one for page in pages for one in page.files)]

    def _both_forms(self, root: Page, twin: Page, flat: Iterable[Link]) -> list[Link]:
        projects = sorted({*root.projects, *twin.projects})
        for project in projects:
            for page, where in ((root, self.url), (twin, self.url + JSON_PAGES)):
                if project not in page.projects:
                    self.fault(where, f"does not list {project}")
        found = [one for files in self.each(self._project, projects) for one in files]
        self._flat(found, {one.name: one for one in flat})
        return found

    def _project(self, project: str) -> list[Link]:
        html = self._page(f"{self.url}{project}/", _HTML).files
        where = f"{self.url}{JSON_PAGES}{project}/"
        json = self._page(where, (SIMPLE_JSON,)).files
        by_name = {one.name: one for one in html}
        for one in json:
            if one.size is None or one.sha256 is None:
                self.fault(where, f"gives no size or sha256 for {one.name}")
            if _of_html(one) != by_name.pop(one.name, None):
                self.fault(where, f"differs from the HTML page about {one.name}, or only one of them has it")
        for name in by_name:
            self.fault(where, f"lacks {name}, which the HTML page has")
        return [*json, *by_name.values()]

    def _flat(self, found: list[Link], flat: dict[str, Link]) -> None:
        where = self.url + FLAT_PAGE.removesuffix("index.html")
        wanted = {one.name: _of_html(one) for one in found if one.yanked is None}
        for name in sorted(wanted.keys() | flat.keys()):
            if wanted.get(name) != flat.get(name):
                self.fault(where, f"differs from the page of its project about {name}")

    def file(self, one: Link) -> None:
        """Ask for a file's size and its METADATA; what states variants is read."""
        if one.name.endswith(INDEX_END):
            self._variants(one)
            return
        try:
            size: int | None = self.web.size(one.url)
        except Refused as error:
            self.fault(one.url, f"is linked to, but not there ({error.status})")
            return
        except NoRanges:
            # It is there; this server tells no size without sending all of it.
            size = None
        if one.size is not None and size is not None and size != one.size:
            self.fault(one.url, f"has {size:,} bytes, the page says {one.size:,}")
        if not one.metadata:
            return
        try:
            data = self.web.get(f"{one.url}.metadata", limit=_MOST_METADATA).body
        except Refused as error:
            self.fault(f"{one.url}.metadata", f"is promised, but not there ({error.status})")
            return
        if isinstance(one.metadata, str) and hashlib.sha256(data).hexdigest() != one.metadata:
            self.fault(f"{one.url}.metadata", "is not the METADATA that the page names")

    def _variants(self, one: Link) -> None:
        try:
            data = self.web.get(one.url, limit=_MOST_METADATA).body
            parse_variants(data, where=one.name)
        except Refused as error:
            self.fault(one.url, f"is linked to, but not there ({error.status})")
            return
        except InvalidVariant as error:
            self.fault(one.url, error.what)
            return
        if one.sha256 is not None and hashlib.sha256(data).hexdigest() != one.sha256:
            self.fault(one.url, "is not what the page names")

    def _page(self, url: str, kinds: tuple[str, ...]) -> Page:
        return self._read(url, self._asked(url, kinds[0]), kinds)

    def _asked(self, url: str, kind: str) -> Response | Refused:
        try:
            return self._answer(url, kind)
        except Refused as error:
            return error

    def _read(self, url: str, answer: Response | Refused, kinds: tuple[str, ...]) -> Page:
        if isinstance(answer, Refused):
            self.fault(url, f"is not there ({answer.status})")
            return Page()
        return self._parsed(url, answer, kinds)

    def _answer(self, url: str, kind: str) -> Response:
        answer = self.web.get(url, limit=_MOST_PAGE, accept=kind, packed=True)
        self.pages.append(url)
        return answer

    def _parsed(self, url: str, answer: Response, kinds: tuple[str, ...]) -> Page:
        if answer.content_type not in kinds:
            self.fault(url, f"is served as {answer.content_type or 'nothing'}, installers need {kinds[0]}")
        try:
            page = parse_page(answer.body, answer.content_type, answer.url, self.web.enter)
        except InvalidInput as error:
            self.fault(url, error.what)
            return Page()
        for note in page.notes:
            self.fault(url, note)
        return page


def _of_html(one: Link) -> Link:
    """What an HTML page can say of a file."""
    metadata = one.metadata
    return Link(
        one.name, one.url, one.sha256, None, one.requires_python, metadata, one.yanked, one.provenance
    )
