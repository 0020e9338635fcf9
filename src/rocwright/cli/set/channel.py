"""`rocwright set promote | rollback | repair`: what a channel lists, and its pages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.reply import Reply, for_json, for_people, replies
from rocwright.cli.set.show import closed_next, promoted_next, show_decision, staged_lines
from rocwright.cli.store.options import StoreOptions, Text
from rocwright.errors import UsageError
from rocwright.store.index.landing import write_landing
from rocwright.store.index.verify import verify_listed
from rocwright.store.layout import channel_prefix
from rocwright.store.publish import repair, rollback
from rocwright.store.sets.find import NEWEST, current_of, named_place, resolve_set
from rocwright.store.sets.promote import promote_set, require_open
from rocwright.store.sets.report import consider
from rocwright.store.sets.stage import rfc3339
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


_DEFAULT = StoreOptions()


@replies
def set_rollback(
    channel: str,
    /,
    *,
    reason: str,
    to: str | None = None,
    by: Text = "",
    wait: bool = True,
    options: StoreOptions = _DEFAULT,
) -> Reply:
    """Withdraw the newest sets of a channel, so that an earlier one is what people get.

    Withdrawn sets are yanked: they stay on the pages for those who ask for exactly their versions, and can be
    listed again. Where the earlier set was yanked itself it is listed first, and the newer ones are yanked
    when every client has seen it. An interrupted rollback is completed by running it again.

    Parameters
    ----------
    channel
        CHANNEL:FAMILY, such as release:gfx94X-dcgpu; the family may be left out where there is one.
    reason
        Why: installers show it to whoever meets a withdrawn set.
    to
        The set to go back to, by 8 or more digits of its id (default: the one before the current).
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
            f"waiting {seconds:.0f} s: until then some clients have not seen the set that stays"
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
    channel: str,
    /,
    *,
    options: StoreOptions = _DEFAULT,
) -> Reply:
    """Write the pages of a channel again wherever they are not what its log asks for.

    For pages that somebody changed or deleted, and to complete what was interrupted without doing it again.

    Parameters
    ----------
    channel
        CHANNEL:FAMILY, such as release:gfx94X-dcgpu; the family may be left out where there is one.
    json
        Print the result as JSON.
    """
    store = options.opened()
    chosen, family = named_place(store, options.channels(), channel)
    prefix = channel_prefix(chosen.prefix, family)
    state = repair(store, prefix)
    write_landing(store, chosen)
    current = current_of(store, state)
    return Reply(
        {"prefix": prefix, "current": current, "sets": state.sets},
        lambda: console.out(f"{prefix} serves {current}; {len(state.sets)} sets are on its pages"),
    )
