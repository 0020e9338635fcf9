"""What a view of an index lists: sets in some order, and the files that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import msgspec
from packaging.version import InvalidVersion, Version

from rocwright.errors import IntegrityError, InvalidData
from rocwright.model.manifest import FileEntry, SetManifest
from rocwright.store.layout import entry_key

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ListedSet:
    """A set in a view.

    `uploaded` is when its files came in (RFC 3339, UTC), `yanked` why no one should install it any more
    (PEP 592), `elsewhere` the URLs of files that lie outside of the store, by name; `sidecars` names those
    among them that have their METADATA beside them.
    """

    manifest: SetManifest
    uploaded: str | None = None
    yanked: str | None = None
    elsewhere: Mapping[str, str] = field(default_factory=lambda: _NONE)
    sidecars: frozenset[str] = frozenset()


class ListedFile(msgspec.Struct, frozen=True, gc=False):
    """A file in a view. `place` is its key in the store, or an absolute URL where it lies elsewhere."""

    entry: FileEntry
    place: str
    uploaded: str | None = None
    yanked: str | None = None


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
                what = "with other content" if before.sha256 != entry.sha256 else f"as of {before.project}"
                raise IntegrityError(
                    f"{where or 'the view'} already lists {entry.name} {what}",
                    where=where + entry.name,
                    next_step="build the set under a new version; a published name never changes content",
                )
            if entry.project in without:
                continue
            place = one.elsewhere.get(entry.name)
            if place is not None and entry.name not in one.sidecars:
                # An installer that is promised METADATA and finds none gives up.
                entry = msgspec.structs.replace(entry, metadata_sha256=None)
            new = ListedFile(entry, place or entry_key(entry), one.uploaded, one.yanked)
            known = found.get(entry.name)
            found[entry.name] = new if known is None else _together(known, new)
    return tuple(found[name] for name in sorted(found))


def _together(known: ListedFile, new: ListedFile) -> ListedFile:
    uploaded = min(filter(None, (known.uploaded, new.uploaded)), default=None)
    yanked = known.yanked if new.yanked is not None else None
    return ListedFile(known.entry, known.place, uploaded, yanked)


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
        return _parsed(text)
    except InvalidVersion as error:
        raise InvalidData(f"{text!r} is no version", where=name) from error


_parsed = lru_cache(maxsize=1 << 16)(Version)
