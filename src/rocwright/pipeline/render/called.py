"""Workflows that others call: of a group, of a build, of a test on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.model.platforms import PLATFORMS
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import CARRY, COMPILER_CACHE
from rocwright.pipeline.render.document import (
    OWN,
    STORED,
    Document,
    Workflow,
    WorkflowJob,
    done,
    every,
    expression,
    first,
    local,
    over,
    text_input,
)
from rocwright.pipeline.render.job_kinds import BUILDS, FILES, JobKind, shown
from rocwright.pipeline.render.jobs import as_container, place_job, tells
from rocwright.pipeline.render.steps import PERMISSIONS, place_steps, prepared

_JOBS = text_input("The jobs of this place: JSON, name to id, or to rows with ids")
_ROLE = text_input("The role that may write; none in a dry run", default="")
_GROUP = {
    "artifact_group": text_input("What is built together"),
    "amdgpu_families": text_input("Families of GPUs of the group, separated by semicolons"),
}
_ROCM = ("rocm_package_find_links_url", "rocm_version")
_VERSIONS = {
    "python_version": text_input("Python, as 3.12"),
    "pytorch_git_ref": text_input("Branch or tag of PyTorch"),
}


def environment(table: WorkflowTable, platform: str = "") -> dict[str, str]:
    """Of every job, from variables of the repository; no secret is among them.

    `platform` is that of all machines of a workflow, empty where they differ.
    """
    return {
        "ROCWRIGHT_STORE": expression(f"{OWN} && vars.ROCWRIGHT_STORE || ''"),
        CARRY: expression(f"{STORED} && 'store' || 'artifacts'"),
        COMPILER_CACHE: expression(f"vars.{COMPILER_CACHE}"),
        "AWS_REGION": expression(f"vars.ROCWRIGHT_REGION || '{table.region}'"),
        **(work_environment(table, platform) if platform else {}),
    }


def work_environment(table: WorkflowTable, platform: str) -> dict[str, str]:
    """The directory of a run, where the usual one makes paths too long."""
    row = table.machine_of(platform)
    return {"ROCWRIGHT_WORK_DIR": expression(f"vars.{row.work_variable} || '{row.work}'")} if row.work else {}


def _workflow(
    inputs: Document,
    outputs: Document,
    name: str,
    jobs: dict[str, WorkflowJob],
    table: WorkflowTable,
    platform: str = "",
) -> Workflow:
    """A workflow that another calls."""
    call: Document = {"inputs": inputs, **({"outputs": outputs} if outputs else {})}
    env = environment(table, platform)
    return Workflow(name=name, on={"workflow_call": call}, permissions={}, env=env, jobs=jobs)


def group_workflow(kinds: Sequence[JobKind], platform: str, table: WorkflowTable) -> Workflow:
    """ROCm's packages of a group, their tests, and every build that uses them."""
    files, beside = FILES[platform], [kind for kind in kinds if kind.level == "group"]
    builds = [kind for kind in kinds if kind.level == "build"]
    jobs = {shown(kind.name, platform): place_job(kind, beside, platform, table) for kind in beside}
    awaited = {need for kind in builds for need in kind.needs}
    waits = {kind.name: shown(kind.name, platform) for kind in beside if kind.name in awaited}
    jobs[BUILDS] = WorkflowJob(
        name=expression("format('py {0}, torch {1}', matrix.row.python_version, matrix.row.pytorch_git_ref)"),
        needs=tuple(waits.values()),
        if_=every(["!cancelled()", "inputs.builds != '[]'", *done(waits)]),
        strategy=over("fromJSON(inputs.builds)"),
        permissions=dict(PERMISSIONS),
        uses=local(files.build),
        with_={
            **{name: expression(f"inputs.{name}") for name in (*_GROUP, "role")},
            **{name: expression(f"matrix.row.{name}") for name in _VERSIONS},
            **{
                name: _from(beside, name, platform)
                for name in ("rocm_package_find_links_url", "rocm_version")
            },
            "jobs": expression("toJSON(matrix.row.jobs)"),
        },
    )
    inputs: Document = {
        **_GROUP,
        "jobs": _JOBS,
        "builds": text_input("Builds of the group: JSON, rows of Python, reference and jobs"),
        "role": _ROLE,
    }
    return _workflow(inputs, _passed(beside, platform), f"CI {files.title}", jobs, table, platform)


