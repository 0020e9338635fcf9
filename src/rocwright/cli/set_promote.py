"""`rocwright set promote`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers, for_json, for_people
from rocwright.cli.show_set import closed_next, promoted_next, show_decision, staged_lines
from rocwright.cli.store_options import StoreOptions, Text
from rocwright.errors import UsageError
from rocwright.store.sets.consider import consider
from rocwright.store.sets.find import NEWEST, resolve_set
from rocwright.store.sets.promote import promote_set, require_open
from rocwright.store.sets.served import verify_listed
from rocwright.system import console

_DEFAULTS = StoreOptions()


@answers
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
) -> Iterator[Answer]:
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
            f"newest is what {channel.name} has already",
            next_step="give the id of the set: rocwright set list",
        )
    digest = resolve_set(store, channels, which, newest_in=from_, family=family)
    found = consider(store, channels, channel, digest, now.date(), again=again)
    yield for_people(lambda: show_decision(found.decision, channel.name))
    done = served = None
    if not dry_run and found.decision.promote:
        done = promote_set(store, channels, channel, digest, now, by=by, again=again)
        served = verify_listed(store, done.prefix, found.manifest)
    yield for_json({"decision": found.decision, "promoted": done is not None})
    for line in staged_lines(done, served):
        console.say(line)
    require_open(found.decision, digest, closed_next(found.decision, options))
    if done is not None:
        for line in promoted_next(store, channels, channel, found.manifest, options):
            console.say(f"next: {line}")
