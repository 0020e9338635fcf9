"""`rocwright store policy`: whether a job of a workflow may upload wheels to the release."""

from __future__ import annotations

import os

from rocwright.cli.reply import Reply, replies
from rocwright.store.runs.policy import known, may_upload
from rocwright.system import console
from rocwright.system.workflow import tell_workflow


@replies
def store_policy() -> Reply:
    """Say whether a job of a workflow may upload wheels to the release: upload=true or upload=false.

    Read are $BUILD_RESULT, $TEST_RESULT, $TEST_RUNS_ON (the runner's label), $BYPASS_TESTS_FOR_RELEASES
    and $GITHUB_REF_NAME. The line is printed and appended to $GITHUB_ENV. Sets are promoted by
    `rocwright set promote`, which looks at the tested bytes; this is for workflows that have results only.

    Parameters
    ----------
    json
        Print the decision as JSON.
    """
    decision = may_upload(known(os.environ))
    line = f"upload={str(decision.upload).lower()}"
    if not tell_workflow([line], "GITHUB_ENV"):
        console.say("warning: GITHUB_ENV is not set; the decision is printed only")

    def show() -> None:
        console.say(f"rule {decision.rule}: {decision.reason}")
        console.out(line)

    return Reply(decision, show)
