"""Every workflow of this repository, as a file below its root; made here: those that events start. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from rocwright.errors import MissingTool
from rocwright.model.plan import Profile, ProfileTable
from rocwright.model.platforms import PLATFORMS
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import SCHEDULE, TESTED
from rocwright.pipeline.define.kinds import EMULATED_ON, SUMMARY, Kind, Projects
from rocwright.pipeline.render.called import (
    build_workflow,
    environment,
    group_workflow,
    test_workflow,
    work_environment,
)
from rocwright.pipeline.render.document import (
    STORED,
    CompositeAction,
    Document,
    Workflow,
    WorkflowJob,
    WorkflowStep,
    every,
    expression,
    local,
    over,
    text_input,
    told,
)
from rocwright.pipeline.render.job_kinds import FILES, JobKind, calls, every_kind, job_kinds
from rocwright.pipeline.render.jobs import as_container, runner, tells
from rocwright.pipeline.render.steps import (
    ACTION,
    PERMISSIONS,
    STEP,
    checkout,
    limit,
    place_steps,
    setup_steps,
    step_action,
)

DIRECTORY = PurePosixPath(".github/workflows")
ACTION_FILE = PurePosixPath(ACTION.removeprefix("./")) / "action.yml"


def github_files(
    projects: Mapping[str, Projects], profiles: ProfileTable, table: WorkflowTable
) -> dict[PurePosixPath, str]:
    """Text by path; `projects` are those of the family by platform."""
    runs = {
        platform: every_kind(projects[platform], emulators=platform in EMULATED_ON) for platform in PLATFORMS
    }
    files = {
        DIRECTORY / f"{name}.yml": workflow_text(workflow, table)
        for name, workflow in workflows(runs, profiles, table).items()
    }
    kinds = job_kinds(run for of in runs.values() for run in of)
    told = dict.fromkeys(name for kind in kinds for name in tells(kind))
    return {**files, ACTION_FILE: workflow_text(step_action(table, tuple(told)), table)}


def workflows(
    runs: Mapping[str, Sequence[Sequence[Kind]]], profiles: ProfileTable, table: WorkflowTable
) -> dict[str, Workflow]:
    """By name; `runs` are the kinds of every sort of run by platform."""
    jobs = {platform: job_kinds(of) for platform, of in runs.items()}
    both = job_kinds(run for of in runs.values() for run in of)
    found = {"ci": ci_workflow(both, profiles.named("ci"), table)}
    for platform in PLATFORMS:
        found[FILES[platform].group] = group_workflow(jobs[platform], platform, table)
        found[FILES[platform].build] = build_workflow(jobs[platform], platform, table)
        found[FILES[platform].release] = release_workflow(
            jobs[platform], _releases(profiles), platform, table
        )
    found |= {kind.name: test_workflow(kind, table) for kind in both if kind.gpu}
    found["rocwright"] = own_workflow(table)
    return found


def _releases(profiles: ProfileTable) -> tuple[Profile, ...]:
    """Those that may publish when asked to, and that for tries; nightly first."""
    wanted = [p for p in profiles.profile if p.publish == "asked" or p.release_type == "dev"]
    return tuple(sorted(wanted, key=lambda profile: profile.release_type != "nightly"))


# -- the text of a workflow, or of an action


# A variable of the repository: the profile of CI where it is another one than `ci`.
PROFILE = "ROCWRIGHT_CI_PROFILE"
# What a reader of permissions asks.
_PERMITTED = "a role is assumed with it, to write to the store"
HEAD = "# Rendered by `rocwright pipeline render` from src/rocwright/pipeline/define; do not edit.\n"


def workflow_text(workflow: Workflow | CompositeAction, table: WorkflowTable) -> str:
    """As YAML, with the version of each action beside its commit. Raises `MissingTool` without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise MissingTool(
            "workflows are written with PyYAML, which is not installed",
            next_step="pip install 'rocwright[pipeline]'",
        ) from error
    text: str = yaml.safe_dump(msgspec.to_builtins(workflow), sort_keys=False, width=110, allow_unicode=True)
    # A word that YAML 1.1 takes for true; GitHub reads 1.2.
    text = text.replace("'on':\n", "on:\n", 1)
    text = text.replace("id-token: write\n", f"id-token: write # {_PERMITTED}\n")
    for action in table.action:
        text = text.replace(f"{action.pinned}\n", f"{action.pinned} # {action.version}\n")
    return HEAD + text


# -- workflows that an event starts: CI, releases, and this repository's own checks


_CHOICES: Document = {
    "pytorch_git_ref": text_input("Branches or tags of PyTorch, separated by commas", default=""),
    "python_version": text_input("Pythons, separated by commas", default=""),
    "pytorch_projects": text_input("Projects: torch, torchvision, …; none: all", default=""),
    "extensions": text_input("What stands on torch: torch-scatter==2.1.2, …", default=""),
    "artifact_run_id": text_input("Take ROCm's packages of this earlier run", default=""),
    "rocm": text_input("Where ROCm comes from, such as index:nightly, page:URL, therock:RUN", default=""),
}
_FAMILIES = "Families of GPUs, separated by commas; all or none"
# An earlier change's run ends when the next comes; runs of branches and releases go to their ends.
_BY_CHANGE: Document = {
    "group": expression(
        "format('{0}-{1}', github.workflow, github.event.pull_request.number || github.run_id)"
    ),
    "cancel-in-progress": expression("github.event_name == 'pull_request'"),
}


