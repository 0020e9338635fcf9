"""`rocwright pipeline workflow-summary`, also known as `workflow_summary.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import Several
from rocwright.pipeline.tell.workflow import find_failed, judge_jobs, require_good
from rocwright.pipeline.tell.workflow import workflow_summary as summary
from rocwright.system import console
from rocwright.system.workflow import tell_summary


@answers
def pipeline_workflow_summary(
    *,
    needs_json: str,
    require: Several = (),
    github_repository: Annotated[str, Parameter(env_var="GITHUB_REPOSITORY", show_default=False)] = "",
    github_run_id: Annotated[str, Parameter(env_var="GITHUB_RUN_ID", show_default=False)] = "",
) -> Iterator[Answer]:
    """Judge the jobs of a workflow in one job at its end, which a branch can require.

    A job may end with success or skipped; one with the output continue_on_error=true may also fail. What
    failed is named with the addresses of its logs. Printed, and added to the page of the workflow's run. Ends
    with 1 when a job did not end well.

    Parameters
    ----------
    needs_json
        What the workflow calls toJSON(needs).
    require
        A job that must not be skipped; may be repeated.
    github_repository
        As owner/name: GitHub is asked which jobs of called workflows failed ($GITHUB_TOKEN, $GITHUB_API_URL).
    github_run_id
        The run of the workflow.
    """
    outcome = judge_jobs(needs_json, require)
    if outcome.bad and github_repository and github_run_id:
        outcome = find_failed(outcome, github_repository, github_run_id, os.environ)
    lines = summary(outcome)
    yield Answer(outcome, lambda: console.out("\n".join(lines).rstrip("\n")))
    tell_summary(lines)
    require_good(outcome)
