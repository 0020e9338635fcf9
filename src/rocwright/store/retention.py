"""What is kept: the plan of what nothing holds any more, and carrying it out.

A set is held by a channel that lists it (yanked or not), by a pin, and by its age: for `grace_days` after it
was recorded or a statement was made about it, and after a channel dropped it. A channel keeps the newest sets
of each platform open, as many as its table says, and the set that installers take there; older sets are
yanked, and dropped when they were yanked for `grace_days`. Files go that no held set has and that are older
than `grace_days`, so an upload that is under way loses nothing; with them the pages of their set. Manifests,
statements and signatures stay: what was released once can be told for ever. All ages are by the clock of the
store.

Sets go out of the channels first, then objects go one by one, while nobody can list a set; what is held is
found out again each time the lease is taken. Killed at any point, the next run completes it: the plan follows
from what is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import Literal

import msgspec

from rocwright.errors import ChannelBusy, IntegrityError, NoObject, NoSpace
from rocwright.model.channels import Channel, Channels
from rocwright.model.sets import FileEntry, SetManifest
from rocwright.model.variants import index_name
from rocwright.store.channel_log import ChannelState, Log, read_log
from rocwright.store.damage import DAMAGED, MISSING, Damage, Tell, as_damage
from rocwright.store.layout import JSON_PAGES, KINDS, LOG, PLATFORMS, VARIANTS
from rocwright.store.lease import LEASES, PACE, WHOLE_STORE, HeldStore, LeaseLost, leased
from rocwright.store.objects.durable import together
from rocwright.store.objects.protocol import ObjectStore, Stored, side_by_side
from rocwright.store.pins import PINS, read_pins
from rocwright.store.pool import wanted_objects
from rocwright.store.publish import write_view
from rocwright.store.runs.run import ALL_GROUPS
from rocwright.store.sets.find import by_platform, manifests_of, ranked, versions_of
from rocwright.store.sets.records import manifest_key, read_set, set_folders
from rocwright.store.withdraw import withdraw
from rocwright.system.progress import counted

# -- what may go


# Folders at the root of a store that are no channels.
_OWN = ("files", "sets", PINS.rstrip("/"))
_NO_LOG = f"{MISSING}, and there are pages; where a repair brings nothing back, delete these"
_RECORDS = re.compile(r"manifest\.json|locations\.json|_(?:statements|signatures|provenance)/.*")
# Packages of both kinds for one group stand on one page: they go together, as do their records.
_RUN = re.compile(
    rf"((?:[^/]+/)?[^/]+-(?:{'|'.join(PLATFORMS)}))/"
    rf"(?:(?:{'|'.join(KINDS)}|_combined)/(?:([^_/][^/]*)/)?(?:_[^/]+/.+|[^/]+)"
    rf"|_run/(?:{'|'.join(KINDS)})/(?:{ALL_GROUPS}|([^/]+))\.json)"
)


class Withdrawal(msgspec.Struct, frozen=True):
    """Sets that a channel is to yank or to drop, and why."""

    prefix: str
    action: Literal["yank", "drop"]
    sets: tuple[str, ...]
    reason: str


class GcPlan(msgspec.Struct, frozen=True):
    """What goes: first out of channels, then sets (their pages), then objects, `bytes` of them in all.

    `damaged` is what cannot be read: nothing goes that it may refer to.
    """

    withdrawals: tuple[Withdrawal, ...]
    sets: tuple[str, ...]
    objects: tuple[str, ...]
    bytes: int
    damaged: tuple[Damage, ...] = ()


def plan_gc(store: ObjectStore, channels: Channels, now: datetime, *, runs: bool = False) -> GcPlan:
    """What may go at the time `now` of the store; with `runs` packages of single runs that are as old, too.

    A log or pin that is damaged may hold any set, so may a log that is gone while its pages are there, and a
    manifest that is damaged any file: these stay then.
    """
    old = now - timedelta(days=channels.retention.grace_days)
    logs = {prefix: read_log(store, prefix) for prefix in channel_prefixes(store, paged=True)}
    holding = [one for log in logs.values() for one in log.unsure]
    holding += [
        Damage(f"{prefix}{LOG}", _NO_LOG)
        for prefix, log in logs.items()
        if not log.events and store.list(f"{prefix}{JSON_PAGES}")
    ]
    pinned = {one.set for one in read_pins(store, holding.append).values()}
    held = set(pinned)
    withdrawals: list[Withdrawal] = []
    listing: list[Damage] = []
    for prefix, log in logs.items():
        channel = _channel(channels, prefix)
        if not log.unsure:
            withdrawals += _withdrawals(store, log, prefix, channel, pinned, old, listing.append)
        held |= {one for one in log.state.since if one in log.state.sets or log.changed(one) > old}
    recorded = _by_set(store)
    held |= {one for one, objects in recorded.items() if any(item.modified > old for item in objects)}
    # A set that is listed or pinned has a manifest, or something is wrong; others may be on their way in.
    known = {
        one for one, objects in recorded.items() if any(item.key == manifest_key(one) for item in objects)
    }
    wanted = pinned.union(*(log.state.sets for log in logs.values())) | (held & known)
    files: set[str] = set()
    names: set[str] = set()
    for entry in _files_of(store, wanted, listing.append):
        files.update(wanted_objects(entry))
        names.add(index_name(entry.name))
    listing += _set_aside_lately(store, old)
    pages = [
        item
        for one, objects in recorded.items()
        if one not in held
        for item in objects
        if _RECORDS.fullmatch(item.key.removeprefix(f"sets/{one}/")) is None
    ]
    unheld = [item for item in store.list("files/") if item.key not in files and item.modified <= old]
    if holding:
        pages = []
    if holding or listing:
        unheld = []
    # What wheels of a damaged set state is not known.
    stated = [] if holding or listing else list(_stated(store, logs, names, old))
    ended = list(_old_runs(store, logs, old)) if runs else []
    # A page before what it links to.
    gone = [*pages, *stated, *unheld, *ended]
    return GcPlan(
        tuple(withdrawals),
        tuple(sorted({item.key.split("/")[1] for item in pages})),
        tuple(item.key for item in gone),
        sum(item.size for item in gone),
        tuple(sorted({*holding, *listing})),
    )


def _files_of(store: ObjectStore, sets: Iterable[str], tell: Tell) -> Iterator[FileEntry]:
    """The files of all sets that can be read; `tell` is told of the others."""

    def read(one: str) -> SetManifest | Damage:
        try:
            return read_set(store, one)
        except (IntegrityError, NoObject) as error:
            return as_damage(error)

    for found in side_by_side(store, read, sets):
        if isinstance(found, Damage):
            tell(found)
        else:
            yield from found.files


def _stated(store: ObjectStore, prefixes: Iterable[str], kept: set[str], old: datetime) -> Iterator[Stored]:
    """What pages of channels once led to about variants, of versions that no set has any more."""
    for prefix in prefixes:
        for item in store.list(f"{prefix}{VARIANTS}"):
            if item.modified <= old and item.key.rpartition("/")[2] not in kept:
                yield item


def _withdrawals(
    store: ObjectStore,
    log: Log,
    prefix: str,
    channel: Channel | None,
    pinned: set[str],
    old: datetime,
    tell: Tell,
) -> Iterator[Withdrawal]:
    """What a channel is to yank, being too many, and to drop, being yanked since before `old`."""
    if channel is not None and len(log.state.open) > channel.listed:
        try:
            kept = pinned | _newest(store, log.state, channel.listed)
        except (IntegrityError, NoObject) as error:
            # Then nobody knows which.
            tell(as_damage(error))
            return
        many = tuple(one for one in log.state.open if one not in kept)
        if many:
            why = f"older than the newest {channel.listed} sets of {channel.name}"
            yield Withdrawal(prefix, "yank", many, why)
    expired = tuple(one for one in log.state.yanked if one not in pinned and log.changed(one) <= old)
    if expired:
        yield Withdrawal(prefix, "drop", expired, "withdrawn long ago")


def _newest(store: ObjectStore, state: ChannelState, many: int) -> set[str]:
    """Of each platform the newest sets, so `many`, and the one that installers take, whatever came since."""
    sets = manifests_of(store, state.open)
    versions = {one: versions_of(manifest) for one, manifest in sets.items()}
    found = set()
    for ids in by_platform(sets, state.open).values():
        # What was listed again, or was rolled back to, is as new as that.
        found.update(sorted(ids, key=lambda one: state.since[one])[-many:])
        found.update(ranked(versions, ids)[-1:])
    return found


def _set_aside_lately(store: ObjectStore, old: datetime) -> Iterator[Damage]:
    """Manifests that a repair could not bring back: somebody may still find a copy."""
    for one in store.list(f"{DAMAGED}sets/"):
        if one.key.endswith("/manifest.json") and one.modified > old:
            yield Damage(one.key, "it was set aside lately, and a copy of it may be found")


def channel_prefixes(store: ObjectStore, *, paged: bool = False) -> tuple[str, ...]:
    """Every channel and family that has a log, whether a table names it or not, as `<channel>/<family>/`.

    With `paged` those, too, that have pages and no log any more.
    """
    signs = {LOG.rstrip("/"), *([JSON_PAGES.rstrip("/")] if paged else [])}
    return tuple(
        f"{top}/{family}/"
        for top in store.folders("")
        if top not in _OWN and not top.startswith("_")
        for family in store.folders(f"{top}/")
        if not signs.isdisjoint(store.folders(f"{top}/{family}/"))
    )


def _channel(channels: Channels, prefix: str) -> Channel | None:
    top = prefix.partition("/")[0]
    return next((one for one in channels.channel if one.prefix == top), None)


def _by_set(store: ObjectStore) -> dict[str, list[Stored]]:
    ids = set(set_folders(store))
    found: dict[str, list[Stored]] = {}
    for item in store.list("sets/"):
        if (one := item.key.split("/")[1]) in ids:
            found.setdefault(one, []).append(item)
    return found


def _old_runs(store: ObjectStore, logs: dict[str, Log], old: datetime) -> Iterator[Stored]:
    """Packages of runs for a group, with pages and records, where the newest object is older than `old`."""
    tops = {prefix.partition("/")[0] for prefix in logs}
    groups: dict[tuple[str, str | None], list[Stored]] = {}
    for top in store.folders(""):
        if top in _OWN or top in tops or top.startswith("_"):
            continue
        for item in store.list(f"{top}/"):
            if (match := _RUN.fullmatch(item.key)) is not None:
                groups.setdefault((match[1], match[2] or match[3]), []).append(item)
    for objects in groups.values():
        if all(item.modified <= old for item in objects):
            yield from sorted(objects, key=_first_to_go)


def _first_to_go(item: Stored) -> tuple[int, str]:
    """Pages before what they link to, and before the rest the record, which says that all is there."""
    return 0 if item.key.endswith("/index.html") else 1 if "/_run/" in item.key else 2, item.key


# -- and goes


def _batches(keys: Sequence[str]) -> Iterator[list[str]]:
    """What is recorded, then files: a set is gone, durably, before the files that it speaks of."""
    files = [key for key in keys if key.startswith("files/")]
    for part in ([key for key in keys if not key.startswith("files/")], files):
        for start in range(0, len(part), _BATCH):
            yield part[start : start + _BATCH]


def _delete(store: ObjectStore, batch: Sequence[str]) -> None:
    """Remove objects: files several at a time where each waits for an answer, what is recorded in its order.

    The batch is gone, durably, when this returns.
    """
    with together():
        if batch[0].startswith("files/"):
            for _ in side_by_side(store, store.delete, batch):
                pass
        else:
            for key in batch:
                store.delete(key)


# So many objects are removed, and synced, together.
_BATCH = 500
# So long in turn, objects go and others may publish; those who wait for a lease look at least as often.
_TURN_S = 10.0
_TRIES = 3


class GcDone(msgspec.Struct, frozen=True):
    """What went; `waiting` are withdrawals that clients are not ready for: the next run does them.

    `damaged` is what cannot be read: nothing went that it may refer to.
    """

    withdrawals: tuple[Withdrawal, ...]
    waiting: tuple[Withdrawal, ...]
    sets: tuple[str, ...]
    objects: int
    bytes: int
    damaged: tuple[Damage, ...] = ()


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
    damaged: list[Damage] = []

    def planned() -> GcPlan:
        with leased(store, WHOLE_STORE, by=by) as lease:
            return plan_gc(store, channels, lease.now, runs=runs)

    freed = None
    try:
        first = planned()
    except NoSpace:
        freed = _make_room(store, channels, deleted, runs=runs)
        if freed is None:
            raise
        first = planned()
    for prefix in channel_prefixes(store):
        # What somebody began and did not end; from the log alone it looks done.
        log = read_log(store, prefix)
        if log.events and not log.finished:
            # Where the disk is full, what frees some space comes first.
            with _told(damaged), suppress(NoSpace):
                write_view(store, prefix, by=by)
    for one in first.withdrawals:
        with _told(damaged):
            try:
                state = _withdraw(store, one, channels.max_age, at, by)
            except NoSpace:
                waiting.append(one)
                continue
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
                        # Of a large store the plan takes longer.
                        until = max(began + _TURN_S, 2 * pace.clock() - began)
                        gone = 0
                        for batch in _batches(plan.objects):
                            _delete(held, batch)
                            gone += len(batch)
                            for key in batch:
                                deleted(key)
                                count.add(1)
                            if pace.clock() >= until:
                                break
                    names.update(plan.sets)
                    size = size or plan.bytes
                    if gone == len(plan.objects):
                        found = tuple(sorted({*damaged, *plan.damaged}))
                        return GcDone(
                            tuple(done),
                            tuple(waiting),
                            tuple(sorted(names)),
                            count.done + (freed is not None),
                            size + (freed.size if freed is not None else 0),
                            found,
                        )
                    # Whoever waits looks again after a while; taken back at once, it would never be free.
                    pace.sleep(_TURN_S)
            except LeaseLost:
                continue
    raise ChannelBusy(
        "deleting took so long that the lease expired", next_step="run again; what is deleted stays deleted"
    )


def _make_room(
    store: ObjectStore, channels: Channels, deleted: Callable[[str], None], *, runs: bool
) -> Stored | None:
    """Delete one object on a disk so full that it takes no lease; returns which, None where there is none.

    Nobody else can begin to publish there, and nothing is done where somebody has begun.
    """
    if store.list(LEASES):
        return None
    plan = plan_gc(store, channels, datetime.now(timezone.utc), runs=runs)
    gone = set(plan.objects)
    largest = max((one for one in store.list("") if one.key in gone), key=lambda one: one.size, default=None)
    if largest is not None:
        store.delete(largest.key)
        deleted(largest.key)
    return largest


@contextmanager
def _told(damaged: list[Damage]) -> Iterator[None]:
    """What cannot be done in one channel, being damaged, is not to stop what can be done elsewhere."""
    try:
        yield
    except (IntegrityError, NoObject) as error:
        damaged.append(as_damage(error))


def _withdraw(store: ObjectStore, one: Withdrawal, max_age: float, at: str, by: str) -> ChannelState:
    def choose(state: ChannelState) -> tuple[str, ...]:
        # Somebody may have pinned or listed one of them since.
        kept = {item.set for item in read_pins(store, lambda damage: None).values()}
        stands = state.open if one.action == "yank" else state.yanked
        kept |= _newest(store, state, 1)
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
