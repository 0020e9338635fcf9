"""`rocwright set diff`."""

from __future__ import annotations

from rocwright.cli.answer import Answer, answers
from rocwright.cli.show_set import show_diff
from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.diff import diff_sets
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_set

_DEFAULTS = StoreOptions()


@answers
def set_diff(
    before: str,
    after: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
) -> Answer:
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
    return Answer(found, lambda: show_diff(found))
