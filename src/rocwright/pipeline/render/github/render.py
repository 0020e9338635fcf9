"""Every workflow of this repository, as files below its root. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from rocwright.errors import MissingTool
from rocwright.model.platforms import PLATFORMS
from rocwright.model.profile import Profile, ProfileTable
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.kinds import Kind
from rocwright.pipeline.render.github.called import build_workflow, group_workflow, test_workflow
from rocwright.pipeline.render.github.entry import ci_workflow, own_workflow, release_workflow
from rocwright.pipeline.render.github.graph import every_kind, job_kinds
from rocwright.pipeline.render.github.jobs import tells
from rocwright.pipeline.render.github.names import FILES
from rocwright.pipeline.render.github.steps import ACTION, step_action
from rocwright.pipeline.render.github.values import CompositeAction, Workflow

DIRECTORY = PurePosixPath(".github/workflows")
ACTION_FILE = PurePosixPath(ACTION.removeprefix("$/")) / "action.yml"
Projects = Sequence[tuple[str, Sequence[str]]]


def github_files(
    projects: Mapping[str, Projects], profiles: ProfileTable, table: WorkflowTable
) -> dict[PurePosixPath, str]:
    """Text by path; `projects` are those of the family by platform."""
    runs = {platform: every_kind(projects[platform]) for platform in PLATFORMS}
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
    """Those that may publish when asked to, and the one for tries; nightly first."""
    wanted = [p for p in profiles.profile if p.publish == "asked" or p.release_type == "dev"]
    return tuple(sorted(wanted, key=lambda profile: profile.release_type != "nightly"))


# -- the text of a workflow, or of an action


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
