"""The story of a repair: sets first, then the logs that list them, then what follows from both."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from rocwright.data import load_table
from rocwright.errors import RocwrightError
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families
from rocwright.model.sets import PROMOTION, SetManifest
from rocwright.store.channel_log import Event, Log, read_log, read_mark
from rocwright.store.damage import DAMAGED, Damage
from rocwright.store.index.landing import write_landing
from rocwright.store.index.listed import ListedSet
from rocwright.store.layout import LOG
from rocwright.store.mend.copies import Copies
from rocwright.store.mend.guess import Clues
from rocwright.store.mend.log import mend_log
from rocwright.store.mend.rehearsal import Rehearsed
from rocwright.store.mend.sets import Bench, mend_manifest, mend_set
from rocwright.store.mend.told import Mended, Say
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pins import read_pins
from rocwright.store.publish import publish, require_files, write_view
from rocwright.store.retention import channel_prefixes
from rocwright.store.sets.records import located, read_set, read_statements, received, set_folders
from rocwright.system.progress import each


def mend_store(
    store: ObjectStore,
    channels: Channels,
    *,
    at: str,
    only: str | None = None,
    places: Sequence[ObjectStore] = (),
    by: str = "",
    quick: bool = False,
    dry_run: bool = False,
    say: Say = lambda one: None,
) -> tuple[Mended, ...]:
    """Put a store right, or with `only` the channel at that prefix and its sets; returns what was done.

    `places` may have copies of what is lost. `at` is the time to write into logs and receipts. Killed at any
    point, the next run completes it. Nothing is written in a `dry_run`. Raises `ChannelBusy` while somebody
    publishes.
    """
    done: list[Mended] = []

    def told(one: Mended) -> None:
        done.append(one)
        say(one)

    with tempfile.TemporaryDirectory(prefix="rocwright-repair-") as work:
        acting: ObjectStore = Rehearsed(store) if dry_run else store
        copies = Copies(places, Path(work))
        bench = Bench(acting, store, channels, copies, Clues(), told, at, quick)
        _mend(bench, [only] if only is not None else list(channel_prefixes(acting, paged=True)), only, by)
    return tuple(done)


def _mend(bench: Bench, prefixes: list[str], only: str | None, by: str) -> None:
    store = bench.store
    pins: list[Damage] = []
    pinned = {one.set for one in read_pins(store, pins.append).values()}
    for damage in pins if only is None else ():
        bench.mended("left", damage.key, damage.what)
    logged = {prefix: _sets_of(store, prefix) for prefix in prefixes}
    bench.held |= pinned
    _learn(bench, prefixes)
    wanted = _in_question(bench, logged, only)
    for one in wanted:
        # All manifests first: they tell of each other's family, targets and sources.
        mend_manifest(bench, one, give_up=False)
    _learn(bench, prefixes)
    broken = {}
    for one in each("looking at", wanted):
        why = mend_set(bench, one)
        if why is not None:
            broken[one] = why
    for prefix in prefixes:
        _know_sets(bench, prefix, logged[prefix])
        mend_log(bench, prefix, by=by)
        _take_out(bench, prefix, broken, by)
        _write_pages(bench, prefix, by)
    for channel in bench.channels.channel:
        if any(prefix.startswith(f"{channel.prefix}/") for prefix in prefixes):
            for key in write_landing(store, channel):
                bench.mended("written anew", key, "the page for people")


def _sets_of(store: ObjectStore, prefix: str) -> set[str]:
    """The sets that a channel lists, by its log or any of its marks."""
    found = set(read_log(store, prefix).state.sets)
    for stored in store.list(f"{prefix}{LOG}"):
        if "/shown-" in stored.key and (mark := read_mark(store, stored)) is not None:
            found |= set(mark[0].sets)
    return found


def _in_question(bench: Bench, logged: dict[str, set[str]], only: str | None) -> list[str]:
    there = set(set_folders(bench.store)).union(*logged.values())
    there |= {name for name in bench.store.folders(f"{DAMAGED}sets/") if bench.copies.places}
    if only is None:
        return sorted(there)
    family = only.rstrip("/").rpartition("/")[2]
    return sorted(one for one in there if one in logged[only] or _family(bench.store, one) in (None, family))


def _family(store: ObjectStore, one: str) -> str | None:
    manifest = _whole(store, one)
    return manifest.family if manifest is not None else None


def _whole(store: ObjectStore, one: str) -> SetManifest | None:
    try:
        return read_set(store, one)
    except RocwrightError:
        return None


def _learn(bench: Bench, prefixes: list[str]) -> None:
    """What the whole part of a store tells of sets, people, times and reasons."""
    known = bench.known
    families = load_table("families", Families).families
    bench.families.update(dict.fromkeys(prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes))
    for one in set_folders(bench.store):
        manifest = _whole(bench.store, one)
        if manifest is None:
            continue
        bench.families[manifest.family] = None
        bench.targets[manifest.targets] = None
        bench.sources[repr(sorted(manifest.sources.items()))] = manifest.sources
        with suppress(RocwrightError):
            statements = read_statements(bench.store, one, tell=lambda damage: None)
            if (came := received(statements)) is not None:
                known.times[came] = None
            for said in statements:
                if said.predicate_type == PROMOTION and isinstance(said.predicate.get("by"), str):
                    known.people[said.predicate["by"]] = None
    for name, targets in families.items():
        bench.families.setdefault(name)
        bench.targets.setdefault(tuple(targets))
    for prefix in prefixes:
        log = read_log(bench.store, prefix, whole=True)
        for event in (one.event for one in log.said):
            if event is not None:
                known.people[event.by] = known.reasons[event.reason] = known.times[event.at] = None
        known.reasons.update(dict.fromkeys(log.state.yanked.values()))


def _know_sets(bench: Bench, prefix: str, logged: set[str]) -> None:
    """The sets that events of a channel may speak of: those of its family, and those that go together."""
    store, family = bench.store, prefix.rstrip("/").rpartition("/")[2]
    state = read_log(store, prefix).state
    found: dict[tuple[str, ...], None] = {(one,): None for one in sorted(logged)}
    found.update({(one,): None for one in set_folders(store) if _family(store, one) in (family, None)})
    for reason in dict.fromkeys(state.yanked.values()):
        found[tuple(one for one, why in state.yanked.items() if why == reason)] = None
    bench.known.sets = found


def _take_out(bench: Bench, prefix: str, broken: dict[str, str], by: str) -> None:
    """Drop sets that are not whole, so that installers get a whole one; clients have nothing to wait for."""
    store = bench.store
    gone: tuple[str, ...] = ()

    def decide(log: Log, now: datetime) -> Event | None:
        nonlocal gone
        # Looking at all sets takes its time, and somebody may have put the files in again, or the set out.
        gone = tuple(one for one in log.state.sets if one in broken and not _is_whole(store, one))
        reason = f"damaged in the store: {'; '.join(dict.fromkeys(broken[one] for one in gone))}"
        return Event("drop", gone, at=bench.at, reason=reason, by=by) if gone else None

    if any(one in broken for one in read_log(store, prefix).state.sets):
        publish(store, prefix, decide, by=by)
    for one in gone:
        bench.mended("taken out", f"{prefix} set {one}", f"damaged in the store: {broken[one]}")


def _is_whole(store: ObjectStore, one: str) -> bool:
    """Whether all of a set is there; what was there and is damaged was moved away."""
    try:
        require_files(store, ListedSet(read_set(store, one), elsewhere=located(store, one)))
    except RocwrightError:
        return False
    return True


def _write_pages(bench: Bench, prefix: str, by: str) -> None:
    store = bench.store
    if not read_log(store, prefix).events:
        return
    before = {one.key: one for one in store.list(prefix)}
    write_view(store, prefix, by=by)
    after = {one.key: one for one in store.list(prefix)}
    for key in sorted(key for key in {*before, *after} if before.get(key) != after.get(key)):
        if f"/{LOG}" not in key:
            bench.mended("written anew", key, "as the log asks for")
