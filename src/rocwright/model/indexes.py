"""Package indexes by name, as the table `data/indexes.toml` has them."""

from __future__ import annotations

from difflib import get_close_matches

import msgspec

from rocwright.errors import InvalidData, UsageError


class NamedIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An index: its address, and whether its packages lie in a directory for each family of GPUs."""

    name: str
    url: str
    by_family: bool = False


class IndexTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    index: tuple[NamedIndex, ...]

    def __post_init__(self) -> None:
        names = [one.name for one in self.index]
        for one in self.index:
            if names.count(one.name) > 1:
                raise InvalidData(f"two indexes have the name {one.name}", next_step="give one another name")
            if "://" not in one.url:
                raise InvalidData(f"the url {one.url!r} of the index {one.name} is no address")

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
