"""Whether a job may upload wheels to the release, by what a workflow knows: results, runner, bypass, branch.

The first rule that matches decides. A release branch once went first, and uploaded what had failed to build:

1. `build`: the build did not succeed.
2. `branch`: a release branch is promoted by hand, its wheels are uploaded once they are built.
3. `tests`: there is a runner, and the tests did not pass on it. A bypass does not help.
4. `untested`: there is no runner, and no bypass: blocked by default.
5. `bypassed`: there is no runner, and `bypass_tests_for_releases` is set.
6. `passed`: the tests passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput

RELEASE_BRANCH = "release/therock-"
RESULTS = ("success", "failure", "cancelled", "skipped")
Rule = Literal["build", "branch", "tests", "untested", "bypassed", "passed"]
_TRUE, _FALSE = ("true", "1"), ("false", "0", "")


class WorkflowFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a workflow knows; `tests` is None where it is not known, `runner` the label (empty: none)."""

    build: str
    tests: str | None
    runner: str
    bypass: bool
    branch: str


class UploadDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether to upload, by which rule, and why in one sentence."""

    upload: bool
    rule: Rule
    reason: str


def known(environment: Mapping[str, str]) -> WorkflowFacts:
    """Read BUILD_RESULT, TEST_RESULT, TEST_RUNS_ON, BYPASS_TESTS_FOR_RELEASES and GITHUB_REF_NAME.

    Raises `InvalidInput` for a result that GitHub does not have, and for a bypass that is neither true nor
    false: a text such as "no" must not count as yes.
    """
    said = environment.get("BYPASS_TESTS_FOR_RELEASES", "").strip().lower()
    if said not in (*_TRUE, *_FALSE):
        raise InvalidInput(
            f"BYPASS_TESTS_FOR_RELEASES is {said!r}", next_step="write true or false; empty counts as false"
        )
    return WorkflowFacts(
        build=_result(environment, "BUILD_RESULT") or "",
        tests=_result(environment, "TEST_RESULT"),
        runner=environment.get("TEST_RUNS_ON", "").strip(),
        bypass=said in _TRUE,
        branch=environment.get("GITHUB_REF_NAME", "").strip(),
    )


def _result(environment: Mapping[str, str], name: str) -> str | None:
    said = environment.get(name, "").strip()
    if said and said not in RESULTS:
        raise InvalidInput(f"{name} is {said!r}", next_step=f"results of a job are: {', '.join(RESULTS)}")
    return said or None


def may_upload(what: WorkflowFacts) -> UploadDecision:
    """Apply the rules above."""
    if what.build != "success":
        return UploadDecision(False, "build", f"the build ended with: {what.build or 'no result'}")
    if what.branch.startswith(RELEASE_BRANCH):
        return UploadDecision(True, "branch", f"{what.branch} is a release branch, and the build succeeded")
    tests = what.tests or "no result"
    if what.runner:
        if tests != "success":
            bypass = "; a bypass does not apply where a runner exists" if what.bypass else ""
            return UploadDecision(False, "tests", f"the tests on {what.runner} ended with: {tests}{bypass}")
        return UploadDecision(True, "passed", f"the tests passed on {what.runner}")
    if not what.bypass:
        return UploadDecision(
            False, "untested", "there is no runner to test on, and bypass_tests_for_releases is not set"
        )
    return UploadDecision(
        True, "bypassed", "there is no runner to test on, and bypass_tests_for_releases is set"
    )
