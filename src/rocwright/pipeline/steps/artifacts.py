"""Steps of a run whose ROCm is made from the artifacts of an earlier run."""

from __future__ import annotations

from pathlib import Path

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.model.gpu import Families
from rocwright.pipeline.fetch_artifacts import Fetched, fetch_artifacts
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.rocm import Pinned, packages_step
from rocwright.pipeline.steps.taken import source_run
from rocwright.sdk.build import BuiltPackages, make_packages
from rocwright.sdk.intake.forms import artifacts_in
from rocwright.sdk.plan.release import Packaging
from rocwright.store.runs.artifacts import ArtifactArchive, ArtifactChoice, RunArtifacts, find_artifacts
from rocwright.system.console import human_bytes


def artifacts_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-artifacts` of an earlier run: pins its archives by their digests."""

    def act(_: Inputs, note: Note) -> Pinned:
        run = source_run(options)
        wanted = ArtifactChoice(families=options.families)
        note(f"looking at run {run.run_id}")
        found = find_artifacts(options.store, run, wanted, options.table("families", Families).families)
        # Where nobody said a digest, that of the bytes that are there now is what counts from here on.
        files = {one.key: one.sha256 or options.store.digest(one.key) for one in found.archives}
        return Pinned("artifacts", f"run {run.run_id}", files, found.size)

    return Step(
        id="rocm-artifacts",
        result=Pinned,
        act=act,
        needs=needs,
        rooms=("store/runs",),
        facts=lambda: {"run": options.rocm, "platform": options.platform, "families": options.families},
        summary=lambda value: f"{value.what}: {len(value.files)} archives, {human_bytes(value.size)}",
    )


def archives_step(options: RunOptions) -> Step:
    """`rocm-archives`: the pinned archives, fetched and unpacked; other bytes are refused."""
    folder = options.workspace.root / "artifacts"

    def act(inputs: Inputs, note: Note) -> Fetched:
        pinned = inputs.get("rocm-artifacts", Pinned)
        archives = tuple(_archive(options, key, digest) for key, digest in pinned.files.items())
        found = RunArtifacts(source_run(options), archives, None)
        return fetch_artifacts(options.store, found, folder, threads=options.jobs, note=note)

    return Step(
        id="rocm-archives",
        result=Fetched,
        act=act,
        needs=("rocm-artifacts",),
        rooms=("store/runs", "store/objects/protocol.py", "pipeline/fetch_artifacts.py"),
        outputs=lambda value: (Path(value.directory),),
        summary=lambda value: f"{len(value.artifacts)} artifacts of run {value.run_id}",
    )


def _archive(options: RunOptions, key: str, digest: str) -> ArtifactArchive:
    stored = options.store.stat(key)
    name = key.rpartition("/")[2]
    for ending in (".tar.zst", ".tar.xz"):
        name = name.removesuffix(ending)
    # One that is gone is told by whoever downloads it.
    return ArtifactArchive(name, key, 0 if stored is None else stored.size, digest)


def packages_of_artifacts_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`rocm-packages` from artifacts."""
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> BuiltPackages:
        fetched = inputs.get("rocm-archives", Fetched)
        made = make_packages(
            artifacts_in(Path(fetched.directory)),
            workspace.rocm_wheels,
            Packaging(),
            version=options.rocm_version,
            threads=options.jobs,
            note=note,
        )
        return made.built

    return packages_step(options, act, (*needs, "rocm-archives"))
