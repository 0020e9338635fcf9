"""Sets taken out of a channel, so that every client still finds a whole set.

A set may only be yanked or dropped when another set for its platform that stays has been on all pages for as
long as `max_age`: any mixture of pages then holds that set whole. A rollback to a set that was yanked lists
it again, waits until everybody sees it, and only then yanks the newer sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal

from rocwright.errors import InvalidInput
from rocwright.model.sets import SetManifest
from rocwright.store.channel_log import ChannelState, Event, Log, last_event, read_log
from rocwright.store.lease import PACE
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.publish import effect, if_new, publish, require_counted
from rocwright.store.sets.find import by_platform, manifests_of, outranks, ranked, versions_of


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

    `to` is the id of a set on the pages, None for the set that installers would take next. The same rollback
    to None again is completed, not repeated: while nothing else happened, `to` or another reason goes further
    back. A yanked set can still be installed by exact versions. Sets for other platforms stay as they are;
    where a channel has some, `to` has to be given.

    `max_age` is how long a client may go on with a page (seconds; 0 does not wait); `waiting` is told how
    long is waited.

    Raises `InvalidInput` when there is no such set, or no reason, or somebody withdrew the set meanwhile;
    `ChannelBusy` as `publish`; `GateClosed` where it counts only when others have signed it, too.
    """
    if not reason.strip():
        raise InvalidInput(
            "a rollback needs a reason: whoever meets the yanked set is shown it",
            next_step="give one: --reason TEXT",
        )
    log = read_log(store, prefix)
    sets = manifests_of(store, log.state.sets)
    target = _target(store, log, sets, prefix, to, reason)
    if target in log.state.yanked:

        def again(log: Log, now: datetime) -> Event | None:
            # Retention may have dropped it since: no set comes back without what a channel asks for.
            _require_member(log.state, target, prefix)
            event = Event("list", (target,), at=at, by=by, reason=reason)
            return if_new(log.state, event)

        listed = publish(store, prefix, again, by=by)
        require_counted(store, prefix, f"listing set {target[:12]}", done=target in listed.open)

    def newer(state: ChannelState) -> tuple[str, ...]:
        _require_open(state, target, prefix)
        sets.update(manifests_of(store, (one for one in state.open if one not in sets)))
        versions = versions_of(sets[target])
        behind = state.sets[state.sets.index(target) + 1 :]
        # Sets for another platform are nothing to those who get the target.
        rivals = {one for ids in by_platform(sets, state.open).values() if target in ids for one in ids} - {
            target
        }
        return tuple(
            one
            for one in state.open
            if one in rivals and (one in behind or outranks(versions_of(sets[one]), versions))
        )

    state = withdraw(
        store, prefix, "yank", newer, reason=reason, at=at, by=by, max_age=max_age, waiting=waiting
    )
    require_counted(store, prefix, "withdrawing sets", done=not newer(state))
    return state


def _target(
    store: ObjectStore, log: Log, sets: Mapping[str, SetManifest], prefix: str, to: str | None, reason: str
) -> str:
    state = log.state
    if to is not None:
        _require_member(state, to, prefix)
        return to
    versions = {one: versions_of(sets[one]) for one in state.open}
    groups = by_platform(sets, state.open)
    if len(groups) > 1:
        before = {name: ranked(versions, ids)[-2:-1] for name, ids in groups.items()}
        raise InvalidInput(
            f"{prefix} has sets for {' and '.join(groups)}, and each is rolled back by itself",
            next_step="say with --to to which set; before the current one came "
            + (", ".join(f"{ids[0][:12]} for {name}" for name, ids in before.items() if ids) or "none"),
        )
    best = ranked(versions, state.open)
    last = last_event(store, log)
    # Whoever came meanwhile has completed its pages, perhaps: they do not tell that somebody runs it again.
    if best and last is not None and (last.action, last.reason) == ("yank", reason):
        return best[-1]
    if len(state.open) < 2:
        raise InvalidInput(
            f"{prefix} has no earlier set to go back to",
            next_step=f"name one with --to: {_names(state.sets)}" if len(state.sets) > 1 else None,
        )
    return best[-2]


def _require_member(state: ChannelState, one: str, prefix: str) -> None:
    if one not in state.sets:
        raise InvalidInput(
            f"{prefix} does not list set {one[:12]}",
            next_step=f"choose one of those it lists: {_names(state.sets)}; or promote the set again",
        )


def _require_open(state: ChannelState, one: str, prefix: str) -> None:
    _require_member(state, one, prefix)
    if one in state.yanked:
        raise InvalidInput(
            f"set {one[:12]} was withdrawn from {prefix} meanwhile: {state.yanked[one]}",
            next_step=f"choose with --to: {_names(state.open)} are not withdrawn",
        )


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
            pause = _pause(store, log, after, now, max_age, prefix)
            return event if pause <= 0 else None

        state = publish(store, prefix, decide, by=by)
        if pause <= 0 or not patient:
            return state
        waiting(pause)
        PACE.get().sleep(pause)


def _pause(
    store: ObjectStore, log: Log, after: ChannelState, now: datetime, max_age: float, prefix: str
) -> float:
    """For how long some client may not have seen any set that stays for its platform; seconds."""
    if not log.state.open:
        return 0.0
    groups = by_platform(manifests_of(store, log.state.open), log.state.open)
    touched = {name: ids for name, ids in groups.items() if not set(ids) <= set(after.open)} or groups
    # Not on all pages yet: whatever the pause, they are written first.
    longest = max(max_age, 0.001)
    pauses = []
    for name, ids in touched.items():
        seen = [log.on_pages_since(one) for one in ids if one in after.open]
        if not seen:
            place = prefix if len(groups) == 1 else f"{prefix}, for {name},"
            raise InvalidInput(
                f"{place} would be left without a set that can be installed",
                next_step="list another set first",
            )
        pauses.append(min(longest if at is None else max_age - (now - at).total_seconds() for at in seen))
    return max(pauses)