def ci_workflow(kinds: Sequence[JobKind], profile: Profile, table: WorkflowTable) -> Workflow:
    """What changes, branches and people start."""
    inputs: Document = {
        **{f"{name}_amdgpu_families": text_input(_FAMILIES, default="") for name in profile.platforms},
        **{f"{name}_test_labels": text_input("Tests to run", default="") for name in profile.platforms},
        "additional_label_options": text_input("Labels, as a change has them", default=""),
        "build_pytorch": {"description": "Build PyTorch, too", "type": "boolean", "default": True},
        **_CHOICES,
    }
    on: Document = {
        "pull_request": {"types": ["opened", "synchronize", "reopened", "labeled"]},
        "push": {"branches": ["main", "release/**"]},
        "workflow_dispatch": {"inputs": inputs},
    }
    # A repository without machines with GPUs names the profile that tests on emulated ones.
    which = f"vars.{PROFILE} || '{profile.name}'"
    # Emulated GPUs wait for nobody's machine.
    tested = f"vars.{TESTED} || vars.{PROFILE} == 'emulated' && 'auto' || 'none'"
    jobs = _jobs(kinds, profile.platforms, which, f"vars.{profile.role}", table, tested)
    return _started("CI", on, _BY_CHANGE, jobs, table)


def release_workflow(
    kinds: Sequence[JobKind], profiles: Sequence[Profile], platform: str, table: WorkflowTable
) -> Workflow:
    """Nightly, and by hand: the same builds as CI's, to channels. The first profile is nightly's."""
    usual, *others = profiles
    types = [profile.release_type for profile in profiles]
    inputs: Document = {
        "release_type": {
            "description": "What is released",
            "type": "choice",
            "options": types,
            "default": usual.release_type,
        },
        "amdgpu_families": text_input(_FAMILIES, default=""),
        **_CHOICES,
        "publish": {
            "description": "Change the channels of the release type",
            "type": "boolean",
            "default": False,
        },
    }
    on: Document = {"schedule": [{"cron": "0 4 * * *"}], "workflow_dispatch": {"inputs": inputs}}
    # What changes channels goes one at a time, and loses nothing by waiting; other runs wait for nobody.
    waits = "(github.event_name == 'schedule' || inputs.publish) && 'publishes' || github.run_id"
    concurrency: Document = {
        "group": expression(f"format('{{0}}-{{1}}', github.workflow, {waits})"),
        "cancel-in-progress": False,
    }
    asked = [f"inputs.release_type == '{other.release_type}'" for other in others]
    profile = " || ".join(
        [*(f"{asks} && '{other.name}'" for asks, other in zip(asked, others, strict=True)), f"'{usual.name}'"]
    )
    role = " || ".join(
        [
            *(f"{asks} && vars.{other.role}" for asks, other in zip(asked, others, strict=True)),
            # Another type without a role of its own must not get this role.
            f"(!inputs.release_type || inputs.release_type == '{usual.release_type}') && vars.{usual.role}",
        ]
    )
    jobs = _jobs(kinds, (platform,), profile, role, table)
    return _started(f"Release {FILES[platform].title} PyTorch wheels", on, concurrency, jobs, table)


def own_workflow(table: WorkflowTable) -> Workflow:
    """What proves this repository: its own checks, on a clean machine, as anybody runs them."""
    container = table.container_of("own", "linux")
    job = WorkflowJob(
        name="checks",
        permissions={"contents": "read"},
        runs_on=table.machine_of("linux").label,
        container=as_container(container),
        timeout_minutes=table.minutes("checks"),
        steps=(
            # Without git a checkout is no repository, and the tests ask git about this checkout.
            WorkflowStep(name="Install git", run="apt-get update -qq && apt-get install -qq --yes git"),
            checkout(table),
            # The files are another user's than root.
            WorkflowStep(
                name="Trust the checkout", run='git config --global --add safe.directory "$GITHUB_WORKSPACE"'
            ),
            WorkflowStep(name="Run every check and test", run=".ci/run"),
        ),
    )
    on: Document = {"pull_request": {}, "push": {"branches": ["main"]}}
    return Workflow("rocwright", on, permissions={}, concurrency=_BY_CHANGE, jobs={"checks": job})


def _started(
    name: str, on: Document, concurrency: Document, jobs: dict[str, WorkflowJob], table: WorkflowTable
) -> Workflow:
    return Workflow(
        name=name, on=on, permissions={}, concurrency=concurrency, env=environment(table), jobs=jobs
    )


