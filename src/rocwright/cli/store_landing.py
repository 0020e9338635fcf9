"""`rocwright store landing`: write the page for people of a channel."""

from __future__ import annotations

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions
from rocwright.store.landing.write import write_landing
from rocwright.system import console

_DEFAULTS = StoreOptions()


@answers
def store_landing(
    *channels: str,
    options: StoreOptions = _DEFAULTS,
) -> Answer:
    """Write the page that shows people which line installs what: CHANNEL/index.html, and the same as JSON.

    Publishing writes it too; this brings it into line when the address of the store has changed
    (ROCWRIGHT_PUBLIC_URL). A page that is right already is not written again.

    Parameters
    ----------
    channels
        Channels, by name or prefix (default: all).
    json
        Print the keys of what was written as JSON.
    """
    table = options.channels()
    chosen = [table.named(name) for name in channels] if channels else list(table.channel)
    store = options.opened()
    written = [key for channel in chosen for key in write_landing(store, channel)]

    def show() -> None:
        for key in written:
            console.out(store.url(key))
        if not written:
            console.say("every page is right already")

    return Answer({"written": written}, show)
