"""Upload what one run built: a flat folder with a page for `--find-links`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rocwright.errors import IntegrityError, InvalidInput, Unreachable
from rocwright.model.gpu import is_target
from rocwright.model.manifest import FileEntry, canonical_json
from rocwright.store.index.listed import ListedFile, flat_page
from rocwright.store.layout import KINDS, Kind
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool import describe_files, is_distribution, put_distribution
from rocwright.store.runs.run import Result, Run, RunFile, file_records, run_record, save_record


@dataclass(frozen=True)
class UploadPlan:
    """What an upload will do: `new` files go to `prefix`, `known` ones are there with these bytes."""

    prefix: str
    new: tuple[FileEntry, ...]
    known: tuple[FileEntry, ...]

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All files, by name."""
        return tuple(sorted((*self.new, *self.known), key=lambda entry: entry.name))


@dataclass(frozen=True)
class Uploaded:
    """One run's packages: `url` is what `pip install --find-links` takes.

    `combined_url` is that of the page with the run's packages of both kinds, `split` says whether device
    code lies in packages of its own.
    """

    prefix: str
    url: str
    combined_url: str
    split: bool
    files: tuple[FileEntry, ...]


def has_device_packages(files: Iterable[FileEntry]) -> bool:
    """Whether there are packages of one GPU target's device code, `<project>-device-<target>`."""
    return any(is_target(entry.project.rpartition("-device-")[2]) for entry in files)


def plan_upload(
    store: ObjectStore, entries: Iterable[FileEntry], run: Run, group: str | None, kind: Kind
) -> UploadPlan:
    """Compare with what the run holds already; nothing is written.

    Raises `IntegrityError` naming every file that the run holds with other bytes, of whichever kind: both
    kinds stand on one page.
    """
    held = {entry.name: entry for each in KINDS for entry in file_records(store, run.prefix(each, group))}
    here = {entry.name for entry in file_records(store, run.prefix(kind, group))}
    wanted = tuple(entries)
    changed = [one.name for one in wanted if one.name in held and held[one.name].sha256 != one.sha256]
    if changed:
        raise IntegrityError(
            f"run {run.run_id} holds other bytes, refusing to replace them: {', '.join(changed)}",
            where=run.prefix(kind, group),
            next_step="give what was built anew another version, or another run id",
        )
    return UploadPlan(
        prefix=run.prefix(kind, group),
        new=tuple(one for one in wanted if one.name not in here),
        known=tuple(one for one in wanted if one.name in here),
    )


def package_files(folder: Path) -> tuple[Path, ...]:
    """The wheels and sdists in `<folder>/dist` where that is there, else in the folder, by name."""
    place = folder / "dist" if (folder / "dist").is_dir() else folder
    if not place.is_dir():
        raise InvalidInput(
            f"{place} is no directory", where=place, next_step="give the folder that packages were built into"
        )
    return tuple(sorted(path for path in place.iterdir() if is_distribution(path)))


def plan_packages(
    store: ObjectStore,
    folder: Path,
    run: Run,
    group: str | None,
    kind: Kind,
    *,
    note: Callable[[str], None],
) -> UploadPlan:
    """What an upload of the packages in a folder would do; see `package_files` and `plan_upload`.

    A store that cannot be reached is said in a note and taken for an empty one: a dry run is for people
    without the right to write, too.
    """
    prefix = run.prefix(kind, group)
    entries = _described(package_files(folder), run, kind)
    try:
        return plan_upload(store, entries, run, group, kind)
    except (InvalidInput, Unreachable) as problem:
        note(f"warning: what the store holds is not known: {problem.what}")
    return UploadPlan(prefix, entries, ())


def _described(paths: Iterable[Path], run: Run, kind: Kind) -> tuple[FileEntry, ...]:
    entries = describe_files(paths)
    if not entries:
        raise InvalidInput(
            f"no wheels or sdists to upload as {kind} packages of run {run.run_id}",
            next_step="build the packages first, or give the folder that holds them",
        )
    return entries


def upload_run(
    store: ObjectStore,
    files: Iterable[Path],
    run_id: str,
    platform: str,
    group: str | None,
    kind: Kind,
    *,
    external_repo: str = "",
    result: Result = "success",
    note: Callable[[str], None] = lambda _: None,
) -> Uploaded:
    """Put a run's wheels and sdists under its prefix: files, metadata, records, pages, the run's record.

    The page lists every file recorded under the prefix, so several jobs of one run (one per Python
    version) can upload into the same group, even at the same time. Without a group the packages are for all
    GPUs. Raises `InvalidInput` for no files, `IntegrityError` when the run already holds other bytes under
    a name, before anything is written.
    """
    paths = sorted(files)
    run = Run(run_id, platform, external_repo)
    entries = _described(paths, run, kind)
    plan = plan_upload(store, entries, run, group, kind)
    by_name = {path.name: path for path in paths}
    for entry in entries:
        # Those that are known, too: a file or its metadata may have been lost since.
        put_distribution(store, by_name[entry.name], entry, plan.prefix + entry.name)
        store.put_bytes(f"{plan.prefix}_records/{entry.name}.json", canonical_json(entry))
        note(f"stored {entry.name} ({entry.size:,} bytes)")
    listed = _write_pages(store, run, group, kind, result)
    return Uploaded(
        prefix=plan.prefix,
        url=store.url(f"{plan.prefix}index.html"),
        combined_url=store.url(run.combined(group)),
        split=has_device_packages(listed),
        files=entries,
    )


def _write_pages(
    store: ObjectStore, run: Run, group: str | None, kind: Kind, result: Result
) -> tuple[FileEntry, ...]:
    """Write the page of a kind, that of both kinds, and the run's record; returns what the first one lists.

    Another job may write the same ones at the same time. Whoever writes last has looked at the files'
    records after its write, and so does not leave a page that lacks some.
    """
    before: dict[Kind, tuple[FileEntry, ...]] | None = None
    while (held := {each: file_records(store, run.prefix(each, group)) for each in KINDS}) != before:
        key = f"{run.prefix(kind, group)}index.html"
        own = [ListedFile(entry, entry.name) for entry in held[kind]]
        page = flat_page(own, title=key.removesuffix("/index.html"), base="")
        store.put_bytes(key, page.encode(), overwrite=True)
        _write_combined(store, run, group, held)
        files = (RunFile(entry.name, entry.sha256, entry.size) for entry in held[kind])
        save_record(store, run, run_record(run, kind, group, result, files))
        before = held
    return held[kind]


def _write_combined(
    store: ObjectStore, run: Run, group: str | None, held: Mapping[Kind, tuple[FileEntry, ...]]
) -> None:
    key = run.combined(group)
    up = "../" * key.removeprefix(run.folder).count("/")
    below = {kind: run.prefix(kind, group).removeprefix(run.folder) for kind in KINDS}
    # A file that is there as both kinds is one: they have the same bytes.
    listed = {
        entry.name: ListedFile(entry, below[kind] + entry.name) for kind in KINDS for entry in held[kind]
    }
    page = flat_page(listed.values(), title=key.removesuffix("/index.html"), base=up)
    store.put_bytes(key, page.encode(), overwrite=True)
