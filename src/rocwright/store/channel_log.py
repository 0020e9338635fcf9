"""The log of a channel: what was listed, yanked and dropped, in order.

Every event is an object of its own that is created once and never changed, under a key that begins with its
number and holds its digest. Two publishers that write the same number at the same moment both stay in the
log, on any store, and everybody puts them into the same order. What a channel serves is a function of its
log alone.

A mark in the log says that the pages showed everything up to some event; its time, by the store's clock, is
when. It also holds what the channel served then, so that a reader needs the events after it only, and the
seals of its pages (`rocwright.store.index.pages`). It is no more than a cache: a mark that does not fit
the events before it is left aside.

An event that is damaged counts for nothing, unless a mark behind it tells what it did; the log names it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from rocwright.model.sets import canonical_json
from rocwright.store.damage import DAMAGED, EMPTY, MISSING, Damage, how, pass_over, put_right, require_whole
from rocwright.store.layout import LOG
from rocwright.store.objects.protocol import ObjectStore, Stored, read_there

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


class ChannelState(msgspec.Struct, frozen=True):
    """What a channel serves: set ids, oldest first, and why some of them are yanked.

    `number` is that of the last event, `count` how many there were. `since` says after how many events a set
    came to stand as it does: listed, yanked, or dropped, when it is not in `sets` any more.
    """

    number: int = 0
    sets: tuple[str, ...] = ()
    yanked: Mapping[str, str] = msgspec.field(default_factory=lambda: _NONE)
    count: int = 0
    since: Mapping[str, int] = msgspec.field(default_factory=lambda: _NEVER)

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


class EventRead(NamedTuple):
    """An event as it was read: its object, its number, and what it says; None where it counts for nothing."""

    stored: Stored
    number: int
    event: Event | None


class Log(msgspec.Struct, frozen=True):
    """A log as it was read: the state, its events as objects in order, and when pages showed how many.

    `seals` are those of the pages that its last mark speaks of. `said` are the events that were read:
    those behind that mark, or all. `damaged` names the objects of the log that were found not to be what was
    written, `unsure` those among them of which no mark tells what they did.
    """

    state: ChannelState
    events: tuple[Stored, ...]
    shown: tuple[tuple[int, datetime], ...]
    seals: Mapping[str, str] = msgspec.field(default_factory=lambda: _NONE)
    said: tuple[EventRead, ...] = ()
    damaged: tuple[Damage, ...] = ()
    unsure: tuple[Damage, ...] = ()

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


def read_log(store: ObjectStore, prefix: str, *, whole: bool = False) -> Log:
    """The log of the channel at `prefix`: one listing, one mark, and one read for each event after it.

    All events are read where `whole` asks for it. Never raises for what is in the log.
    """
    events, marks, strays = [], [], []
    for stored in store.list(f"{prefix}{LOG}"):
        name = stored.key.removeprefix(f"{prefix}{LOG}")
        if _EVENT.fullmatch(name) is not None:
            events.append(stored)
        elif (match := _MARK.fullmatch(name)) is not None:
            marks.append((int(match["count"]), match["events"], stored))
        else:
            strays.append(stored.key)
    pass_over(strays)
    digests = _digests(events)
    fitting = [
        (count, stored)
        for count, digest, stored in marks
        if 0 < count <= len(events) and digests[count] == digest
    ]
    damaged = [Damage(stored.key, EMPTY) for _, _, stored in marks if not stored.size]
    start, seals = ChannelState(), _NONE
    for _, stored in reversed(fitting):
        mark = read_mark(store, stored)
        if mark is not None:
            start, seals = mark
            break
        damaged.append(Damage(stored.key, how(read_there(store, stored.key))))
    said, unsure = [], _missing(store, prefix, events, marks, start)
    damaged += unsure
    for place, stored in enumerate(events):
        if place < start.count and not whole:
            # What is known of it is in the listing.
            damaged += [] if stored.size else [Damage(stored.key, EMPTY)]
            continue
        number, event, problem = _read_event(store, stored)
        if problem is not None:
            damaged.append(problem)
            unsure += [problem] if place >= start.count else []
        said.append(EventRead(stored, number, event))
    behind = said[start.count :] if whole else said
    state = fold(((one.number, one.event) for one in behind), start)
    shown = tuple((count, stored.modified) for count, stored in fitting)
    return Log(
        state,
        tuple(events),
        shown,
        seals,
        tuple(said),
        tuple(sorted(set(damaged))),
        tuple(sorted(set(unsure))),
    )


def _missing(
    store: ObjectStore,
    prefix: str,
    events: list[Stored],
    marks: list[tuple[int, str, Stored]],
    start: ChannelState,
) -> list[Damage]:
    """Events that were there: later ones have higher numbers, or a mark counted more of them."""
    numbers = {number_of(stored.key) for stored in events}
    last = max(numbers, default=0)
    gone = [number for number in range(start.number + 1, last) if number not in numbers]
    most = max((count for count, _, _ in marks), default=0)
    if not gone and most > len(events):
        gone = [last + 1]
    if gone:
        # Known to be lost, what they did is done again or taken back.
        aside = {number_of(one.key) for one in store.list(f"{DAMAGED}{prefix}{LOG}") if is_event(one.key)}
        gone = [number for number in gone if number not in aside]
    return [Damage(f"{prefix}{LOG}{number:08d}-….json", MISSING) for number in gone]


def read_events(store: ObjectStore, prefix: str) -> tuple[tuple[int, Event], ...]:
    """Every event of the channel at `prefix` that counts, with its number, in order."""
    said = read_log(store, prefix, whole=True).said
    return tuple((one.number, one.event) for one in said if one.event is not None)


def read_state(store: ObjectStore, prefix: str) -> ChannelState:
    """What the channel at `prefix` serves; nothing when nothing was ever listed there."""
    return read_log(store, prefix).state


def last_event(store: ObjectStore, log: Log) -> Event | None:
    """What happened last in a log, also where a mark speaks of it; None where that is damaged, or nothing."""
    return _read_event(store, log.events[-1])[1] if log.events else None


def known_log(store: ObjectStore, prefix: str) -> Log:
    """The log of a channel for those to whom all of it matters; raises `IntegrityError` for a damaged one."""
    log = read_log(store, prefix)
    require_whole(
        log.unsure,
        f"the log of {prefix} is damaged, so what it lists is not known",
        f"rocwright set repair {prefix.strip('/').replace('/', ':')}",
    )
    return log


def fold(events: Iterable[tuple[int, Event | None]], start: ChannelState | None = None) -> ChannelState:
    """What a channel serves after these events, given in order, when it served `start` before.

    An event that is None counts as one, and changes nothing.
    """
    state = start or ChannelState()
    number, count = state.number, state.count
    sets = dict.fromkeys(state.sets)
    yanked, since = dict(state.yanked), dict(state.since)
    for number, event in events:  # noqa: B007 - the last one is the state's
        count += 1
        for one in event.sets if event is not None else ():
            assert event is not None
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
    put_right(store, event_key(prefix, event, after=after), canonical_json(event))
    return after + 1


def event_key(prefix: str, event: Event, *, after: int) -> str:
    """Where `append` writes an event: behind its number stands its digest."""
    return f"{prefix}{LOG}{after + 1:08d}-{_digest(canonical_json(event))}.json"


def mark_shown(store: ObjectStore, prefix: str, log: Log, seals: Mapping[str, str] = _NONE) -> None:
    """Say that the pages show all of the log, and fit these seals."""
    # One that is damaged saves nobody anything.
    spoiled = any(_MARK.fullmatch(one.key.rpartition("/")[2]) for one in log.damaged)
    if (log.finished and not spoiled) or not log.events:
        return
    state = log.state
    mark = _Mark(state.number, state.sets, dict(state.yanked), state.count, dict(state.since), dict(seals))
    data = canonical_json(mark)
    name = f"shown-{state.count:08d}-{_digests(log.events)[-1]}-{_digest(data)}.json"
    put_right(store, f"{prefix}{LOG}{name}", data)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _digests(events: Iterable[Stored]) -> list[str]:
    """A digest for each beginning of the log, the empty one first; names hold digests of contents."""
    chain = [""]
    for stored in events:
        name = stored.key.rpartition("/")[2]
        chain.append(_digest(f"{chain[-1]}{name}".encode()))
    return chain


def number_of(key: str) -> int:
    """The number of an event, of its key."""
    return int(key.rpartition("/")[2].partition("-")[0])


def is_event(key: str) -> bool:
    """Whether a key, also that of an event which is missing, is one of an event."""
    return key.rpartition("/")[2][:8].isdecimal()


def lost_event_key(key: str) -> str:
    """The key by which a missing event is known where damaged objects are set aside."""
    return f"{key.rpartition('/')[0]}/{number_of(key):08d}-missing.json"


def _read_event(store: ObjectStore, stored: Stored) -> tuple[int, Event | None, Damage | None]:
    """The number, and what the event says or what is wrong with it."""
    data = read_there(store, stored.key)
    number, event = number_of(stored.key), None
    if data is not None and names_event(stored.key, data):
        with contextlib.suppress(msgspec.MsgspecError):
            event = msgspec.json.decode(data, type=Event)
    return number, event, Damage(stored.key, how(data)) if event is None else None


def names_event(key: str, data: bytes) -> bool:
    """Whether the key is that of an event, or of a mark, with just these bytes."""
    name = key.rpartition("/")[2]
    match = _EVENT.fullmatch(name) or _MARK.fullmatch(name)
    return match is not None and _digest(data) == match["digest"]


def read_mark(store: ObjectStore, stored: Stored) -> tuple[ChannelState, Mapping[str, str]] | None:
    """The state and the seals that a mark holds; None when it is not what its key names."""
    match = _MARK.fullmatch(stored.key.rpartition("/")[2])
    data = read_there(store, stored.key)
    if match is None or data is None or not names_event(stored.key, data):
        return None
    try:
        mark = msgspec.json.decode(data, type=_Mark)
    except msgspec.MsgspecError:
        return None
    if mark.count != int(match["count"]):
        return None
    yanked, since = MappingProxyType(mark.yanked), MappingProxyType(mark.since)
    return ChannelState(mark.number, mark.sets, yanked, mark.count, since), MappingProxyType(mark.seals)
