"""What the setup job of a workflow tells the others: which jobs a plan has, by group and by build. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rocwright.model.plan import Job, Plan
from rocwright.model.platforms import PLATFORMS
from rocwright.pipeline.define.kinds import AXES

# An id, or a row for each value of the axes that a job has of its own.
Jobs = dict[str, str | list[dict[str, str]]]
_GROUP = ("platform", "group")
_BUILD = ("platform", "python", "ref", "group")


def workflow_outputs(plan: Plan) -> dict[str, str]:
    """By name: `run_id`, for each platform `<platform>_groups`, and the ids of each job outside of groups.

    Groups are a JSON list of `{group, families, jobs, builds}`, builds one of `{python_version,
    pytorch_git_ref, jobs}`; `jobs` has the id of each job that the run has, by its name, or where it is there
    several times a list of `{id, family, runner}` or `{id, part}`. Jobs on channels are left out where the
    run may not change any; where it may not write there are none: no machine could read
    what another one made.
    """
    jobs = _taken(plan)
    told = {"run_id": plan.run_id}
    for platform in PLATFORMS:
        here = [job for job in jobs if job.platform == platform]
        groups = [
            _group(plan, name, platform, here) for name in dict.fromkeys(job.group for job in here) if name
        ]
        told[f"{platform}_groups"] = _json(groups)
    for name, ids in _outside(jobs).items():
        told[name] = _json(ids)
    return told


def _taken(plan: Plan) -> list[Job]:
    if not plan.publication.upload:
        return []
    if plan.publication.channels:
        return list(plan.jobs)
    changing = {cell.job for cell in plan.cells if cell.changes == "channel"}
    left = {job.id for job in plan.jobs if job.name in changing}
    # What judges a staged set, too.
    left |= {job.id for job in plan.jobs if job.group and left.intersection(job.needs)}
    return [job for job in plan.jobs if job.id not in left]


def _outside(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """Of jobs that have a place and no group; that of the whole run is called by its name."""
    found: dict[str, list[str]] = {"lock_sources": []}
    for job in jobs:
        if job.platform and not job.group:
            found.setdefault(job.name, []).append(job.id)
    return found


def _group(plan: Plan, name: str, platform: str, jobs: Iterable[Job]) -> dict[str, object]:
    of = [job for job in jobs if job.group == name]
    builds: dict[tuple[str, str], list[Job]] = {}
    for job in of:
        if job.python:
            builds.setdefault((job.python, job.ref), []).append(job)
    return {
        "group": name,
        "families": ";".join(plan.group(name, platform).families),
        "jobs": _jobs(plan, (job for job in of if not job.python), _GROUP),
        "builds": [
            {"python_version": python, "pytorch_git_ref": ref, "jobs": _jobs(plan, held, _BUILD)}
            for (python, ref), held in builds.items()
        ],
    }


def _jobs(plan: Plan, jobs: Iterable[Job], common: tuple[str, ...]) -> Jobs:
    found: Jobs = {}
    for job in jobs:
        own: dict[str, str] = {
            axis: getattr(job, axis) for axis in AXES if axis not in common and getattr(job, axis)
        }
        if not own:
            found[job.name] = job.id
            continue
        row: dict[str, str] = {"id": job.id}
        row.update(own)
        if "family" in own:
            row["runner"] = job.runner
        rows = found.setdefault(job.name, [])
        assert isinstance(rows, list)
        rows.append(row)
    return found


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
