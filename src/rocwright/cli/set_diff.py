"""`rocwright set diff`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.show_set import show_diff
from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.diff import diff_sets
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_set
from rocwright.system import console

_DEFAULTS = StoreOptions()


def set_diff(
    before: str,
    after: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Say what moved from one set to another: versions, commits, targets, files, sizes.

    Parameters
    ----------
    before
        Eight or more digits of an id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    after
        The same, of the other set.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    old, new = (read_set(store, resolve_set(store, channels, text)) for text in (before, after))
    found = diff_sets(old, new)
    if json:
        console.out_json(found)
    else:
        show_diff(found)
