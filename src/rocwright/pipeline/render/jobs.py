"""A job of the definition as a job of a workflow: where it runs, what it waits for, what it passes on."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.model.workflows import Container, WorkflowTable
from rocwright.pipeline.render.document import (
    Document,
    WorkflowJob,
    done,
    every,
    expression,
    first,
    has,
    local,
    over,
)
from rocwright.pipeline.render.job_kinds import JobKind, shown
from rocwright.pipeline.render.steps import PERMISSIONS, limit, place_steps, step_outputs
from rocwright.pipeline.tell.results import output_names


def tells(kind: JobKind) -> tuple[str, ...]:
    """Names of what the steps of a job tell; a part of a build tells nothing."""
    if "part" in kind.own:
        return ()
    return tuple(dict.fromkeys(name for one in kind.kinds for name in output_names(one)))


def place_job(kind: JobKind, beside: Sequence[JobKind], platform: str, table: WorkflowTable) -> WorkflowJob:
    """The job at its place; `beside` are the other jobs of the same workflow."""
    names = {one.name for one in beside}
    waits = {need: shown(need, platform) for need in kind.needs if need in names}
    conditions = ["!cancelled()", has(kind.name), *([] if kind.last else done(waits))]
    if kind.gpu:
        return _called(kind, [one for one in beside if one.name in waits], every(conditions), platform)
    minutes = table.minutes(kind.name)
    container = table.container_of("build", platform)
    return WorkflowJob(
        name=expression("matrix.row.id") if kind.own else shown(kind.name, platform),
        needs=tuple(waits.values()),
        if_=every(conditions),
        strategy=over(has(kind.name)) if kind.own else {},
        permissions=dict(PERMISSIONS),
        runs_on=runner(table, platform),
        container=as_container(container),
        timeout_minutes=limit(table, minutes, platform),
        outputs=step_outputs(tells(kind)),
        steps=place_steps(
            table,
            expression("matrix.row.id" if kind.own else has(kind.name)),
            minutes,
            python=_python(container),
            version=expression("inputs.python_version") if kind.level == "build" else "",
            group=expression("inputs.artifact_group"),
            platform=platform,
        ),
    )


def _called(kind: JobKind, needs: Sequence[JobKind], condition: str, platform: str) -> WorkflowJob:
    """A call for each family: a job can be skipped for one of them only in a workflow of its own."""
    row: dict[str, object] = {
        "id": expression("matrix.row.id"),
        "artifact_group": expression("inputs.artifact_group"),
        "platform": platform,
        "amdgpu_family": expression("matrix.row.family"),
        "test_runs_on": expression("matrix.row.runner"),
        "role": expression("inputs.role"),
        "rocm_package_find_links_url": _told(needs, "rocm_package_find_links_url", platform),
    }
    if kind.level == "build":
        row |= {
            "rocm_package_find_links_url": expression("inputs.rocm_package_find_links_url"),
            "python_version": expression("inputs.python_version"),
            "pytorch_git_ref": expression("inputs.pytorch_git_ref"),
            "package_find_links_url": _told(needs, "pytorch_package_find_links_url", platform),
            "torch_version": _told(needs, "torch_version", platform),
        }
    name = "matrix.row.family"
    if "shard" in kind.own:
        name = f"matrix.row.shard && format('{{0}} {{1}}', {name}, matrix.row.shard) || {name}"
    return WorkflowJob(
        name=expression(name),
        needs=tuple(shown(one.name, platform) for one in needs),
        if_=condition,
        strategy=over(has(kind.name)),
        permissions=dict(PERMISSIONS),
        uses=local(kind.name),
        with_=row,
    )


def _told(needs: Sequence[JobKind], name: str, platform: str) -> str:
    """An output of whichever of these jobs tells it; empty where none does."""
    found = [f"needs.{shown(one.name, platform)}.outputs.{name}" for one in needs if name in tells(one)]
    return first(found) if found else ""


def runner(table: WorkflowTable, platform: str) -> str:
    """The machine of jobs that need no GPU; a variable of the repository names larger machines."""
    row = table.machine_of(platform)
    return expression(f"vars.{row.variable} || '{row.label}'")


def as_container(container: Container | None) -> Document:
    """The container of a job, none where there is none."""
    if container is None:
        return {}
    options: Document = {}
    if container.options:
        usual = " ".join(container.options)
        other = container.options_variable
        options = {"options": expression(f"vars.{other} || '{usual}'") if other else usual}
    if not container.variable:
        return {"image": container.pinned, **options}
    named = f"vars.{container.variable}"
    # A job whose image is empty runs on the machine itself.
    return {"image": expression(f"{named} != 'none' && ({named} || '{container.pinned}') || ''"), **options}


def _python(container: Container | None) -> str:
    """The interpreter in a job's container, empty where the container is another one."""
    if container is None or not container.python or not container.variable:
        return "" if container is None else container.python
    return expression(f"!vars.{container.variable} && '{container.python}' || ''")
