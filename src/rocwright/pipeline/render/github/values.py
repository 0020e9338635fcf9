"""Workflows as values. What GitHub calls a word with a dash has an underscore here."""

from __future__ import annotations

import msgspec

Document = dict[str, object]


class WorkflowStep(msgspec.Struct, frozen=True, omit_defaults=True, rename={"if_": "if", "with_": "with"}):
    """A step: either an action with its inputs or one command."""

    name: str = ""
    id: str = ""
    if_: str = ""
    uses: str = ""
    with_: dict[str, object] = {}
    run: str = ""
    env: dict[str, str] = {}
    shell: str = ""


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
    timeout_minutes: int = 0
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
