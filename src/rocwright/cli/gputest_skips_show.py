"""`rocwright test skips show`: which entries there are, and which of them hold somewhere."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.cli.skips_options import EntryOptions, PlaceOptions, collected_list
from rocwright.gputest.skips.listing import list_entries
from rocwright.system import console
from rocwright.system.days import today

_ENTRIES, _PLACE = EntryOptions(), PlaceOptions()


@answers
def gputest_skips_show(
    *,
    entries: EntryOptions = _ENTRIES,
    place: PlaceOptions = _PLACE,
    collected: Path | None = None,
) -> Answer:
    """Show the entries, and whether they hold at a place today.

    Parameters
    ----------
    collected
        A list of node ids, or the results.json of a run: what each entry matches of it is shown, too.
    json
        Print the entries as JSON.
    """
    found = list_entries(
        entries.entries(), entries.families(), today(), place.place(), collected_list(collected)
    )

    def show() -> None:
        if not found:
            console.say("there are no entries; --skips FILE names some of yours")
            return
        rows = [
            (
                one.entry.id,
                one.entry.kind,
                one.state,
                one.where or "everywhere",
                str(one.entry.expires or ""),
                one.entry.issue,
                str(len(one.matched)) if collected else str(len(one.entry.tests)),
            )
            for one in found
        ]
        last = "tests" if collected else "patterns"
        columns = ("entry", "kind", "state", "where", "expires", "issue", last)
        console.table("Skip entries", columns, rows, right=(6,))

    return Answer(found, show)
