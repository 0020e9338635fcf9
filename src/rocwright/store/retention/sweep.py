"""Carry out what `plan_gc` says: out of the channels first, then object by object.

Objects are deleted while nobody can list a set, and what is held is found out again each time the lease is
taken. Killed at any point, the next run completes it: the plan follows from what is there.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rocwright.errors import ChannelBusy
from rocwright.model.channels import Channels
from rocwright.store.channel.lease import PACE, WHOLE_STORE, HeldStore, LeaseLost, leased
from rocwright.store.channel.log import ChannelState, read_log
from rocwright.store.channel.publish import write_view
from rocwright.store.channel.withdraw import withdraw
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.retention.pins import read_pins
from rocwright.store.retention.plan import GcPlan, Withdrawal, channel_prefixes, plan_gc
from rocwright.store.sets.find import current_of

# So many objects, then others may publish.
_BATCH = 500
# Publishers that wait for a lease look at least as often.
_TURN_S = 10.0
_TRIES = 3


class GcDone(msgspec.Struct, frozen=True):
    """What went; `waiting` are withdrawals that clients are not ready for: the next run does them."""

    withdrawals: tuple[Withdrawal, ...]
    waiting: tuple[Withdrawal, ...]
    sets: tuple[str, ...]
    objects: int
    bytes: int


def collect(
    store: ObjectStore,
    channels: Channels,
    *,
    at: str,
    by: str = "",
    runs: bool = False,
    deleted: Callable[[str], None] = lambda key: None,
) -> GcDone:
    """Withdraw what is too old, then delete what nothing holds; `deleted` is told each key.

    `at` is the time to write into logs. Raises as `plan_gc`, and `ChannelBusy` while a publisher is at work.
    """
    pace = PACE.get()
    done: list[Withdrawal] = []
    waiting: list[Withdrawal] = []
    with leased(store, WHOLE_STORE, by=by) as lease:
        first = plan_gc(store, channels, lease.now, runs=runs)
    for prefix in channel_prefixes(store):
        # What somebody began and did not end; from the log alone it looks done.
        if not read_log(store, prefix).finished:
            write_view(store, prefix, by=by)
    for one in first.withdrawals:
        state = _withdraw(store, one, channels.max_age, at, by)
        sets = set(state.yanked) if one.action == "yank" else {*one.sets} - {*state.sets}
        (done if sets.intersection(one.sets) else waiting).append(one)
    objects, size = 0, 0
    names: set[str] = set()
    for _ in range(_TRIES):
        try:
            while True:
                began = pace.clock()
                with leased(store, WHOLE_STORE, by=by) as lease:
                    held = HeldStore(lease)
                    plan = plan_gc(held, channels, lease.now, runs=runs)
                    for key in plan.objects[:_BATCH]:
                        held.delete(key)
                        deleted(key)
                        objects += 1
                names.update(plan.sets)
                size = size or plan.bytes
                if len(plan.objects) <= _BATCH:
                    return GcDone(tuple(done), tuple(waiting), tuple(sorted(names)), objects, size)
                # Whoever waits looks again after a while; taken back at once, the lease would never be free.
                pace.sleep(min(pace.clock() - began, _TURN_S))
        except LeaseLost:
            continue
    raise ChannelBusy(
        "deleting took so long that the lease expired", next_step="run again; what is deleted stays deleted"
    )


def _withdraw(store: ObjectStore, one: Withdrawal, max_age: float, at: str, by: str) -> ChannelState:
    def choose(state: ChannelState) -> tuple[str, ...]:
        # Somebody may have pinned or listed one of them since.
        kept = {item.set for item in read_pins(store).values()}
        stands = state.open if one.action == "yank" else state.yanked
        kept.add(current_of(store, state) or "")
        return tuple(item for item in one.sets if item in stands and item not in kept)

    return withdraw(
        store,
        one.prefix,
        one.action,
        choose,
        reason=one.reason,
        at=at,
        by=by,
        max_age=max_age,
        patient=False,
    )


def empty(plan: GcPlan) -> bool:
    """Whether nothing goes."""
    return not plan.withdrawals and not plan.objects
