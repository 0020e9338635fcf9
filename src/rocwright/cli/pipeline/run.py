"""`rocwright pipeline run | step`: do a run, or a step of it, on this machine, and show what was done."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import OptionalCount, Words
from rocwright.cli.pipeline.options import PlaceOptions, PlanOptions
from rocwright.cli.pipeline.workflow import workflow_job
from rocwright.cli.reply import Reply, for_json, for_people, replies
from rocwright.errors import RocwrightError
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.cells.act import TAKEN
from rocwright.pipeline.cells.run import Ran, run_job, run_plan
from rocwright.pipeline.define.inputs import carries, rendered
from rocwright.pipeline.define.kinds import SUMMARY
from rocwright.pipeline.define.plan import chosen
from rocwright.pipeline.options import default_cache
from rocwright.pipeline.records import Machine, Record, has_plan, read_plan, record_plan
from rocwright.pipeline.tell.results import outputs_of, problems_of, tolerated
from rocwright.pipeline.tell.state import in_place
from rocwright.pipeline.tell.summary import summary_of
from rocwright.pipeline.tell.workflow import judge_environment, require_good, workflow_summary
from rocwright.store.objects.address import open_store
from rocwright.store.trust.keys import keys_of_environment
from rocwright.system import console
from rocwright.system.limits import available_cores
from rocwright.system.progress import Progress
from rocwright.system.workflow import tell_summary, tell_workflow


@Parameter(name="*")
@dataclass(frozen=True)
class MachineOptions:
    """What this machine gives to the run."""

    jobs: OptionalCount = None
    """Steps and compilers at once (default: this machine's cores)."""

    cache_dir: Path | None = None
    """Downloads that several runs share (default: ~/.cache/rocwright)."""

    dry_run: bool = False
    """Only say what would be done, uploaded and published."""

    def machine(self, place: PlaceOptions) -> Machine:
        """This machine, as the run sees it; nothing is made yet."""
        return Machine(
            store=open_store(place.address()),
            address=place.address(),
            work=place.work_dir.resolve(),
            cache=(self.cache_dir or default_cache()).resolve(),
            jobs=available_cores() if self.jobs is None else self.jobs,
            dry_run=self.dry_run,
            overlay=place.overlay(),
            signers=keys_of_environment(),
        )


def plan_of(place: PlaceOptions, options: PlanOptions, machine: Machine, *, anew: bool) -> Plan:
    """The plan of the run, which all of its machines share.

    It is the one in the store, unless options ask for one or it is made `anew`. No job of a workflow but the
    first makes one, so there it is an error that none is there.
    """
    asked = options != PlanOptions(sources=options.sources)
    there = rendered(os.environ) or has_plan(machine.store, place.run_id)
    if there and not (anew or asked or place.plan):
        return read_plan(machine.store, place.run_id)
    return options.plan(place, machine.store)


def share_plan(plan: Plan, machine: Machine) -> None:
    """Record the plan for other machines, unless this is a dry run; raises `InvalidInput` for another one."""
    if not plan.publication.upload:
        console.say(f"a dry run: {plan.publication.why}")
    elif not machine.dry_run:
        record_plan(machine.store, plan)


_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()
_MACHINE = MachineOptions()


@replies
def pipeline_run(
    *,
    only: Words = (),
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
    here: MachineOptions = _MACHINE,
) -> Iterator[Reply]:
    """Do a whole run on this machine, or with others that have the same store.

    Run it again to resume: what is done is not done again. A step that fails stops those that need it; the
    others go on, and all errors are listed at the end.

    Parameters
    ----------
    only
        Only steps whose own id or job's id matches a pattern; what they need is taken from the run's records.
    json
        Print the record of each step as JSON.
    """
    machine = here.machine(place)
    plan = plan_of(place, options, machine, anew=True)
    ids = {cell.id for cell in (chosen(plan, only) if only else plan).cells}
    share_plan(plan, machine)
    for line in plan.notes:
        console.say(f"note: {line}")
    progress = Progress(total=len(ids), starts=not machine.dry_run, ends=not machine.dry_run)
    ran = run_plan(plan, machine, only=ids, progress=progress)
    yield Reply(tuple(ran.records.values()), lambda: show_run(plan, ran, machine))
    warn(tolerated(plan, ran.records), ran.problems)
    end(problems_of(plan, ran.records, ran.problems))


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        console.out(line)


@replies
def pipeline_step(
    id_: Annotated[str, Parameter(name="ID")],
    /,
    *,
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
    here: MachineOptions = _MACHINE,
) -> Iterator[Reply]:
    """Do one step of a run, or the steps of one job: what a machine of a cluster or of a workflow does.

    What it needs is taken from the store, what it makes goes there. A step that another machine is running is
    waited for, a finished one is not run again. Exit code 12 where a step that it needs failed.

    Parameters
    ----------
    id_
        The id of a step or of a job; `rocwright pipeline plan --ids` prints those of steps.
    json
        Print the records as JSON.
    """
    # The last step also weighs what the workflow says: a machine that was lost left no record.
    outcome = judge_environment(os.environ) if id_ == SUMMARY.name else None
    if outcome is not None and outcome.idle:
        # There is nothing to read: no plan was made, or nothing of it begun.
        tell_summary(workflow_summary(outcome))
        require_good(outcome)
    problems: dict[str, BaseException] = {}
    told = []
    with workflow_job(place, id_) as job:
        machine = here.machine(place)
        plan = plan_of(place, options, machine, anew=False)
        cells = plan.cells_of(id_)
        job.group = cells[0].group
        share_plan(plan, machine)
        say_where(plan, id_, machine)
        for cell, record, problem in run_job(plan, cells, machine, console.say):
            told.append((cell, record))
            if problem is not None:
                problems[cell.id] = problem
            yield for_people(partial(show_cell, cell, record))
            untold = tell(plan, cell, in_place(record, machine.work))
            yield for_people(partial(_print_lines, untold))
    yield for_json(tuple(record for _, record in told))
    warn(tolerated(plan, {cell.id: record for cell, record in told}), problems)
    if outcome is not None:
        tell_summary(workflow_summary(outcome))
    end(problems_of(plan, {cell.id: record for cell, record in told}, problems))
    if outcome is not None:
        require_good(outcome)


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
    summary = summary_of(cell, record, plan, carried=carries(os.environ))
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


def warn(without: Mapping[str, str], problems: Mapping[str, BaseException]) -> None:
    """Tell what the run does without, each with its error; it decides no exit code."""
    for id_, sentence in without.items():
        if id_ in problems:
            _show(problems[id_])
        console.say(f"warning: {sentence}")


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
        _show(problem)
    raise SystemExit(first.exit_code)


def _show(problem: BaseException) -> None:
    if isinstance(problem, RocwrightError):
        console.error(problem)
    else:
        console.say(f"error ({type(problem).__name__}): {problem}")


def _state(record: Record) -> str:
    return "cached" if record.state == "done" and record.why == TAKEN else record.state
