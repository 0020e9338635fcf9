"""A job of the definition as a job of a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocwright.model.workflows import Container, WorkflowTable
from rocwright.pipeline.render.github.expressions import done, every, expression, first, has
from rocwright.pipeline.render.github.graph import JobKind
from rocwright.pipeline.render.github.names import shown
from rocwright.pipeline.render.github.steps import place_steps, step_outputs
from rocwright.pipeline.render.github.values import Document, WorkflowJob
from rocwright.pipeline.tell.results import output_names

# Reading the repository; asking for a token that a role is assumed with.
PERMISSIONS: Mapping[str, str] = {"contents": "read", "id-token": "write"}


def local(file: str) -> str:
    """How a job calls a workflow of the same repository and commit."""
    return f"$/.github/workflows/{file}.yml"


def tells(kind: JobKind) -> tuple[str, ...]:
    """Names of what the steps of a job tell; a part of a build tells nothing."""
    if "part" in kind.own:
        return ()
    return tuple(dict.fromkeys(name for one in kind.kinds for name in output_names(one)))


def over(rows: str, name: str = "row") -> Document:
    """A matrix over the rows that an expression gives; one that fails stops no other."""
    return {"fail-fast": False, "matrix": {name: expression(rows)}}


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
        timeout_minutes=minutes,
        outputs=step_outputs(tells(kind)),
        steps=place_steps(
            table,
            expression("matrix.row.id" if kind.own else has(kind.name)),
            minutes,
            python=container.python if container else "",
            version=expression("inputs.python_version") if kind.level == "build" else "",
        ),
    )


def _called(kind: JobKind, needs: Sequence[JobKind], condition: str, platform: str) -> WorkflowJob:
    """A call for each family: a job can be skipped for one of them only in a workflow of its own."""
    row: dict[str, object] = {
        "id": expression("matrix.row.id"),
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
    return WorkflowJob(
        name=expression("matrix.row.family"),
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
    """The machine of jobs that need no GPU; a variable of the repository names larger ones."""
    row = table.machine_of(platform)
    return expression(f"vars.{row.variable} || '{row.label}'")


def as_container(container: Container | None) -> Document:
    """The container of a job, none where there is none."""
    if container is None:
        return {}
    options: Document = {"options": " ".join(container.options)} if container.options else {}
    return {"image": container.pinned, **options}
