"""Packages for `pip install --find-links`: upload those of a run, or write a page of those in folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import UNSET

from rocwright.errors import IntegrityError, InvalidInput, Unreachable
from rocwright.model.gpu import in_order, is_target
from rocwright.model.sets import FileEntry, canonical_json
from rocwright.store.index.listed import ListedFile, flat_page
from rocwright.store.index.stated import stated_line, stated_of_all
from rocwright.store.layout import KINDS, Kind
from rocwright.store.objects.durable import together
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool import describe_files, is_distribution, put_distribution
from rocwright.store.runs.run import (
    Result,
    Run,
    RunFile,
    file_records,
    records_of,
    run_record,
    save_record,
)
from rocwright.system.files import PARTIAL, sha256_file, walk_files, write_text
from rocwright.system.progress import each


class UploadPlan(msgspec.Struct, frozen=True):
    """What an upload will do: `new` files go to `prefix`, `known` files are there with these bytes."""

    prefix: str
    new: tuple[FileEntry, ...]
    known: tuple[FileEntry, ...]

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All files, by name."""
        return tuple(sorted((*self.new, *self.known), key=lambda entry: entry.name))


class Uploaded(msgspec.Struct, frozen=True):
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
            f"run {run.run_id} already has other bytes under these names, refusing to replace them: "
            f"{', '.join(changed)}",
            where=run.prefix(kind, group),
            next_step="give the new build another version, or another run id",
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
            f"{place} is not a directory",
            where=place,
            next_step="give the folder that packages were built into",
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

    A store that cannot be reached is told in a note and taken for an empty store: a dry run is for people
    without the right to write, too.
    """
    prefix = run.prefix(kind, group)
    entries = _described(package_files(folder), run, kind)
    try:
        return plan_upload(store, entries, run, group, kind)
    except (InvalidInput, Unreachable) as problem:
        note(f"warning: what the store already has could not be read: {problem.what}")
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
    stated_of_all(ListedFile(entry, entry.name) for entry in plan.files)
    by_name = {path.name: path for path in paths}
    with together():
        for entry in each("uploading", entries, size=lambda entry: entry.size):
            # Those that are known, too: a file or its metadata may have been lost since.
            put_distribution(store, by_name[entry.name], entry, plan.prefix + entry.name)
    with together():
        for entry in entries:
            store.put_bytes(f"{plan.prefix}_records/{entry.name}.json", canonical_json(entry))
    for entry in entries:
        note(f"stored {entry.name} ({entry.size:,} bytes)")
    listed = _write_pages(store, run, group, kind, result)
    return Uploaded(
        prefix=plan.prefix,
        url=store.url(f"{plan.prefix}index.html"),
        combined_url=store.url(run.combined(group)),
        split=has_device_packages(listed),
        files=entries,
    )


def rewrite_pages(store: ObjectStore, run: Run) -> None:
    """Bring pages and records of a run into line with its files: jobs that saw not all of them wrote them."""
    for kind in KINDS:
        for record in records_of(store, run, kind):
            _write_pages(store, run, record.group, kind, record.result)


def _write_pages(
    store: ObjectStore, run: Run, group: str | None, kind: Kind, result: Result
) -> tuple[FileEntry, ...]:
    """Write the page of a kind, that of both kinds, and the run's record; returns what the first page lists.

    Another job may write the same pages at the same time. Whoever writes last has looked at the files'
    records after its write, and so does not leave a page that lacks some.
    """
    before: dict[Kind, tuple[FileEntry, ...]] | None = None
    while (held := {each: file_records(store, run.prefix(each, group)) for each in KINDS}) != before:
        key = f"{run.prefix(kind, group)}index.html"
        own = [ListedFile(entry, entry.name) for entry in held[kind]]
        stated = _put_stated(store, own, run.prefix(kind, group))
        page = flat_page(own, title=key.removesuffix("/index.html"), base="", stated=stated)
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
    # A file that is there as both kinds counts once: they have the same bytes.
    listed = {
        entry.name: ListedFile(entry, below[kind] + entry.name) for kind in KINDS for entry in held[kind]
    }
    stated = _put_stated(store, listed.values(), key.removesuffix("index.html"))
    page = flat_page(listed.values(), title=key.removesuffix("/index.html"), base=up, stated=stated)
    store.put_bytes(key, page.encode(), overwrite=True)


def _put_stated(store: ObjectStore, listed: Iterable[ListedFile], place: str) -> str:
    """Write what states the variants among these files beside the page that lists them; its lines there."""
    found = stated_of_all(listed)
    for one in found:
        # Its name has its digest: whoever was first wrote the same.
        store.put_bytes(f"{place}{one.key}", one.data, overwrite=True)
    return "".join(stated_line(one, "") for one in found)


# -- what an upload tells a workflow: outputs for later jobs, a summary with the line that installs it


_ROCM = "rocm"


def install_line(uploaded: Uploaded, kind: Kind) -> str:
    """The pip line for what was uploaded; wheels of PyTorch need the run's ROCm packages besides."""
    # What chooses comes with what it chooses for.
    choosing = {entry.project for entry in uploaded.files if entry.variant is not UNSET}
    names = [entry.project for entry in uploaded.files if entry.project not in choosing]
    targets = in_order({name.rpartition("-device-")[2] for name in names if "-device-" in name})
    devices = [target for target in targets if is_target(target)]
    if _ROCM in names:
        extras = ["libraries", "devel", *(f"device-{target}" for target in devices[:1])]
        wanted = f'"{_ROCM}[{",".join(extras)}]"'
    else:
        wanted = " ".join(sorted({name for name in names if "-device-" not in name} or set(names)))
    url = uploaded.combined_url if kind == "pytorch" else uploaded.url
    return f"pip install {wanted} --pre --find-links={url}"


