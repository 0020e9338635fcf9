"""`rocwright pipeline setup`, also known as `configure_ci.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from rocwright.cli.options import Repeated, Text
from rocwright.cli.pipeline.options import PlaceOptions, PlanOptions, with_recorded
from rocwright.cli.pipeline.workflow import workflow_job
from rocwright.cli.reply import Reply, replies
from rocwright.errors import UsageError
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.setup.event import Event, told_event
from rocwright.pipeline.setup.event import changed_since as since
from rocwright.pipeline.setup.offered import require_offered
from rocwright.pipeline.setup.run import (
    SetUp,
    latest_told,
    load_triggers,
    output_lines,
    outputs,
    recorded,
    set_up,
    summary,
    workflow_event,
)
from rocwright.store.objects.address import open_store
from rocwright.system import console
from rocwright.system.workflow import tell_summary, tell_workflow

_PLACE = PlaceOptions()
_OPTIONS = PlanOptions()


@replies
def pipeline_setup(
    *,
    event: Literal["pull_request", "push", "schedule", "workflow_dispatch"] | None = None,
    branch: Text = "",
    label: Repeated = (),
    given: Annotated[
        tuple[str, ...], Parameter(name="--input", negative_iterable=(), show_default=False)
    ] = (),
    changed_file: Repeated = (),
    changed_since: Text = "",
    record: bool | None = None,
    place: PlaceOptions = _PLACE,
    options: PlanOptions = _OPTIONS,
) -> Iterator[Reply]:
    """Decide what an event starts: which families, PyTorch or not, whose ROCm; the first job of a workflow.

    The event is the workflow's ($GITHUB_EVENT_NAME, $GITHUB_EVENT_PATH), or the one that options describe.
    Inputs of a dispatch come before labels, labels before what the change calls for. The outputs run, upload,
    linux_groups, windows_groups … are appended to $GITHUB_OUTPUT, or printed where that is not set; the plan
    is recorded in the store for the other jobs.

    Parameters
    ----------
    event
        What to decide for, instead of the workflow's event.
    branch
        The branch that is pushed to, or that a pull request asks to be merged into.
    label
        A label of the pull request, such as python:3.13; may be given several times.
    given
        An input of the dispatch, as NAME=VALUE; may be given several times.
    changed_file
        A file that the change touches; may be given several times.
    changed_since
        The change is what git knows between this commit and HEAD.
    record
        Record the plan in the store (default: in a workflow, where the run may write to it).
    json
        Print the decision, the outputs and the plan as JSON.
    """
    if place.plan is not None:
        raise UsageError(
            f"{place.plan} is a plan already",
            next_step="leave out --plan and ROCWRIGHT_PLAN: setup makes one",
        )
    if event is None and (branch or label or given or changed_file or changed_since):
        raise UsageError("these options describe an event, but no --event names it", next_step="add --event")
    with workflow_job(place, "setup"):
        overlay = place.overlay()
        started_by = _told(event, branch, label, given, changed_file, changed_since) if event else _workflow()
        profile = profiles(overlay).named(options.profile)
        tables = known(overlay)
        done = set_up(
            started_by,
            profile,
            options.choice(place.run_id, tables),
            tables,
            load_triggers(overlay),
            store=place.store or None,
            environment=os.environ,
            # Only read, so a public bucket needs no credentials.
            reusable=lambda groups: latest_told(
                open_store(place.address(), reading=True), groups, own=place.run_id, note=console.say
            ),
        )
        if done.plan is not None:
            require_offered(done.plan, overlay, note=console.say)
        wanted = "GITHUB_OUTPUT" in os.environ if record is None else record
        if done.plan is not None and wanted and done.plan.publication.upload:
            store, plan = open_store(place.address()), done.plan
            timed = with_recorded(tables, store, place.run_id)
            if timed.recorded.runs:
                plan = make_plan(profile, done.chosen.choice, timed, plan.publication)
            done = SetUp(done.chosen, recorded(store, plan, os.environ))
        elif done.plan is not None and record:
            raise UsageError(
                f"the plan is not recorded: {done.plan.publication.why}", next_step="leave --record out"
            )
        yield _setup_reply(done)
        tell_summary(summary(done, profile.name))


def _told(
    event: Literal["pull_request", "push", "schedule", "workflow_dispatch"],
    branch: str,
    label: tuple[str, ...],
    given: tuple[str, ...],
    changed_file: tuple[str, ...],
    changed_since: str,
) -> Event:
    if changed_file and changed_since:
        raise UsageError(
            "--changed-file and --changed-since both say what changed", next_step="give one of them"
        )
    changed = since(Path.cwd(), changed_since) if changed_since else changed_file or None
    return told_event(event, branch=branch, labels=label, inputs=given, changed=changed)


def _workflow() -> Event:
    return workflow_event(os.environ, Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()))


def _setup_reply(done: SetUp) -> Reply:
    told = tell_workflow(output_lines(done))
    values = {"decision": done.chosen, "outputs": outputs(done), "plan": done.plan}

    def show() -> None:
        if not told:
            console.out("\n".join(output_lines(done)))
        plan = done.plan
        for line in (*done.chosen.reasons, *done.chosen.highlights):
            console.say(line)
        for note in done.chosen.notes:
            console.say(f"warning: {note}")
        if plan is not None:
            for note in plan.notes:
                console.say(f"note: {note}")
            if plan.publication.why:
                console.say(f"publishing: {plan.publication.why}")
            console.say(f"{sum(not job.skip for job in plan.jobs)} jobs, {len(plan.cells)} steps")

    return Reply(msgspec.to_builtins(values), show)
