"""`rocwright set rollback`: make an earlier set of a channel the current one."""

from __future__ import annotations

from datetime import datetime, timezone

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions, Text
from rocwright.store.channel.order import current_of
from rocwright.store.channel.withdraw import rollback
from rocwright.store.landing.write import write_landing
from rocwright.store.layout import channel_prefix
from rocwright.store.sets.find import named_place, resolve_set
from rocwright.store.sets.stage import rfc3339
from rocwright.system import console

_DEFAULT = StoreOptions()


@answers
def set_rollback(
    channel: str,
    /,
    *,
    reason: str,
    to: str | None = None,
    by: Text = "",
    wait: bool = True,
    options: StoreOptions = _DEFAULT,
) -> Answer:
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

    return Answer({"prefix": prefix, "current": current, "yanked": dict(state.yanked)}, show)
