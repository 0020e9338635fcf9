"""Where packages are offered: channels that list sets, their landing page, and package indexes by name.

The tables `channels`, `landing` and `indexes`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Literal

import msgspec

from rocwright.errors import InvalidData, InvalidInput, UsageError

_KEY = re.compile(r"ed25519:[A-Za-z0-9+/]{43}=")


class Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place where sets are listed, family by family, below `prefix`.

    `after` is the channel that a set must be in before; at most `listed` sets are on the pages. With `keys`
    (see `Channels.trusted`) it lists only sets that the holder of one of them signed.
    """

    name: str
    prefix: str
    gate: Literal["checked", "tested"]
    listed: int
    after: str | None = None
    keys: tuple[str, ...] = ()


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A suite of tests that the gate `tested` asks for, once for a set or for each of its targets."""

    name: str
    per: Literal["set", "target"]


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how many days something stays that nothing refers to any more."""

    grace_days: int


class Buckets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of buckets where none is given; `external` is for runs of forks and other repositories.

    `region` is theirs, where the environment does not name another one.
    """

    region: str
    runs: str
    external: str
    release: str


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose runs they are where nothing else is said: `repository` is `owner/name`.

    Its latest successful run is one of `workflow` on `branch`.
    """

    repository: str
    workflow: str
    branch: str


class Channels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/channels.toml`; `max_age` of a page is in seconds.

    `trusted` are public keys by the name of a channel, each as `rocwright set sign` prints it.
    """

    max_age: int
    channel: tuple[Channel, ...]
    suite: tuple[Suite, ...]
    retention: Retention
    buckets: Buckets
    runs: Runs
    trusted: dict[str, tuple[str, ...]] = {}

    def __post_init__(self) -> None:
        names = [one.name for one in self.channel]
        for what, values in (("name", names), ("prefix", [one.prefix for one in self.channel])):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise InvalidData(f"two channels have the {what} {', '.join(twice)}")
        if "newest" in names:
            raise InvalidData('no channel can be named "newest": that is a set, the one of the first channel')
        for position, one in enumerate(self.channel):
            # Only those in front of it: so no circle can be written.
            if one.after is not None and one.after not in names[:position]:
                raise InvalidData(
                    f"the channel {one.name} comes after {one.after}, but no channel before it has that name"
                )
            if one.listed < 1:
                raise InvalidData(f"the channel {one.name} lists {one.listed} sets; it needs at least one")
        for name, keys in self.trusted.items():
            # A misspelt name would leave a channel open that somebody wanted closed; so would an empty list.
            if name not in names or not keys:
                what = "has no trusted key" if name in names else "has trusted keys, but is not a channel"
                raise InvalidData(f"[channels.trusted]: {name} {what}; channels: {', '.join(names)}")
        for key in (*(key for one in self.channel for key in one.keys), *sum(self.trusted.values(), ())):
            if _KEY.fullmatch(key) is None:
                raise InvalidData(
                    f"{key!r}, which a channel trusts, is not a public key",
                    next_step="write it as rocwright set sign prints it: ed25519: and 44 characters",
                )

    def named(self, name: str) -> Channel:
        """The channel with this name or prefix; raises `InvalidInput` naming those there are."""
        for one in self.channel:
            if name in (one.name, one.prefix):
                return msgspec.structs.replace(one, keys=(*one.keys, *self.trusted.get(one.name, ())))
        names = [one.name for one in self.channel]
        near = get_close_matches(name, names, n=1)
        raise InvalidInput(
            f"there is no channel {name!r}; channels: {', '.join(names)}",
            next_step=f"perhaps {near[0]}" if near else "add it to rocwright.toml, as [[channels.channel]]",
        )


class Product(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project that people install: with these extras, and together with these projects of the same set.

    What is `beside` comes from the same index, and other indexes have other packages of these names.
    """

    name: str
    together: tuple[str, ...] = msgspec.field(name="with", default=())
    extras: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


class LandingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/landing.toml`; `gpus` maps a target to the GPUs that have it."""

    pythons: tuple[str, ...]
    product: tuple[Product, ...]
    platforms: dict[str, str]
    gpus: dict[str, tuple[str, ...]]


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
                raise InvalidData(f"the url {one.url!r} of the index {one.name} is not an address")

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
