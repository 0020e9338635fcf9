"""`rocwright set promote | rollback | repair | pin | gc`: what channels list, and what is kept or deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Text
from rocwright.cli.reply import Reply, for_json, for_people, replies
from rocwright.cli.set.look import (
    closed_next,
    policy_lines,
    promoted_next,
    short_ids,
    show_decision,
    staged_lines,
    tell_damaged,
)
from rocwright.cli.store.options import OfChannel, StoreOptions
from rocwright.errors import IntegrityError, UsageError
from rocwright.store.channel_log import read_state
from rocwright.store.damage import DAMAGED, Damage
from rocwright.store.index.landing import write_landing
from rocwright.store.index.verify import verify_listed
from rocwright.store.layout import channel_prefix
from rocwright.store.mend.store import mend_store
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.pins import Pin, pin, read_pins, unpin
from rocwright.store.retention import GcDone, GcPlan, channel_prefixes, collect, plan_gc
from rocwright.store.sets.find import NEWEST, current_of, named_place, resolve_set
from rocwright.store.sets.promote import promote_set, require_open
from rocwright.store.sets.report import consider
from rocwright.store.sets.stage import rfc3339
from rocwright.store.trust.guard import require_all_signed
from rocwright.store.withdraw import rollback
from rocwright.system import console

_DEFAULTS = StoreOptions()


@replies
def set_promote(
    which: str,
    /,
    *,
    to: str = "release",
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    family: Text = "",
    by: Text = "",
    again: bool = False,
    dry_run: bool = False,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Ask the gate in front of a channel, rule by rule, and list the set there if it is open.

    Exit code 10 when it is closed. What is promoted is the recorded set, bytes and all: no file is copied,
    built or renamed. Running again changes nothing.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there (the
        highest version that was not withdrawn), or newest: that of the first channel (newest:FAMILY where it
        has several).
    to
        The channel that is to list it.
    from_
        The channel that newest looks at (default: the first).
    family
        The same as newest:FAMILY.
    by
        Who promotes; recorded with the set.
    again
        List a set that was withdrawn from this channel.
    dry_run
        Only say what the gate decides.
    json
        Print the decision as JSON.
    """
    now = datetime.now(timezone.utc)
    store, channels = options.opened(), options.channels()
    channel = channels.named(to)
    if which.partition(":")[0] == NEWEST and channel.name == (from_ or channels.channel[0].name):
        raise UsageError(
            f"newest is a set of {channel.name}, which lists it already",
            next_step="give the id of the set: rocwright set list",
        )
    digest = resolve_set(store, channels, which, newest_in=from_, family=family)
    found = consider(store, channels, channel, digest, now.date(), again=again)
    policy = options.policy()
    for line in policy_lines(policy, options):
        console.say(line)
    yield for_people(lambda: show_decision(found.decision, channel.name))
    done = served = None
    if not dry_run and found.decision.promote:
        done = promote_set(store, channels, channel, digest, now, by=by, again=again, policy=policy)
        served = verify_listed(store, done.prefix, found.manifest)
    yield for_json({"decision": found.decision, "promoted": done is not None, "policy": policy})
    for line in staged_lines(done, served):
        console.say(line)
    require_open(found.decision, digest, closed_next(found.decision, options))
    if done is not None:
        for line in promoted_next(store, channels, channel, found.manifest, options):
            console.say(f"next: {line}")


