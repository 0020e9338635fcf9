"""Ask GitHub which runs of a workflow succeeded: for stores that keep no records of runs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import msgspec

from rocwright.errors import InvalidInput, Unreachable
from rocwright.model.channels import Runs
from rocwright.system.http import Refused, Web

API = "https://api.github.com"
_LARGEST = 16 << 20
_PER_PAGE = 20


class _WorkflowRun(msgspec.Struct, frozen=True):
    id: int
    conclusion: str | None = None


class _RunsReply(msgspec.Struct, frozen=True):
    workflow_runs: tuple[_WorkflowRun, ...]


def successful_runs(
    repository: str, about: Runs, environment: Mapping[str, str], *, web: Web | None = None
) -> tuple[str, ...]:
    """Ids of the last successful runs of the workflow in `repository` (owner/name), the newest first.

    `GITHUB_API_URL` names another server, `GITHUB_TOKEN` raises its limits and opens private repositories.
    Raises `Unreachable` when it does not answer, `InvalidInput` when it knows no such workflow.
    """
    address = api_address(environment)
    page = (
        f"{address}/repos/{quote(repository)}/actions/workflows/{quote(about.workflow)}/runs"
        f"?branch={quote(about.branch, safe='')}&status=success&per_page={_PER_PAGE}"
    )
    with web or Web() as asked:
        try:
            answer = asked.get(asked.enter(page), limit=_LARGEST, accept="application/vnd.github+json")
        except Refused as error:
            raise _refusal(error, repository, about, environment) from error
    try:
        runs = msgspec.json.decode(answer.body, type=_RunsReply).workflow_runs
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreachable(
            f"{answer.url} does not answer as GitHub does: {error}", next_step="give the run with --run-id"
        ) from error
    # A server may not know the filter.
    return tuple(str(run.id) for run in runs if run.conclusion in (None, "success"))


def api_address(environment: Mapping[str, str]) -> str:
    """GitHub's, or that of `GITHUB_API_URL`, with the token of `GITHUB_TOKEN` as a login."""
    said = environment.get("GITHUB_API_URL") or API
    parts = urlsplit(said)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"GITHUB_API_URL is {said!r}, which is no address of a web server")
    token = environment.get("GITHUB_TOKEN")
    # As a login, which is shown nowhere and sent to this server alone.
    login = f"x-access-token:{quote(token, safe='')}@" if token else ""
    return f"{parts.scheme}://{login}{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _refusal(
    error: Refused, repository: str, about: Runs, environment: Mapping[str, str]
) -> InvalidInput | Unreachable:
    if error.status == 404:
        return InvalidInput(
            f"GitHub knows no workflow {about.workflow} of {repository}",
            next_step="check the repository, or give the run with --run-id",
        )
    if error.status in (401, 403, 429):
        token = "check GITHUB_TOKEN" if environment.get("GITHUB_TOKEN") else "set GITHUB_TOKEN"
        return Unreachable(
            f"GitHub does not say which runs of {repository} succeeded (status {error.status})",
            next_step=f"{token}, or give the run with --run-id",
        )
    return error
