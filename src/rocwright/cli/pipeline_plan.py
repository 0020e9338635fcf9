"""`rocwright pipeline plan`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.pipeline_options import PlaceOptions, PlanOptions, Several
from rocwright.cli.show_plan import show_plan
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.channels import Channels
from rocwright.pipeline.define.overview import mermaid as drawn
from rocwright.pipeline.define.plan import chosen, require_upload
from rocwright.pipeline.records import record_plan
from rocwright.store.objects.address import open_store
from rocwright.system import console

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()


def pipeline_plan(
    *,
    only: Several = (),
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
    ids: bool = False,
    mermaid: bool = False,
    record: bool = False,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
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
    if sum((ids, mermaid, json)) > 1:
        raise UsageError("--ids, --mermaid and --json all print to stdout", next_step="give one of them")
    if record and only:
        raise UsageError("a run is recorded whole, and --only is a part of it", next_step="leave one out")
    plan = options.plan(place)
    if only:
        plan = chosen(plan, only)
    if json:
        console.out_json(plan)
    elif mermaid:
        console.out(drawn(plan).rstrip())
    elif ids:
        for cell in plan.cells:
            console.out(cell.id)
    else:
        show_plan(plan, load_table("channels", Channels, place.overlay()))
    if record:
        require_upload(plan)
        record_plan(open_store(place.address()), plan)
        console.say(f"recorded as run {plan.run_id} in {place.address()}")
