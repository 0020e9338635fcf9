"""Pages for installers as HTML: pure functions from listed files, so the same set renders the same bytes.

Simple repository pages after PEP 503, with digests, Requires-Python, the digest of the METADATA sidecar under
both its names (PEP 658 and its correction PEP 714) and what is yanked (PEP 592); and a flat page for
`--find-links`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from html import escape
from urllib.parse import quote

from packaging.utils import canonicalize_name

from rocwright.store.index.listed import ListedFile, newest_last
from rocwright.store.layout import entry_key

# 1.1 adds sizes and times to the JSON pages, and asks nothing of these (PEP 700).
REPOSITORY_VERSION = "1.1"
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="pypi:repository-version" content="{version}">
<title>{title}</title>
</head>
<body>
<h1>{title}</h1>
"""
_TAIL = b"</body>\n</html>\n"
# What ends a line, wherever else there may be newlines, and what stands in those of yanked files: values are
# escaped, so neither is in one.
LINE_END = b"<br>\n"
YANKED = b' data-yanked="'
Lines = bytes | memoryview


def page(title: str, *bodies: Lines) -> bytes:
    """A page of links; `title` is text, each of `bodies` lines of HTML with their ends."""
    return b"".join((_head(title), *bodies, _TAIL))


def page_lines(title: str, html: bytes) -> memoryview:
    """The lines of a page that `page` made under this title."""
    return memoryview(html)[len(_head(title)) : -len(_TAIL)]


def _head(title: str) -> bytes:
    return _HEAD.format(version=REPOSITORY_VERSION, title=escape(title)).encode()


def address(one: ListedFile, base: str) -> str:
    """As `link`, quickly for a file in the pool, whose name holds few characters that matter."""
    key = entry_key(one.entry)
    if one.place == key:
        return base + key.replace("+", "%2B").replace("!", "%21")
    return link(one.place, base)


def link(place: str, base: str) -> str:
    """The address of a file on a page; `base` is the relative way from the page to the root of the store."""
    if "://" in place:
        return place.partition("#")[0]
    # A plus sign in a URL path may be read as a space by a server, so it travels as %2B.
    return base + quote(place)


def file_line(one: ListedFile, url: str) -> str:
    """The line with the link to one file, at an address that `link` made."""
    entry = one.entry
    # What leads to a key has nothing but letters, digits and . _ / ! - % in it.
    shown = escape(url) if "://" in url else url
    said = _said("requires-python", entry.requires_python) if entry.requires_python else ""
    if digest := entry.metadata_sha256:
        # By its new name alone (PEP 714): pip before 23.2 takes the old one, and then refuses every project
        # whose METADATA spells its name otherwise than a requirement does.
        said += f' data-core-metadata="sha256={digest}"'
    if one.yanked is not None:
        said += _said("yanked", one.yanked)
    # `FileEntry` takes no name that would have to be escaped.
    return f'<a href="{shown}#sha256={entry.sha256}"{said}>{entry.name}</a><br>\n'


# Many files have these in common.
@lru_cache(maxsize=4096)
def _said(name: str, value: str) -> str:
    return f' data-{name}="{escape(value)}"'


def flat_page(files: Iterable[ListedFile], *, title: str, base: str) -> str:
    """One flat page for `pip install --find-links <url of the page>`, of files from wherever they are."""
    lines = "".join(file_line(one, address(one, base)) for one in newest_last(files))
    return page(title, lines.encode()).decode()


def root_page(projects: Iterable[str]) -> str:
    """The root of a simple repository: one link per project, normalised, sorted."""
    names = sorted({canonicalize_name(project) for project in projects})
    lines = "".join(f'<a href="{escape(name)}/">{escape(name)}</a><br>\n' for name in names)
    return page("Simple index", lines.encode()).decode()


def project_page(project: str, files: Iterable[ListedFile], *, base: str) -> str:
    """The page of one project with its files."""
    return flat_page(files, title=f"Links for {project}", base=base)
