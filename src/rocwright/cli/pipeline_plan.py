"""`rocwright pipeline plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocwright.cli.answer import Answer, answers
from rocwright.cli.pipeline_options import PlaceOptions, PlanOptions, Several
from rocwright.cli.show_plan import show_plan
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.channels import Channels
from rocwright.pipeline.define.mermaid import mermaid as drawn
from rocwright.pipeline.define.only import chosen
from rocwright.pipeline.define.plan import require_upload
from rocwright.pipeline.records.plans import record_plan
from rocwright.store.objects.address import open_store
from rocwright.system import console

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()


_SEVERAL = UsageError("--ids, --mermaid and --json all print to stdout", next_step="give one of them")


def _refuse_other_form(given: Mapping[str, object]) -> None:
    if given["ids"] or given["mermaid"]:
        raise _SEVERAL


@answers(refuse=_refuse_other_form)
def pipeline_plan(
    *,
    only: Several = (),
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
    ids: bool = False,
    mermaid: bool = False,
    record: bool = False,
) -> Iterator[Answer]:
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

    yield Answer(plan, show)
    if record:
        require_upload(plan)
        record_plan(open_store(place.address()), plan)
        console.say(f"recorded as run {plan.run_id} in {place.address()}")
