"""`rocwright set list`."""

from __future__ import annotations

from rocwright.cli.answer import Answer, answers
from rocwright.cli.show_set import set_line
from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.report import list_sets
from rocwright.system import console

_DEFAULTS = StoreOptions()


@answers
def set_list(
    channel: str | None = None,
    *,
    family: str | None = None,
    options: StoreOptions = _DEFAULTS,
) -> Answer:
    """List the sets of the store, or those of a channel, oldest first.

    Parameters
    ----------
    channel
        A channel, by name or prefix (default: every recorded set, in the order of ids).
    family
        Only the sets of this GPU family.
    json
        Print them as JSON.
    """
    found = list_sets(options.opened(), options.channels(), channel, family)

    def show() -> None:
        rows = [set_line(one.set_id, one.manifest, one.listed) for one in found]
        columns = ("set", "family", "targets", "files", "size", "torch", "listed in")
        console.table("", columns, rows, right=(3, 4))

    return Answer(found, show)
