"""Workflows, jobs and steps as values, where a dash in GitHub's words is an underscore; its expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

Document = dict[str, object]


_STEP_WORDS = {"if_": "if", "with_": "with", "continue_on_error": "continue-on-error"}


class WorkflowStep(msgspec.Struct, frozen=True, omit_defaults=True, rename=_STEP_WORDS):
    """A step: either an action with its inputs or one command."""

    name: str = ""
    id: str = ""
    if_: str = ""
    uses: str = ""
    with_: dict[str, object] = {}
    run: str = ""
    env: dict[str, str] = {}
    shell: str = ""
    continue_on_error: bool = False


class WorkflowJob(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "if_": "if",
        "runs_on": "runs-on",
        "timeout_minutes": "timeout-minutes",
        "with_": "with",
    },
):
    """A job: steps on a machine, or a call of another workflow (`uses`, `with_`)."""

    name: str = ""
    needs: tuple[str, ...] = ()
    if_: str = ""
    strategy: Document = {}
    permissions: dict[str, str] = {}
    runs_on: str = ""
    container: Document = {}
    timeout_minutes: int | str = 0
    uses: str = ""
    with_: dict[str, object] = {}
    outputs: dict[str, str] = {}
    env: dict[str, str] = {}
    steps: tuple[WorkflowStep, ...] = ()


class Workflow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file below `.github/workflows`; nothing is permitted but what a job asks for."""

    name: str
    on: Document
    permissions: dict[str, str] | None = None
    concurrency: Document = {}
    env: dict[str, str] = {}
    defaults: Document = {}
    jobs: dict[str, WorkflowJob] = {}


class CompositeAction(msgspec.Struct, frozen=True):
    """An action of this repository: steps that jobs share."""

    name: str
    description: str
    inputs: Document
    outputs: Document
    runs: Document


def text_input(description: str, *, default: str | None = None) -> dict[str, object]:
    """An input with text; without a default it is required."""
    given: dict[str, object] = {"description": description, "type": "string"}
    return {**given, "required": True} if default is None else {**given, "default": default}


# -- conditions of jobs, in GitHub's expressions

# Its `success()` also asks for jobs further back, so a skipped test would skip what a gate lets pass; each
# condition here names what it waits for.


def expression(text: str) -> str:
    """As a workflow writes it."""
    return "${{ " + text + " }}"


def has(job: str) -> str:
    """Whether the run has the job at this place: its id, or its rows."""
    return f"fromJSON(inputs.jobs).{job}"


def every(conditions: Iterable[str]) -> str:
    """All of them."""
    return expression(" && ".join(conditions))


def done(shown: Mapping[str, str]) -> list[str]:
    """That each of these jobs succeeded, of those that the run has; by name, as the workflow calls it."""
    return [f"(needs.{as_}.result == 'success' || !{has(job)})" for job, as_ in shown.items()]


def told(step: str, name: str) -> str:
    """An output of a step of the same job."""
    return expression(f"steps.{step}.outputs.{name}")


def first(job_outputs: Iterable[str]) -> str:
    """The first of these that says something."""
    return expression(" || ".join(job_outputs))


def local(file: str) -> str:
    """How a job calls a workflow of the same repository and commit."""
    return f"./.github/workflows/{file}.yml"


# Whether the run is of this repository: a pull request of a fork has no right to its store, nor to a role.
OWN = (
    "(github.event_name != 'pull_request' ||"
    " github.event.pull_request.head.repo.full_name == github.repository)"
)
# Truthy where the run has a store; else its results travel as artifacts.
STORED = f"{OWN} && vars.ROCWRIGHT_STORE"


def over(rows: str, name: str = "row") -> Document:
    """A matrix over the rows that an expression gives; a row that fails stops no other."""
    return {"fail-fast": False, "matrix": {name: expression(rows)}}
