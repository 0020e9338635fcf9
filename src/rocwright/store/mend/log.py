"""A damaged log: events brought back as they were, or else new ones, after which the channel serves the same.

What a channel served is told by its marks and its pages, and by the events that are whole. Of an event that
nothing tells of, nothing is made up: its set has to be listed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from rocwright.errors import RocwrightError
from rocwright.model.sets import SetManifest
from rocwright.store.channel_log import (
    ChannelState,
    Event,
    Log,
    append,
    fold,
    is_event,
    lost_event_key,
    names_event,
    number_of,
    read_log,
    read_mark,
)
from rocwright.store.damage import DAMAGED, MISSING
from rocwright.store.layout import LOG
from rocwright.store.lease import HeldStore, leased
from rocwright.store.mend.guess import guessed_event
from rocwright.store.mend.pages import links_of, projects_on
from rocwright.store.mend.sets import Bench
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.store.sets.records import read_set, recorded_sets
from rocwright.store.trust.guard import signed_events, trusts_keys


def mend_log(bench: Bench, prefix: str, *, by: str = "") -> None:
    """Put a log right: what cannot be had of it is set aside, and the channel serves what it served."""
    log = read_log(bench.store, prefix, whole=True)
    if not log.events and projects_on(bench.store, prefix):
        # Nothing but the pages is there.
        _mend_state(bench, prefix, log, by)
        return
    signed = signed_events(bench.store, prefix)
    for stored, _, event in log.said:
        if event is None:
            _bring_back(bench, stored, signed)
    _bring_back_missing(bench, prefix, log, signed)
    log = read_log(bench.store, prefix, whole=True)
    if any(is_event(one.key) for one in (*log.damaged, *log.unsure)):
        _mend_state(bench, prefix, log, by)
    else:
        for one in log.damaged:
            # No more than a cache: the next mark says the same.
            bench.aside(one.key, one.what)


def _bring_back(bench: Bench, stored: Stored, signed: Mapping[str, bytes]) -> None:
    found, how = _had(bench, stored.key, signed)
    if found is None:
        found, how = guessed_event(stored.key, stored.modified, bench.known), "as its name proves"
    if found is not None:
        bench.store.put_bytes(stored.key, found, overwrite=True)
        bench.mended("brought back", stored.key, how)


def _bring_back_missing(bench: Bench, prefix: str, log: Log, signed: Mapping[str, bytes]) -> None:
    """Events of which nothing is left but that their number is missing."""
    numbers = {number_of(one.key) for one in log.damaged if one.what == MISSING and is_event(one.key)}
    keys = {*signed, *(bench.copies.keys(f"{prefix}{LOG}") if numbers else ())}
    for key in sorted(one for one in keys if is_event(one) and number_of(one) in numbers):
        found, how = _had(bench, key, signed)
        if found is not None:
            bench.store.put_bytes(key, found)
            bench.mended("brought back", key, how)


def _had(bench: Bench, key: str, signed: Mapping[str, bytes]) -> tuple[bytes | None, str]:
    """The bytes of an event that digests prove, and where they were found."""
    if key in signed:
        return signed[key], "from its signature"
    return bench.copies.data(key, lambda there: names_event(key, there)), "from a copy"


def _mend_state(bench: Bench, prefix: str, log: Log, by: str) -> None:
    store = bench.store
    with leased(store, prefix, by=by) as lease:
        held = HeldStore(lease)
        wanted = _wanted(held, prefix, log)
        there = fold((one.number, one.event) for one in log.said if one.event is not None)
        last = max([0, *(one.number for one in log.said), *(number_of(one.key) for one in log.unsure)])
        for event in _events(there, wanted, bench.at, by):
            last = append(held, prefix, event, after=last)
            sets = " ".join(one[:12] for one in event.sets)
            bench.mended(
                "written anew", f"{prefix}{LOG}{last:08d}", f"{event.action} {sets}, as it was before"
            )
    gone = [one for one in log.damaged if is_event(one.key)]
    for damage in gone:
        if damage.what != MISSING:
            bench.aside(damage.key, damage.what)
            continue
        # So that the hole is known for what it is.
        store.put_bytes(f"{DAMAGED}{lost_event_key(damage.key)}", b"", overwrite=True)
        bench.mended("set aside", damage.key, damage.what)
    for stored in store.list(f"{prefix}{LOG}") if gone else ():
        # What marks say of the events before them does not hold any more.
        if "/shown-" in stored.key:
            bench.aside(stored.key, "the events that it counts are not all there")


def _events(there: ChannelState, wanted: ChannelState, at: str, by: str) -> Iterator[Event]:
    """What leads from one state to the other."""
    why = "repair of a damaged log"
    for one in wanted.sets:
        if one not in there.sets or (one in there.yanked and one not in wanted.yanked):
            yield Event("list", (one,), at=at, reason=why, by=by)
    for one, reason in wanted.yanked.items():
        if there.yanked.get(one) is None:
            yield Event("yank", (one,), at=at, reason=reason, by=by)
    dropped = tuple(one for one in there.sets if one not in wanted.sets)
    if dropped:
        yield Event("drop", dropped, at=at, reason=why, by=by)


def _wanted(store: ObjectStore, prefix: str, log: Log) -> ChannelState:
    """What the channel served, by its best mark, the events after that, and its pages."""
    if log.events and not log.unsure:
        return log.state
    start = _best_mark(store, prefix)
    state = fold(
        ((one.number, one.event) for one in log.said if one.event is not None and one.number > start.number),
        start,
    )
    if log.events and all(number_of(one.key) <= start.number for one in log.unsure):
        return state
    if trusts_keys(store, prefix):
        # Anybody who can write to the store may have written these pages, and nobody signed them.
        return state
    return _as_pages_say(store, prefix, state)


def _best_mark(store: ObjectStore, prefix: str) -> ChannelState:
    best = ChannelState()
    for stored in store.list(f"{prefix}{LOG}"):
        if "/shown-" in stored.key and (mark := read_mark(store, stored)) is not None:
            best = max(best, mark[0], key=lambda state: state.count)
    return best


class _Shown(NamedTuple):
    """The files on pages, each with why it is withdrawn, and the projects whose pages can be read."""

    files: Mapping[tuple[str, str | None], str | None]
    projects: frozenset[str]


def _as_pages_say(store: ObjectStore, prefix: str, state: ChannelState) -> ChannelState:
    """The state, with what the pages show beyond it, and without what they do not show any more."""
    shown = _Shown(
        {(link.name, link.sha256): link.yanked for link in links_of(store, prefix)},
        projects_on(store, prefix),
    )
    family = prefix.rstrip("/").rpartition("/")[2]
    manifests: dict[str, SetManifest] = {}
    for one in (*state.sets, *recorded_sets(store, lambda damage: None)):
        with suppress(RocwrightError):
            manifest = read_set(store, one)
            if manifest.family == family:
                manifests[one] = manifest
    sets = dict.fromkeys(
        one for one in state.sets if one not in manifests or not _gone(manifests[one], shown)
    )
    told = {file for one in sets if one in manifests for file in _files(manifests[one])}
    for one, manifest in manifests.items():
        files = set(_files(manifest))
        # A set of files that others have, too, need not be listed.
        if one not in sets and files <= shown.files.keys() and not files <= told:
            sets[one] = None
    yanked = {}
    for one in sets:
        reasons = (
            {shown.files.get(file, None) for file in _files(manifests[one]) if file in shown.files}
            if one in manifests
            else set()
        )
        reason = reasons.pop() if len(reasons) == 1 else state.yanked.get(one)
        if reason is not None:
            yanked[one] = reason
    return ChannelState(state.number, tuple(sets), yanked, state.count, state.since)


def _files(manifest: SetManifest) -> Iterable[tuple[str, str | None]]:
    return ((entry.name, entry.sha256) for entry in manifest.files)


def _gone(manifest: SetManifest, shown: _Shown) -> bool:
    """Whether a page that can be read lacks a file of the set."""
    return any(
        entry.project in shown.projects and (entry.name, entry.sha256) not in shown.files
        for entry in manifest.files
    )
