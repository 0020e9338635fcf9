"""Artifacts of a run: what their names say, which of them a fetch needs, finding and uploading them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.gpu import InvalidTarget, parse_target, spelled
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.store.runs.run import (
    Result,
    Run,
    RunFile,
    RunRecord,
    records_of,
    run_record,
    runs_in,
    save_record,
)
from rocwright.system.files import sha256_file
from rocwright.system.progress import each

# The better archive first: where a run has both, it is fetched.
SUFFIXES = (".tar.zst", ".tar.xz")
SIDECAR = ".sha256sum"
GENERIC = "generic"
_NAME = re.compile(r"(?P<name>[^_/]+)_(?P<component>[^_/]+)_(?P<word>[^/]+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Among so many of the newest runs there should be what is wanted.
_MOST_RUNS = 50


class ArtifactName(msgspec.Struct, frozen=True):
    """`<name>_<component>_<word>` with the suffix of its archive; `word` is generic, a family or a target."""

    stem: str
    component: str
    word: str
    suffix: str

    @property
    def file(self) -> str:
        """The archive's file name."""
        return self.stem + self.suffix


def artifact_name(file: str) -> ArtifactName | None:
    """What the name of a file says; None for what is not an archive of an artifact."""
    for suffix in SUFFIXES:
        stem = file.removesuffix(suffix)
        match = _NAME.fullmatch(stem)
        if stem != file and match is not None:
            return ArtifactName(stem, match["component"], match["word"], suffix)
    return None


class ArtifactChoice(msgspec.Struct, frozen=True):
    """Which artifacts: those of any GPU, and those of these families and targets.

    Without `targets`, those of each family count; `families` may name artifact groups. `include` and
    `exclude` are patterns of artifact names (`blas_*`); without `include` every name counts.
    """

    families: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def words(texts: Iterable[str]) -> tuple[str, ...]:
    """Words of lists separated by spaces, `,` or `;`, each once, in order."""
    return tuple(dict.fromkeys(word for text in texts for word in re.split(r"[\s,;]+", text) if word))


def choose(
    files: Iterable[str], wanted: ArtifactChoice, families: Mapping[str, Sequence[str]]
) -> tuple[ArtifactName, ...]:
    """The archives to fetch out of a run's file names, by name.

    `families` is the table of families; families and targets may be wanted in any case. Raises
    `InvalidInput` when nothing fits, or one of the families or targets has no artifact in the run: what is
    missing would be found out on the GPU only.
    """
    found = _by_stem(files)
    if not found:
        raise InvalidInput("the run has no artifacts", next_step="check its number and the platform")
    wanted = _spelled(wanted, [one.word for one in found.values()], families)
    served = {stem: _serves(one.word, wanted, families) for stem, one in found.items()}
    _require_all(found.values(), served.values(), wanted, families)
    chosen = tuple(
        found[stem]
        for stem in sorted(found)
        if served[stem] is not None
        and (not wanted.include or _matches(stem, wanted.include))
        and not _matches(stem, wanted.exclude)
    )
    if not chosen:
        raise InvalidInput(
            "none of the run's artifacts has such a name",
            next_step=f"the run has: {' '.join(sorted(found))}",
        )
    return chosen


def _by_stem(files: Iterable[str]) -> dict[str, ArtifactName]:
    found: dict[str, ArtifactName] = {}
    for one in filter(None, map(artifact_name, files)):
        known = found.get(one.stem)
        if known is None or SUFFIXES.index(one.suffix) < SUFFIXES.index(known.suffix):
            found[one.stem] = one
    return found


def _spelled(
    wanted: ArtifactChoice, held: Iterable[str], families: Mapping[str, Sequence[str]]
) -> ArtifactChoice:
    known = (*held, *families, *(member for members in families.values() for member in members))
    return msgspec.structs.replace(
        wanted,
        families=tuple(spelled(name, known) for name in wanted.families),
        targets=tuple(spelled(name, known) for name in wanted.targets),
    )


