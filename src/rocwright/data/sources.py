"""Where the facts of the tables were read, of when they are, and which of them want to be read again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay

# Issues and pull requests carry their dates themselves.
_DATED = re.compile(r"https://[^ ]+/(issues|pull)/[0-9]+([#/?].*)?")
_AGAIN = "rocwright data refresh"
# Behind what a refresh wrote into a rocwright.toml, with the source; what has none somebody wrote by hand.
MARK = f"# by {_AGAIN}"
_MARKED = re.compile(re.escape(MARK) + r": (?P<id>[^,]+),")


class FactSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where facts were read: `as_of` says of when that was, `read` on which day it was read.

    `of` are the facts, as `data explain` spells them; after `days` they want to be read again, by `reader`
    where a machine can. Facts that are `own` have no source but this project; `about` says what was taken.
    """

    id: str
    url: str = ""
    as_of: str = ""
    read: date | None = None
    of: tuple[str, ...] = ()
    days: int | None = None
    reader: str = ""
    own: bool = False
    about: str = ""

    def __post_init__(self) -> None:
        if not self.own and not (self.url and self.as_of and self.read):
            raise ValueError(f"source {self.id!r} needs a url, as_of and read, or own = true")

    @property
    def due(self) -> date | None:
        """The day after which it wants to be read again; None for what keeps."""
        if self.days is None or self.read is None:
            return None
        return self.read + timedelta(days=self.days)


class SourceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `sources`; a later row with the id of another takes its place."""

    source: tuple[FactSource, ...]

    @property
    def sources(self) -> tuple[FactSource, ...]:
        """Every source once."""
        return tuple({row.id: row for row in self.source}.values())

    def dated(self, url: str) -> FactSource | None:
        """The source whose dates an address has: the one with the longest beginning of it."""
        near = [row for row in self.sources if row.url and url.startswith(row.url)]
        return max(near, key=lambda row: len(row.url), default=None)

    def of(self, *keys: str) -> tuple[FactSource, ...]:
        """The sources of a fact, by all the keys that it has: those that name the longest part of one."""
        fitting = [
            (len(name), row)
            for row in self.sources
            for name in row.of
            for key in keys
            if key == name or key.startswith(f"{name}.")
        ]
        longest = max((length for length, _ in fitting), default=0)
        return tuple(dict.fromkeys(row for length, row in fitting if length == longest))

    def of_table(self, name: str) -> tuple[FactSource, ...]:
        """Every source of a table, or of a part of it."""
        return tuple(
            row for row in self.sources if any(key == name or key.startswith(f"{name}.") for key in row.of)
        )


def load_sources(overlay: Overlay | None = None) -> SourceTable:
    """The built-in sources with those of an overlay; raises `InvalidData` naming file, line and field."""
    return load_table("sources", SourceTable, overlay)


def marked_by(line: str) -> str:
    """The id of the source from which a refresh wrote a line; empty for what somebody wrote by hand."""
    found = _MARKED.search(line)
    return found["id"] if found else ""


def carries_date(url: str) -> bool:
    """Whether an address is that of an issue or pull request, which says itself of when it is."""
    return _DATED.fullmatch(url) is not None


def due(sources: Iterable[FactSource], today: date) -> tuple[FactSource, ...]:
    """Those that want to be read again."""
    return tuple(row for row in sources if row.due is not None and row.due < today)


def advice(tables: Iterable[str], today: date, overlay: Overlay | None = None) -> str:
    """What to say where one of these tables is older than it keeps: which, and the command; else nothing."""
    known = load_sources(overlay)
    old = {name: due(known.of_table(name), today) for name in tables}
    named = [name for name, late in old.items() if late]
    if not named:
        return ""
    first = min(row.read for late in old.values() for row in late if row.read is not None)
    return (
        f"facts that this rests on are old: {', '.join(named)}, read {first} "
        f"({(today - first).days} days ago); see what changed: {_AGAIN} --dry-run"
    )
