"""`rocwright pipeline step`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers, for_json, for_people
from rocwright.cli.pipeline_machine import MachineOptions, plan_of, share_plan
from rocwright.cli.pipeline_options import PlaceOptions, PlanOptions
from rocwright.cli.show_cells import end, say_where, show_cell, tell
from rocwright.pipeline.cells.run import run_job
from rocwright.pipeline.define.kinds import SUMMARY
from rocwright.pipeline.tell.find import in_place
from rocwright.pipeline.tell.judge import problems_of
from rocwright.pipeline.tell.workflow import judge_environment, require_good, workflow_summary
from rocwright.system import console
from rocwright.system.workflow import tell_summary

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()
_MACHINE = MachineOptions()


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        console.out(line)


@answers
def pipeline_step(
    id_: Annotated[str, Parameter(name="ID")],
    /,
    *,
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
    here: MachineOptions = _MACHINE,
) -> Iterator[Answer]:
    """Do one step of a run, or the steps of one job: what a machine of a cluster or of a workflow does.

    What it needs is taken out of the store, what it makes goes there. A step that another machine is at is
    waited for, one that is done is not done again. Exit code 12 where a step that it needs failed.

    Parameters
    ----------
    id_
        The id of a step or of a job; `rocwright pipeline plan --ids` prints those of steps.
    json
        Print the records as JSON.
    """
    machine = here.machine(place)
    plan = plan_of(place, options, machine, anew=False)
    cells = plan.cells_of(id_)
    share_plan(plan, machine)
    say_where(plan, id_, machine)
    problems: dict[str, BaseException] = {}
    told = []
    for cell, record, problem in run_job(plan, cells, machine, console.say):
        told.append((cell, record))
        if problem is not None:
            problems[cell.id] = problem
        yield for_people(partial(show_cell, cell, record))
        untold = tell(plan, cell, in_place(record, machine.work))
        yield for_people(partial(_print_lines, untold))
    yield for_json(tuple(record for _, record in told))
    # The last step also weighs what the workflow says: a machine that was lost left no record.
    outcome = judge_environment(os.environ) if id_ == SUMMARY.name else None
    if outcome is not None:
        tell_summary(workflow_summary(outcome))
    end(problems_of(plan, {cell.id: record for cell, record in told}, problems))
    if outcome is not None:
        require_good(outcome)
