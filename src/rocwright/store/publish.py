"""Change a channel: the event first, then the pages that follow from it, in an order that clients survive.

A client reads several pages, each perhaps as old as `max_age`. What is added appears behind what it needs,
what is withdrawn disappears in front of it, and what was listed before stays: whatever mixture of old and new
pages a client sees, a whole set is in it. An interrupted run is completed by the next run, whoever starts it:
the log says what the pages have to be.

A change is done when its pages were read back, they still follow from the log, and the lease never expired:
only then it returns, and a mark in the log says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import NamedTuple

import msgspec

from rocwright.errors import ChannelBusy, GateClosed, IntegrityError, InvalidData, InvalidInput, NoObject
from rocwright.model.sets import FileEntry, SetManifest, Statement, set_id
from rocwright.store.channel_log import (
    ChannelState,
    Event,
    Log,
    append,
    event_key,
    fold,
    known_log,
    mark_shown,
    read_log,
)
from rocwright.store.index.listed import ListedSet, listed_files, other_content
from rocwright.store.index.pages import SealedView, page_keys, sealed_view, write_pages
from rocwright.store.index.projects import ProjectFacts, save_facts
from rocwright.store.layout import LOG, set_prefix
from rocwright.store.lease import HeldStore, LeaseLost, leased
from rocwright.store.objects.durable import together
from rocwright.store.objects.protocol import ObjectStore, beneath, read_there, side_by_side
from rocwright.store.pool import wanted_objects
from rocwright.store.sets.records import read_listed, read_set
from rocwright.store.trust.guard import trusts_keys

# How often a publisher that lost its lease, being too slow, starts again.
_TRIES = 3

# From the log and the store's time to the event that is to be written, None where nothing changes.
Decide = Callable[[Log, datetime], Event | None]


def list_set(
    store: ObjectStore,
    prefix: str,
    manifest: SetManifest,
    *,
    at: str,
    by: str = "",
    again: bool = False,
    consent: Callable[[], None] = lambda: None,
) -> ChannelState:
    """List a recorded set whose files are in the store; nothing happens when it is listed already.

    A set that was withdrawn is listed `again` only where that is meant, else `GateClosed` is raised.
    `consent` is asked while nobody else can change the channel, and raises where it is not to be done.
    Raises `IntegrityError` when the channel has other bytes under one of its names or a file is missing,
    nothing is written then; `ChannelBusy` while another publisher is at work; `GateClosed` where the event
    counts only when others have signed it, too.
    """
    digest = set_id(manifest)
    event = Event("list", (digest,), at=at, by=by)

    def decide(log: Log, now: datetime) -> Event | None:
        if not again:
            _require_not_withdrawn(log.state, digest, prefix)
        consent()
        return if_new(log.state, event)

    state = publish(store, prefix, decide, by=by)
    require_counted(store, prefix, f"listing set {digest[:12]}", done=digest in state.open)
    return state


def _require_not_withdrawn(state: ChannelState, one: str, prefix: str) -> None:
    if one in state.yanked:
        raise GateClosed(
            f"set {one[:12]} was withdrawn from {prefix}: {state.yanked[one]}",
            next_step=f"where that reason no longer applies: rocwright set promote {one[:12]} "
            f"--to {prefix.partition('/')[0]} --again",
        )


def require_counted(store: ObjectStore, prefix: str, what: str, *, done: bool) -> None:
    """Raise `GateClosed` for what was written and is not done: a channel may ask for several signatures."""
    if not done and trusts_keys(store, prefix):
        place = prefix.strip("/").replace("/", ":")
        raise GateClosed(
            f"{what} in {prefix} waits for more signatures: the channel asks for several under each event",
            next_step=f"rocwright store trust sign {place}, with another key; then "
            f"rocwright set repair {place}",
        )


def change(store: ObjectStore, prefix: str, event: Event) -> ChannelState:
    """Append the event unless it changes nothing, then bring the pages into line with the log.

    To withdraw sets use `withdraw`, which waits for clients.
    """

    def decide(log: Log, now: datetime) -> Event | None:
        return if_new(log.state, event)

    return publish(store, prefix, decide, by=event.by)


def write_view(store: ObjectStore, prefix: str, *, by: str = "") -> ChannelState:
    """Render the pages that the log asks for, all of them, and write those that differ.

    Raises `InvalidInput` without a log.
    """
    if not read_log(store, prefix).events:
        raise InvalidInput(
            f"nothing was ever listed at {prefix}",
            next_step="name a channel and a family that this store has",
        )
    return publish(store, prefix, lambda log, now: None, by=by, anew=True)


def effect(state: ChannelState, event: Event) -> ChannelState | None:
    """What the channel serves after the event; None when it changes nothing."""
    after = fold([(state.number + 1, event)], state)
    return None if after.serves(state) else after


def if_new(state: ChannelState, event: Event) -> Event | None:
    """The event, unless it changes nothing of what the channel serves."""
    return event if effect(state, event) is not None else None


def publish(
    store: ObjectStore, prefix: str, decide: Decide, *, by: str = "", anew: bool = False
) -> ChannelState:
    """Hold the channel, let `decide` look at its log, append what it returns, and write the pages.

    Pages that fit their seal in the log are not rendered, unless all are to be made `anew`. Raises
    `ChannelBusy` when the channel is not to be had, `IntegrityError` when its pages would be wrong.
    """
    sets = _Sets(store)
    # Outside of the lease, as there may be many. A damaged one may be about to go.
    sets.fetch(known_log(store, prefix).state.sets)
    appended = ""
    for _ in range(_TRIES):
        try:
            with leased(store, prefix, by=by) as lease:
                held = HeldStore(lease)
                # Whoever held it before may have written pages of what was said about a set since.
                sets.look_again()
                log = known_log(held, prefix)
                seals = {} if anew else log.seals
                event = None if appended else decide(log, lease.now)
                after = log.state
                if event is not None:
                    after = effect(log.state, event) or log.state
                    for one in event.sets if event.action == "list" else ():
                        require_recorded(held, sets[one])
                view = _View(after, sealed_view(held, prefix, sets.view(after), seals))
                if event is not None:
                    lease.check()
                    # From here on it may be in the log, even if the next line but one fails.
                    appended = event_key(prefix, event, after=log.state.number)
                    append(store, prefix, event, after=log.state.number)
                return _bring_into_line(held, prefix, sets, log, view, appended)
        except LeaseLost:
            continue
    raise ChannelBusy(
        f"publishing to {prefix} took so long that the lease of this publisher expired, {_TRIES} times",
        next_step="run again from a machine that is nearer to the store",
    )


def describe(
    store: ObjectStore, prefix: str, project: str, facts: ProjectFacts, *, by: str = ""
) -> ChannelState:
    """Say this of a project of the channel (its status, where else it is) instead of what was said before.

    Raises `InvalidInput` for a project that the channel does not list; else as `publish`.
    """
    sets = _Sets(store)

    def decide(log: Log, now: datetime) -> None:
        listed = {entry.project for one in log.state.sets for entry in sets[one].manifest.files}
        if project not in listed:
            raise InvalidInput(
                f"{prefix} lists no project {project!r}",
                next_step=f"name one of those it lists: {', '.join(sorted(listed)) or 'none'}",
            )
        save_facts(store, prefix, project, facts)

    return publish(store, prefix, decide, by=by)


class _View(NamedTuple):
    """What the pages are while the log has this state."""

    state: ChannelState
    sealed: SealedView


def _bring_into_line(
    held: HeldStore, prefix: str, sets: _Sets, before: Log, view: _View, appended: str = ""
) -> ChannelState:
    """Write and read back the pages until the log has not changed meanwhile; `appended` must be in it."""
    wrong: list[str] = []
    for attempt in range(_TRIES):
        log = read_log(held, prefix)
        _require_listed(held, prefix, before, appended, log)
        gone = [one for one in before.state.sets if one not in log.state.sets]
        if attempt or not view.state.serves(log.state):
            # Somebody else is at work: what was right may have changed.
            sets.look_again()
            view = _View(log.state, sealed_view(held, prefix, sets.view(log.state), {}))
        pages, right, seals = view.sealed
        entries = [entry for one in (*log.state.sets, *gone) for entry in sets.files(one)]
        # Pages are in their order already, as long as none goes.
        order = page_keys(entries, prefix) if gone else ()
        withdrawing = bool(gone) or len(log.state.yanked) > len(before.state.yanked)
        # What is listed below the prefix is durable then, too: the events that a killed publisher has left.
        with together():
            written = write_pages(held, prefix, pages, order=order, reverse=withdrawing, right=right)
        # A publisher that was frozen for minutes may write a page of its own into ours, once.
        wrong = [key for key in written if not _is_there(held, key, pages)]
        if not wrong and read_log(held, prefix).events == log.events:
            held.lease.renew()
            mark_shown(held, prefix, log, seals)
            return log.state
    raise IntegrityError(
        f"{', '.join(wrong) or prefix} changes while it is written",
        where=prefix,
        next_step="find out who else writes there, then run `rocwright set repair`",
    )


def _require_listed(held: HeldStore, prefix: str, before: Log, appended: str, log: Log) -> None:
    """Raise `ChannelBusy` where an event is there and not listed: pages made of the list would lack a set."""
    unlisted = {*(one.key for one in before.events), appended} - {"", *(one.key for one in log.events)}
    if not unlisted:
        return
    # What is listed and not in the log does not count, which is another matter.
    store = beneath(held)
    listed = {one.key for one in store.list(f"{prefix}{LOG}")}
    for key in sorted(unlisted - listed):
        if store.exists(key):
            raise ChannelBusy(
                f"{key} was written but is not in the listing of the store",
                where=key,
                next_step="run again when the store lists what was written to it; its pages follow then",
            )


def _is_there(store: ObjectStore, key: str, pages: Mapping[str, bytes]) -> bool:
    return read_there(store, key) == pages.get(key)


class _Sets:
    """Recorded sets; each object is read once, and what there is about a set is listed whenever asked."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._manifests: dict[str, SetManifest] = {}
        self._statements: dict[str, Statement] = {}
        self._found: dict[str, ListedSet] = {}

    def __getitem__(self, one: str) -> ListedSet:
        if one not in self._found:
            manifest = self._manifests.get(one)
            found = read_listed(self._store, one, manifest=manifest, known=self._statements)
            self._found[one], self._manifests[one] = found, found.manifest
        return self._found[one]

    def look_again(self) -> None:
        """Take nothing for known that may have changed: manifests and statements never do."""
        self._found.clear()

    def fetch(self, many: Iterable[str]) -> None:
        """Read these side by side, but for damaged ones: whoever asks for such a one is told."""

        def read(one: str) -> None:
            with suppress(IntegrityError, NoObject):
                self[one]

        for _ in side_by_side(self._store, read, [one for one in many if one not in self._found]):
            pass

    def files(self, one: str) -> tuple[FileEntry, ...]:
        """The files of a set; none of one that is damaged, which is on no pages any more."""
        try:
            return self[one].manifest.files
        except (IntegrityError, NoObject):
            return ()

    def view(self, state: ChannelState) -> dict[str, ListedSet]:
        """The sets of a state as its pages list them, by id."""
        self.fetch(state.sets)
        return {one: msgspec.structs.replace(self[one], yanked=state.yanked.get(one)) for one in state.sets}


