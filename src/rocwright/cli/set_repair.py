"""`rocwright set repair`: bring the pages of a channel into line with its log."""

from __future__ import annotations

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions
from rocwright.store.channel.order import current_of
from rocwright.store.channel.withdraw import repair
from rocwright.store.landing.write import write_landing
from rocwright.store.layout import channel_prefix
from rocwright.store.sets.find import named_place
from rocwright.system import console

_DEFAULT = StoreOptions()


@answers
def set_repair(
    channel: str,
    /,
    *,
    options: StoreOptions = _DEFAULT,
) -> Answer:
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
    return Answer(
        {"prefix": prefix, "current": current, "sets": state.sets},
        lambda: console.out(f"{prefix} serves {current}; {len(state.sets)} sets are on its pages"),
    )
