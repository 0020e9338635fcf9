"""Where packages are offered: channels that list sets, their landing page, and package indexes by name.

The tables `channels`, `landing` and `indexes`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from rocwright.errors import InvalidData, InvalidInput, UsageError

_KEY = re.compile(r"ed25519:[A-Za-z0-9+/]{43}=")
_LOGIN = re.compile(r"(?<=://)[^/\s]+@")


# What a suite has to pass on: a GPU (a suite of the host: the machine), or a GPU that an emulator plays.
Asked = Literal["gpu", "emulated"]
# What a key may answer for: `release` for sets, what is listed, waivers, bypasses and promotions; `evidence`
# for what was built, checked and tested; `root` for who these are.
Role = Literal["release", "evidence", "root"]


class Trusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The public keys that a channel trusts, by role, each as `rocwright set sign` prints it.

    Without `root`, the keys of `release` say who comes after them. `thresholds` are how many keys of a role
    have to sign (default: 1). `version` is the lowest version of the store's own root of trust that counts.
    """

    release: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    root: tuple[str, ...] = ()
    thresholds: dict[Role, int] = {}
    version: int = 0

    def __post_init__(self) -> None:
        for key in (*self.release, *self.evidence, *self.root):
            require_public(key)
        roles: tuple[Role, ...] = ("release", "evidence", "root")
        for role in roles:
            count, keys = self.threshold(role), len(set(self.keys(role)))
            if not 1 <= count <= max(keys, 1) or (not keys and role != "evidence"):
                raise InvalidData(
                    f"{count} signatures of {role} are asked for, and {keys} keys are trusted with that",
                    next_step="ask for one at least, and for no more than there are keys",
                )

    def keys(self, role: Role) -> tuple[str, ...]:
        """The keys of a role."""
        return {"release": self.release, "evidence": self.evidence, "root": self.root or self.release}[role]

    def threshold(self, role: Role) -> int:
        """How many keys of a role have to sign."""
        usual = 1 if role != "root" or self.root else self.thresholds.get("release", 1)
        return self.thresholds.get(role, usual)


def require_public(key: str) -> None:
    """Raise `InvalidData` for text that is not a public key."""
    if _KEY.fullmatch(key) is None:
        raise InvalidData(
            f"{key!r}, which a channel trusts, is not a public key",
            next_step="write it as rocwright set sign prints it: ed25519: and 44 characters",
        )


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
