"""What an index states of variants: for each version of a project that has any a file beside its wheels.

It is made of what the wheels state that are listed now, so wheels of several sets stand in one file. It lies
under its digest: who still has an earlier page finds the file that this page promises.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import UNSET

from rocwright.model.sets import SetManifest
from rocwright.model.variants import Variants, encoded, index_name, merged
from rocwright.store.index.listed import Lines, ListedFile, ListedSet, by_project, link, listed_files
from rocwright.store.layout import VARIANTS

_FOLDER = re.escape(VARIANTS).encode()
_HREF = re.compile(rf'href="(?:\.\./)+([^"#]*/?{re.escape(VARIANTS)}[^"#]+)'.encode())


class StatedFile(NamedTuple):
    """A file about the variants of one version: its name, its key in the store, its bytes, since when."""

    name: str
    key: str
    data: bytes
    uploaded: str | None

    @property
    def sha256(self) -> str:
        """Hex."""
        return hashlib.sha256(self.data).hexdigest()


def stated_variants(files: Iterable[ListedFile], prefix: str) -> tuple[StatedFile, ...]:
    """A file for each version among the files of one project that has variants, in the order of the files.

    Raises `InvalidVariant` where wheels of a version contradict each other.
    """
    found: dict[str, list[ListedFile]] = {}
    for one in files:
        if one.entry.variant is not UNSET:
            found.setdefault(one.entry.version, []).append(one)
    return tuple(_stated(listed, prefix) for listed in found.values())


def require_agreement(manifest: SetManifest) -> None:
    """Raise `InvalidVariant` for a set whose wheels contradict each other about variants.

    No index could state them, so this is asked before anything of the set is written.
    """
    stated_of_all(listed_files([ListedSet(manifest)]))


def _stated(listed: list[ListedFile], prefix: str) -> StatedFile:
    name = index_name(listed[0].entry.name)
    said = [one.entry.variant for one in listed if isinstance(one.entry.variant, Variants)]
    data = encoded(merged(said, where=f"{prefix}{name.partition('-')[0]}"))
    uploaded = min(filter(None, (one.uploaded for one in listed)), default=None)
    return StatedFile(name, f"{prefix}{VARIANTS}{hashlib.sha256(data).hexdigest()}/{name}", data, uploaded)


def stated_of_all(files: Iterable[ListedFile]) -> tuple[StatedFile, ...]:
    """The same for files of several projects; keys begin where the page lies that lists them all."""
    return tuple(one for listed in by_project(files).values() for one in stated_variants(listed, ""))


def stated_line(one: StatedFile, base: str) -> str:
    """The line with the link to it on a page in HTML."""
    return f'<a href="{link(one.key, base)}#sha256={one.sha256}">{one.name}</a><br>\n'


def all_there(html: Lines, there: Container[str]) -> bool:
    """Whether every such file that a page in HTML links to is among the keys of the store."""
    # Most pages have none, and a search for plain bytes is a hundred times as fast as one for the links.
    if re.search(_FOLDER, html) is None:
        return True
    return all(unquote(found.decode()) in there for found in _HREF.findall(html))
