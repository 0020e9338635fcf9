"""The steps of a job: checkout, Python, rocwright, credentials, and one command. Nothing else has logic.

What is the same in every job stands once, in an action of this repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.render.github.expressions import expression, told
from rocwright.pipeline.render.github.values import CompositeAction, WorkflowStep

# What a step that tells something is called.
STEP = "step"
ACTION = "$/.github/actions/step"
INSTALL = "\"$PYTHON\" -m pip install --disable-pip-version-check '.[store,aws]'"
COMMAND = '"$PYTHON" -m rocwright pipeline step "$ID"'
SETUP = '"$PYTHON" -m rocwright pipeline setup --profile "$PROFILE" --platforms "$PLATFORMS"'
# The version that runs this tool where the job has none of its own.
_PYTHON = "3.12"
# Of one role, in seconds: at most, and what it gives unasked.
_LONGEST, _USUAL = 12 * 3600, 3600


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

    `python` is the interpreter of its container, if it has one, else `version` is set up; `role` is an
    expression, and lasts as long as the job may.
    """
    given: dict[str, object] = {"id": id_, "role": expression(role)}
    if python:
        given["python"] = python
    elif version:
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
