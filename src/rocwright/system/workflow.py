"""The door to a workflow's files: what GitHub Actions reads back from a step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rocwright.system.files import disk_error


def tell_workflow(
    lines: Sequence[str], variable: str = "GITHUB_OUTPUT", environment: Mapping[str, str] = os.environ
) -> bool:
    """Append `name=value` lines to the file that a variable names; False where it is not set or empty."""
    said = environment.get(variable)
    if not said:
        return False
    try:
        with Path(said).open("a", encoding="utf-8") as stream:
            stream.writelines(line + "\n" for line in lines)
    except OSError as error:
        raise disk_error(error, Path(said)) from error
    return True


def tell_summary(lines: Sequence[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Add lines of Markdown to the step's summary; False where there is no workflow.

    A later step cannot read an earlier one's summary: a copy for the whole job lies where `job_summary` says.
    """
    copy = job_summary(environment)
    if copy is not None:
        tell_workflow(lines, "summary", {"summary": str(copy)})
    return tell_workflow(lines, "GITHUB_STEP_SUMMARY", environment)


def job_summary(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file with all summaries of this job, in the runner's directory of temporary files."""
    temporary = environment.get("RUNNER_TEMP")
    return Path(temporary) / "rocwright-job-summary.md" if temporary else None


def captured_summary(environment: Mapping[str, str] = os.environ) -> str:
    """All summaries of this job up to now; empty where there is none."""
    copy = job_summary(environment)
    if copy is None or not copy.is_file():
        return ""
    try:
        return copy.read_text("utf-8").strip("\n")
    except OSError as error:
        raise disk_error(error, copy) from error


def tell_block(
    name: str, text: str, variable: str = "GITHUB_OUTPUT", environment: Mapping[str, str] = os.environ
) -> bool:
    """Append a value of several lines, as `tell_workflow` does a value of a line."""
    lines = text.split("\n")
    end = "END"
    # The line that ends the value must not be a line of it.
    while end in lines:
        end += "_"
    return tell_workflow([f"{name}<<{end}", *lines, end], variable, environment)