def view_sets(store: ObjectStore, state: ChannelState) -> list[ListedSet]:
    """The sets of a state as its pages list them."""
    return list(_Sets(store).view(state).values())


def require_listable(store: ObjectStore, prefix: str, manifest: SetManifest) -> None:
    """Raise `IntegrityError` when the channel ever listed a file of this name with other content.

    Of sets that it dropped those count whose manifests can be read: caches and locks remember their files.
    """
    state = known_log(store, prefix).state
    listed_files([*view_sets(store, state), ListedSet(manifest)], where=prefix)
    entries = {entry.name: entry for entry in manifest.files}

    def files_of(one: str) -> tuple[FileEntry, ...]:
        try:
            return read_set(store, one).files
        except (IntegrityError, InvalidData, NoObject):
            return ()

    dropped = [one for one in state.since if one not in state.sets]
    for before in chain.from_iterable(side_by_side(store, files_of, dropped)):
        entry = entries.get(before.name, before)
        if (entry.sha256, entry.project) != (before.sha256, before.project):
            raise other_content(before, entry, where=prefix, lists="once listed")


def require_recorded(store: ObjectStore, listed: ListedSet) -> None:
    """As `require_files`; what is recorded of the set is durable then, also where a publisher was killed."""
    with together():
        store.list(set_prefix(set_id(listed.manifest)))
        require_files(store, listed)


def require_files(store: ObjectStore, listed: ListedSet) -> None:
    """Raise `IntegrityError` unless every file is there: retention may have taken them since they came in."""
    for entry in listed.manifest.files:
        if entry.name in listed.elsewhere:
            continue
        for key in wanted_objects(entry):
            if not store.exists(key):
                raise IntegrityError(
                    f"{key} is not in the store, so the set of {entry.name} cannot be listed or kept",
                    where=key,
                    next_step="put the files of the set into the store again",
                )


def repair(store: ObjectStore, prefix: str, *, by: str = "") -> ChannelState:
    """Write what the log asks for wherever the pages differ, whoever changed them."""
    return write_view(store, prefix, by=by)
