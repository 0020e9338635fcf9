"""`rocwright set gc`: withdraw what is too old, delete what nothing holds."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions, Text
from rocwright.store.landing.write import write_landing
from rocwright.store.retention.plan import GcPlan, plan_gc
from rocwright.store.retention.sweep import GcDone, collect
from rocwright.store.sets.stage import rfc3339
from rocwright.system import console

_DEFAULT = StoreOptions()


@answers
def set_gc(
    *,
    delete: Annotated[bool, Parameter(negative=())] = False,
    runs: Annotated[bool, Parameter(negative=())] = False,
    by: Text = "",
    options: StoreOptions = _DEFAULT,
) -> Answer:
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
        return Answer(plan, lambda: _show_plan(plan))
    done = collect(store, channels, at=rfc3339(now), by=by, runs=runs)
    for channel in channels.channel:
        if store.folders(f"{channel.prefix}/"):
            write_landing(store, channel)
    return Answer(done, lambda: _show_done(done))


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
