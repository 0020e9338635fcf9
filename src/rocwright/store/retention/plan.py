"""What nothing holds any more: a plan, computed from what stands in the store.

A set is held by a channel that lists it (yanked or not), by a pin, and by its age: for `grace_days` after
it was recorded or something was said about it, and after a channel dropped it. A channel keeps its newest
sets open, as many as its table says, and the one that installers take; older ones are yanked, and dropped
when they were yanked for `grace_days`. Files go that no held set has and that are older than `grace_days`,
so an upload that is under way loses nothing; with them the pages of their set. Manifests, statements and
signatures stay: what was released once can be told for ever.

All ages are by the clock of the store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from rocwright.model.channels import Channel, Channels
from rocwright.store.channel.log import Log, read_log
from rocwright.store.layout import KINDS, LOG, PLATFORMS
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.store.pool import wanted_objects
from rocwright.store.retention.pins import read_pins
from rocwright.store.sets.find import current_of
from rocwright.store.sets.records import read_set

# Folders at the root of a store that are no channels.
_OWN = ("files", "sets", "pins")
_RECORDS = re.compile(r"manifest\.json|locations\.json|_(?:statements|signatures)/.*")
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
        # Whatever was listed since, people get this one.
        many = channel is not None and len(log.state.open) > channel.listed
        current = (current_of(store, log.state) if many else None) or ""
        withdrawals += withdrawals_of(log, prefix, channel, {*pinned, current}, old)
        held |= {one for one in log.state.since if one in log.state.sets or log.changed(one) > old}
    recorded = _by_set(store)
    held |= {one for one, objects in recorded.items() if any(item.modified > old for item in objects)}
    # One that is listed or pinned has a manifest, or something is wrong; others may be on their way in.
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
