"""The run whose artifacts are meant: the run that is named, or the latest that succeeded.

Records in the store say which runs did; where it has none, GitHub is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, urlsplit

import msgspec

from rocwright.errors import InvalidInput, Unreachable
from rocwright.model.channels import Runs
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.artifacts import (
    ArtifactChoice,
    RunArtifacts,
    find_artifacts,
    find_if_whole,
    latest_run,
)
from rocwright.store.runs.run import Run, external_repo, runs_in
from rocwright.system.http import Refused, Web


def find_run(
    store: ObjectStore,
    run_id: str | None,
    platform: str,
    repository: str | None,
    wanted: ArtifactChoice,
    *,
    families: Mapping[str, Sequence[str]],
    about: Runs,
    environment: Mapping[str, str],
    note: Callable[[str], None],
) -> RunArtifacts:
    """What to fetch, of `run_id` or else of the newest successful run that has all of it.

    Which runs succeeded is in the records that `rocwright store upload` wrote; where no run of the store
    has a record, GitHub is asked for those of `about.workflow`. `repository` is owner/name, by default
    `about.repository`. Raises `InvalidInput` as `find_artifacts`, or when there is no such run;
    `Unreachable` when GitHub does not answer.
    """
    folder = external_repo(repository, about.repository)
    if run_id is not None:
        found = find_artifacts(store, Run(run_id, platform, folder), wanted, families)
        if found.result not in (None, "success"):
            note(f"warning: run {run_id} is recorded as {found.result}")
        return found
    latest = latest_run(store, platform, folder, wanted, families)
    if latest is None and runs_in(store, platform, folder):
        latest = _by_github(
            store, platform, repository or about.repository, folder, wanted, families, about, environment
        )
    if latest is None:
        raise InvalidInput(
            f"the store has no successful run on {platform} with all of these artifacts",
            where=store.url(folder) if folder else None,
            next_step="name a run with --run-id",
        )
    note(f"the latest successful run is {latest.run.run_id}")
    return latest


def _by_github(
    store: ObjectStore,
    platform: str,
    repository: str,
    folder: str,
    wanted: ArtifactChoice,
    families: Mapping[str, Sequence[str]],
    about: Runs,
    environment: Mapping[str, str],
) -> RunArtifacts | None:
    for run_id in successful_runs(repository, about, environment):
        found = find_if_whole(store, Run(run_id, platform, folder), wanted, families)
        if found is not None:
            return found
    return None


# -- by GitHub: for stores that keep no records of runs


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
        raise InvalidInput(
            f"GITHUB_API_URL is {said!r}, which is not the address of a web server",
            next_step="unset GITHUB_API_URL, or set it to https://HOST/api/v3",
        )
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
