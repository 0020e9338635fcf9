"""The first job of a run: what the event starts, as a plan, and what the other jobs are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidInput, Unreachable
from rocwright.model.plan import Choice, Job, Plan, Profile
from rocwright.model.platforms import PLATFORMS
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import Known, default_rocm, parse_rocm
from rocwright.pipeline.define.kinds import AXES
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.records import plan_key, read_plan, record_plan
from rocwright.pipeline.setup.choose import Chosen, Reusable, Tables, choose
from rocwright.pipeline.setup.event import Event, Triggers, changed_files, read_event
from rocwright.pipeline.setup.publication import publication
from rocwright.pipeline.setup.ready import machine_notes, require_publishable
from rocwright.pipeline.tell.summary import setup_summary
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.run import Run, records_of, runs_in
from rocwright.system.workflow import cell as text

# Among so many of the newest runs there should be what is wanted.
_MOST_RUNS = 50


class SetUp(msgspec.Struct, frozen=True):
    """A decision and its plan; None where nothing is run."""

    chosen: Chosen
    plan: Plan | None


def workflow_event(environment: Mapping[str, str], tree: Path) -> Event:
    """The event of a workflow, with the files that it changes as far as the checkout knows them."""
    event = read_event(environment)
    if event.trigger not in ("pull_request", "push"):
        return event
    merged = event.trigger == "pull_request"
    return msgspec.structs.replace(event, changed=changed_files(tree, event.base, merged=merged))


def load_triggers(overlay: Overlay | None = None) -> Triggers:
    """The table of triggers, with a `rocwright.toml`; raises `InvalidData` naming file and field."""
    return load_table("triggers", Triggers, overlay)


def set_up(
    event: Event,
    profile: Profile,
    base: Choice,
    known: Known,
    triggers: Triggers,
    *,
    store: str | None,
    environment: Mapping[str, str],
    reusable: Reusable,
) -> SetUp:
    """What the event starts; `store` is None for the folder in the run's own directory. Nothing is written.

    Raises `UsageError` and `InvalidTarget` as `choose` and `make_plan`, `InvalidInput` for what a workflow
    lacks to do what is asked for.
    """
    components = {name for held in known.projects.values() for name, _ in held}
    projects = tuple(sorted(components))
    tables = Tables(
        triggers,
        known.families,
        known.runners,
        projects,
        known.miniature.name,
        usual_rocm=lambda mini: default_rocm(profile, known, mini=mini),
        parse_rocm=lambda text: parse_rocm(text, known),
    )
    chosen = choose(event, profile, base, tables, reusable)
    if not chosen.run:
        return SetUp(chosen, None)
    allowed = publication(profile, chosen.choice, store, environment)
    require_publishable(profile, chosen.choice, event, allowed, store, environment)
    plan = make_plan(profile, chosen.choice, known, allowed)
    more = machine_notes(plan, load_table("workflows", WorkflowTable), environment)
    return SetUp(msgspec.structs.replace(chosen, notes=(*chosen.notes, *more)), plan)


def recorded(store: ObjectStore, plan: Plan, environment: Mapping[str, str]) -> Plan:
    """Record the plan of a run. A run that is attempted again keeps its plan, whatever was built meanwhile.

    Raises `InvalidInput` where the run has another plan in the store.
    """
    again = environment.get("GITHUB_RUN_ATTEMPT", "") not in ("", "1")
    if again and store.exists(plan_key(plan.run_id)):
        return msgspec.structs.replace(read_plan(store, plan.run_id), publication=plan.publication)
    record_plan(store, plan)
    return plan


def latest_packages(
    store: ObjectStore, groups: Mapping[str, Sequence[str]], *, own: str, external_repo: str = ""
) -> str:
    """The newest run with ROCm's packages for these groups by platform, all successes; "" for none.

    `own` is the run that asks: its packages are not there yet. Only records are read.
    """
    platforms = list(groups)
    if not platforms:
        return ""
    for run in runs_in(store, platforms[0], external_repo)[:_MOST_RUNS]:
        if run.run_id != own and all(
            _has(store, Run(run.run_id, platform, external_repo), groups[platform]) for platform in platforms
        ):
            return run.run_id
    return ""


def latest_told(
    store: ObjectStore, groups: Mapping[str, Sequence[str]], *, own: str, note: Callable[[str], None]
) -> str:
    """`latest_packages`; "" with a note where the store cannot be read, as by a fork's pull request."""
    try:
        return latest_packages(store, groups, own=own)
    except (InvalidInput, Unreachable) as error:
        note(f"warning: no earlier run can be looked for: {error.what}")
        return ""


def _has(store: ObjectStore, run: Run, groups: Sequence[str]) -> bool:
    results = {record.group: record.result for record in records_of(store, run, "python")}
    return all(results.get(group) == "success" for group in groups)


# -- what people and the other jobs are told


def summary(done: SetUp, profile: str) -> tuple[str, ...]:
    """The decision for the first page of a workflow, as Markdown."""
    chosen = done.chosen
    trigger, *others = chosen.reasons
    more = [*others, *chosen.highlights, *chosen.notes]
    if done.plan is not None:
        return setup_summary(done.plan, trigger=trigger, highlights=more)
    return (f"## {text(profile)}: nothing is run", "", *(f"* {text(one)}" for one in (trigger, *more)), "")


def outputs(done: SetUp) -> dict[str, str]:
    """What the workflow is told, by name: each a line of text, lists as JSON."""
    chosen, plan = done.chosen, done.plan
    nothing = {"run_id": chosen.choice.run_id, "lock_sources": "[]"}
    nothing |= {f"{platform}_groups": "[]" for platform in PLATFORMS}
    said = nothing if plan is None else workflow_outputs(plan)
    return {
        "run": _flag(chosen.run),
        "upload": _flag(plan is not None and plan.publication.upload),
        "test_level": chosen.test_level,
        "tests": msgspec.json.encode(chosen.tests).decode(),
        "artifact_run_id": plan.rocm.at if plan is not None and plan.rocm.kind == "packages" else "",
        "rocm": "" if plan is None else plan.rocm.told,
        "summary": " ".join("; ".join(chosen.reasons).split()),
        **said,
    }


def output_lines(done: SetUp) -> list[str]:
    """`outputs` as a workflow reads them."""
    return [f"{name}={value}" for name, value in outputs(done).items()]


def _flag(value: bool) -> str:
    return "true" if value else "false"


# An id, or a row for each value of the axes that a job has of its own.
Jobs = dict[str, str | list[dict[str, str]]]
_GROUP = ("platform", "group")
_BUILD = ("platform", "python", "ref", "group")


def workflow_outputs(plan: Plan) -> dict[str, str]:
    """By name: `run_id`, for each platform `<platform>_groups`, and the ids of each job outside of groups.

    Groups are a JSON list of `{group, families, jobs, builds}`, builds one of `{python_version,
    pytorch_git_ref, jobs}`; `jobs` has the id of each job that the run has, by its name, or where it is there
    several times a list of `{id, family, runner, shard}`, `{id, part}` or `{id, shard}`. Jobs on channels are
    left out where the run may not change any; where it may not write there are none: no machine could read
    what another made.
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
    cut = {cell.job for cell in plan.cells if cell.kind == "test-units"}
    for job in jobs:
        if job.skip and job.name in cut:
            # Whoever needs it reads in the plan why there is nothing to do.
            continue
        own: dict[str, str] = {
            axis: getattr(job, axis) for axis in AXES if axis not in common and getattr(job, axis)
        }
        if not own and job.name not in cut:
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
