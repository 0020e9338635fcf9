"""Find a run's artifacts in a store: which archives, how large, with which digest; and the latest run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rocwright.errors import InvalidInput
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.store.runs.artifacts import SIDECAR, ArtifactChoice, artifact_name, choose
from rocwright.store.runs.run import Run, RunRecord, records_of, runs_in

_SHA256 = re.compile(r"[0-9a-f]{64}")
# Of so many of the newest runs one should have what is wanted.
_MOST_RUNS = 50


@dataclass(frozen=True)
class ArtifactArchive:
    """An archive of an artifact; `sha256` is None where neither the run's record nor a sidecar says it."""

    artifact: str
    key: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class RunArtifacts:
    """A run's archives, by name; `result` is that of its upload, None where the run has no record."""

    run: Run
    archives: tuple[ArtifactArchive, ...]
    result: str | None

    @property
    def size(self) -> int:
        """Bytes of all archives."""
        return sum(archive.size for archive in self.archives)


def find_artifacts(
    store: ObjectStore, run: Run, wanted: ArtifactChoice, families: Mapping[str, Sequence[str]]
) -> RunArtifacts:
    """What to fetch of a run; only its listing, record and digests are read.

    Raises `InvalidInput` when the store does not have the run, or not what is wanted of it.
    """
    stored = {one.key.removeprefix(run.folder): one for one in store.list(run.folder)}
    here = {name: one for name, one in stored.items() if "/" not in name}
    if not any(map(artifact_name, here)):
        raise InvalidInput(
            f"the store has no artifacts of run {run.run_id} on {run.platform}",
            where=store.url(run.folder),
            next_step=_known(store, run),
        )
    records = records_of(store, run, "artifacts") if any(n.startswith("_run/") for n in stored) else ()
    said = {file.name: file.sha256 for record in records for file in record.files}
    archives = []
    for one in choose(here, wanted, families):
        digest = said.get(one.file) or _sidecar(store, here.get(one.file + SIDECAR))
        archives.append(ArtifactArchive(one.stem, here[one.file].key, here[one.file].size, digest))
    return RunArtifacts(run, tuple(archives), _result(records))


def latest_run(
    store: ObjectStore,
    platform: str,
    external_repo: str,
    wanted: ArtifactChoice,
    families: Mapping[str, Sequence[str]],
) -> RunArtifacts | None:
    """The newest run whose upload is recorded as a success and that has what is wanted; None without one."""
    for run in runs_in(store, platform, external_repo)[:_MOST_RUNS]:
        if _result(records_of(store, run, "artifacts")) == "success":
            found = find_if_whole(store, run, wanted, families)
            if found is not None:
                return found
    return None


def find_if_whole(
    store: ObjectStore, run: Run, wanted: ArtifactChoice, families: Mapping[str, Sequence[str]]
) -> RunArtifacts | None:
    """As `find_artifacts`; None for a run that lacks something."""
    try:
        return find_artifacts(store, run, wanted, families)
    except InvalidInput:
        return None


def _result(records: Iterable[RunRecord]) -> str | None:
    """One group that failed makes the run none to build on."""
    results = sorted({record.result for record in records} - {"success"})
    if results:
        return results[0]
    return "success" if tuple(records) else None


def _sidecar(store: ObjectStore, sidecar: Stored | None) -> str | None:
    if sidecar is None:
        return None
    words = store.read(sidecar.key).decode("utf-8", "replace").split()
    if not words or _SHA256.fullmatch(words[0].lower()) is None:
        raise InvalidInput(
            f"{sidecar.key} holds no sha256", where=sidecar.key, next_step="upload the run's artifacts again"
        )
    return words[0].lower()


def _known(store: ObjectStore, run: Run) -> str:
    near = [one.run_id for one in runs_in(store, run.platform, run.external_repo)[:5]]
    return f"runs it has: {' '.join(near)}" if near else "check the store, the run and the platform"
