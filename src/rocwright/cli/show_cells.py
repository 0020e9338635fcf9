"""Shows what cells of a run did, to people and to the workflow that runs them."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

from rocwright.errors import RocwrightError
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.cells.act import TAKEN
from rocwright.pipeline.cells.run import Ran
from rocwright.pipeline.records.values import Machine, Record
from rocwright.pipeline.tell.outputs import outputs_of
from rocwright.pipeline.tell.step import summary_of
from rocwright.system import console
from rocwright.system.workflow import tell_summary, tell_workflow


def say_where(plan: Plan, id_: str, machine: Machine) -> None:
    """Which step of which run, and where."""
    mini = ", the miniature family" if plan.sources == "miniature" else ""
    console.say(f"{id_} of run {plan.run_id} ({plan.profile}{mini}) on {platform.node()}")
    console.say(f"store {machine.address}, directory {machine.work}")


def show_cell(cell: Cell, record: Record) -> None:
    """How one cell ended, in lines of talk."""
    line = f"{_state(record)}: {cell.id}"
    if record.state in ("done", "dry"):
        line += (
            f"  {record.wall_s:.1f} s  {record.summary}" if record.state == "done" else f"  {record.summary}"
        )
    console.say(line.rstrip())
    if record.why and record.state != "failed" and record.why != TAKEN:
        console.say(f"  {record.why}")
    for output in record.outputs if record.state == "done" and record.why != TAKEN else ():
        console.say(f"  {output.path} ({console.human_bytes(output.size)})")


def tell(plan: Plan, cell: Cell, record: Record) -> Sequence[str]:
    """Give outputs and summary to a workflow; the outputs that no workflow took are returned."""
    lines = [f"{name}={value}" for name, value in outputs_of(cell, record).items()]
    taken = tell_workflow(lines)
    summary = summary_of(cell, record, plan)
    if summary:
        tell_summary(summary)
    return () if taken else lines


def show_run(plan: Plan, ran: Ran, machine: Machine) -> None:
    """What was done, as a table, and where the results are."""
    rows = [
        (
            record.cell,
            _state(record),
            f"{record.wall_s:.1f}" if record.wall_s else "",
            record.summary or record.why.partition("\n")[0],
        )
        for record in ran.records.values()
    ]
    mini = " (the miniature family: stand-ins under the real names, not PyTorch)"
    title = f"Run {plan.run_id}, profile {plan.profile}{mini if plan.sources == 'miniature' else ''}"
    console.table(title, ("step", "state", "seconds", "result"), rows, right=(2,))
    console.out("")
    console.out(f"{ran.wall_s:.1f} s; store {machine.address}; directory {machine.work}")


def end(problems: Mapping[str, BaseException]) -> None:
    """Show every error, the first one first, and end with its exit code.

    An error that is none of a user's is raised as it is, so that nobody takes it for one.
    """
    if not problems:
        return
    first, *others = problems.values()
    if not isinstance(first, RocwrightError) or not others:
        raise first
    for problem in (first, *others):
        if isinstance(problem, RocwrightError):
            console.error(problem)
        else:
            console.say(f"error ({type(problem).__name__}): {problem}")
    raise SystemExit(first.exit_code)


def _state(record: Record) -> str:
    return "cached" if record.state == "done" and record.why == TAKEN else record.state
