"""What is kept: pins, the plan of what nothing holds any more, and carrying it out.

A pin is a name for a set that is kept, whatever the channels list: `pins/<name>.json`.

A set is held by a channel that lists it (yanked or not), by a pin, and by its age: for `grace_days` after it
was recorded or a statement was made about it, and after a channel dropped it. A channel keeps its newest sets
open, as many as its table says, and the set that installers take; older sets are yanked, and dropped when
they were yanked for `grace_days`. Files go that no held set has and that are older than `grace_days`, so an
upload that is under way loses nothing; with them the pages of their set. Manifests, statements and signatures
stay: what was released once can be told for ever. All ages are by the clock of the store.

Sets go out of the channels first, then objects go one by one, while nobody can list a set; what is held is
found out again each time the lease is taken. Killed at any point, the next run completes it: the plan follows
from what is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from rocwright.errors import ChannelBusy, InvalidData, InvalidInput
from rocwright.model.channels import Channel, Channels
from rocwright.model.sets import canonical_json
from rocwright.store.channel_log import ChannelState, Log, read_log
from rocwright.store.layout import KINDS, LOG, PLATFORMS
from rocwright.store.lease import PACE, WHOLE_STORE, HeldStore, LeaseLost, leased
from rocwright.store.objects.protocol import ObjectStore, Stored, read_there
from rocwright.store.pool import wanted_objects
from rocwright.store.publish import require_files, withdraw, write_view
from rocwright.store.sets.find import current_of
from rocwright.store.sets.records import read_listed, read_set
from rocwright.system.progress import counted

PINS = "pins/"
PIN_SCHEMA = "rocwright.pin/1"
_PIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set that is kept. `at` is when it was pinned (RFC 3339, UTC), by the clock of whoever did."""

    set: str
    at: str
    reason: str = ""
    by: str = ""
    schema: str = PIN_SCHEMA


def read_pins(store: ObjectStore) -> dict[str, Pin]:
    """Every pin by its name, sorted; raises `InvalidData` for a pin that cannot be read."""
    found = {}
    for stored in store.list(PINS):
        name = stored.key.removeprefix(PINS).removesuffix(".json")
        # Whoever removes a pin waits for nobody.
        data = read_there(store, stored.key)
        if data is None:
            continue
        try:
            found[name] = msgspec.json.decode(data, type=Pin)
        except msgspec.MsgspecError as error:
            raise InvalidData(f"{stored.key} is not a pin: {error}", where=stored.key) from error
    return found


def pin(store: ObjectStore, name: str, pinned: Pin) -> None:
    """Keep a set; raises `InvalidInput` for a name in use, `IntegrityError` when its files are gone."""
    key = _pin_key(name)
    # Not while something is deleted: a pin holds from the moment it is there.
    with leased(store, WHOLE_STORE, by=pinned.by):
        known = read_pins(store).get(name)
        if known is not None and known.set != pinned.set:
            raise InvalidInput(
                f"the pin {name} holds set {known.set[:12]}",
                next_step=f"remove it first, or choose another name than {name}",
            )
        require_files(store, read_listed(store, pinned.set))
        if known is None:
            store.put_bytes(key, canonical_json(pinned))


def unpin(store: ObjectStore, name: str) -> None:
    """Remove a pin; raises `InvalidInput` when there is none of this name."""
    key = _pin_key(name)
    if not store.exists(key):
        names = ", ".join(read_pins(store)) or "none"
        raise InvalidInput(f"there is no pin {name!r}", next_step=f"pins of this store: {names}")
    store.delete(key)


def _pin_key(name: str) -> str:
    if _PIN_NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"{name!r} is not a valid pin name",
            next_step="choose one of letters, digits, dots, dashes and underscores",
        )
    return f"{PINS}{name}.json"


# -- what may go


# Folders at the root of a store that are no channels.
_OWN = ("files", "sets", "pins")
_RECORDS = re.compile(r"manifest\.json|locations\.json|_(?:statements|signatures|provenance)/.*")
_RUN = re.compile(rf"((?:[^/]+/)?[^/]+-(?:{'|'.join(PLATFORMS)})/(?:{'|'.join(KINDS)})/[^/]+/).+")


class Withdrawal(msgspec.Struct, frozen=True):
    """Sets that a channel is to yank or to drop, and why."""

    prefix: str
    action: Literal["yank", "drop"]
    sets: tuple[str, ...]
    reason: str


class GcPlan(msgspec.Struct, frozen=True):
    """What goes: first out of channels, then sets (their pages), then objects, `bytes` of them in all."""

    withdrawals: tuple[Withdrawal, ...]
    sets: tuple[str, ...]
    objects: tuple[str, ...]
    bytes: int


