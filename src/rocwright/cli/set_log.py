"""`rocwright set log`: what a channel listed and withdrew."""

from __future__ import annotations

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions
from rocwright.store.channel.history import history_of
from rocwright.store.layout import channel_prefix
from rocwright.store.sets.find import named_place
from rocwright.system import console

_DEFAULT = StoreOptions()


@answers
def set_log(
    channel: str,
    /,
    *,
    options: StoreOptions = _DEFAULT,
) -> Answer:
    """Show what a channel listed, yanked and dropped, when, by whom and why.

    Parameters
    ----------
    channel
        CHANNEL:FAMILY, such as release:gfx94X-dcgpu; the family may be left out where there is one.
    json
        Print the result as JSON.
    """
    store = options.opened()
    chosen, family = named_place(store, options.channels(), channel)
    found = history_of(store, channel_prefix(chosen.prefix, family))

    def show() -> None:
        rows = [
            (str(one.number), one.recorded, one.action, _short(one.sets), one.by, one.reason)
            for one in found.events
        ]
        columns = ("number", "recorded", "action", "sets", "by", "reason")
        console.table(found.prefix, columns, rows, right=(0,))
        console.out(f"current: {found.current or 'none'}")
        if not found.shown:
            console.say("the pages may not show all of this yet: a change was interrupted, or is under way")

    return Answer(found, show)


def _short(sets: tuple[str, ...]) -> str:
    return " ".join(one[:12] for one in sets)
