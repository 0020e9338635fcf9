"""`rocwright store verify`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from rocwright.cli.answer import Answer, answers
from rocwright.cli.numbers import Count
from rocwright.cli.store_options import StoreOptions
from rocwright.store.index.verify import verify_served
from rocwright.store.objects.serve import serving
from rocwright.system import console

_DEFAULTS = StoreOptions()


@answers
def store_verify(
    place: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
    threads: Count = 8,
) -> Iterator[Answer]:
    """Look at an index as installers do: every page, every link, sizes and METADATA; no wheel is downloaded.

    HTML and JSON pages have to say the same, each with its Content-Type. Exit code 6 when anything is wrong.

    Parameters
    ----------
    place
        The URL of an index, such as https://host/v2/gfx94X-dcgpu/; or a place in the store, such as
        v2/gfx94X-dcgpu/ or sets/ID/, which is then served on this machine for the time of the look.
    options
        The store.
    threads
        How many requests at the same time.
    json
        Print what was found as JSON.
    """
    with ExitStack() as stack:
        url = place
        if "://" not in place:
            url = stack.enter_context(serving(options.opened())) + place
        found = verify_served(url, threads=threads)
    yield Answer(
        found, lambda: console.out(f"{found.files} files on {found.pages} pages; faults: {len(found.faults)}")
    )
    found.require_sound()
