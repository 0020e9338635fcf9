"""The log of a channel: what was listed, yanked and dropped, in order.

Every event is an object of its own that is created once and never changed, under a key that begins with its
number and holds its digest. Two publishers that write the same number at the same moment both stay in the
log, on any store, and everybody puts them into the same order. What a channel serves is a function of its
log alone.

A mark in the log says that the pages showed everything up to some event; its time, by the store's clock, is
when. It also holds what the channel served then, so that a reader needs the events after it only, and the
seals of its pages (`rocwright.store.index.pages`). It is no more than a cache: a mark that does not fit
the events before it is left aside.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.sets import canonical_json
from rocwright.store.layout import LOG
from rocwright.store.objects.protocol import ObjectStore, Stored

EVENT_SCHEMA = "rocwright.channel-event/1"
MARK_SCHEMA = "rocwright.channel-mark/1"
_EVENT = re.compile(r"(?P<number>[0-9]{8})-(?P<digest>[0-9a-f]{16})\.json")
_MARK = re.compile(r"shown-(?P<count>[0-9]{8})-(?P<events>[0-9a-f]{16})-(?P<digest>[0-9a-f]{16})\.json")
_NONE: Mapping[str, str] = MappingProxyType({})
_NEVER: Mapping[str, int] = MappingProxyType({})


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of a channel, to one or several sets at once.

    `list` puts sets on the pages (or back on them), `yank` leaves them there for those who ask for exactly
    these versions (PEP 592), `drop` takes them off. `at` is when, RFC 3339 in UTC, by the clock of whoever
    wrote it: it is shown, never compared. `by` says who, `reason` why.
    """

    action: Literal["list", "yank", "drop"]
    sets: tuple[str, ...]
    at: str
    reason: str = ""
    by: str = ""
    schema: str = EVENT_SCHEMA


@dataclass(frozen=True)
class ChannelState:
    """What a channel serves: set ids, oldest first, and why some of them are yanked.

    `number` is that of the last event, `count` how many there were. `since` says after how many events a set
    came to stand as it does: listed, yanked, or dropped, when it is not in `sets` any more.
    """

    number: int = 0
    sets: tuple[str, ...] = ()
    yanked: Mapping[str, str] = field(default_factory=lambda: _NONE)
    count: int = 0
    since: Mapping[str, int] = field(default_factory=lambda: _NEVER)

    @property
    def open(self) -> tuple[str, ...]:
        """The sets that are not yanked, oldest first."""
        return tuple(one for one in self.sets if one not in self.yanked)

    def serves(self, other: ChannelState) -> bool:
        """Whether the pages of both are the same."""
        return (self.sets, self.yanked) == (other.sets, other.yanked)


class _Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state as it is written down."""

    number: int
    sets: tuple[str, ...]
    yanked: dict[str, str]
    count: int
    since: dict[str, int]
    seals: dict[str, str] = {}
    schema: str = MARK_SCHEMA


@dataclass(frozen=True)
class Log:
    """A log as it was read: the state, its events as objects in order, and when pages showed how many.

    `seals` are those of the pages that its last mark speaks of.
    """

    state: ChannelState
    events: tuple[Stored, ...]
    shown: tuple[tuple[int, datetime], ...]
    seals: Mapping[str, str] = field(default_factory=lambda: _NONE)

    @property
    def finished(self) -> bool:
        """Whether the pages showed all of it once."""
        return any(count == len(self.events) for count, _ in self.shown)

    def changed(self, set_digest: str) -> datetime:
        """When the set came to stand as it does, by the store's clock; only for sets of `State.since`."""
        return self.events[self.state.since[set_digest] - 1].modified

    def on_pages_since(self, set_digest: str) -> datetime | None:
        """Since when all pages show the set as it stands; None while they may not yet."""
        since = self.state.since[set_digest]
        return min((at for count, at in self.shown if count >= since), default=None)


def read_log(store: ObjectStore, prefix: str) -> Log:
    """The log of the channel at `prefix`: one listing, one mark, and one read for each event after it.

    Raises `InvalidData` for an object in the log that is no event, or not the event that its key names.
    """
    events, marks = [], []
    for stored in store.list(f"{prefix}{LOG}"):
        name = stored.key.removeprefix(f"{prefix}{LOG}")
        if _EVENT.fullmatch(name) is not None:
            events.append(stored)
        elif (mark := _MARK.fullmatch(name)) is not None:
            marks.append((int(mark["count"]), mark["events"], stored))
        else:
            raise InvalidData(f"{stored.key} is not an event of a channel", where=stored.key)
    digests = _digests(events)
    fitting = [
        (count, stored)
        for count, digest, stored in marks
        if 0 < count <= len(events) and digests[count] == digest
    ]
    start, seals = _read_mark(store, fitting[-1][1]) if fitting else (ChannelState(), _NONE)
    rest = (_read_event(store, stored) for stored in events[start.count :])
    shown = tuple((count, stored.modified) for count, stored in fitting)
    return Log(fold(rest, start), tuple(events), shown, seals)


