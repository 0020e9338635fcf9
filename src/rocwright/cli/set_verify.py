"""`rocwright set verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.show_set import show_verified
from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.keys import read_public
from rocwright.store.sets.verify import require_sound, verify_set
from rocwright.system import console

_DEFAULTS = StoreOptions()


@answers
def set_verify(
    which: str,
    /,
    *,
    key: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    quick: bool = False,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Answer]:
    """Read a set again: manifest, every file, METADATA, statements and signatures. Tells all that is wrong.

    Exit code 6 when anything is.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    key
        A public key that must have signed it, as ed25519:… or a PEM file; may be repeated.
    quick
        Compare sizes only; no file is read.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    keys = tuple(map(read_public, key))
    digest = resolve_set(store, channels, which)
    found = verify_set(store, digest, keys=keys, quick=quick, note=lambda entry: console.say(entry.name))
    yield Answer(found, lambda: show_verified(found))
    require_sound(found)
