"""`rocwright set show`."""

from __future__ import annotations

from rocwright.cli.answer import Answer, answers
from rocwright.cli.show_set import show_set
from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.report import report_set
from rocwright.system import days

_DEFAULTS = StoreOptions()


@answers
def set_show(
    which: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
) -> Answer:
    """Show a set: files, targets, sources, what was said about it, where it is listed, what gates say today.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    today = days.today()
    report = report_set(store, channels, resolve_set(store, channels, which), today)
    return Answer(report, lambda: show_set(report, options))
