"""`rocwright set show`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.show_set import show_set
from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.report import report_set
from rocwright.system import console, days

_DEFAULTS = StoreOptions()


def set_show(
    which: str,
    /,
    *,
    options: StoreOptions = _DEFAULTS,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
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
    if json:
        console.out_json(report)
    else:
        show_set(report, options)
