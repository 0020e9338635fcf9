"""Package indexes by name: where their packages lie, and what took their place. The table `indexes`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from rocwright.errors import InvalidData, UsageError

_LOGIN = re.compile(r"(?<=://)[^/\s]+@")


class NamedIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A package index; the head of `data/indexes.toml` says what each field means.

    Without a `layout` nothing is known of what lies below its address, as for an index of rocwright.toml.
    """

    name: str
    url: str
    stream: str = ""
    layout: Literal["multi-arch", "next", "per-family"] | None = None
    rocm: str = ""
    core: str = ""
    beside: str = ""
    ended: str = ""
    replaced_by: str = ""
    sources: tuple[str, ...] = ()

    @property
    def by_family(self) -> bool:
        """Whether its packages lie in a directory for each family of GPUs."""
        return self.layout == "per-family"

    @property
    def extras(self) -> bool:
        """Whether a GPU is chosen by an extra: `torch[device-TARGET]`."""
        return self.layout in ("multi-arch", "next")

    def has(self, version: str) -> bool:
        """Whether it has this version of ROCm, as far as a source says; what no source says counts as yes."""
        return not self.rocm or SpecifierSet(self.rocm).contains(version, prereleases=True)


class IndexTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    index: tuple[NamedIndex, ...]

    def __post_init__(self) -> None:
        names = [one.name for one in self.index]
        for one in self.index:
            if names.count(one.name) > 1:
                raise InvalidData(f"two indexes have the name {one.name}", next_step="give one another name")
            if "://" not in one.url:
                raise InvalidData(f"the url {one.url!r} of the index {one.name} is not an address")
            if one.replaced_by and one.replaced_by not in names:
                raise InvalidData(f"the index {one.name} is replaced by {one.replaced_by}, which is no index")
            try:
                SpecifierSet(one.rocm)
            except InvalidSpecifier as error:
                raise InvalidData(
                    f"the index {one.name} has ROCm {one.rocm!r}, which is not a specifier",
                    next_step="write it like >=7.14,<10",
                ) from error

    def named(self, name: str) -> NamedIndex:
        """The index with this name; raises `UsageError` naming those there are."""
        names = [one.name for one in self.index]
        if name in names:
            return self.index[names.index(name)]
        near = get_close_matches(name, names, n=1)
        raise UsageError(
            f"there is no index named {name!r}; named are: {', '.join(names)}",
            next_step=f"perhaps {near[0]}" if near else "give --index-url, or add it as [[indexes.index]]",
        )

    def serving(self, stream: str, version: str) -> NamedIndex:
        """The index of a stream that has this version of ROCm; its newest one for text that is no version."""
        rows = [one for one in self.index if one.stream == stream]
        try:
            return next((one for one in rows if one.has(version)), rows[0])
        except InvalidVersion:
            return rows[0]

    def at(self, url: str) -> NamedIndex | None:
        """The index that an address belongs to; None for one that is not in the table."""
        address = f"{_LOGIN.sub('', url).rstrip('/')}/"
        rows = [one for one in self.index if address.startswith(one.url) or address == one.core]
        return max(rows, key=lambda one: len(one.url), default=None)

    def notice(self, url: str | None) -> str:
        """What took the place of the index at an address; empty where nothing did."""
        old = self.at(url) if url else None
        if old is None or not old.replaced_by:
            return ""
        new = self.named(old.replaced_by)
        how = ", with an extra for each GPU (device-TARGET)" if old.by_family and new.extras else ""
        return (
            f"{old.url} gets no new packages since {old.ended} and may go away; "
            f"newer ones are on {new.url} (--index-name {new.name}){how}"
        )

    def address(
        self, url: str | None, name: str = "", subdir: str = "", version: str | None = None
    ) -> str | None:
        """The address that options mean: empty text for no index, None for the user's own.

        The name of a stream means its index that has this `version` of ROCm; with the directory of a family,
        which its newer indexes have not, it means the one that does.
        Raises `UsageError` for options that contradict each other, for a name that the table does not have,
        for an index that only adds to another one, and for what is no address.
        """
        if name and url is not None:
            raise UsageError(
                "--index-url and --index-name contradict each other",
                next_step=f"leave one of them out (--index-name {name} is {self.named(name).url})",
            )
        if subdir and not name and not url:
            raise UsageError(f"--index-subdir {subdir} needs an index", next_step="give --index-url, too")
        if name:
            url = self._alone(name, subdir, version).url
        if not url:
            return url
        if "://" not in url or any(character.isspace() for character in url):
            raise UsageError(
                f"--index-url {url}: that is not a URL", next_step="write it with https:// or file://"
            )
        return _below(url, subdir) if subdir else url

    def with_rocm(self, name: str, version: str | None = None) -> NamedIndex:
        """The index with this name; of a stream's indexes, the one that has this version of ROCm.

        Raises `UsageError` for a name that the table does not have, and for an index that only adds to one.
        """
        row = self.named(name)
        if version and row.stream == name:
            row = self.serving(name, version)
        if row.beside:
            base = self.named(row.beside).url
            raise UsageError(
                f"the index {name} has neither ROCm nor torch: it adds to {row.beside}",
                next_step=f"install with pip: --index-url {base} --extra-index-url {row.url}",
            )
        return row

    def _alone(self, name: str, subdir: str, version: str | None) -> NamedIndex:
        row = self.with_rocm(name, version)
        if row.by_family and not subdir:
            raise UsageError(
                f"the index {row.name} has a directory for each family of GPUs; --index-subdir names it",
                next_step="add --index-subdir, such as gfx94X-dcgpu",
            )
        if not row.extras or not subdir:
            return row
        older = next((one for one in self.index if one.stream == row.stream and one.by_family), None)
        if older is None:
            raise UsageError(
                f"the index {name} has no directories of families", next_step="leave --index-subdir out"
            )
        return older


def _below(url: str, subdir: str) -> str:
    parts = subdir.strip("/").split("/")
    if not all(part.strip(".") and part.isprintable() and not set(part) & set(" ?#\\:") for part in parts):
        raise UsageError(
            f"--index-subdir {subdir!r} is not a directory below an index",
            next_step="give its name, such as gfx94X-dcgpu",
        )
    if urlsplit(url).query:
        raise UsageError(f"--index-subdir cannot be joined to {url}", next_step="give the whole --index-url")
    return f"{url.rstrip('/')}/{'/'.join(parts)}/"
