"""A job of the definition as a job of a workflow, with its steps: checkout, Python, rocwright, one command.

Nothing else has logic. What is the same in every job stands once, in an action of this repository. Workflows,
jobs and steps are values here, where a dash in a word of GitHub's is an underscore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rocwright.model.workflows import Container, WorkflowTable
from rocwright.pipeline.render.job_kinds import JobKind, shown
from rocwright.pipeline.tell.results import output_names

Document = dict[str, object]


class WorkflowStep(msgspec.Struct, frozen=True, omit_defaults=True, rename={"if_": "if", "with_": "with"}):
    """A step: either an action with its inputs or one command."""

    name: str = ""
    id: str = ""
    if_: str = ""
    uses: str = ""
    with_: dict[str, object] = {}
    run: str = ""
    env: dict[str, str] = {}
    shell: str = ""


class WorkflowJob(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "if_": "if",
        "runs_on": "runs-on",
        "timeout_minutes": "timeout-minutes",
        "with_": "with",
    },
):
    """A job: steps on a machine, or a call of another workflow (`uses`, `with_`)."""

    name: str = ""
    needs: tuple[str, ...] = ()
    if_: str = ""
    strategy: Document = {}
    permissions: dict[str, str] = {}
    runs_on: str = ""
    container: Document = {}
    timeout_minutes: int = 0
    uses: str = ""
    with_: dict[str, object] = {}
    outputs: dict[str, str] = {}
    env: dict[str, str] = {}
    steps: tuple[WorkflowStep, ...] = ()


class Workflow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file below `.github/workflows`; nothing is permitted but what a job asks for."""

    name: str
    on: Document
    permissions: dict[str, str] | None = None
    concurrency: Document = {}
    env: dict[str, str] = {}
    defaults: Document = {}
    jobs: dict[str, WorkflowJob] = {}


class CompositeAction(msgspec.Struct, frozen=True):
    """An action of this repository: steps that jobs share."""

    name: str
    description: str
    inputs: Document
    outputs: Document
    runs: Document


def text_input(description: str, *, default: str | None = None) -> dict[str, object]:
    """An input with text; without a default it is required."""
    given: dict[str, object] = {"description": description, "type": "string"}
    return {**given, "required": True} if default is None else {**given, "default": default}


# -- conditions of jobs, in GitHub's expressions

# Its `success()` also asks for jobs further back, so a skipped test would skip what a gate lets pass; each
# condition here names what it waits for.


def expression(text: str) -> str:
    """As a workflow writes it."""
    return "${{ " + text + " }}"


def has(job: str) -> str:
    """Whether the run has the job at this place: its id, or its rows."""
    return f"fromJSON(inputs.jobs).{job}"


def every(conditions: Iterable[str]) -> str:
    """All of them."""
    return expression(" && ".join(conditions))


def done(shown: Mapping[str, str]) -> list[str]:
    """That each of these jobs succeeded, of those that the run has; by name, as the workflow calls it."""
    return [f"(needs.{as_}.result == 'success' || !{has(job)})" for job, as_ in shown.items()]


def told(step: str, name: str) -> str:
    """An output of a step of the same job."""
    return expression(f"steps.{step}.outputs.{name}")


def first(job_outputs: Iterable[str]) -> str:
    """The first of these that says something."""
    return expression(" || ".join(job_outputs))


# Reading the repository; asking for a token that a role is assumed with.
PERMISSIONS: Mapping[str, str] = {"contents": "read", "id-token": "write"}
# What a step that tells something is called.
STEP = "step"
ACTION = "./.github/actions/step"
# With uv, the second installer that packages are proved with.
INSTALL = "\"$PYTHON\" -m pip install --disable-pip-version-check '.[demo,store,aws]'"
COMMAND = '"$PYTHON" -m rocwright pipeline step "$ID"'
SETUP = '"$PYTHON" -m rocwright pipeline setup --profile "$PROFILE" --platforms "$PLATFORMS"'
# The version that runs this tool where the job has none of its own.
_PYTHON = "3.12"
# Of one role, in seconds: at most, and what it gives unasked.
_LONGEST, _USUAL = 12 * 3600, 3600


def local(file: str) -> str:
    """How a job calls a workflow of the same repository and commit."""
    return f"./.github/workflows/{file}.yml"


def tells(kind: JobKind) -> tuple[str, ...]:
    """Names of what the steps of a job tell; a part of a build tells nothing."""
    if "part" in kind.own:
        return ()
    return tuple(dict.fromkeys(name for one in kind.kinds for name in output_names(one)))


