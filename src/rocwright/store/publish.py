"""Publish built files: a run's flat find-links folder, and checked sets into the staging channel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec

from rocwright.errors import ContractBroken, IntegrityError, InvalidData, InvalidInput
from rocwright.model.manifest import FileEntry, SetManifest, canonical_json, set_id
from rocwright.model.statement import Statement
from rocwright.store import channel
from rocwright.store.describe import describe_files, read_metadata
from rocwright.store.index import find_links_page
from rocwright.store.layout import Kind, run_prefix, staging_prefix
from rocwright.store.objects import ObjectStore
from rocwright.store.records import save_set, save_statement
from rocwright.store.verdict import verdict_on
from rocwright.system.files import sha256_file

__all__ = ["Staged", "Uploaded", "describe_files", "stage_set", "upload_run"]


@dataclass(frozen=True)
class Uploaded:
    """One run's packages: `url` is what `pip install --find-links` takes."""

    prefix: str
    url: str
    files: tuple[FileEntry, ...]


@dataclass(frozen=True)
class Staged:
    """A set in the staging channel: `index_url` is what `pip install --index-url` takes."""

    set_id: str
    prefix: str
    index_url: str
    files: tuple[FileEntry, ...]


def upload_run(
    store: ObjectStore,
    files: Iterable[Path],
    run_id: str,
    platform: str,
    group: str,
    kind: Kind,
    *,
    external_repo: str = "",
) -> Uploaded:
    """Put a run's wheels and sdists under its prefix: files, metadata, records, then `index.html`.

    The page lists every file recorded under the prefix, so several jobs of one run (one per Python
    version) can upload into the same group, one after the other. Raises `InvalidInput` for no files,
    `IntegrityError` when the run already holds other bytes under a name.
    """
    paths = sorted(files)
    entries = describe_files(paths)
    if not entries:
        raise InvalidInput(
            f"no wheels or sdists to upload as {kind} packages of run {run_id}",
            next_step="build the packages first, or give the folder that holds them",
        )
    prefix = run_prefix(run_id, platform, kind, group, external_repo=external_repo)
    by_name = {path.name: path for path in paths}
    for entry in entries:
        put_distribution(store, by_name[entry.name], entry, prefix + entry.name)
        store.put_bytes(f"{prefix}records/{entry.name}.json", canonical_json(entry))
    listed = tuple(_read_record(store, key) for key in store.list(f"{prefix}records/"))
    page = find_links_page(listed, title=prefix.removesuffix("/"))
    store.put_bytes(f"{prefix}index.html", page.encode(), overwrite=True)
    return Uploaded(prefix=prefix, url=store.url(f"{prefix}index.html"), files=entries)


def _read_record(store: ObjectStore, key: str) -> FileEntry:
    try:
        return msgspec.json.decode(store.read(key), type=FileEntry)
    except msgspec.MsgspecError as error:
        raise InvalidData(f"{key} is no file record: {error}", where=key) from error


def put_distribution(store: ObjectStore, path: Path, entry: FileEntry, key: str) -> None:
    """Create the file and its `.metadata` sidecar; the sidecar is what the entry's digest names."""
    store.put_file(path, key)
    if entry.metadata_sha256 is not None:
        metadata = read_metadata(path)
        if hashlib.sha256(metadata).hexdigest() != entry.metadata_sha256:
            raise IntegrityError(f"METADATA of {path.name} is not what was recorded", where=path)
        store.put_bytes(f"{key}.metadata", metadata)


def stage_set(
    store: ObjectStore,
    manifest: SetManifest,
    files: Iterable[Path],
    statements: Iterable[Statement],
    today: date,
) -> Staged:
    """Put a checked set into `v2-staging/<family>/` and record it under `sets/<id>/`.

    `files` are the set's files, all of them and no other; `statements` are kept with the set, waivers
    included, which count if they are in force on the day `today`. Raises `ContractBroken` without a passing
    findings statement about this set, `InvalidInput` for a missing or foreign file, `IntegrityError` when
    a file is not the one in the manifest; nothing is published in these cases.
    """
    said = tuple(statements)
    digest = set_id(manifest)
    found = verdict_on(manifest, said, today)
    if found.problem is not None:
        raise ContractBroken(
            f"set {digest[:12]} has no passing check, so it is not published: {found.problem}",
            next_step="run the checks over exactly these files and resolve their findings, or waive them",
        )
    by_name = _match(manifest, files)
    prefix = staging_prefix(manifest.family)
    channel.listed_files(store, prefix, adding=manifest)
    save_set(store, manifest)
    for statement in said:
        save_statement(store, digest, statement)
    channel.publish(
        store, prefix, manifest, lambda entry, key: put_distribution(store, by_name[entry.name], entry, key)
    )
    return Staged(set_id=digest, prefix=prefix, index_url=store.url(prefix), files=manifest.files)


def _match(manifest: SetManifest, files: Iterable[Path]) -> dict[str, Path]:
    by_name = {path.name: path for path in files}
    wanted = {entry.name for entry in manifest.files}
    wrong = sorted(wanted ^ set(by_name))
    if wrong:
        raise InvalidInput(
            f"the files given are not those of set {set_id(manifest)[:12]}: {', '.join(wrong)}",
            next_step="give every file of the manifest and no other",
        )
    for entry in manifest.files:
        if sha256_file(by_name[entry.name]) != entry.sha256:
            raise IntegrityError(
                f"{entry.name} is not the file that was checked: its sha256 differs from the manifest",
                where=by_name[entry.name],
                next_step="describe and check the set again",
            )
    return by_name
