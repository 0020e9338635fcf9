"""Where packages are offered: channels that list sets, and their landing page.

The tables `channels` and `landing`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal

import msgspec

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.trusted import Trusted, require_public

# What a suite has to pass on: a GPU (a suite of the host: the machine), or a GPU that an emulator plays.
Asked = Literal["gpu", "emulated"]


class Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place where sets are listed, family by family, below `prefix`.

    `after` is the channel that a set must be in before; at most `listed` sets are on the pages. With `keys`
    or `trust` (see `Channels.trusted`) nothing counts but what these keys signed; `keys` have every role.
    Without `overrides`, a check from which a rocwright.toml took rules away does not count as passed.
    `device` is what suites for each target have to pass on: a channel with `emulated` asks for emulated GPUs
    where others ask for GPUs, and says so on its page.
    """

    name: str
    prefix: str
    gate: Literal["checked", "tested"]
    listed: int
    after: str | None = None
    keys: tuple[str, ...] = ()
    overrides: bool = True
    trust: Trusted | None = None
    device: Asked = "gpu"

    @property
    def trusted(self) -> Trusted | None:
        """Whom the channel trusts; None where it takes what nobody signed."""
        if not self.keys:
            return self.trust
        known = self.trust or Trusted(self.keys)
        return msgspec.structs.replace(
            known,
            release=tuple(dict.fromkeys((*known.release, *self.keys))),
            evidence=tuple(dict.fromkeys((*known.evidence, *self.keys))),
        )


class Publisher(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A workflow whose attestations are taken (PEP 740), as a trusted publisher of PyPI is described.

    `repository` is `owner/name`, `workflow` the name of a file (of GitHub in `.github/workflows`). The name
    of the `environment` is told to clients; no certificate holds it, so nothing compares it.
    """

    repository: str
    workflow: str
    kind: Literal["GitHub", "GitLab"] = "GitHub"
    environment: str = ""


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A suite of tests that the gate `tested` asks for, once for a set or for each of its targets.

    With the device `emulated` it has to pass on emulated GPUs, beside what other rows of its name ask for.
    """

    name: str
    per: Literal["set", "target"]
    device: Asked = "gpu"


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how many days something stays that nothing refers to any more."""

    grace_days: int


class SuiteBounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What holds for bypasses of one suite in place of what holds for all."""

    days: int | None = None
    by: tuple[str, ...] | None = None


class BypassBounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how many days a test may be bypassed at most, and who may: anybody, where nobody is named."""

    days: int = 90
    by: tuple[str, ...] = ()
    suite: dict[str, SuiteBounds] = {}

    def __post_init__(self) -> None:
        for days in (self.days, *(one.days for one in self.suite.values())):
            if days is not None and days < 0:
                raise InvalidData(f"[channels.bypass]: {days} days are no time", next_step="give 0 or more")

    def of(self, suite: str) -> tuple[int, tuple[str, ...]]:
        """The longest time in days, and who may, for a suite."""
        own = self.suite.get(suite, SuiteBounds())
        return self.days if own.days is None else own.days, self.by if own.by is None else own.by


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

    `trusted` are public keys by the name of a channel, each as `rocwright set sign` prints it: a list, whose
    keys have every role, or a table of roles. `overrides` says by the name of a channel whether a check with
    overrides counts; `bypass` bounds bypasses. `publisher` are those whose attestations of files are taken.
    """

    max_age: int
    channel: tuple[Channel, ...]
    suite: tuple[Suite, ...]
    retention: Retention
    buckets: Buckets
    runs: Runs
    trusted: dict[str, tuple[str, ...] | Trusted] = {}
    overrides: dict[str, bool] = {}
    bypass: BypassBounds = BypassBounds()
    publisher: tuple[Publisher, ...] = ()

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
        for name in self.overrides:
            if name not in names:
                raise InvalidData(
                    f"[channels.overrides]: {name} is not a channel; channels: {', '.join(names)}"
                )
        unknown = sorted(set(self.bypass.suite) - {one.name for one in self.suite})
        if unknown:
            known = ", ".join(one.name for one in self.suite)
            raise InvalidData(f"[channels.bypass.suite]: {unknown[0]} is not a suite; suites: {known}")
        for name, keys in self.trusted.items():
            # A misspelt name would leave a channel open that somebody wanted closed; so would an empty list.
            if name not in names or not keys:
                what = "has no trusted key" if name in names else "has trusted keys, but is not a channel"
                raise InvalidData(f"[channels.trusted]: {name} {what}; channels: {', '.join(names)}")
        lists = [keys for keys in self.trusted.values() if isinstance(keys, tuple)]
        for key in (*(key for one in self.channel for key in one.keys), *sum(lists, ())):
            require_public(key)

    def per(self, suite: str, device: str = "gpu") -> Literal["set", "target"] | None:
        """Whether a suite runs once for a set or for each target; None for one that no channel asks for."""
        rows = [one for one in self.suite if one.name == suite]
        return next((one.per for one in sorted(rows, key=lambda row: row.device != device)), None)

    def named(self, name: str) -> Channel:
        """The channel with this name or prefix; raises `InvalidInput` naming those there are."""
        for one in self.channel:
            if name in (one.name, one.prefix):
                counts = one.overrides and self.overrides.get(one.name, True)
                more = self.trusted.get(one.name, ())
                if isinstance(more, Trusted):
                    return msgspec.structs.replace(one, trust=more, overrides=counts)
                return msgspec.structs.replace(one, keys=(*one.keys, *more), overrides=counts)
        names = [one.name for one in self.channel]
        near = get_close_matches(name, names, n=1)
        raise InvalidInput(
            f"there is no channel {name!r}; channels: {', '.join(names)}",
            next_step=f"perhaps {near[0]}" if near else "add it to rocwright.toml, as [[channels.channel]]",
        )


class PolicyChange(msgspec.Struct, frozen=True):
    """A value of the policy that a rocwright.toml changes: which, from and to, as JSON; the file's digest."""

    field: str
    before: str
    after: str
    file: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.field}: {self.before or 'nothing'} -> {self.after}"


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
