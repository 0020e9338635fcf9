"""`rocwright store fetch | artifacts`: the artifacts of a run; the latter is `artifact_manager.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.options import Count, Text
from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import RunOptions
from rocwright.pipeline.fetch_artifacts import Fetched, fetch_artifacts
from rocwright.store.runs.artifacts import ArtifactChoice, RunArtifacts, words
from rocwright.store.runs.latest import find_run
from rocwright.system import console

_WHOSE = RunOptions()


@replies
def store_fetch(
    *include: str,
    run_id: str | None = None,
    artifact_group: Annotated[str, Parameter(name=("--artifact-group", "--target"), show_default=False)] = "",
    amdgpu_targets: Text = "",
    output_dir: Path = Path("build/artifacts"),
    exclude: Annotated[
        tuple[str, ...], Parameter(consume_multiple=True, negative=(), show_default=False)
    ] = (),
    extract: bool = True,
    jobs: Count = 4,
    dry_run: bool = False,
    whose: RunOptions = _WHOSE,
) -> Reply:
    """Fetch the artifacts of a run, compare them with their digests and unpack them.

    An interrupted fetch is resumed, and what is already there is kept. Artifacts for every GPU come along;
    lists are separated by spaces, commas or semicolons.

    Parameters
    ----------
    include
        Names or patterns of artifacts, such as blas or "rocprofiler*" (default: all).
    run_id
        The run (default: the latest that succeeded and has what is wanted).
    artifact_group
        Families, such as gfx110X-all, or targets (default: all that the run has).
    amdgpu_targets
        Only these targets of the families.
    output_dir
        Where the artifact directories go; made if it is not there.
    exclude
        Names or patterns of artifacts to leave out.
    extract
        Unpack the archives; or keep them as they are.
    jobs
        Downloads at once.
    dry_run
        Say what would be fetched, and fetch nothing.
    json
        Print the result as JSON.
    """
    return fetched(
        include,
        run_id,
        artifact_group=artifact_group,
        amdgpu_targets=amdgpu_targets,
        output_dir=output_dir,
        exclude=exclude,
        extract=extract,
        jobs=jobs,
        dry_run=dry_run,
        whose=whose,
    )


def fetched(
    include: tuple[str, ...],
    run_id: str | None,
    *,
    artifact_group: str,
    amdgpu_targets: str,
    output_dir: Path,
    exclude: tuple[str, ...],
    extract: bool,
    jobs: int,
    dry_run: bool,
    whose: RunOptions,
) -> Reply:
    """Find the run, and fetch what is wanted of it, or say what would be fetched."""
    wanted = ArtifactChoice(words([artifact_group]), words([amdgpu_targets]), words(include), words(exclude))
    store = whose.opened(reading=True)
    found = find_run(
        store,
        run_id,
        whose.on(),
        whose.repository,
        wanted,
        families=whose.families(),
        about=whose.channels().runs,
        environment=os.environ,
        note=console.say,
    )
    if dry_run:
        return _found_reply(found)
    done = fetch_artifacts(store, found, output_dir, unpack=extract, threads=jobs, note=console.say)
    return _done_reply(done)


def _found_reply(found: RunArtifacts) -> Reply:

    def show() -> None:
        rows = [
            (one.artifact, console.human_bytes(one.size), one.sha256 or "unknown") for one in found.archives
        ]
        title = f"would fetch from run {found.run.run_id}: {console.human_bytes(found.size)}"
        console.table(title, ("artifact", "size", "sha256"), rows, right=(1,))

    return Reply({"run_id": found.run.run_id, "archives": found.archives, "size": found.size}, show)


def _done_reply(done: Fetched) -> Reply:
    if done.unverified:
        console.say(f"warning: no digest is known for: {', '.join(done.unverified)}")

    def show() -> None:
        kept = f", {len(done.kept)} already there" if done.kept else ""
        size = console.human_bytes(done.size)
        console.out(f"{done.directory}: {len(done.artifacts)} artifacts of run {done.run_id}, {size}{kept}")

    return Reply(done, show)


@replies
def artifacts_fetch(
    *,
    output_dir: Path,
    run_id: str | None = None,
    stage: Literal["all"] = "all",
    amdgpu_families: Text = "",
    amdgpu_targets: Text = "",
    exclude: Annotated[
        tuple[str, ...], Parameter(consume_multiple=True, negative=(), show_default=False)
    ] = (),
    jobs: Count = 4,
    dry_run: bool = False,
    whose: RunOptions = _WHOSE,
) -> Reply:
    """Fetch the artifacts of a run into OUTPUT_DIR/artifacts; else as `rocwright store fetch`.

    Parameters
    ----------
    output_dir
        A directory of a build; the artifacts go to artifacts/ in it.
    run_id
        The run (default: the latest that succeeded and has what is wanted).
    stage
        Artifacts of all stages of the build.
    amdgpu_families
        Families, separated by spaces, commas or semicolons (default: all that the run has).
    amdgpu_targets
        Only these targets of the families.
    exclude
        Names or patterns of artifacts to leave out.
    jobs
        Downloads at once.
    dry_run
        Say what would be fetched, and fetch nothing.
    json
        Print the result as JSON.
    """
    return fetched(
        (),
        run_id,
        artifact_group=amdgpu_families,
        amdgpu_targets=amdgpu_targets,
        output_dir=output_dir / "artifacts",
        exclude=exclude,
        extract=True,
        jobs=jobs,
        dry_run=dry_run,
        whose=whose,
    )
