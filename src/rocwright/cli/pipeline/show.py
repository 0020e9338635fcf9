"""`rocwright pipeline show`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocwright.cli.pipeline.options import PlaceOptions
from rocwright.cli.reply import Reply, replies
from rocwright.gputest.report.markdown import clock
from rocwright.pipeline.tell.page import run_page
from rocwright.pipeline.tell.reproduce import MINIATURE
from rocwright.pipeline.tell.state import RunState, find_run
from rocwright.store.objects.address import open_store
from rocwright.system import console
from rocwright.system.files import write_text

_PLACE = PlaceOptions()


@replies
def pipeline_show(
    *,
    place: PlaceOptions = _PLACE,
    html: Path | None = None,
) -> Iterator[Reply]:
    """Show how a run stands: its steps, what they took, what the gate decided, where the packages are.

    All of it is read from the store, so it can be asked on any machine while the run is at work.

    Parameters
    ----------
    html
        Also write a page for people to this file.
    """
    plan, run = find_run(open_store(place.address()), place.run_id, work=_work(place))
    if html is not None:
        write_text(html, run_page(plan, run))
    yield Reply(run, lambda: _show(run))
    if html is not None:
        console.say(f"wrote {html}")


def _work(place: PlaceOptions) -> Path | None:
    """The directory that addresses in records begin with: that around the store, where it is a folder."""
    folder = Path(place.address())
    return folder.resolve().parent if folder.is_dir() else None


def _show(run: RunState) -> None:
    rows = [
        (
            cell.id,
            cell.state,
            clock(cell.wall_s) if cell.by else "",
            "; ".join(filter(None, (cell.summary, cell.why))),
        )
        for cell in run.cells
    ]
    console.table(f"Run {run.run_id}", ("step", "state", "time", "result"), rows, right=(2,))
    console.out("")
    counted = ", ".join(f"{count:,} {state}" for state, count in run.counts.items())
    chain = f"; the longest chain took {clock(run.path_s)}" if run.critical_path else ""
    console.out(f"{run.profile}: {counted}{chain}")
    if run.sources == "miniature":
        console.out(MINIATURE)
    for gate in run.gates:
        state = "open" if gate.decision.promote else "closed"
        console.out(f"{gate.cell}: {state}, {gate.decision.rule}: {gate.decision.reason}")
    for cell in run.cells:
        for name in ("package_find_links_url", "package_index_url", "release_index_url"):
            if name in cell.outputs:
                console.out(f"{cell.id}: {cell.outputs[name]}")
    for note in run.notes:
        console.out(f"note: {note}")
