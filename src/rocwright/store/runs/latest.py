"""The run whose artifacts are meant: the one that is named, or the latest that succeeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rocwright.errors import InvalidInput
from rocwright.model.channels import Runs
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.artifacts import ArtifactChoice
from rocwright.store.runs.find import RunArtifacts, find_artifacts, find_if_whole, latest_run
from rocwright.store.runs.github import successful_runs
from rocwright.store.runs.run import Run, external_repo, runs_in


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

    Which ones succeeded say the records that `rocwright store upload` wrote; where no run of the store
    has one, GitHub is asked for those of `about.workflow`. `repository` is owner/name, by default
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
