"""`rocwright store artifacts push | copy`: a build's or another run's artifacts become those of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Count, Text
from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import RunOptions
from rocwright.errors import UsageError
from rocwright.pipeline.push_artifacts import (
    ALL,
    built_artifacts,
    copied_artifacts,
    copy_artifacts,
    push_artifacts,
    stage_artifacts,
)
from rocwright.store.runs.artifacts import ArtifactChoice, UploadedArtifacts, words
from rocwright.store.runs.run import Run, external_repo
from rocwright.system import console

_WHOSE = RunOptions()


@replies
def artifacts_push(
    *,
    build_dir: Path,
    run_id: Annotated[str, Parameter(env_var="GITHUB_RUN_ID")],
    stage: Text = ALL,
    topology: Path | None = None,
    jobs: Count = 4,
    dry_run: bool = False,
    whose: RunOptions = _WHOSE,
) -> Reply:
    """Pack the artifacts of a build and upload them as those of a run, each with its sha256.

    Archives that are there are taken as they are. What the run has already is never replaced by other bytes.

    Parameters
    ----------
    build_dir
        The build's directory; its artifacts are in artifacts/.
    run_id
        The run, a number or a name.
    stage
        Only what this stage of the build makes, which --topology says.
    topology
        A BUILD_TOPOLOGY.toml of TheRock.
    jobs
        Threads that pack.
    dry_run
        Say what would be uploaded, and write nothing.
    json
        Print the result as JSON.
    """
    found = built_artifacts(build_dir, stage_artifacts(words([stage]), topology))
    run = Run(run_id, whose.on(), whose.external_repo())
    store = whose.opened(reading=dry_run)
    if dry_run:
        return _would(store.url(run.folder), [path.name for path in found])
    return _did(push_artifacts(store, found, run, threads=jobs, note=console.say))


@replies
def artifacts_copy(
    *,
    source_run_id: str,
    run_id: Annotated[str, Parameter(env_var="GITHUB_RUN_ID")],
    source_repository: str | None = None,
    stage: Text = ALL,
    topology: Path | None = None,
    amdgpu_families: Text = "",
    amdgpu_targets: Text = "",
    generic_only: bool = False,
    dry_run: bool = False,
    whose: RunOptions = _WHOSE,
) -> Reply:
    """Copy artifacts of one run to another, within the store.

    Parameters
    ----------
    source_run_id
        The run that has them.
    run_id
        The run that gets them.
    source_repository
        The repository of the first run, as owner/name (default: that of the second).
    stage
        Only what these stages of the build make, which --topology says.
    topology
        A BUILD_TOPOLOGY.toml of TheRock.
    amdgpu_families
        Families, separated by spaces, commas or semicolons (default: all that the run has).
    amdgpu_targets
        Only these targets of the families.
    generic_only
        Only what is for every GPU.
    dry_run
        Say what would be copied, and write nothing.
    json
        Print the result as JSON.
    """
    if generic_only and (amdgpu_families or amdgpu_targets):
        raise UsageError(
            "--generic-only leaves out what is for families and targets", next_step="leave one of them out"
        )
    own = whose.channels().runs.repository
    run = Run(run_id, whose.on(), whose.external_repo())
    source = Run(source_run_id, whose.on(), external_repo(source_repository or whose.repository, own))
    if source == run:
        raise UsageError("both runs are the same", next_step="name another --source-run-id")
    made = stage_artifacts(words([stage]), topology)
    wanted = ArtifactChoice(words([amdgpu_families]), words([amdgpu_targets]), made)
    store = whose.opened(reading=dry_run)
    found = copied_artifacts(store, source, wanted, whose.families(), generic_only=generic_only)
    if dry_run:
        return _would(store.url(run.folder), [one.artifact for one in found])
    return _did(copy_artifacts(store, found, run, note=console.say))


def _would(url: str, names: Sequence[str]) -> Reply:
    def show() -> None:
        for name in names:
            console.out(name)
        console.say(f"would go to {url}")

    return Reply({"url": url, "artifacts": names, "dry_run": True}, show)


def _did(done: UploadedArtifacts) -> Reply:
    def show() -> None:
        rows = [(console.human_bytes(file.size), file.name) for file in done.files]
        console.table(f"in {done.url}", ("size", "artifact"), rows, right=(0,))

    return Reply({"url": done.url, "files": done.files, "dry_run": False}, show)
