"""`rocwright pipeline plan | show`: what a run would do, and how a recorded run stands.

What only `show` needs is imported there: a plan is asked for more often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rocwright.cli.options import Words, tell_age
from rocwright.cli.pipeline.options import PlaceOptions, PlanOptions
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.channels import Channels
from rocwright.model.plan import Plan
from rocwright.pipeline.define.overview import Destination, destinations, folded, left_out
from rocwright.pipeline.define.overview import mermaid as drawn
from rocwright.pipeline.define.plan import chosen, require_upload
from rocwright.system import console
from rocwright.system.files import write_text

if TYPE_CHECKING:
    from rocwright.pipeline.tell.state import RunState
    from rocwright.store.objects.protocol import ObjectStore

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()


_SEVERAL = UsageError("--ids, --mermaid and --json all print to stdout", next_step="give one of them")


def _refuse_other_form(given: Mapping[str, object]) -> None:
    if given["ids"] or given["mermaid"]:
        raise _SEVERAL


@replies(refuse=_refuse_other_form)
def pipeline_plan(
    *,
    only: Words = (),
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
    ids: bool = False,
    mermaid: bool = False,
    record: bool = False,
) -> Iterator[Reply]:
    """Say what a run would do: its jobs and steps, what is left out, what would be uploaded and published.

    Nothing is done. A plan as JSON can be run anywhere: rocwright pipeline run --plan FILE.

    Parameters
    ----------
    only
        Only steps whose own id or job's id matches a pattern: build-torch/linux/* selects those of Linux.
        What they need is taken from the records of the run.
    ids
        Print the id of each step, in an order in which they can be run.
    mermaid
        Print a flow chart of the jobs for Mermaid.
    record
        Record the plan in the store, for other machines.
    json
        Print the plan as JSON.
    """
    if ids and mermaid:
        raise _SEVERAL
    if record and only:
        raise UsageError(
            "a run is recorded whole, but --only selects a part of it", next_step="leave one out"
        )
    plan = options.plan(place)
    if record:
        require_upload(plan)
        plan = options.plan(place, _store(place))
    if only:
        plan = chosen(plan, only)

    def show() -> None:
        if mermaid:
            console.out(drawn(plan).rstrip())
        elif ids:
            for cell in plan.cells:
                console.out(cell.id)
        else:
            show_plan(plan, load_table("channels", Channels, place.overlay()))

    yield Reply(plan, show)
    tell_age("families", "profiles", "projects")
    if record:
        from rocwright.pipeline.records import record_plan

        record_plan(_store(place), plan)
        console.say(f"recorded as run {plan.run_id} in {place.address()}")


def _store(place: PlaceOptions) -> ObjectStore:
    from rocwright.store.objects.address import open_store

    return open_store(place.address())


@replies
def pipeline_show(
    *,
    place: PlaceOptions = _PLACE,
    html: Path | None = None,
) -> Iterator[Reply]:
    """Show how a run stands: its steps, what they took, what the gate decided, where the packages are.

    Everything is read from the store, so this works on any machine, also while the run goes on.

    Parameters
    ----------
    html
        Also write a page for people to this file.
    """
    from rocwright.pipeline.tell.page import run_page
    from rocwright.pipeline.tell.state import find_run
    from rocwright.store.objects.address import open_store

    plan, run = find_run(open_store(place.address()), place.run_id, work=_work(place))
    if html is not None:
        write_text(html, run_page(plan, run))
    yield Reply(run, lambda: _show(run))
    if html is not None:
        console.say(f"wrote {html}")


# Places that are listed one by one.
_FEW = 12


def show_plan(plan: Plan, channels: Channels) -> None:
    """Jobs by name and platform, what is left out and why, what would be uploaded and published."""
    rows = [
        (
            one.name,
            one.platform,
            str(len(one.jobs)),
            str(one.steps),
            " ".join(one.kinds),
            " ".join(one.needs),
        )
        for one in folded(plan)
    ]
    title = f"Run {plan.run_id} of the profile {plan.profile}: {_count(len(plan.cells), 'step')}"
    title += f" in {_count(len(plan.jobs), 'job')}"
    if builds := sum(cell.kind == "build-torch" for cell in plan.cells):
        title += f", {_count(builds, 'build')} of torch"
    head = ("job", "platform", "jobs", "steps", "what it does, in order", "after")
    console.table(title, head, rows, right=(2, 3))
    for note in plan.notes:
        console.out(f"note: {note}", hang=2)
    skipped = left_out(plan)
    if skipped:
        console.out("")
        out = [(str(count), why) for why, count in skipped.items()]
        console.table("Left out", ("steps", "why"), out, right=(0,))
    console.out("")
    _show_destinations(destinations(plan, channels))


def _show_destinations(found: Sequence[Destination]) -> None:
    writes = [one for one in found if not one.held]
    held: dict[str, list[Destination]] = {}
    for one in found:
        if one.held:
            held.setdefault(one.held, []).append(one)
    if writes:
        console.table("What would be written", ("place in the store", "by"), _places(writes))
    for why, kept in held.items():
        if writes:
            console.out("")
        console.out(f"Not written: {why}")
        console.table("", ("place in the store", "by"), _places(kept))
    if not found:
        console.out("Nothing is uploaded or published.")


def _places(found: Sequence[Destination]) -> list[tuple[str, str]]:
    if len(found) <= _FEW:
        return [(one.place, one.cell) for one in found]
    # All groups of a kind of package, or of a channel, in one line.
    groups: dict[tuple[str, str], list[str]] = {}
    for one in found:
        folder, _, group = one.place.rstrip("/").rpartition("/")
        groups.setdefault((f"{folder}/GROUP/", one.cell.split("/")[0]), []).append(group)
    return [
        (place, f"{kind}: {_count(len(held), 'step')} for {_count(len(set(held)), 'group')}")
        for (place, kind), held in groups.items()
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _work(place: PlaceOptions) -> Path | None:
    """The directory that addresses in records begin with: that around the store, where it is a folder."""
    folder = Path(place.address())
    return folder.resolve().parent if folder.is_dir() else None


def _show(run: RunState) -> None:
    from rocwright.gputest.report.markdown import clock
    from rocwright.pipeline.tell.reproduce import MINIATURE

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
    if run.caches.line:
        console.out(f"compiler cache: {run.caches.line}", hang=2)
    if run.sources == "miniature":
        console.out(MINIATURE)
    for gate in run.gates:
        state = "open" if gate.decision.promote else "closed"
        console.out(f"{gate.cell}: {state}, {gate.decision.rule}: {gate.decision.reason}", hang=2)
    for cell in run.cells:
        for name in ("package_find_links_url", "package_index_url", "release_index_url"):
            if name in cell.outputs:
                console.out(f"{cell.id}: {cell.outputs[name]}")
    for note in run.notes:
        console.out(f"note: {note}", hang=2)
