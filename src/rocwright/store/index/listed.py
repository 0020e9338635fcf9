"""What a view of an index lists, sets in some order and the files that follow from them, and it as HTML.

Pure functions, so the same set renders the same bytes: simple repository pages after PEP 503, with digests,
Requires-Python, the digest of the METADATA sidecar (PEP 658, by its newer name of PEP 714) and what is yanked
(PEP 592), where its provenance is (PEP 740); and a flat page for `--find-links`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from html import escape
from types import MappingProxyType
from urllib.parse import quote

import msgspec
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.errors import IntegrityError, InvalidData
from rocwright.model.sets import FileEntry, SetManifest
from rocwright.model.version import cached_version
from rocwright.store.layout import entry_key

_NONE: Mapping[str, str] = MappingProxyType({})


class ListedSet(msgspec.Struct, frozen=True):
    """A set in a view.

    `uploaded` is when its files came in (RFC 3339, UTC), `yanked` why no one should install it any more
    (PEP 592), `elsewhere` the URLs of files that lie outside of the store, by name; `sidecars` names those
    among them that have their METADATA beside them. `provenance` are the addresses of attestations of
    files, by name.
    """

    manifest: SetManifest
    uploaded: str | None = None
    yanked: str | None = None
    elsewhere: Mapping[str, str] = msgspec.field(default_factory=lambda: _NONE)
    sidecars: frozenset[str] = frozenset()
    provenance: Mapping[str, str] = msgspec.field(default_factory=lambda: _NONE)


class ListedFile(msgspec.Struct, frozen=True, gc=False):
    """A file in a view.

    `apart` is given where it does not lie at its entry's key: another key of the store, or an absolute URL.
    `provenance` is an absolute URL, where it has any: readers refuse a page with another one (PEP 740).
    """

    entry: FileEntry
    apart: str | None = None
    uploaded: str | None = None
    yanked: str | None = None
    provenance: str | None = None

    @property
    def place(self) -> str:
        """Its key in the store, or an absolute URL."""
        return self.apart or entry_key(self.entry)


def listed_files(
    sets: Iterable[ListedSet], *, where: str = "", without: Collection[str] = ()
) -> tuple[ListedFile, ...]:
    """Every file of the sets but those of the projects `without`, sorted by name.

    A file of several sets has the earliest of their upload times, and is yanked only where all of them are.
    Raises `IntegrityError` when two sets give one name different content, or another project; `where` names
    the view.
    """
    found: dict[str, ListedFile] = {}
    first: dict[str, FileEntry] = {}
    for one in sets:
        for entry in one.manifest.files:
            before = first.setdefault(entry.name, entry)
            if before.sha256 != entry.sha256 or before.project != entry.project:
                raise other_content(before, entry, where=where)
            if entry.project in without:
                continue
            place = one.elsewhere.get(entry.name)
            if place is not None and entry.name not in one.sidecars:
                # An installer that is promised METADATA and finds none gives up.
                entry = msgspec.structs.replace(entry, metadata_sha256=None)
            attested = one.provenance.get(entry.name) if one.provenance else None
            new = ListedFile(entry, place, one.uploaded, one.yanked, attested)
            known = found.get(entry.name)
            found[entry.name] = new if known is None else _together(known, new)
    return tuple(found[name] for name in sorted(found))


def other_content(
    before: FileEntry, entry: FileEntry, *, where: str, lists: str = "already lists"
) -> IntegrityError:
    """The error where a file has the name of one `before` it, and is another."""
    what = "with other content" if before.sha256 != entry.sha256 else f"as of {before.project}"
    return IntegrityError(
        f"{where or 'the view'} {lists} {entry.name} {what}",
        where=where + entry.name,
        next_step="build the set under a new version; a published name never changes content",
    )


def _together(known: ListedFile, new: ListedFile) -> ListedFile:
    uploaded = min(filter(None, (known.uploaded, new.uploaded)), default=None)
    yanked = known.yanked if new.yanked is not None else None
    return ListedFile(known.entry, known.apart, uploaded, yanked, known.provenance or new.provenance)


def newest_last(files: Iterable[ListedFile]) -> list[ListedFile]:
    """Files by project, version and name; raises `InvalidData` for a version that is none (PEP 440)."""
    return [one for listed in by_project(files).values() for one in listed]


def by_project(files: Iterable[ListedFile]) -> dict[str, list[ListedFile]]:
    """The files of each project, in the order of `newest_last`; raises as that."""
    found: dict[str, list[ListedFile]] = {}
    versions: dict[str, str] = {}
    for one in sorted(files, key=lambda one: one.entry.name):
        found.setdefault(one.entry.project, []).append(one)
        versions[one.entry.version] = one.entry.name
    # Spellings of one version keep one order, too.
    ordered = sorted(versions, key=lambda text: (_version(text, versions[text]), text))
    ranks = {text: rank for rank, text in enumerate(ordered)}
    for listed in found.values():
        listed.sort(key=lambda one: ranks[one.entry.version])
    return dict(sorted(found.items()))


def _version(text: str, name: str) -> Version:
    try:
        return cached_version(text)
    except InvalidVersion as error:
        raise InvalidData(f"{text!r} is not a version", where=name) from error


# -- as HTML


# 1.1 adds sizes and times to the JSON pages, and asks nothing of these (PEP 700).
REPOSITORY_VERSION = "1.1"
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="pypi:repository-version" content="{version}">
{more}<title>{title}</title>
</head>
<body>
<h1>{title}</h1>
"""
# Titles are escaped.
_HEAD_END = b"</h1>\n"
_TAIL = b"</body>\n</html>\n"
# What ends a line, wherever else there may be newlines, and what stands in lines of yanked files: values are
# escaped, so no value holds either.
LINE_END = b"<br>\n"
YANKED = b' data-yanked="'
Lines = bytes | memoryview