def read_events(store: ObjectStore, prefix: str) -> tuple[tuple[int, Event], ...]:
    """Every event of the channel at `prefix` with its number, in order; raises as `read_log`."""
    return events_of(store, read_log(store, prefix))


def events_of(store: ObjectStore, log: Log) -> tuple[tuple[int, Event], ...]:
    """Every event of a log with its number, in order, also those before its mark; raises as `read_log`."""
    return tuple(_read_event(store, stored) for stored in log.events)


def read_state(store: ObjectStore, prefix: str) -> ChannelState:
    """What the channel at `prefix` serves; nothing when nothing was ever listed there."""
    return read_log(store, prefix).state


def fold(events: Iterable[tuple[int, Event]], start: ChannelState | None = None) -> ChannelState:
    """What a channel serves after these events, given in order, when it served `start` before."""
    state = start or ChannelState()
    number, count = state.number, state.count
    sets = dict.fromkeys(state.sets)
    yanked, since = dict(state.yanked), dict(state.since)
    for number, event in events:  # noqa: B007 - the last one is the state's
        count += 1
        for one in event.sets:
            if event.action == "list" and (one not in sets or one in yanked):
                sets.setdefault(one)
                yanked.pop(one, None)
            elif event.action == "drop" and one in sets:
                del sets[one]
                yanked.pop(one, None)
            elif event.action == "yank" and one in sets and one not in yanked:
                yanked[one] = event.reason
            else:
                continue
            since[one] = count
    return ChannelState(number, tuple(sets), MappingProxyType(yanked), count, MappingProxyType(since))


def append(store: ObjectStore, prefix: str, event: Event, *, after: int) -> int:
    """Write an event behind number `after`; returns its own. The same event again is fine."""
    store.put_bytes(event_key(prefix, event, after=after), canonical_json(event))
    return after + 1


def event_key(prefix: str, event: Event, *, after: int) -> str:
    """Where `append` writes an event: behind its number stands its digest."""
    return f"{prefix}{LOG}{after + 1:08d}-{_digest(canonical_json(event))}.json"


def mark_shown(store: ObjectStore, prefix: str, log: Log, seals: Mapping[str, str] = _NONE) -> None:
    """Say that the pages show all of the log, and fit these seals."""
    if log.finished or not log.events:
        return
    state = log.state
    mark = _Mark(state.number, state.sets, dict(state.yanked), state.count, dict(state.since), dict(seals))
    data = canonical_json(mark)
    name = f"shown-{state.count:08d}-{_digests(log.events)[-1]}-{_digest(data)}.json"
    store.put_bytes(f"{prefix}{LOG}{name}", data)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _digests(events: Iterable[Stored]) -> list[str]:
    """A digest for each beginning of the log, the empty one first; names hold digests of contents."""
    chain = [""]
    for stored in events:
        name = stored.key.rpartition("/")[2]
        chain.append(_digest(f"{chain[-1]}{name}".encode()))
    return chain


def _read_event(store: ObjectStore, stored: Stored) -> tuple[int, Event]:
    match = _EVENT.fullmatch(stored.key.rpartition("/")[2])
    data = store.read(stored.key)
    if match is None or _digest(data) != match["digest"]:
        raise InvalidData(f"{stored.key} is not an event of this channel, or was changed", where=stored.key)
    try:
        return int(match["number"]), msgspec.json.decode(data, type=Event)
    except msgspec.MsgspecError as error:
        raise InvalidData(f"{stored.key} is not an event of a channel: {error}", where=stored.key) from error


def _read_mark(store: ObjectStore, stored: Stored) -> tuple[ChannelState, Mapping[str, str]]:
    """The state and the seals that a mark holds; none when it is not what its key names."""
    match = _MARK.fullmatch(stored.key.rpartition("/")[2])
    data = store.read(stored.key)
    if match is None or _digest(data) != match["digest"]:
        return ChannelState(), _NONE
    try:
        mark = msgspec.json.decode(data, type=_Mark)
    except msgspec.MsgspecError:
        return ChannelState(), _NONE
    if mark.count != int(match["count"]):
        return ChannelState(), _NONE
    yanked, since = MappingProxyType(mark.yanked), MappingProxyType(mark.since)
    return ChannelState(mark.number, mark.sets, yanked, mark.count, since), MappingProxyType(mark.seals)
