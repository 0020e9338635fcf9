"""What a channel listed and withdrew, when and by whom, for people and programs."""

from __future__ import annotations

import msgspec

from rocwright.store.channel.log import events_of, read_log
from rocwright.store.channel.order import current_of
from rocwright.store.objects.protocol import ObjectStore


class ChannelEvent(msgspec.Struct, frozen=True):
    """An event of a channel.

    `at` is by the clock of who wrote it, `recorded` by that of the store (both RFC 3339, UTC).
    """

    number: int
    action: str
    sets: tuple[str, ...]
    at: str
    recorded: str
    reason: str
    by: str


class History(msgspec.Struct, frozen=True):
    """All events of a channel in order, what it serves now, and whether its pages show that already.

    `current` is the set that installers take, which need not be the one that was listed last.
    """

    prefix: str
    current: str | None
    sets: tuple[str, ...]
    yanked: dict[str, str]
    shown: bool
    events: tuple[ChannelEvent, ...]


def history_of(store: ObjectStore, prefix: str) -> History:
    """The history of the channel at `prefix`; raises `InvalidData` for a log that cannot be read."""
    log = read_log(store, prefix)
    events = zip(log.events, events_of(store, log), strict=True)
    return History(
        prefix=prefix,
        current=current_of(store, log.state),
        sets=log.state.sets,
        yanked=dict(log.state.yanked),
        shown=log.finished,
        events=tuple(
            ChannelEvent(
                number=number,
                action=event.action,
                sets=event.sets,
                at=event.at,
                recorded=stored.modified.strftime("%Y-%m-%dT%H:%M:%SZ"),
                reason=event.reason,
                by=event.by,
            )
            for stored, (number, event) in events
        ),
    )