def over(rows: str, name: str = "row") -> Document:
    """A matrix over the rows that an expression gives; a row that fails stops no other."""
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
            python=_python(container),
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
    options: Document = {"options": " ".join(container.options)} if container.options else {}
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


# -- the steps of a job


def checkout(table: WorkflowTable, *, history: bool = False) -> WorkflowStep:
    """The repository, with its `history` where changes are looked up; the token does not stay behind."""
    more = {"fetch-depth": 0} if history else {}
    return WorkflowStep(
        uses=table.action_of("actions/checkout").pinned, with_={"persist-credentials": False, **more}
    )


def place_steps(
    table: WorkflowTable,
    id_: str,
    minutes: int,
    *,
    python: str = "",
    version: str = "",
    role: str = "inputs.role",
) -> tuple[WorkflowStep, ...]:
    """Steps of a job that does the step whose id the expression `id_` gives.

    `python` is the interpreter of its container; where that is none, or empty when the job runs, `version` is
    set up. `role` is an expression, and lasts as long as the job may.
    """
    given: dict[str, object] = {"id": id_, "role": expression(role)}
    if python:
        given["python"] = python
    if version:
        given["python-version"] = version
    if minutes * 60 > _USUAL:
        given["seconds"] = min(minutes * 60, _LONGEST)
    return (checkout(table), WorkflowStep(id=STEP, uses=ACTION, with_=given))


def step_action(table: WorkflowTable, outputs: Sequence[str]) -> CompositeAction:
    """The action of this repository that does one step; `outputs` are what any step tells."""
    called = {"PYTHON": expression("inputs.python || 'python'")}
    return CompositeAction(
        name="Run a step of the pipeline",
        description="Python, rocwright, the role that may write, and one step",
        inputs={
            "id": {"description": "The step, as `rocwright pipeline plan` names it", "required": True},
            "python": {"description": "An interpreter that is there", "default": ""},
            "python-version": {"description": "The one to set up where none is there", "default": _PYTHON},
            "role": {"description": "The role to assume; none in a dry run", "default": ""},
            "seconds": {"description": "How long the role is needed", "default": str(_USUAL)},
        },
        outputs={
            name: {"description": name.replace("_", " "), "value": told(STEP, name)} for name in outputs
        },
        runs={
            "using": "composite",
            "steps": _steps(
                table,
                set_up=(expression("inputs.python == ''"), expression("inputs.python-version")),
                role=("inputs.role", expression("inputs.seconds")),
                command=COMMAND,
                called=called,
                env={"ID": expression("inputs.id")},
                interpreter="bash",
            ),
        },
    )


def setup_steps(table: WorkflowTable, role: str, env: Mapping[str, str]) -> tuple[WorkflowStep, ...]:
    """Steps of the job that decides what the others do."""
    steps = _steps(
        table, set_up=("", _PYTHON), role=(role, ""), command=SETUP, called={"PYTHON": "python"}, env=env
    )
    return (checkout(table, history=True), *steps)


def _steps(
    table: WorkflowTable,
    *,
    set_up: tuple[str, str],
    role: tuple[str, str],
    command: str,
    called: Mapping[str, str],
    env: Mapping[str, str],
    interpreter: str = "",
) -> tuple[WorkflowStep, ...]:
    """`set_up`: when, and which Python; `role`: an expression, and its seconds."""
    settings: dict[str, object] = {
        "role-to-assume": expression(role[0]),
        "aws-region": expression("env.AWS_REGION"),
    }
    if role[1]:
        settings["role-duration-seconds"] = role[1]
    return (
        WorkflowStep(
            if_=set_up[0],
            uses=table.action_of("actions/setup-python").pinned,
            with_={"python-version": set_up[1]},
        ),
        WorkflowStep(name="Install rocwright", run=INSTALL, env=dict(called), shell=interpreter),
        WorkflowStep(
            name="Assume the role that may write",
            if_=expression(f"{role[0]} != ''"),
            uses=table.action_of("aws-actions/configure-aws-credentials").pinned,
            with_=settings,
        ),
        WorkflowStep(name="Run the step", id=STEP, run=command, env={**called, **env}, shell=interpreter),
    )


def step_outputs(names: Sequence[str]) -> dict[str, str]:
    """What the job passes on of its step's outputs."""
    return {name: told(STEP, name) for name in names}
