"""`rocwright pipeline capture-summary | test-summary | workflow-summary`: the pages of workflows.

Also known as `capture_job_summary.py`, `summarize_test_pytorch_workflow.py` and `workflow_summary.py`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Repeated, Text
from rocwright.cli.reply import Reply, replies
from rocwright.errors import UsageError
from rocwright.model.platforms import Platform, this_platform
from rocwright.pipeline.tell.reproduce import test_report, tested
from rocwright.pipeline.tell.workflow import find_failed, judge_jobs, require_good
from rocwright.pipeline.tell.workflow import workflow_summary as summary
from rocwright.system import console
from rocwright.system.workflow import captured_summary, tell_block, tell_summary


@replies
def pipeline_capture_summary(
    *,
    output_name: str = "summary",
) -> Reply:
    """Give the summaries of this job's earlier steps as an output, for jobs that come after.

    A workflow shows a summary to people only. What rocwright added to it in this job is kept in $RUNNER_TEMP,
    printed, and appended to $GITHUB_OUTPUT. A job without summaries gives an empty output.

    Parameters
    ----------
    output_name
        The name of the output.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", output_name):
        raise UsageError(
            f"{output_name!r} is not a valid name of an output", next_step="use letters, digits, - and _ only"
        )
    text = captured_summary()
    if not tell_block(output_name, text):
        console.say("warning: GITHUB_OUTPUT is not set, so this is only printed and no workflow reads it")

    def show() -> None:
        if text:
            console.out(text)

    return Reply({output_name: text}, show)


@replies
def pipeline_test_summary(
    *,
    torch_version: Text = "",
    pytorch_git_ref: str = "nightly",
    index_url: Text = "",
    find_links: Repeated = (),
    index_subdir: Text = "",
    device_extras: Text = "",
    python_version: Text = "",
    platform: Platform | None = None,
) -> Iterator[Reply]:
    """Say what a workflow tests, with lines that set the same up on another machine.

    Printed, and added to the page of the workflow's run.

    Parameters
    ----------
    torch_version
        The version that is tested (default: the newest).
    pytorch_git_ref
        PyTorch's branch, tag or commit, for its tests: nightly and main of pytorch/pytorch, else of
        ROCm/pytorch.
    index_url
        The package index with the wheels.
    find_links
        Instead of an index: a page with the wheels; may be repeated.
    index_subdir
        The directory of a family below the index, such as gfx94X-dcgpu.
    device_extras
        Extras of torch for GPUs, such as device-gfx942; separated by commas.
    python_version
        Such as 3.12 (default: the one that runs this).
    platform
        linux or windows, for the spelling of the lines (default: this machine's).
    """
    here: Platform = this_platform()
    about = tested(
        torch=torch_version,
        python=python_version or f"{sys.version_info[0]}.{sys.version_info[1]}",
        ref=pytorch_git_ref,
        index=index_url,
        subdir=index_subdir,
        device=device_extras,
        find_links=find_links,
        platform=platform or here,
    )
    lines = test_report(about)
    yield Reply(about, lambda: console.out("\n".join(lines).rstrip("\n")))
    if not tell_summary(lines):
        console.say("GITHUB_STEP_SUMMARY is not set: the summary is only printed")


@replies
def pipeline_workflow_summary(
    *,
    needs_json: str,
    require: Repeated = (),
    github_repository: Annotated[str, Parameter(env_var="GITHUB_REPOSITORY", show_default=False)] = "",
    github_run_id: Annotated[str, Parameter(env_var="GITHUB_RUN_ID", show_default=False)] = "",
) -> Iterator[Reply]:
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
    yield Reply(outcome, lambda: console.out("\n".join(lines).rstrip("\n")))
    tell_summary(lines)
    require_good(outcome)
