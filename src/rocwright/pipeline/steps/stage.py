"""The step that records a run's checked packages as a set, in the staging channel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.model.channels import Channels
from rocwright.model.manifest import FileEntry, SetManifest, new_set, set_id
from rocwright.model.statement import BUILD, FINDINGS, Statement, about_set
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.checking import Checked
from rocwright.pipeline.steps.sources import LockedSources
from rocwright.pipeline.steps.upload import UploadedRun
from rocwright.sdk.build import BuiltPackages
from rocwright.store.layout import file_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import download
from rocwright.store.pool import describe_files
from rocwright.store.sets.stage import stage_set
from rocwright.system.files import make_directory, remove_tree


class StagedSet(msgspec.Struct, frozen=True):
    """A checked set in the staging channel and what was said of it; `why` says why it is not there."""

    set_id: str
    prefix: str
    index_url: str
    manifest: SetManifest
    said: tuple[Statement, ...] = ()
    why: str = ""


def stage_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`stage`: the checked set into `v2-staging/<family>/`; where the run may not, only what the set is."""
    folder = options.workspace.root / "staged"

    def act(inputs: Inputs, note: Note) -> StagedSet:
        packages = inputs.get("rocm-packages", BuiltPackages)
        uploaded = inputs.get("upload-pytorch", UploadedRun)
        remove_tree(folder)
        note("reading what was uploaded")
        files = [*packages.paths, *_wheels(options, uploaded, folder)]
        locked = inputs.get("lock-sources", LockedSources).lock.sources
        manifest = new_set(
            family=packages.family,
            targets=options.targets,
            platform=options.platform,
            files=describe_files(files),
            sources={"rocm": packages.version, **{source.project: source.commit for source in locked}},
        )
        said = (
            about_set(manifest, FINDINGS, inputs.get("check", Checked).report),
            about_set(manifest, BUILD, {"result": "success"}),
        )
        try:
            return _staged(options, manifest, files, said)
        finally:
            remove_tree(folder)

    return Step(
        id="stage",
        result=StagedSet,
        act=act,
        needs=needs,
        rooms=("store", "model"),
        facts=lambda: {
            "channels": options.publication.channels,
            "channel": options.channel,
            "own": options.overlaid("channels"),
        },
        outputs=lambda value: _outputs(options, value),
        summary=_summary,
    )


def _staged(
    options: RunOptions, manifest: SetManifest, files: Sequence[Path], said: tuple[Statement, ...]
) -> StagedSet:
    if not options.publication.channels:
        return StagedSet(set_id(manifest), "", "", manifest, said, options.publication.why or "dry run")
    store = options.store
    channels = options.table("channels", Channels)
    if options.own and isinstance(store, LocalStore):
        # The demo rebuilds under one version; a real channel refuses other bytes under a published name.
        for channel in channels.channel:
            remove_tree(store.root / channel.prefix)
    staging = channels.named(options.channel or "staging")
    staged = stage_set(store, staging, manifest, files, said, datetime.now(timezone.utc))
    return StagedSet(staged.set_id, staged.prefix, staged.index_url, manifest, said)


def _wheels(options: RunOptions, uploaded: UploadedRun, folder: Path) -> list[Path]:
    """The wheels out of the run's folder: exactly those that are tested."""
    make_directory(folder)
    for name, digest in uploaded.files.items():
        download(options.store, uploaded.prefix + name, folder / name, digest)
    return [folder / name for name in uploaded.files]


def keys_of(files: Sequence[FileEntry]) -> tuple[str, ...]:
    """Where files lie in the store."""
    return tuple(file_key(entry.sha256, entry.name) for entry in files)


def _outputs(options: RunOptions, value: StagedSet) -> tuple[Path, ...]:
    keys = keys_of(value.manifest.files) if options.own else ()
    return tuple(options.workspace.store / key for key in keys)


def _summary(value: StagedSet) -> str:
    files = f"set {value.set_id[:12]}: {len(value.manifest.files)} files"
    return f"{files}, not staged: {value.why}" if value.why else f"{files} in {value.prefix}"
