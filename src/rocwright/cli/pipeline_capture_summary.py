"""`rocwright pipeline capture-summary`, also known as `capture_job_summary.py`."""

from __future__ import annotations

import re

from rocwright.cli.answer import Answer, answers
from rocwright.errors import UsageError
from rocwright.system import console
from rocwright.system.workflow import captured_summary, tell_block


@answers
def pipeline_capture_summary(
    *,
    output_name: str = "summary",
) -> Answer:
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
            f"{output_name!r} is no name of an output", next_step="use letters, digits, - and _ only"
        )
    text = captured_summary()
    if not tell_block(output_name, text):
        console.say("warning: GITHUB_OUTPUT is not set, so this is only printed and no workflow reads it")

    def show() -> None:
        if text:
            console.out(text)

    return Answer({output_name: text}, show)
