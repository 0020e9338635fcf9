"""Pages as evidence, which files they list, withdrawn or not; and those of a set, written anew."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress

from rocwright.data.toml import plain
from rocwright.errors import InvalidData, RocwrightError
from rocwright.model.variants import INDEX_END
from rocwright.store.adopt.offered import Link
from rocwright.store.adopt.pages import parse_page
from rocwright.store.index.set_pages import set_pages
from rocwright.store.layout import JSON_PAGES, set_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import read_listed

# What relative links are joined to.
_HERE = "http://store.invalid/a/b/c/d/"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_JSON_TYPE = "application/vnd.pypi.simple.v1+json"
# Addresses are not compared: who repairs may know the store by another one.
_ADDRESS = re.compile(r'"(?:[a-z]+:)?//[^"]*"')


def links_of(store: ObjectStore, prefix: str) -> tuple[Link, ...]:
    """What the pages of the projects of a view link to, as far as they can be read; of two pages the JSON."""
    found: dict[tuple[str, str | None], Link] = {}
    for stored in store.list(prefix):
        if stored.key.endswith("/index.html") and f"/{JSON_PAGES}" not in stored.key:
            for link in _links(store, stored.key):
                found.setdefault((link.name, link.sha256), link)
    for stored in store.list(f"{prefix}{JSON_PAGES}"):
        found.update({(link.name, link.sha256): link for link in _links(store, stored.key)})
    # What is stated of variants follows from the files.
    return tuple(link for link in found.values() if not link.name.endswith(INDEX_END))


def _links(store: ObjectStore, key: str) -> tuple[Link, ...]:
    data = read_there(store, key)
    return _parsed(data)[0] if data else ()


def _parsed(data: bytes) -> tuple[tuple[Link, ...], frozenset[str]]:
    """The links of a page and the projects that it names; none of what is no page."""
    try:
        kind = _JSON_TYPE if data.lstrip()[:1] == b"{" else "text/html"
        page = parse_page(data, kind, _HERE, lambda url: url)
    except (InvalidData, ValueError):
        return (), frozenset()
    return page.files, frozenset(page.projects)


def came_by_pages(store: ObjectStore, prefix: str) -> str | None:
    """When the files of a set came in, as its pages have it; None where they do not tell."""
    times = set()
    for stored in store.list(f"{prefix}{JSON_PAGES}"):
        with suppress(ValueError, TypeError, AttributeError):
            page = json.loads(store.read(stored.key))
            times |= {item["upload-time"] for item in page.get("files", ()) if "upload-time" in item}
    return times.pop() if len(times) == 1 else None


def is_outside(link: Link) -> bool:
    """Whether a link leads out of the store."""
    return not link.url.startswith("http://store.invalid/")


def projects_on(store: ObjectStore, prefix: str) -> frozenset[str]:
    """The projects that have a page in a view which can be read."""
    return frozenset(
        stored.key.removeprefix(f"{prefix}{JSON_PAGES}").partition("/")[0]
        for stored in store.list(f"{prefix}{JSON_PAGES}")
        if _links(store, stored.key)
    )


def mend_pages(store: ObjectStore, digest: str, tell: Callable[[str, str], None]) -> None:
    """Write the pages of a whole set anew where they say something else than the set; no page, no pages."""
    prefix = set_prefix(digest)
    try:
        wanted = set_pages(read_listed(store, digest), store.url(prefix).removesuffix(prefix))
    except RocwrightError:
        return
    there = {key: read_there(store, key) for key in wanted}
    if not any(data is not None for data in there.values()):
        return
    for key, page in wanted.items():
        data = there[key]
        if data is None or not _same(key, data, page):
            store.put_bytes(key, page, overwrite=True)
            tell(key, "it was missing" if data is None else "it was damaged")


def _same(key: str, data: bytes, page: bytes) -> bool:
    if data == page:
        return True
    if key.endswith(".html"):
        return _said(data) == _said(page)
    text, wanted = data.decode("utf-8", "replace"), page.decode()
    if "/pylock." in key:
        # It may hold more, from another index.
        return _is_toml(text, key) and set(_DIGEST.findall(wanted)) <= set(_DIGEST.findall(text))
    return _ADDRESS.sub("", text) == _ADDRESS.sub("", wanted)


def _said(page: bytes) -> tuple[frozenset[tuple[str, str | None]], frozenset[str]]:
    links, projects = _parsed(page)
    return frozenset((one.name, one.sha256) for one in links), projects


def _is_toml(text: str, key: str) -> bool:
    try:
        plain(text, where=key)
    except InvalidData:
        return False
    return True
