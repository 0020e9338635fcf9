"""Workflows that an event starts: CI, releases, and this repository's own checks."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.model.profile import Profile
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.kinds import SUMMARY
from rocwright.pipeline.render.github.called import environment
from rocwright.pipeline.render.github.expressions import every, expression, told
from rocwright.pipeline.render.github.graph import JobKind
from rocwright.pipeline.render.github.jobs import PERMISSIONS, as_container, local, over, runner
from rocwright.pipeline.render.github.names import FILES, calls, text_input
from rocwright.pipeline.render.github.steps import STEP, checkout, place_steps, setup_steps
from rocwright.pipeline.render.github.values import Document, Workflow, WorkflowJob, WorkflowStep

_CHOICES: Document = {
    "pytorch_git_ref": text_input("Branches or tags of PyTorch, separated by commas", default=""),
    "python_version": text_input("Pythons, separated by commas", default=""),
    "pytorch_projects": text_input("Projects: torch, torchvision, …; none: all", default=""),
    "artifact_run_id": text_input("Take ROCm's packages of this earlier run", default=""),
}
_FAMILIES = "Families of GPUs, separated by commas; all or none"
# An earlier change's run ends when the next one comes; runs of branches and releases go to their ends.
_BY_CHANGE: Document = {
    "group": expression(
        "format('{0}-{1}', github.workflow, github.event.pull_request.number || github.run_id)"
    ),
    "cancel-in-progress": expression("github.event_name == 'pull_request'"),
}
_FORK = "github.event.pull_request.head.repo.fork != true"


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
    jobs = _jobs(kinds, profile.platforms, f"'{profile.name}'", f"vars.{profile.role}", table)
    return _started("CI", on, _BY_CHANGE, jobs, table)


def release_workflow(
    kinds: Sequence[JobKind], profiles: Sequence[Profile], platform: str, table: WorkflowTable
) -> Workflow:
    """Nightly, and by hand: the same builds as CI's, to channels. The first profile is the nightly one."""
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
    # One at a time: channels are logs, and a nightly that waits loses nothing.
    concurrency: Document = {"group": expression("github.workflow"), "cancel-in-progress": False}
    asked = [f"inputs.release_type == '{other.release_type}'" for other in others]
    profile = " || ".join(
        [*(f"{asks} && '{other.name}'" for asks, other in zip(asked, others, strict=True)), f"'{usual.name}'"]
    )
    role = " || ".join(
        [
            *(f"{asks} && vars.{other.role}" for asks, other in zip(asked, others, strict=True)),
            # Another type without a role of its own must not get this one.
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
            # Without git a checkout is no repository, and the tests ask git about this one.
            WorkflowStep(name="Install git", run="apt-get update -qq && apt-get install -qq --yes git"),
            checkout(table),
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
    kinds: Sequence[JobKind], platforms: Sequence[str], profile: str, role: str, table: WorkflowTable
) -> dict[str, WorkflowJob]:
    alone = [kind for kind in kinds if kind.level == "run" and kind.axes]
    jobs = {"setup": _setup(alone, platforms, profile, role, table)}
    jobs |= {kind.name: _alone(kind, platforms[0], table) for kind in alone}
    jobs |= {calls(platform): _groups(alone, platform) for platform in platforms}
    jobs[SUMMARY.job] = _summary(tuple(jobs), table)
    return jobs


def _setup(
    alone: Sequence[JobKind], platforms: Sequence[str], profile: str, role: str, table: WorkflowTable
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
            "role": expression(f"steps.{STEP}.outputs.upload == 'true' && ({role}) || ''"),
        },
        env={"ROLE": expression(f"{_FORK} && ({role}) || ''")},
        steps=setup_steps(
            table,
            "env.ROLE",
            {
                "PROFILE": expression(profile) if "||" in profile else profile.strip("'"),
                "PLATFORMS": " ".join(platforms),
                # A repository without such machines tries its chain on the miniature family.
                "ROCWRIGHT_SOURCES": expression("vars.ROCWRIGHT_SOURCES || 'upstream'"),
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
        timeout_minutes=minutes,
        steps=place_steps(table, expression("matrix.id"), minutes, role="needs.setup.outputs.role"),
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
    # Where setup said nothing, it failed: that must not pass for nothing to do.
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
