"""`rocwright pipeline plan`: what a run would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rocwright.cli.pipeline.options import PlaceOptions, PlanOptions, Several
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.channels import Channels
from rocwright.model.plan import Plan
from rocwright.pipeline.define.overview import Destination, destinations, folded, left_out
from rocwright.pipeline.define.overview import mermaid as drawn
from rocwright.pipeline.define.plan import chosen, require_upload
from rocwright.pipeline.records import record_plan
from rocwright.store.objects.address import open_store
from rocwright.system import console

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()


_SEVERAL = UsageError("--ids, --mermaid and --json all print to stdout", next_step="give one of them")


def _refuse_other_form(given: Mapping[str, object]) -> None:
    if given["ids"] or given["mermaid"]:
        raise _SEVERAL


@replies(refuse=_refuse_other_form)
def pipeline_plan(
    *,
    only: Several = (),
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
        Only steps whose id, or whose job's, fits a pattern: build-torch/linux/* takes those of Linux. What
        they need is taken from the records of the run.
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
        raise UsageError("a run is recorded whole, and --only is a part of it", next_step="leave one out")
    plan = options.plan(place)
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
    if record:
        require_upload(plan)
        record_plan(open_store(place.address()), plan)
        console.say(f"recorded as run {plan.run_id} in {place.address()}")


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
    head = ("job", "platform", "jobs", "steps", "what it does, in order", "after")
    console.table(title, head, rows, right=(2, 3))
    for note in plan.notes:
        console.out(f"note: {note}")
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