@replies
def set_rollback(
    channel: OfChannel,
    /,
    *,
    reason: str,
    to: str | None = None,
    by: Text = "",
    wait: bool = True,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Withdraw the newest sets of a channel, so that an earlier one is what people get.

    Withdrawn sets are yanked: they stay on the pages for those who ask for exactly their versions, and can be
    listed again. Where the earlier set was yanked itself it is listed first, and the newer ones are yanked
    when every client has seen it. An interrupted rollback is completed by running it again.

    Parameters
    ----------
    reason
        Why: installers show it to whoever meets a withdrawn set.
    to
        The set to go back to, by 8 or more digits of its id (default: the one before the current;
        where the channel has sets for several platforms, say which).
    by
        Who does it, for the log.
    wait
        Wait until every client has seen the set that stays. With --no-wait, some may find no set for as long
        as their pages may be old.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    chosen, family = named_place(store, channels, channel)
    prefix = channel_prefix(chosen.prefix, family)
    state = rollback(
        store,
        prefix,
        to=None if to is None else resolve_set(store, channels, to),
        reason=reason,
        at=rfc3339(datetime.now(timezone.utc)),
        by=by,
        max_age=channels.max_age if wait else 0,
        waiting=lambda seconds: console.say(
            f"waiting {seconds:.0f} s, until every client has seen the set that stays"
        ),
    )
    write_landing(store, chosen)
    current = current_of(store, state)

    def show() -> None:
        yanked = f"{len(state.yanked)} of {len(state.sets)} sets yanked"
        console.out(f"{prefix} serves {current}; {yanked}")
        if current is not None:
            place = f"{chosen.name}:{family}"
            next_one = options.command("set", "bisect", place, "--good", current, "--", "COMMAND")
            console.say(f"next, to find which set broke it: {next_one}")

    return Reply({"prefix": prefix, "current": current, "yanked": dict(state.yanked)}, show)


@replies
def set_repair(
    channel: str | None = None,
    /,
    *,
    from_: Annotated[
        tuple[str, ...], Parameter(name="--from", consume_multiple=1, negative=(), show_default=False)
    ] = (),
    quick: Annotated[bool, Parameter(negative=())] = False,
    by: Text = "",
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Bring back what of a damaged store can be had, take out what cannot, and write pages again.

    Nothing is believed but digests: events, manifests and statements come back as they were or not at all.
    What cannot be had is moved below `_damaged/`, and a channel lists no set any more that is not whole.
    Pages that somebody changed or deleted are written as their log asks for; what was interrupted is
    completed.
    Exit code 6 when something is left that somebody has to decide.

    Parameters
    ----------
    channel
        CHANNEL:FAMILY, such as release:gfx94X-dcgpu; the family may be left out where there is one (default:
        the whole store).
    from_
        Another store, or a folder of wheels, that may have copies of what is lost; may be repeated.
    quick
        Compare files by their sizes only; their bytes are not read.
    by
        Who repairs, for the log.
    dry_run
        Only say what would be done.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(stating=False), options.channels()
    prefix = None
    if channel is not None:
        chosen, family = named_place(store, channels, channel)
        prefix = channel_prefix(chosen.prefix, family)
    places = [open_store(address, reading=True) for address in from_]
    for place in places:
        if isinstance(place, LocalStore) and not place.root.is_dir():
            raise UsageError(f"there is no folder {place.root}", next_step="name another with --from")
    done = mend_store(
        store,
        channels,
        at=rfc3339(datetime.now(timezone.utc)),
        only=prefix,
        places=places,
        by=by,
        quick=quick,
        dry_run=dry_run,
    )
    value: dict[str, object] = {"done": done, "dry_run": dry_run}
    if prefix is not None:
        state = read_state(store, prefix)
        value |= {"prefix": prefix, "current": current_of(store, state), "sets": state.sets}

    def show() -> None:
        for one in done:
            console.out(str(one), hang=2)
        if done and dry_run:
            console.out("nothing was changed")
        if not done and prefix is None:
            console.out("nothing is damaged")
        elif prefix is not None:
            console.out(f"{prefix} serves {value['current']}; {len(state.sets)} sets are on its pages")

    yield Reply(value, show)
    left = sum(one.done == "left" for one in done)
    if left:
        raise IntegrityError(
            f"{left} {'thing has' if left == 1 else 'things have'} to be decided: the lines with left",
            next_step="do what these say, or give a place that has copies: --from STORE",
        )


@replies
def set_pin(
    name: str | None = None,
    set_: Annotated[str | None, Parameter(name="SET")] = None,
    /,
    *,
    remove: Annotated[bool, Parameter(negative=())] = False,
    reason: Text = "",
    by: Text = "",
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Keep a set under a name: it is never deleted, no channel drops it. Without a name, list the pins.

    Parameters
    ----------
    name
        A name for the pin, such as 7.10-stable.
    set_
        The set: 8 or more digits of its id, CHANNEL:FAMILY for the one that installers take from there, or
        newest: that of the first channel (newest:FAMILY where it has several).
    remove
        Remove the pin of this name.
    reason
        Why it is kept.
    by
        Who wants it.
    json
        Print the result as JSON.
    """
    store = options.opened()
    if remove:
        if name is None or set_ is not None:
            raise UsageError(
                "--remove takes the name of a pin and nothing else", next_step="give only --remove NAME"
            )
        unpin(store, name)
    elif name is not None:
        if set_ is None:
            raise UsageError(f"no set given for the pin {name}", next_step="give the set, or --remove")
        found = resolve_set(store, options.channels(), set_)
        at = rfc3339(datetime.now(timezone.utc))
        pin(store, name, Pin(found, at=at, reason=reason, by=by))
    damaged: list[Damage] = []
    pins = read_pins(store, damaged.append)

    def show() -> None:
        if pins:
            rows = [(key, one.set[:12], one.at, one.by, one.reason) for key, one in pins.items()]
            console.table("Pins", ("name", "set", "since", "by", "reason"), rows)
        else:
            console.say("there are no pins")

    yield Reply(pins, show)
    tell_damaged(damaged, options)


@replies
def set_gc(
    *,
    delete: Annotated[bool, Parameter(negative=())] = False,
    runs: Annotated[bool, Parameter(negative=())] = False,
    by: Text = "",
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """List what no channel, pin or age keeps any more; delete it with --delete.

    A channel yanks sets beyond its newest ones, and drops what was yanked for as many days as the table of
    channels says. Files that belong to no set in a channel, no pinned set and no young set go when they are
    as old. Manifests and statements stay. Killed at any point, the next run completes it.

    Exit code 6 when a log, a pin or a manifest is damaged: what it may refer to stays, whatever its age.

    Parameters
    ----------
    delete
        Delete it. Without this option nothing is changed, and ages are measured by this machine's clock.
    runs
        Also packages of single runs that are as old.
    by
        Who does it, for the log.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    require_all_signed(store, channel_prefixes(store))
    now = datetime.now(timezone.utc)
    if not delete:
        plan = plan_gc(store, channels, now, runs=runs)
        yield Reply(plan, lambda: _show_plan(plan))
        damaged = plan.damaged
    else:
        done = collect(store, channels, at=rfc3339(now), by=by, runs=runs)
        for channel in channels.channel:
            if store.folders(f"{channel.prefix}/"):
                write_landing(store, channel)
        yield Reply(done, lambda: _show_done(done))
        damaged = done.damaged
    for one in damaged:
        # What a repair could not bring back is no news.
        if one.key.startswith(DAMAGED):
            console.say(f"what it may refer to stays: {one}")
    rest = [one for one in damaged if not one.key.startswith(DAMAGED)]
    tell_damaged(rest, options, so="what these may refer to stays")


def _show_plan(plan: GcPlan) -> None:
    for one in plan.withdrawals:
        console.out(f"would {one.action} in {one.prefix} ({one.reason}): {short_ids(one.sets)}")
    for key in plan.objects:
        console.out(f"would delete {key}")
    size = console.human_bytes(plan.bytes)
    console.out(f"{len(plan.objects)} objects, {size}; nothing was changed (--delete does it)")


def _show_done(done: GcDone) -> None:
    for one in done.withdrawals:
        console.out(f"{one.action} in {one.prefix} ({one.reason}): {short_ids(one.sets)}")
    for one in done.waiting:
        console.out(f"not yet: {one.action} in {one.prefix}: {short_ids(one.sets)}")
    console.out(f"{done.objects} objects deleted, {console.human_bytes(done.bytes)}")