def outputs(uploaded: Uploaded) -> dict[str, str]:
    """The outputs of the step, by name."""
    return {
        "package_find_links_url": uploaded.url,
        "kpack_split": str(uploaded.split).lower(),
        "run_find_links_url": uploaded.combined_url,
    }


def step_summary(uploaded: Uploaded, kind: Kind) -> tuple[str, ...]:
    """Lines of Markdown for the page of the workflow's run."""
    return (
        f"### {'PyTorch' if kind == 'pytorch' else 'ROCm'} packages",
        "",
        f"{len(uploaded.files)} files: [{uploaded.prefix}index.html]({uploaded.url})",
        "",
        "```bash",
        install_line(uploaded, kind),
        "```",
        "",
    )


# -- a flat page of the packages in folders, for `pip install --find-links <the page>`


PAGE = "index.html"


class FolderPage(msgspec.Struct, frozen=True):
    """A page: where it lies, what it lists, and files that match but are no packages."""

    path: Path
    files: tuple[FileEntry, ...]
    ignored: tuple[Path, ...]
    text: str


def folder_page(
    folders: Sequence[Path], patterns: Sequence[str], output: Path | None, *, recursive: bool = False
) -> FolderPage:
    """The page of all packages in the folders whose names match a pattern (any name, without patterns).

    It goes to `output`, by default `index.html` of the first folder, and links relative to its place. A
    package that lies in several folders with the same bytes is listed once. Raises `InvalidInput` for a
    folder without packages, for one name with different bytes, and `InvalidWheel` for damaged files.
    """
    path = _place(folders, output)
    found, ignored = _matching(folders, patterns, recursive=recursive)
    once = _distinct(found)
    if not once:
        raise InvalidInput(
            f"there is no wheel or sdist in {', '.join(map(str, folders))}"
            + (f" that matches {' '.join(patterns)}" if patterns else ""),
            next_step="build packages first, or give the folder that holds them",
        )
    entries = describe_files(once.values())
    listed = [ListedFile(_served(entry, once[entry.name]), _way(path, once[entry.name])) for entry in entries]
    title = folders[0].resolve().name
    return FolderPage(path, entries, ignored, flat_page(listed, title=title, base=""))


def write_folder_page(page: FolderPage) -> None:
    """Write it, whole or not at all."""
    write_text(page.path, page.text)


def _place(folders: Sequence[Path], output: Path | None) -> Path:
    for folder in folders:
        if not folder.is_dir():
            raise InvalidInput(
                f"{folder} is not a directory", where=folder, next_step="give one with packages"
            )
    if output is None:
        return folders[0] / PAGE
    # A name alone is a file in the folder, whatever the current directory.
    return folders[0] / output if output.name == str(output) else output


def _matching(
    folders: Iterable[Path], patterns: Sequence[str], *, recursive: bool
) -> tuple[list[Path], tuple[Path, ...]]:
    found: list[Path] = []
    ignored: list[Path] = []
    for folder in folders:
        for path in walk_files(folder) if recursive else sorted(folder.iterdir()):
            if not path.is_file() or path.name.endswith(PARTIAL):
                continue
            if patterns and not any(fnmatchcase(path.name, pattern) for pattern in patterns):
                continue
            (found if is_distribution(path) else ignored).append(path)
    return found, tuple(ignored)


def _distinct(paths: Iterable[Path]) -> dict[str, Path]:
    once: dict[str, Path] = {}
    for path in paths:
        known = once.setdefault(path.name, path)
        if known != path and sha256_file(known) != sha256_file(path):
            raise InvalidInput(
                f"{path.name} is there twice, with different bytes: in {known.parent} and {path.parent}",
                where=path,
                next_step="keep one of them; which one an installer takes is random",
            )
    return once


def _served(entry: FileEntry, path: Path) -> FileEntry:
    """The entry with the digest of its METADATA only where the sidecar lies there: clients ask for it."""
    sidecar = path.with_name(path.name + ".metadata")
    if entry.metadata_sha256 is not None and sidecar.is_file():
        digest = sha256_file(sidecar)
        if digest == entry.metadata_sha256:
            return entry
    return FileEntry(
        entry.name, entry.sha256, entry.size, entry.project, entry.version, entry.requires_python
    )


def _way(page: Path, file: Path) -> str:
    return Path(os.path.relpath(file.absolute(), page.absolute().parent)).as_posix()
