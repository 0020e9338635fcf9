"""Steps of a run that takes ROCm from an earlier run: its packages as they are, or its artifacts to package.

What is taken is looked up, compared with its digests and fetched; nothing of ROCm is built.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import InvalidInput
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families
from rocwright.model.sets import FileEntry
from rocwright.pipeline.fetch_artifacts import Fetched, fetch_artifacts
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.rocm import Pinned, packages_step, packages_summary
from rocwright.sdk.build import BuiltPackages, PackageFile, make_packages
from rocwright.sdk.intake.forms import artifacts_in
from rocwright.sdk.plan.release import Packaging
from rocwright.store.adopt.offered import project_of
from rocwright.store.objects.address import open_store
from rocwright.store.objects.protocol import ObjectStore, download
from rocwright.store.pool import describe_files, is_distribution
from rocwright.store.runs.artifacts import ArtifactArchive, ArtifactChoice, RunArtifacts, find_artifacts
from rocwright.store.runs.run import Run, external_repo, file_records
from rocwright.system.console import human_bytes
from rocwright.system.files import make_directory, require_space

_LIBRARIES = "rocm-sdk-libraries-"
_DEVICE = "rocm-sdk-device-"


def source_run(options: RunOptions) -> Run:
    """The run that ROCm is taken from."""
    own = options.table("channels", Channels).runs.repository
    return Run(options.rocm.at, options.platform, external_repo(options.rocm.repository, own))


def source_store(options: RunOptions) -> ObjectStore:
    """Where that run lies: in the store of this run, or in one that is only read."""
    if not options.rocm.store:
        return options.store
    region = options.table("channels", Channels).buckets.region
    return open_store(options.rocm.store, region=region, reading=True)


def taken_packages_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-packages` of an earlier run: found by its records, compared with their digests."""
    folder = options.workspace.rocm_wheels

    def act(_: Inputs, note: Note) -> BuiltPackages:
        run = source_run(options)
        prefix = run.prefix("python", options.group or None)
        store = source_store(options)
        packages = find_packages(store, run, prefix)
        require_space(options.workspace.root, sum(one.size for one in packages), purpose="ROCm's packages")
        make_directory(folder)
        for one in packages:
            note(f"fetching {one.name}")
            download(store, prefix + one.name, folder / one.name, one.sha256)
        return describe(describe_files(folder / one.name for one in packages), folder, options.targets)

    return Step(
        id="rocm-packages",
        result=BuiltPackages,
        act=act,
        needs=needs,
        rooms=("store/runs", "store/objects/protocol.py"),
        facts=lambda: {"run": options.rocm, "platform": options.platform, "group": options.group},
        outputs=lambda value: tuple(value.paths),
        summary=lambda value: f"of run {options.rocm.at}: {packages_summary(value)}",
    )


class Package(msgspec.Struct, frozen=True):
    """A file of ROCm's packages in a run; its sha256 where the run has a record of it."""

    name: str
    size: int
    sha256: str | None


def find_packages(store: ObjectStore, run: Run, prefix: str) -> tuple[Package, ...]:
    """ROCm's packages in a run, by its records, else as they lie there.

    Raises `InvalidInput` for a run that has none.
    """
    found = [Package(one.name, one.size, one.sha256) for one in file_records(store, prefix)]
    if not found:
        # Runs of other tools keep the same layout and write no records.
        found = [
            Package(name, one.size, None)
            for one in store.list(prefix)
            if is_distribution(Path(name := one.key.removeprefix(prefix))) and "/" not in name
        ]
    if not any(project_of(one.name) == "rocm" for one in found):
        groups = store.folders(f"{run.folder}python/")
        has = f"it has packages of: {' '.join(groups)}" if groups else "it has no packages at all"
        raise InvalidInput(
            f"run {run.run_id} has no ROCm packages in {prefix}",
            where=store.url(prefix),
            next_step=f"{has}; name a run that built them",
        )
    return tuple(sorted(found, key=lambda one: one.name))


def describe(entries: Sequence[FileEntry], folder: Path, targets: Sequence[str]) -> BuiltPackages:
    """Packages that lie in `folder` as the step that built them would describe them."""
    projects = {entry.project: entry for entry in entries}
    device = sorted(name.removeprefix(_DEVICE) for name in projects if name.startswith(_DEVICE))
    families = [name.removeprefix(_LIBRARIES) for name in projects if name.startswith(_LIBRARIES)]
    # Of a set in which all of a library's targets have one package there is no name of a family.
    family = "multi-arch" if device or not families else families[0]
    return BuiltPackages(
        version=projects["rocm"].version,
        mode="kpack" if device else "legacy",
        family=family,
        targets=tuple(device or targets),
        directory=str(folder),
        files=tuple(
            PackageFile(entry.name, entry.sha256, entry.size, _installed(folder / entry.name))
            for entry in entries
        ),
        rpath_edits=0,
        notes=(),
    )


def _installed(path: Path) -> int:
    """Bytes of a wheel's files; 0 for an sdist, as where packages are built."""
    if path.suffix != ".whl":
        return 0
    with zipfile.ZipFile(path) as archive:
        return sum(info.file_size for info in archive.infolist())


def taken_upload_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`upload-rocm` of an earlier run: where its packages lie; nothing is uploaded."""

    def act(inputs: Inputs, note: Note) -> UploadedRun:
        packages = inputs.get("rocm-packages", BuiltPackages)
        prefix = source_run(options).prefix("python", options.group or None)
        page = source_store(options).url(f"{prefix}index.html")
        return UploadedRun(prefix, page, {file.name: file.sha256 for file in packages.files})

    return Step(
        id="upload-rocm",
        result=UploadedRun,
        act=act,
        needs=needs,
        rooms=("store/runs",),
        facts=lambda: {"run": options.rocm, "platform": options.platform, "group": options.group},
        summary=lambda value: f"{len(value.files)} files of run {options.rocm.at} in {value.prefix}",
    )


# -- packages made of an earlier run's artifacts


def artifacts_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`rocm-artifacts` of an earlier run: pins its archives by their digests."""

    def act(_: Inputs, note: Note) -> Pinned:
        run = source_run(options)
        wanted = ArtifactChoice(families=options.families)
        note(f"looking at run {run.run_id}")
        store = source_store(options)
        found = find_artifacts(store, run, wanted, options.table("families", Families).families)
        # Where nobody gave a digest, that of the bytes that are there now is what counts from here on.
        files = {one.key: one.sha256 or store.digest(one.key) for one in found.archives}
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
        return fetch_artifacts(source_store(options), found, folder, threads=options.jobs, note=note)

    return Step(
        id="rocm-archives",
        result=Fetched,
        act=act,
        needs=("rocm-artifacts",),
        rooms=("store/runs", "pipeline/fetch_artifacts.py"),
        outputs=lambda value: (Path(value.directory),),
        summary=lambda value: f"{len(value.artifacts)} artifacts of run {value.run_id}",
    )


def _archive(options: RunOptions, key: str, digest: str) -> ArtifactArchive:
    stored = source_store(options).stat(key)
    name = key.rpartition("/")[2]
    for ending in (".tar.zst", ".tar.xz"):
        name = name.removesuffix(ending)
    # Whoever downloads a file tells if it is gone.
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