def _serves(
    word: str, wanted: ArtifactChoice, families: Mapping[str, Sequence[str]]
) -> frozenset[str] | None:
    """The wanted families and targets that artifacts of a word are for; None where it is not needed.

    An empty set: it is for every GPU, or every GPU is wanted.
    """
    if word == GENERIC or not (wanted.families or wanted.targets):
        return frozenset()
    base = _base(word)
    found = {family for family in wanted.families if _is_family(word, family) or family == base}
    if base is not None:
        if wanted.targets:
            found |= {target for target in wanted.targets if target in (word, base)}
        # With targets named, those of a family are not fetched besides.
        found |= {
            family
            for family in wanted.families
            if base in _members(family, families) and (not wanted.targets or found)
        }
    elif found:
        found |= {target for target in wanted.targets if _base(target) in families.get(word, ())}
    return frozenset(found) or None


def _is_family(word: str, group: str) -> bool:
    # A group may have a suffix that its artifacts do not have: gfx94X-dcgpu-asan.
    return word == group or group.startswith(word + "-")


def _members(group: str, families: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return next((members for name, members in families.items() if _is_family(name, group)), ())


def _base(word: str) -> str | None:
    try:
        return parse_target(word).base
    except InvalidTarget:
        return None


def _require_all(
    found: Iterable[ArtifactName],
    served: Iterable[frozenset[str] | None],
    wanted: ArtifactChoice,
    families: Mapping[str, Sequence[str]],
) -> None:
    there = frozenset[str]().union(*(each for each in served if each is not None))
    missing = [word for word in (*wanted.families, *wanted.targets) if word not in there]
    if missing:
        held = sorted({one.word for one in found} - {GENERIC})
        raise InvalidInput(
            f"the run has no artifacts for {', '.join(missing)}",
            next_step=f"it has artifacts for: {' '.join(held) or 'no GPU, generic ones only'}",
        )


def _matches(stem: str, patterns: Iterable[str]) -> bool:
    # A name alone stands for all of its components.
    return any(fnmatchcase(stem, pattern) or stem.startswith(pattern + "_") for pattern in patterns)


# -- of a run in a store


class ArtifactArchive(msgspec.Struct, frozen=True):
    """An archive of an artifact; `sha256` is None where neither the run's record nor a sidecar says it."""

    artifact: str
    key: str
    size: int
    sha256: str | None


class RunArtifacts(msgspec.Struct, frozen=True):
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
    """The newest run whose upload is recorded as a success and that has what is wanted, if any."""
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
            f"{sidecar.key} contains no sha256",
            where=sidecar.key,
            next_step="upload the run's artifacts again",
        )
    return words[0].lower()


def _known(store: ObjectStore, run: Run) -> str:
    near = [one.run_id for one in runs_in(store, run.platform, run.external_repo)[:5]]
    return f"runs it has: {' '.join(near)}" if near else "check the store, the run and the platform"


# -- uploaded, each with a sidecar that says its sha256


class UploadedArtifacts(msgspec.Struct, frozen=True):
    """Where a run's artifacts lie, and what they are."""

    folder: str
    url: str
    files: tuple[RunFile, ...]


def artifact_files(folder: Path) -> tuple[Path, ...]:
    """The archives of artifacts in a folder, by name."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a directory", where=folder, next_step="give one with archives")
    return tuple(sorted(path for path in folder.iterdir() if artifact_name(path.name) and path.is_file()))


def describe_artifacts(paths: Iterable[Path]) -> tuple[RunFile, ...]:
    """Names, digests and sizes; raises `InvalidInput` for what is not an archive of an artifact."""
    described = []
    for path in sorted(paths):
        if artifact_name(path.name) is None or not path.is_file():
            raise InvalidInput(
                f"{path.name} is not an archive of an artifact",
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
            f"run {run.run_id} already has other bytes under these names, refusing to replace them: "
            f"{', '.join(changed)}",
            where=run.folder,
            next_step="upload the new build under another run id",
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
    pairs = list(zip(ordered, files, strict=True))
    for path, file in each("uploading", pairs, size=lambda pair: pair[1].size):
        store.put_file(path, run.folder + file.name)
        store.put_bytes(f"{run.folder}{file.name}{SIDECAR}", f"{file.sha256}  {file.name}\n".encode())
        note(f"stored {file.name} ({file.size:,} bytes)")
    earlier = (
        file for one in records_of(store, run, "artifacts") if one.group == group for file in one.files
    )
    together = {file.name: file for file in (*earlier, *files)}
    save_record(store, run, run_record(run, "artifacts", group, result, together.values()))
    return UploadedArtifacts(run.folder, store.url(run.folder), files)