def _jobs(
    kinds: Sequence[JobKind],
    platforms: Sequence[str],
    profile: str,
    role: str,
    table: WorkflowTable,
    # Labels of machines with GPUs are their owners': nobody waits for one that is not there.
    tested: str = f"vars.{TESTED} || 'none'",
) -> dict[str, WorkflowJob]:
    alone = [kind for kind in kinds if kind.level == "run" and kind.axes]
    jobs = {"setup": _setup(alone, platforms, profile, role, table, tested)}
    jobs |= {kind.name: _alone(kind, platforms[0], table) for kind in alone}
    jobs |= {calls(platform): _groups(alone, platform) for platform in platforms}
    jobs[SUMMARY.job] = _summary(tuple(jobs), table)
    return jobs


def _setup(
    alone: Sequence[JobKind],
    platforms: Sequence[str],
    profile: str,
    role: str,
    table: WorkflowTable,
    tested: str,
) -> WorkflowJob:
    rows = [*(f"{platform}_groups" for platform in platforms), *(kind.name for kind in alone)]
    minutes = table.minutes("setup")
    return WorkflowJob(
        name="setup",
        permissions=dict(PERMISSIONS),
        runs_on=table.machine_of("linux").label,
        timeout_minutes=minutes,
        outputs={
            **{name: told(STEP, name) for name in ("run", "upload", *rows)},
            "role": expression(f"steps.{STEP}.outputs.upload == 'true' && {STORED} && ({role}) || ''"),
        },
        # Without a store there is nothing to write to.
        env={"ROLE": expression(f"{STORED} && ({role}) || ''")},
        steps=setup_steps(
            table,
            "env.ROLE",
            minutes,
            {
                "PROFILE": expression(profile) if "||" in profile else profile.strip("'"),
                "PLATFORMS": " ".join(platforms),
                # A repository without such machines tries its chain on the miniature family.
                "ROCWRIGHT_SOURCES": expression("vars.ROCWRIGHT_SOURCES || 'upstream'"),
                # Empty: where the profile takes it from.
                "ROCWRIGHT_ROCM": expression("vars.ROCWRIGHT_ROCM"),
                TESTED: expression(tested),
                SCHEDULE: expression(f"vars.{SCHEDULE}"),
                **{row.variable: expression(f"vars.{row.variable}") for row in table.machine},
            },
        ),
    )


def _ready(*more: str) -> list[str]:
    return ["!cancelled()", "needs.setup.result == 'success'", "needs.setup.outputs.run == 'true'", *more]


def _before(names: Sequence[str]) -> list[str]:
    return [f"(needs.{name}.result == 'success' || needs.setup.outputs.{name} == '[]')" for name in names]


def _alone(kind: JobKind, platform: str, table: WorkflowTable) -> WorkflowJob:
    """A job outside of groups, once for each of its ids; before anything long begins."""
    rows, minutes = f"needs.setup.outputs.{kind.name}", table.minutes(kind.name)
    before = _before(kind.needs)
    return WorkflowJob(
        name=expression("matrix.id"),
        needs=("setup", *kind.needs),
        if_=every(_ready(f"{rows} != '[]'", *before)),
        strategy=over(f"fromJSON({rows})", "id"),
        permissions=dict(PERMISSIONS),
        runs_on=runner(table, platform),
        timeout_minutes=limit(table, minutes, platform),
        env=work_environment(table, platform),
        steps=place_steps(
            table, expression("matrix.id"), minutes, role="needs.setup.outputs.role", platform=platform
        ),
    )


def _groups(alone: Sequence[JobKind], platform: str) -> WorkflowJob:
    rows = f"needs.setup.outputs.{platform}_groups"
    names = [kind.name for kind in alone]
    return WorkflowJob(
        name=expression(f"format('{FILES[platform].title} {{0}}', matrix.row.group)"),
        needs=("setup", *names),
        if_=every(_ready(f"{rows} != '[]'", *_before(names))),
        strategy=over(f"fromJSON({rows})"),
        permissions=dict(PERMISSIONS),
        uses=local(FILES[platform].group),
        with_={
            "artifact_group": expression("matrix.row.group"),
            "amdgpu_families": expression("matrix.row.families"),
            "jobs": expression("toJSON(matrix.row.jobs)"),
            "builds": expression("toJSON(matrix.row.builds)"),
            "role": expression("needs.setup.outputs.role"),
        },
    )


def _summary(needs: tuple[str, ...], table: WorkflowTable) -> WorkflowJob:
    """Whatever became of the others: what nobody asked for is told apart from what was lost."""
    minutes = table.minutes(SUMMARY.job)
    # Where setup gave no output, it failed: that must not pass for nothing to do.
    asked = [f"needs.setup.outputs.{name} != 'false'" for name in ("run", "upload")]
    return WorkflowJob(
        name=SUMMARY.job,
        needs=needs,
        if_=every(["always()", *asked]),
        permissions=dict(PERMISSIONS),
        runs_on=table.machine_of("linux").label,
        timeout_minutes=minutes,
        env={"NEEDS_JSON": expression("toJSON(needs)")},
        steps=place_steps(table, SUMMARY.name, minutes, role="needs.setup.outputs.role"),
    )