def plan_gc(store: ObjectStore, channels: Channels, now: datetime, *, runs: bool = False) -> GcPlan:
    """What may go at the time `now` of the store; with `runs` packages of single runs that are as old, too.

    Raises `InvalidData` or `IntegrityError` for a log, pin or held manifest that cannot be read: what it
    holds is not known, so nothing goes.
    """
    old = now - timedelta(days=channels.retention.grace_days)
    logs = {prefix: read_log(store, prefix) for prefix in channel_prefixes(store)}
    pinned = {one.set for one in read_pins(store).values()}
    held = set(pinned)
    withdrawals: list[Withdrawal] = []
    for prefix, log in logs.items():
        channel = _channel(channels, prefix)
        # Whatever was listed since, people get this set.
        many = channel is not None and len(log.state.open) > channel.listed
        current = (current_of(store, log.state) if many else None) or ""
        withdrawals += withdrawals_of(log, prefix, channel, {*pinned, current}, old)
        held |= {one for one in log.state.since if one in log.state.sets or log.changed(one) > old}
    recorded = _by_set(store)
    held |= {one for one, objects in recorded.items() if any(item.modified > old for item in objects)}
    # A set that is listed or pinned has a manifest, or something is wrong; others may be on their way in.
    known = {one for one, objects in recorded.items() if any(item.key == _manifest(one) for item in objects)}
    wanted = pinned.union(*(log.state.sets for log in logs.values())) | (held & known)
    files = {key for one in wanted for entry in read_set(store, one).files for key in wanted_objects(entry)}
    pages = [
        item
        for one, objects in recorded.items()
        if one not in held
        for item in objects
        if _RECORDS.fullmatch(item.key.removeprefix(f"sets/{one}/")) is None
    ]
    unheld = [item for item in store.list("files/") if item.key not in files and item.modified <= old]
    ended = list(_old_runs(store, logs, old)) if runs else []
    # A page before what it links to.
    gone = [*pages, *unheld, *ended]
    names = sorted({item.key.split("/")[1] for item in pages})
    return GcPlan(
        tuple(withdrawals), tuple(names), tuple(item.key for item in gone), sum(item.size for item in gone)
    )


def withdrawals_of(
    log: Log, prefix: str, channel: Channel | None, kept: set[str], old: datetime
) -> Iterator[Withdrawal]:
    """What a channel is to yank, being too many, and to drop, being yanked since before `old`; not `kept`."""
    if channel is not None:
        many = tuple(one for one in log.state.open[: -channel.listed] if one not in kept)
        if many:
            yield Withdrawal(
                prefix, "yank", many, f"older than the newest {channel.listed} sets of {channel.name}"
            )
    expired = tuple(one for one in log.state.yanked if one not in kept and log.changed(one) <= old)
    if expired:
        yield Withdrawal(prefix, "drop", expired, "withdrawn long ago")


def channel_prefixes(store: ObjectStore) -> tuple[str, ...]:
    """Every channel and family that has a log, whether a table names it or not, as `<channel>/<family>/`."""
    return tuple(
        f"{top}/{family}/"
        for top in store.folders("")
        if top not in _OWN and not top.startswith("_")
        for family in store.folders(f"{top}/")
        if LOG.rstrip("/") in store.folders(f"{top}/{family}/")
    )


def _channel(channels: Channels, prefix: str) -> Channel | None:
    top = prefix.partition("/")[0]
    return next((one for one in channels.channel if one.prefix == top), None)


def _manifest(one: str) -> str:
    return f"sets/{one}/manifest.json"


def _by_set(store: ObjectStore) -> dict[str, list[Stored]]:
    found: dict[str, list[Stored]] = {}
    for item in store.list("sets/"):
        found.setdefault(item.key.split("/")[1], []).append(item)
    return found


def _old_runs(store: ObjectStore, logs: dict[str, Log], old: datetime) -> Iterator[Stored]:
    """Objects of runs whose newest object is older than `old`, the page of a run first."""
    tops = {prefix.partition("/")[0] for prefix in logs}
    groups: dict[str, list[Stored]] = {}
    for top in store.folders(""):
        if top in _OWN or top in tops or top.startswith("_"):
            continue
        for item in store.list(f"{top}/"):
            if (match := _RUN.fullmatch(item.key)) is not None:
                groups.setdefault(match[1], []).append(item)
    for objects in groups.values():
        if all(item.modified <= old for item in objects):
            yield from sorted(objects, key=lambda item: (not item.key.endswith("/index.html"), item.key))


# -- and goes


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
    size = 0
    names: set[str] = set()
    with counted("deleting", len(first.objects), "objects") as count:
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
                            count.add(1)
                    names.update(plan.sets)
                    size = size or plan.bytes
                    if len(plan.objects) <= _BATCH:
                        return GcDone(tuple(done), tuple(waiting), tuple(sorted(names)), count.done, size)
                    # Whoever waits looks again after a while; taken back at once, it would never be free.
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
