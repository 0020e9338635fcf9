"""Withdraw sets from a channel so that every client still finds a whole set.

Clients go on with pages that are as old as `max_age`. So a set may only be yanked or dropped when another
one that stays has been on all pages for so long: any mixture of pages then holds that one whole. A rollback
to a set that was yanked lists it again, waits until everybody sees it, and only then yanks the newer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal

from rocwright.errors import InvalidInput
from rocwright.store.channel.lease import PACE
from rocwright.store.channel.log import ChannelState, Event, Log, read_log
from rocwright.store.channel.publish import change, effect, publish, write_view
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.find import Versions, outranks, ranked, versions_of
from rocwright.store.sets.records import read_set


def rollback(
    store: ObjectStore,
    prefix: str,
    *,
    to: str | None = None,
    reason: str,
    at: str,
    by: str = "",
    max_age: float,
    waiting: Callable[[float], None] = lambda seconds: None,
) -> ChannelState:
    """Make `to` what people get: yank what was listed later or has a higher version, and list it if yanked.

    `to` is the id of a set on the pages, None for the one that installers would take next; an interrupted
    rollback to None is completed, not repeated. A yanked set can still be installed by exact versions.
    `max_age` is how long a client may go on with a page (seconds; 0 does not wait); `waiting` is told how
    long is waited.

    Raises `InvalidInput` when there is no such set, or no reason; `ChannelBusy` as `publish`.
    """
    if not reason.strip():
        raise InvalidInput("a rollback needs a reason: whoever meets the yanked set is shown it")
    log = read_log(store, prefix)
    versions = {one: versions_of(read_set(store, one)) for one in log.state.sets}
    target = _target(log, versions, prefix, to, reason)
    if target in log.state.yanked:
        change(store, prefix, Event("list", (target,), at=at, by=by, reason=reason))

    def newer(state: ChannelState) -> tuple[str, ...]:
        if target not in state.open:
            return ()
        for one in state.open:
            versions.setdefault(one, versions_of(read_set(store, one)))
        behind = state.sets[state.sets.index(target) + 1 :]
        return tuple(
            one
            for one in state.open
            if one != target and (one in behind or outranks(versions[one], versions[target]))
        )

    return withdraw(
        store, prefix, "yank", newer, reason=reason, at=at, by=by, max_age=max_age, waiting=waiting
    )


def _target(log: Log, versions: dict[str, Versions], prefix: str, to: str | None, reason: str) -> str:
    state = log.state
    if to is not None:
        if to not in state.sets:
            raise InvalidInput(
                f"{prefix} does not list set {to[:12]}",
                next_step=f"choose one of those it lists: {_names(state.sets)}; or promote the set again",
            )
        return to
    best = ranked(versions, state.open)
    if best and not log.finished and reason in state.yanked.values():
        return best[-1]
    if len(state.open) < 2:
        raise InvalidInput(
            f"{prefix} has no earlier set to go back to",
            next_step=f"name one with --to: {_names(state.sets)}" if len(state.sets) > 1 else None,
        )
    return best[-2]


def _names(sets: Iterable[str]) -> str:
    return ", ".join(one[:12] for one in reversed(tuple(sets))) or "none"


def withdraw(
    store: ObjectStore,
    prefix: str,
    action: Literal["yank", "drop"],
    choose: Callable[[ChannelState], tuple[str, ...]],
    *,
    reason: str,
    at: str,
    by: str = "",
    max_age: float,
    waiting: Callable[[float], None] = lambda seconds: None,
    patient: bool = True,
) -> ChannelState:
    """Yank or drop what `choose` picks, as soon as something that stays is seen by every client.

    `patient` waits for that; otherwise nothing is withdrawn while it is not so. Raises `InvalidInput` when
    nothing would stay.
    """
    while True:
        pause = 0.0

        def decide(log: Log, now: datetime) -> Event | None:
            nonlocal pause
            sets = choose(log.state)
            event = Event(action, sets, at=at, reason=reason, by=by)
            after = effect(log.state, event)
            if after is None:
                return None
            pause = _pause(log, after, now, max_age, prefix)
            return event if pause <= 0 else None

        state = publish(store, prefix, decide, by=by)
        if pause <= 0 or not patient:
            return state
        waiting(pause)
        PACE.get().sleep(pause)


def _pause(log: Log, after: ChannelState, now: datetime, max_age: float, prefix: str) -> float:
    """For how long some client may not have seen any set that stays; seconds."""
    stay = [one for one in after.open if one in log.state.open]
    if not stay:
        if not log.state.open:
            return 0.0
        raise InvalidInput(
            f"{prefix} would be left without a set that can be installed",
            next_step="list another set first",
        )
    seen = [log.on_pages_since(one) for one in stay]
    # Not on all pages yet: whatever the pause, they are written first.
    longest = max(max_age, 0.001)
    return min(longest if at is None else max_age - (now - at).total_seconds() for at in seen)


def repair(store: ObjectStore, prefix: str, *, by: str = "") -> ChannelState:
    """Write what the log asks for wherever the pages differ, whoever changed them."""
    return write_view(store, prefix, by=by)
