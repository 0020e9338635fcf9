"""What a repository lacks for a run: refused before it begins, or said on the run's first page. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rocwright.errors import InvalidInput
from rocwright.model.plan import Choice, Plan, Profile, Publication
from rocwright.model.platforms import PLATFORMS
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import CARRY, STORE, TESTED, carries
from rocwright.pipeline.setup.event import Event


def require_publishable(
    profile: Profile,
    choice: Choice,
    event: Event,
    allowed: Publication,
    store: str | None,
    environment: Mapping[str, str],
) -> None:
    """Raise `InvalidInput` where somebody asks to publish and there is no store, or no right to write to it.

    Nobody asks by a schedule: without a store the night only builds and tests. A fork is refused nothing.
    """
    role = f"the variable {profile.role}" if profile.role else "a role"
    if store is None:
        if carries(environment) and choice.publish and event.trigger != "schedule":
            raise InvalidInput(
                f"nothing can be published: this repository names no store (the variable {STORE} is not set)",
                next_step=f"set {STORE} to s3://BUCKET/PREFIX and {role} to a role that may write there, or"
                " start it without publish: then the results are artifacts of the run",
            )
    elif not allowed.upload and not event.fork and environment.get(CARRY) == "store":
        raise InvalidInput(
            f"{store} is the store, and {allowed.why}",
            next_step=f"set {role} to a role that may write there, or take {STORE} away: then the results are"
            " artifacts of the run",
        )


def machine_notes(plan: Plan, table: WorkflowTable, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What a workflow's machines are too small for, or lack, as far as variables that it passes on say."""
    hosted, notes = table.hosted, []
    for platform in PLATFORMS:
        row = table.machine_of(platform)
        long = [job.name for job in plan.jobs if job.platform == platform and not job.skip and not job.family]
        limits = {name: table.minutes(name) for name in dict.fromkeys(long)}
        over = [f"{name} {minutes}" for name, minutes in limits.items() if minutes > hosted.minutes]
        # A variable that no workflow passed on is no word about machines.
        if plan.sources == "upstream" and over and environment.get(row.variable) == "":
            notes.append(
                f"PyTorch is built on {row.label}: GitHub stops its jobs after {hosted.minutes} minutes, and"
                f" it has about {hosted.disk_gb} GB of disk. These may take longer (minutes:"
                f" {', '.join(over)}). For larger machines set the variable {row.variable} to their label"
            )
    if environment.get(TESTED) == "none":
        notes.append(
            "no test needs a GPU: to test on runners of this repository, set the variable"
            f" {TESTED} to auto, or to the families whose runners it has"
        )
    return tuple(notes)
