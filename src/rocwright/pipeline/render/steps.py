"""The steps of a job: checkout, Python, rocwright, the role, what other jobs handed on, and one command.

Nothing else has logic. What is the same in every job stands once, in an action of this repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.carry import GIVEN, PARTS, TAKEN
from rocwright.pipeline.define.inputs import CARRY
from rocwright.pipeline.render.document import CompositeAction, WorkflowStep, expression, told

# Reading the repository; asking for a token that a role is assumed with.
PERMISSIONS: Mapping[str, str] = {"contents": "read", "id-token": "write"}
# What a step that tells something is called.
STEP = "step"
ACTION = "./.github/actions/step"
# With uv, the second installer that packages are proved with; all of it pinned, what builds rocwright, too.
_PIP = '"$PYTHON" -m pip install --disable-pip-version-check'
INSTALL = f"{_PIP} --require-hashes -r .github/requirements.txt && {_PIP} --no-deps --no-build-isolation ."
COMMAND = '"$PYTHON" -m rocwright pipeline step "$ID"'
SETUP = '"$PYTHON" -m rocwright pipeline setup --profile "$PROFILE" --platforms "$PLATFORMS"'
# The version that runs this tool where the job has none of its own.
_PYTHON = "3.12"
# Of one role, in seconds: at least, at most, and what it gives unasked.
_SHORTEST, _LONGEST, _USUAL = 900, 12 * 3600, 3600
# The directory of a run, as `pipeline step` takes it.
_WORK = "env.ROCWRIGHT_WORK_DIR || 'run'"


def checkout(table: WorkflowTable, *, history: bool = False) -> WorkflowStep:
    """The repository, with its `history` where changes are looked up; the token does not stay behind."""
    more = {"fetch-depth": 0} if history else {}
    return WorkflowStep(
        uses=table.action_of("actions/checkout").pinned, with_={"persist-credentials": False, **more}
    )


def limit(table: WorkflowTable, minutes: int, platform: str) -> int | str:
    """Minutes of a job; more than GitHub's own machines give only where a variable names another machine."""
    return _on_own(table, minutes, table.hosted.minutes, platform)


def _seconds(table: WorkflowTable, minutes: int, platform: str) -> int | str:
    """How long a role is needed by a job of so many minutes."""
    most, hosted = (max(_SHORTEST, min(60 * m, _LONGEST)) for m in (minutes, table.hosted.minutes))
    return _on_own(table, most, hosted, platform)


def _on_own(table: WorkflowTable, most: int, hosted: int, platform: str) -> int | str:
    if most <= hosted or not platform:
        return most
    return expression(f"vars.{table.machine_of(platform).variable} && {most} || {hosted}")


def prepared(table: WorkflowTable, platform: str) -> tuple[WorkflowStep, ...]:
    """What a machine needs before all else; without the right to change it, it stays as it is."""
    return tuple(
        WorkflowStep(name="Prepare the machine", run=line, continue_on_error=True)
        for line in table.machine_of(platform).prepare
    )


def place_steps(
    table: WorkflowTable,
    id_: str,
    minutes: int,
    *,
    python: str = "",
    version: str = "",
    role: str = "inputs.role",
    group: str = "",
    platform: str = "",
) -> tuple[WorkflowStep, ...]:
    """Steps of a job that does the step whose id the expression `id_` gives.

    `python` is the interpreter of its container; where that is none, or empty when the job runs, `version` is
    set up. `role` is an expression, and lasts as long as the job may. `group` is what it belongs to.
    `platform` is that of the machine, empty where a label is chosen when the run is planned.
    """
    given: dict[str, object] = {"id": id_, "role": expression(role)}
    given["seconds"] = _seconds(table, minutes, platform)
    if python:
        given["python"] = python
    if version:
        given["python-version"] = version
    if group:
        given["group"] = group
    before = prepared(table, platform) if platform else ()
    return (*before, checkout(table), WorkflowStep(id=STEP, uses=ACTION, with_=given))


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
            "group": {
                "description": "What is built together; empty for a job of the whole run",
                "default": "",
            },
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
                # Records of all jobs; of other files only those of what the job belongs to.
                pattern=expression(
                    f"inputs.group && format('rocwright.{{{{{PARTS[0]},{{0}}}}}}.*', inputs.group)"
                    f" || 'rocwright.{PARTS[0]}.*'"
                ),
            ),
        },
    )


def setup_steps(
    table: WorkflowTable, role: str, minutes: int, env: Mapping[str, str]
) -> tuple[WorkflowStep, ...]:
    """Steps of the job that decides what the others do."""
    steps = _steps(
        table,
        set_up=("", _PYTHON),
        role=(role, str(_seconds(table, minutes, ""))),
        command=SETUP,
        called={"PYTHON": "python"},
        env=env,
        pattern=f"rocwright.{PARTS[0]}.*",
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
    pattern: str,
    interpreter: str = "",
) -> tuple[WorkflowStep, ...]:
    """`set_up`: when, and which Python; `role`: an expression, and its seconds; `pattern`: of artifacts."""
    assumed: dict[str, object] = {
        "role-to-assume": expression(role[0]),
        "aws-region": expression("env.AWS_REGION"),
        "role-duration-seconds": role[1],
    }
    outcome = {
        "ROCWRIGHT_ROLE": expression(role[0]),
        "ROCWRIGHT_ROLE_OUTCOME": expression("steps.role.outcome"),
    }
    return (
        WorkflowStep(
            if_=set_up[0],
            uses=table.action_of("actions/setup-python").pinned,
            with_={"python-version": set_up[1]},
        ),
        WorkflowStep(name="Install rocwright", run=INSTALL, env=dict(called), shell=interpreter),
        WorkflowStep(
            name="Assume the role that may write",
            id="role",
            if_=expression(f"{role[0]} != ''"),
            uses=table.action_of("aws-actions/configure-aws-credentials").pinned,
            with_=assumed,
            # The step below says that it was refused, on the page of the run, too.
            continue_on_error=True,
        ),
        WorkflowStep(
            name="Take what other jobs of this run handed on",
            if_=expression(f"env.{CARRY} == 'artifacts'"),
            uses=table.action_of("actions/download-artifact").pinned,
            with_={"pattern": pattern, "path": expression(f"format('{{0}}/{TAKEN}', {_WORK})")},
        ),
        WorkflowStep(
            name="Run the step", id=STEP, run=command, env={**called, **env, **outcome}, shell=interpreter
        ),
        *(_hand_on(table, part) for part in PARTS),
    )


def _hand_on(table: WorkflowTable, part: str) -> WorkflowStep:
    """Also of a step that failed: later jobs, and the page of the run, want to know."""
    name = f"steps.{STEP}.outputs.carried_{part}"
    return WorkflowStep(
        name=f"Hand on its {part}",
        if_=expression(f"always() && {name} != ''"),
        uses=table.action_of("actions/upload-artifact").pinned,
        with_={
            "name": expression(name),
            "path": expression(f"format('{{0}}/{GIVEN}/{part}', {_WORK})"),
            "if-no-files-found": "error",
            "retention-days": table.keep_days,
            # Wheels and packed trees are compressed.
            "compression-level": 0 if part == "files" else 6,
        },
    )


def step_outputs(names: Sequence[str]) -> dict[str, str]:
    """What the job passes on of its step's outputs."""
    return {name: told(STEP, name) for name in names}