def page(title: str, *bodies: Lines, version: str = REPOSITORY_VERSION, more: str = "") -> bytes:
    """A page of links; `title` is text, each of `bodies` and `more`, for its head, are lines of HTML."""
    head = _HEAD.format(version=version, more=more, title=escape(title)).encode()
    return b"".join((head, *bodies, _TAIL))


def page_lines(html: bytes) -> memoryview:
    """The lines of a page that `page` made."""
    return memoryview(html)[html.index(_HEAD_END) + len(_HEAD_END) : -len(_TAIL)]


def address(one: ListedFile, base: str) -> str:
    """As `link`, quickly for a file in the pool, whose name holds few characters that matter."""
    if one.apart is None:
        return base + entry_key(one.entry).replace("+", "%2B").replace("!", "%21")
    return link(one.apart, base)


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
        # By its new name alone (PEP 714): pip before 23.2 takes the old name, and then refuses every project
        # whose METADATA spells its name otherwise than a requirement does.
        said += f' data-core-metadata="sha256={digest}"'
    if one.yanked is not None:
        said += _said("yanked", one.yanked)
    if one.provenance is not None:
        said += f' data-provenance="{escape(one.provenance)}"'
    # `FileEntry` takes no name that would have to be escaped.
    return f'<a href="{shown}#sha256={entry.sha256}"{said}>{entry.name}</a><br>\n'


# Many files have these in common.
@lru_cache(maxsize=4096)
def _said(name: str, value: str) -> str:
    return f' data-{name}="{escape(value)}"'


def flat_page(files: Iterable[ListedFile], *, title: str, base: str, stated: str = "") -> str:
    """One flat page for `pip install --find-links <url of the page>`, of files from wherever they are.

    `stated` are lines about their variants.
    """
    lines = "".join(file_line(one, address(one, base)) for one in newest_last(files))
    return page(title, (lines + stated).encode()).decode()


def root_page(projects: Iterable[str]) -> str:
    """The root of a simple repository: one link per project, normalised, sorted."""
    names = sorted({canonicalize_name(project) for project in projects})
    lines = "".join(f'<a href="{escape(name)}/">{escape(name)}</a><br>\n' for name in names)
    return page("Simple index", lines.encode()).decode()


def project_page(project: str, files: Iterable[ListedFile], *, base: str) -> str:
    """The page of one project with its files."""
    return flat_page(files, title=f"Links for {project}", base=base)
