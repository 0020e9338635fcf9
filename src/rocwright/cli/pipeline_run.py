"""`rocwright pipeline run`."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.cli.answer import Answer, answers
from rocwright.cli.pipeline_machine import MachineOptions, plan_of, share_plan
from rocwright.cli.pipeline_options import PlaceOptions, PlanOptions, Several
from rocwright.cli.show_cells import end, show_run
from rocwright.pipeline.cells.run import run_plan
from rocwright.pipeline.define.only import chosen
from rocwright.pipeline.tell.judge import problems_of
from rocwright.system import console

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()
_MACHINE = MachineOptions()


@answers
def pipeline_run(
    *,
    only: Several = (),
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
    here: MachineOptions = _MACHINE,
) -> Iterator[Answer]:
    """Do a whole run on this machine, or with others that have the same store.

    Run it again to resume: what is done is not done again. A step that fails stops those that need it; the
    others go on, and all errors are told at the end.

    Parameters
    ----------
    only
        Only steps whose id, or whose job's, fits a pattern; what they need is taken from the run's records.
    json
        Print the record of each step as JSON.
    """
    machine = here.machine(place)
    plan = plan_of(place, options, machine, anew=True)
    ids = {cell.id for cell in (chosen(plan, only) if only else plan).cells}
    share_plan(plan, machine)
    for line in plan.notes:
        console.say(f"note: {line}")
    progress = console.Progress(total=len(ids), starts=not machine.dry_run, ends=not machine.dry_run)
    ran = run_plan(plan, machine, only=ids, progress=progress)
    yield Answer(tuple(ran.records.values()), lambda: show_run(plan, ran, machine))
    end(problems_of(plan, ran.records, ran.problems))
