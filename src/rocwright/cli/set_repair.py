"""`rocwright set repair`: bring the pages of a channel into line with its log."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.store_options import StoreOptions
from rocwright.store.channel.publish import repair
from rocwright.store.index.landing import write_landing
from rocwright.store.layout import channel_prefix
from rocwright.store.sets.find import current_of, named_place
from rocwright.system import console

Json = Annotated[bool, Parameter(name="--json")]
_DEFAULT = StoreOptions()


def set_repair(channel: str, /, *, options: StoreOptions = _DEFAULT, json: Json = False) -> None:
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
    if json:
        console.out_json({"prefix": prefix, "current": current, "sets": state.sets})
    else:
        console.out(f"{prefix} serves {current}; {len(state.sets)} sets are on its pages")