def build_workflow(kinds: Sequence[JobKind], platform: str, table: WorkflowTable) -> Workflow:
    """One build, of CI and of releases alike: wheels, tests, and for a channel stage, gate, promote."""
    beside = [kind for kind in kinds if kind.level == "build"]
    jobs = {shown(kind.name, platform): place_job(kind, beside, platform, table) for kind in beside}
    inputs: Document = {
        **_GROUP,
        **_VERSIONS,
        "rocm_package_find_links_url": text_input("Where ROCm's packages of this run are listed", default=""),
        "rocm_version": text_input("Their version", default=""),
        "jobs": _JOBS,
        "role": _ROLE,
    }
    title = f"Build {FILES[platform].title} PyTorch wheels"
    return _workflow(inputs, _passed(beside, platform), title, jobs, table, platform)


def test_workflow(kind: JobKind, table: WorkflowTable) -> Workflow:
    """Tests on a machine with a GPU of one family; skipped where there is none."""
    build = kind.level == "build"
    packages = {
        "package_find_links_url": text_input("Where the wheels of this run are listed", default=""),
        "torch_version": text_input("The version to test", default=""),
    }
    inputs: Document = {
        "id": text_input("The step"),
        "artifact_group": text_input("What the tested packages were built in"),
        "platform": text_input("linux or windows"),
        "amdgpu_family": text_input("The family of GPUs"),
        "test_runs_on": text_input("Label of a machine with such a GPU; none: skipped", default=""),
        **({**_VERSIONS, **packages} if build else {}),
        "rocm_package_find_links_url": text_input("Where ROCm's packages of this run are listed", default=""),
        "role": _ROLE,
    }
    seen = [name for name in (*packages, "rocm_package_find_links_url") if name in inputs]
    jobs = {}
    for platform in PLATFORMS:
        container = table.container_of("test", platform)
        minutes = table.minutes(kind.name)
        jobs[f"{kind.name}_{platform}"] = WorkflowJob(
            name=expression("inputs.id"),
            if_=expression(f"inputs.test_runs_on != '' && inputs.platform == '{platform}'"),
            permissions=dict(PERMISSIONS),
            runs_on=expression("inputs.test_runs_on"),
            container=as_container(container),
            timeout_minutes=minutes,
            # For people who read the log; the step takes what it installs from the run's records.
            env={
                **work_environment(table, platform),
                **{name.upper(): expression(f"inputs.{name}") for name in seen},
            },
            steps=(
                *prepared(table, platform),
                *place_steps(
                    table,
                    expression("inputs.id"),
                    minutes,
                    version=expression("inputs.python_version") if build else "",
                    group=expression("inputs.artifact_group"),
                ),
            ),
        )
    title = "Test PyTorch wheels" if build else "Test ROCm wheels"
    return _workflow(inputs, {}, title, jobs, table)


def _told(kinds: Sequence[JobKind], name: str, platform: str) -> list[str]:
    return [shown(kind.name, platform) for kind in kinds if name in tells(kind)]


def _from(kinds: Sequence[JobKind], name: str, platform: str) -> str:
    told = [f"needs.{job}.outputs.{name}" for job in _told(kinds, name, platform)]
    return first(told) if told else ""


def _passed(kinds: Sequence[JobKind], platform: str) -> Document:
    """Outputs of the workflow: what its jobs tell, by whichever of them tells it."""
    names = dict.fromkeys(name for kind in kinds for name in tells(kind))
    return {
        name: {
            "description": f"{name.replace('_', ' ')} of this run",
            "value": first(f"jobs.{job}.outputs.{name}" for job in _told(kinds, name, platform)),
        }
        for name in names
    }
