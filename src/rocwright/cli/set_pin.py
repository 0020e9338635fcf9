"""`rocwright set pin`: keep sets, whatever the channels list."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions, Text
from rocwright.errors import UsageError
from rocwright.store.retention.pins import Pin, pin, read_pins, unpin
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.stage import rfc3339
from rocwright.system import console

_DEFAULT = StoreOptions()


@answers
def set_pin(
    name: str | None = None,
    set_: Annotated[str | None, Parameter(name="SET")] = None,
    /,
    *,
    remove: Annotated[bool, Parameter(negative=())] = False,
    reason: Text = "",
    by: Text = "",
    options: StoreOptions = _DEFAULT,
) -> Answer:
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

    return Answer(pins, show)
