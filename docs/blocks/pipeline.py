"""The pipeline, from its definition: steps, jobs, profiles, variables of a repository, and a picture."""

from __future__ import annotations

from collections.abc import Callable

from blocks.text import code, table
from rocwright.data import load_table
from rocwright.model.plan import Choice, Profile, Publication
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.kinds import SUMMARY, Kind, kinds
from rocwright.pipeline.define.overview import mermaid
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.doctor.conditions import CONDITIONS
from rocwright.pipeline.doctor.variables import described, variables_read
from rocwright.pipeline.render.workflows import github_files


def render_kinds() -> str:
    """The steps, in the order in which they can be run."""
    changes = {"nothing": "", "run": "the run's folder", "channel": "a channel"}
    rows = [
        (
            code(kind.name),
            " ".join(kind.axes),
            " ".join(map(code, kind.needs)),
            code(kind.job),
            changes[kind.changes],
            "on a GPU" if kind.gpu else "also after failures" if kind.last else "",
        )
        for kind in (*_every_kind(), SUMMARY)
    ]
    return table(("Step", "For each", "Needs", "Job", "Changes", "Runs"), rows)


def render_jobs() -> str:
    """What one machine does: the jobs, their steps, and the jobs whose results they take."""
    every = (*_every_kind(), SUMMARY)
    job_of = {kind.name: kind.job for kind in every}
    held: dict[str, list[Kind]] = {}
    for kind in every:
        held.setdefault(kind.job, []).append(kind)
    rows = []
    for job, steps in held.items():
        needs = dict.fromkeys(job_of[need] for kind in steps for need in kind.needs if job_of[need] != job)
        after = "everything" if SUMMARY in steps else " ".join(map(code, needs))
        rows.append((code(job), " ".join(steps[0].axes), " ".join(code(kind.name) for kind in steps), after))
    return table(("Job", "For each", "Steps, one after the other", "After"), rows)


def render_profiles() -> str:
    """The profiles, side by side."""
    rows = profiles().profile
    fields: list[tuple[str, Callable[[Profile], str]]] = [
        ("platforms", lambda row: " ".join(row.platforms)),
        ("Pythons", lambda row: " ".join(row.pythons)),
        ("branches of torch", lambda row: " ".join(map(code, row.refs))),
        ("on Windows", lambda row: " ".join(map(code, row.refs_windows)) or "the same"),
        ("families of", lambda row: row.tier),
        ("builds", lambda row: "the miniature family" if row.sources == "miniature" else "PyTorch"),
        ("device code apart", lambda row: "yes" if row.split else "no"),
        ("channels", lambda row: " → ".join(filter(None, (row.stage, row.promote))) or "none"),
        ("changes them", lambda row: _PUBLISH[row.publish]),
    ]
    return table(("", *(code(row.name) for row in rows)), ((name, *map(say, rows)) for name, say in fields))


_PUBLISH = {
    "never": "never",
    "embedded": "in the run's own folder only",
    "asked": "with `--publish`",
}


def render_variables() -> str:
    """The variables of a repository that the rendered workflows read."""
    table_, rows = load_table("workflows", WorkflowTable), profiles()
    about = described(table_, rows.profile)
    read = variables_read(github_files(known(environment={}).projects, rows, table_))
    return table(
        ("Variable", "What it says", "Where it is not set"),
        ((code(name), about[name].about, about[name].unset) for name in read),
    )


def render_conditions() -> str:
    """What the doctor of a repository looks at."""
    return table(
        ("Finding", "What is looked at", "What mends it"),
        ((code(row.id), row.summary, row.next_step) for row in CONDITIONS),
    )


def render_ci() -> str:
    """The jobs of the profile ci for one family, as a flow chart."""
    choice = Choice(
        profile="ci",
        run_id="1",
        platforms=("linux",),
        families=("gfx94X-dcgpu",),
        refs=("release/2.12",),
        sources="upstream",
    )
    plan = make_plan(profiles().named("ci"), choice, known(environment={}), Publication(True, False))
    return f"```mermaid\n{mermaid(plan)}```"


def _every_kind() -> tuple[Kind, ...]:
    """The definition with all that a run can have, on the platform that has all of it."""
    projects = known(environment={}).projects["linux"]
    return kinds(projects, split=True, parts=True, staged=True, promoted=True)
