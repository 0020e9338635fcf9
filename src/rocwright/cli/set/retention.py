"""`rocwright set pin | gc`: which sets are kept whatever the channels list, and what nothing holds."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import StoreOptions, Text
from rocwright.errors import UsageError
from rocwright.store.index.landing import write_landing
from rocwright.store.retention import GcDone, GcPlan, Pin, collect, pin, plan_gc, read_pins, unpin
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.stage import rfc3339
from rocwright.system import console

_DEFAULT = StoreOptions()


@replies
def set_pin(
    name: str | None = None,
    set_: Annotated[str | None, Parameter(name="SET")] = None,
    /,
    *,
    remove: Annotated[bool, Parameter(negative=())] = False,
    reason: Text = "",
    by: Text = "",
    options: StoreOptions = _DEFAULT,
) -> Reply:
    """Keep a set under a name: no retention takes it, no channel drops it. Without a name, list the pins.

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
    pins = read_pins(store)

    def show() -> None:
        if pins:
            rows = [(key, one.set[:12], one.at, one.by, one.reason) for key, one in pins.items()]
            console.table("Pins", ("name", "set", "since", "by", "reason"), rows)
        else:
            console.say("there are no pins")

    return Reply(pins, show)


@replies
def set_gc(
    *,
    delete: Annotated[bool, Parameter(negative=())] = False,
    runs: Annotated[bool, Parameter(negative=())] = False,
    by: Text = "",
    options: StoreOptions = _DEFAULT,
) -> Reply:
    """Say what no channel, pin or age holds any more; delete it with --delete.

    A channel yanks sets beyond its newest ones, and drops what was yanked for as many days as the table of
    channels says. Files that no set in a channel, no pin and no young set has go when they are as old.
    Manifests and statements stay. Killed at any point, the next run completes it.

    Parameters
    ----------
    delete
        Do it. Without, nothing is changed, and ages are told by this machine's clock.
    runs
        Also packages of single runs that are as old.
    by
        Who does it, for the log.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    now = datetime.now(timezone.utc)
    if not delete:
        plan = plan_gc(store, channels, now, runs=runs)
        return Reply(plan, lambda: _show_plan(plan))
    done = collect(store, channels, at=rfc3339(now), by=by, runs=runs)
    for channel in channels.channel:
        if store.folders(f"{channel.prefix}/"):
            write_landing(store, channel)
    return Reply(done, lambda: _show_done(done))


def _show_plan(plan: GcPlan) -> None:
    for one in plan.withdrawals:
        console.out(f"would {one.action} in {one.prefix} ({one.reason}): {_short(one.sets)}")
    for key in plan.objects:
        console.out(f"would delete {key}")
    size = console.human_bytes(plan.bytes)
    console.out(f"{len(plan.objects)} objects, {size}; nothing was changed (--delete does it)")


def _show_done(done: GcDone) -> None:
    for one in done.withdrawals:
        console.out(f"{one.action} in {one.prefix} ({one.reason}): {_short(one.sets)}")
    for one in done.waiting:
        console.out(f"not yet: {one.action} in {one.prefix}: {_short(one.sets)}")
    console.out(f"{done.objects} objects deleted, {console.human_bytes(done.bytes)}")


def _short(sets: tuple[str, ...]) -> str:
    return " ".join(one[:12] for one in sets)
