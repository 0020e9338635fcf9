"""Upload the artifact archives of one run, each with a sidecar that says its sha256."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rocwright.errors import IntegrityError, InvalidInput
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.artifacts import SIDECAR, artifact_name
from rocwright.store.runs.run import Result, Run, RunFile, records_of, run_record, save_record
from rocwright.system.files import sha256_file


@dataclass(frozen=True)
class UploadedArtifacts:
    """Where a run's artifacts lie, and what they are."""

    folder: str
    url: str
    files: tuple[RunFile, ...]


def artifact_files(folder: Path) -> tuple[Path, ...]:
    """The archives of artifacts in a folder, by name."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is no directory", where=folder, next_step="give one with archives")
    return tuple(sorted(path for path in folder.iterdir() if artifact_name(path.name) and path.is_file()))


def describe_artifacts(paths: Iterable[Path]) -> tuple[RunFile, ...]:
    """Names, digests and sizes; raises `InvalidInput` for what is no archive of an artifact."""
    described = []
    for path in sorted(paths):
        if artifact_name(path.name) is None or not path.is_file():
            raise InvalidInput(
                f"{path.name} is no archive of an artifact",
                where=path,
                next_step="its name must be <name>_<component>_<target>.tar.zst or .tar.xz",
            )
        described.append(RunFile(path.name, sha256_file(path), path.stat().st_size))
    return tuple(described)


def plan_artifacts(store: ObjectStore, files: Iterable[RunFile], run: Run) -> tuple[RunFile, ...]:
    """Those that the run does not have yet; raises `IntegrityError` for those it has with other bytes."""
    held = {file.name: file for record in records_of(store, run, "artifacts") for file in record.files}
    changed = [one.name for one in files if one.name in held and held[one.name].sha256 != one.sha256]
    if changed:
        raise IntegrityError(
            f"run {run.run_id} holds other bytes, refusing to replace them: {', '.join(changed)}",
            where=run.folder,
            next_step="upload what was built anew under another run id",
        )
    return tuple(one for one in files if one.name not in held)


def upload_artifacts(
    store: ObjectStore,
    paths: Iterable[Path],
    run: Run,
    group: str | None,
    *,
    result: Result = "success",
    note: Callable[[str], None] = lambda _: None,
) -> UploadedArtifacts:
    """Put archives and their sidecars into the run's folder, then its record.

    Several groups of one run may have the same generic artifacts, if they are the same bytes. Raises
    `InvalidInput` for no archives, `IntegrityError` before anything is written for bytes that differ.
    """
    ordered = sorted(paths)
    files = describe_artifacts(ordered)
    if not files:
        raise InvalidInput(
            f"no artifacts to upload for run {run.run_id}",
            next_step="give the folder of <name>_<component>_<target>.tar.zst or .tar.xz archives",
        )
    plan_artifacts(store, files, run)
    for path, file in zip(ordered, files, strict=True):
        store.put_file(path, run.folder + file.name)
        store.put_bytes(f"{run.folder}{file.name}{SIDECAR}", f"{file.sha256}  {file.name}\n".encode())
        note(f"stored {file.name} ({file.size:,} bytes)")
    earlier = (
        file for one in records_of(store, run, "artifacts") if one.group == group for file in one.files
    )
    together = {file.name: file for file in (*earlier, *files)}
    save_record(store, run, run_record(run, "artifacts", group, result, together.values()))
    return UploadedArtifacts(run.folder, store.url(run.folder), files)
