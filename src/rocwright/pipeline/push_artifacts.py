"""Artifacts of a build go to a run in a store, or from one run to another, as `artifact_manager.py` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.data import toml
from rocwright.errors import InvalidInput, UsageError
from rocwright.pipeline.cells.outputs import pack_tree
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.artifacts import (
    GENERIC,
    SIDECAR,
    SUFFIXES,
    ArtifactArchive,
    ArtifactChoice,
    UploadedArtifacts,
    artifact_name,
    find_artifacts,
    plan_artifacts,
    upload_artifacts,
)
from rocwright.store.runs.run import Run, RunFile, records_of, run_record, save_record

ALL = "all"
_PACKED = ".upload_cache"


class _Stage(msgspec.Struct):
    artifact_groups: tuple[str, ...] = ()


class _Artifact(msgspec.Struct):
    artifact_group: str


class Topology(msgspec.Struct):
    """Of a `BUILD_TOPOLOGY.toml`: which stage makes which groups of artifacts."""

    build_stages: dict[str, _Stage]
    artifacts: dict[str, _Artifact]

    def made_by(self, stages: Sequence[str]) -> tuple[str, ...]:
        """Names of artifacts; raises `UsageError` for a stage that is not there."""
        unknown = [name for name in stages if name not in self.build_stages]
        if unknown:
            raise UsageError(
                f"there is no stage {unknown[0]}", next_step=f"stages: {' '.join(self.build_stages)}"
            )
        groups = {group for name in stages for group in self.build_stages[name].artifact_groups}
        return tuple(sorted(name for name, one in self.artifacts.items() if one.artifact_group in groups))


def stage_artifacts(stages: Sequence[str], topology: Path | None) -> tuple[str, ...]:
    """What the stages make, by `topology`; nothing for `all`, which is every artifact."""
    if ALL in stages:
        return ()
    if topology is None:
        raise UsageError(
            f"which artifacts the stage {stages[0] if stages else ''} makes stands in a BUILD_TOPOLOGY.toml",
            next_step="name it with --topology, or give --stage all",
        )
    try:
        text = topology.read_text(encoding="utf-8")
        return msgspec.convert(toml.plain(text, where=str(topology)), Topology).made_by(stages)
    except (OSError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            f"{topology.name} cannot be read: {error}", where=topology, next_step="name TheRock's own file"
        ) from error


# -- from a build --------------------------------------------------------------------------------------------


def built_artifacts(build: Path, made: Sequence[str]) -> tuple[Path, ...]:
    """Directories and archives in `artifacts/` of a build, by name; only those of `made`, if it names any.

    Raises `InvalidInput` where there are none.
    """
    folder = build / "artifacts"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    chosen = tuple(path for path in found if (name := _named(path)) and (not made or name in made))
    if not chosen:
        raise InvalidInput(
            "the build has no artifacts" + (f" of the names {' '.join(made)}" if made else ""),
            where=folder,
            next_step="name the directory in which artifacts/ has <name>_<component>_<target>",
        )
    return chosen


def _named(path: Path) -> str:
    """The artifact's name; empty for what is none."""
    known = artifact_name(path.name + SUFFIXES[0] if path.is_dir() else path.name)
    return known.stem.partition("_")[0] if known else ""


def push_artifacts(
    store: ObjectStore,
    paths: Sequence[Path],
    run: Run,
    *,
    threads: int,
    note: Callable[[str], None] = lambda _: None,
) -> UploadedArtifacts:
    """Pack what is a directory, then upload; what was packed stays beside the artifacts for another try.

    Raises `IntegrityError` before anything is written where the run has other bytes under a name.
    """
    archives = []
    for path in paths:
        if path.is_dir():
            packed = path.parent.parent / _PACKED / f"{path.name}{SUFFIXES[0]}"
            note(f"packing {path.name}")
            pack_tree(path, packed, threads=threads)
            path = packed
        archives.append(path)
    return upload_artifacts(store, archives, run, None, note=note)


# -- from another run ----------------------------------------------------------------------------------------


def copied_artifacts(
    store: ObjectStore,
    source: Run,
    wanted: ArtifactChoice,
    families: Mapping[str, Sequence[str]],
    *,
    generic_only: bool = False,
) -> tuple[ArtifactArchive, ...]:
    """What of a run is to be copied; raises as `find_artifacts`."""
    archives = find_artifacts(store, source, wanted, families).archives
    return tuple(one for one in archives if not generic_only or one.artifact.endswith(f"_{GENERIC}"))


def copy_artifacts(
    store: ObjectStore,
    archives: Sequence[ArtifactArchive],
    run: Run,
    *,
    note: Callable[[str], None] = lambda _: None,
) -> UploadedArtifacts:
    """Copy archives within a store, with their digests, then the record; nothing comes to this machine.

    Raises `IntegrityError` before anything is written where the run has other bytes under a name.
    """
    files = [
        RunFile(one.key.rpartition("/")[2], one.sha256 or store.digest(one.key), one.size) for one in archives
    ]
    plan_artifacts(store, files, run)
    for archive, file in zip(archives, files, strict=True):
        store.copy(archive.key, run.folder + file.name)
        store.put_bytes(f"{run.folder}{file.name}{SIDECAR}", f"{file.sha256}  {file.name}\n".encode())
        note(f"copied {file.name}")
    earlier = (file for one in records_of(store, run, "artifacts") if not one.group for file in one.files)
    together = {file.name: file for file in (*earlier, *files)}
    save_record(store, run, run_record(run, "artifacts", None, "success", together.values()))
    return UploadedArtifacts(run.folder, store.url(run.folder), tuple(files))
