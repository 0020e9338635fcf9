"""`rocwright store serve`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocwright.cli.answer import Answer, answers
from rocwright.cli.numbers import Port
from rocwright.cli.store_options import StoreOptions
from rocwright.store.objects.indexes import ServedIndex, served_indexes
from rocwright.store.objects.serve import address_of, make_server
from rocwright.system import console

_DEFAULTS = StoreOptions()


def _show_served(base: str, found: Sequence[ServedIndex]) -> None:
    console.out(base)
    for one in found:
        console.out(one.pip)
    for url in dict.fromkeys(one.page for one in found if one.page):
        console.say(f"in a browser: {url}")


@answers
def store_serve(
    *,
    options: StoreOptions = _DEFAULTS,
    port: Port = 8000,
) -> Iterator[Answer]:
    """Serve a store to pip, uv and browsers of this machine, until Ctrl-C.

    On 127.0.0.1 only, without encryption or login: to try what is published. Nothing is written.

    Parameters
    ----------
    options
        The store.
    port
        The port; 0 takes a free one.
    json
        Print the address and the indexes as JSON.
    """
    store, channels = options.opened(), options.channels()
    with make_server(store, port=port, max_age=channels.max_age) as server:
        base = address_of(server)
        found = served_indexes(store, channels, base)
        yield Answer({"url": base, "indexes": found}, lambda: _show_served(base, found))
        console.say("serving until Ctrl-C")
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            console.say("stopped")
