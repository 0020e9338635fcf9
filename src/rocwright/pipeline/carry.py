"""Results of a run between machines that share no store: each hands on what it added to its own folder.

A workflow keeps what is handed on as artifacts of its run, folders: `carried.json` says which key has which
bytes, and where they are, once: packages by their names, so that people install from `packages/`, others by
their digests. Records of steps are handed on apart from all else: whoever only tells how the run went needs
no wheel.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.errors import IntegrityError
from rocwright.model.platforms import PLATFORMS
from rocwright.store.layout import check_key
from rocwright.store.lease import LEASES, PIPELINE
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import Stored
from rocwright.store.pool import is_distribution
from rocwright.store.runs.run import Run
from rocwright.store.runs.upload import rewrite_pages
from rocwright.system.files import link_or_copy, remove_tree, sha256_file, write_text

# Below the directory of a run: what others handed on, by artifact, and what this machine hands on.
TAKEN, GIVEN = "carried/in", "carried/out"
# Of an artifact, where people find its wheels.
PACKAGES = "packages"
# What is handed on, as outputs of a workflow's step name it; the first is what every job takes.
PARTS = ("records", "files")
_MANIFEST = "carried.json"
_SCHEMA = 1
# Longer than the steps in which file systems tell time.
_TICK_S = 0.02
_OBJECTS = f"{PIPELINE}objects/"
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
Say = Callable[[str], None]


class _Carried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object, and where its bytes lie in the artifact; it was stored at `modified`, seconds since 1970."""

    key: str
    sha256: str
    at: str
    modified: float


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    job: str
    files: tuple[_Carried, ...]


def take(work: Path, store: LocalStore, run_id: str, say: Say) -> None:
    """Put into the store what others handed on; it lies below `work`, and is gone then.

    Raises `IntegrityError` for what was not handed on whole, before anything of it is put there.
    """
    root = work / TAKEN
    found = _handed_on(root)
    files = [(folder / file.at, file) for folder, manifest in found for file in manifest.files]
    seen: dict[str, str] = {}
    again, cells = False, set[str]()
    # Of two records of a cell the newer counts, and a store tells when a file came to it, but not of a link.
    for blob, file in sorted(files, key=lambda one: one[1].modified):
        cell = file.key.rpartition("/")[0]
        if _is_record(file.key) and cell in cells:
            time.sleep(_TICK_S)
        cells.add(cell)
        again |= seen.setdefault(file.key, file.sha256) != file.sha256
        if _is_record(file.key):
            store.put_bytes(file.key, blob.read_bytes(), overwrite=True)
        else:
            link_or_copy(blob, store.root / file.key)
    remove_tree(root)
    if found:
        say(f"took what {len(found)} jobs of this run handed on: {len(seen)} files")
    if again:
        # Pages list what stands beside them, and none of the machines saw all of it.
        for platform in PLATFORMS:
            rewrite_pages(store, Run(run_id, platform))


def _handed_on(root: Path) -> list[tuple[Path, _Manifest]]:
    """Each that was handed on, whole. One that is alone stands in no folder of its own."""
    if (root / _MANIFEST).is_file():
        folders = [root]
    else:
        folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return [(folder, _read(folder)) for folder in folders]


def _read(folder: Path) -> _Manifest:
    try:
        manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise _damaged(folder, f"{_MANIFEST} cannot be read") from error
    if manifest.schema != _SCHEMA:
        raise _damaged(folder, f"{_MANIFEST} is of another version of rocwright")
    for file in manifest.files:
        check_key(file.key)
        blob = folder / check_key(file.at)
        if not blob.is_file() or sha256_file(blob) != file.sha256:
            raise _damaged(folder, f"{file.key} of {manifest.job} is missing or has other bytes")
    return manifest


def _damaged(folder: Path, what: str) -> IntegrityError:
    return IntegrityError(
        f"the artifact {folder.name} is not whole: {what}",
        where=folder,
        next_step="run the job again that left it (Re-run jobs), then those after it",
    )


def there(store: LocalStore) -> frozenset[Stored]:
    """What the store holds at this moment, to be compared with later."""
    return frozenset(store.list(""))


def hand_on(
    work: Path,
    store: LocalStore,
    before: Collection[Stored],
    job: str,
    group: str,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Lay out what the store holds beyond `before`, and give the names that artifacts of it are to have.

    By part, those without files left out. `group` is what the job belongs to, empty for one of the whole run:
    every job takes all of that. An attempt of a workflow has names of its own.
    """
    known = set(before)
    new = [one for one in store.list("") if one not in known and not one.key.startswith(LEASES)]
    remove_tree(work / GIVEN)
    attempt = environment.get("GITHUB_RUN_ATTEMPT") or "1"
    names = {}
    for part in PARTS:
        files = [one for one in new if (part == "records") == (not group or _is_record(one.key))]
        if files:
            _lay_out(work / GIVEN / part, store, files, job)
            names[part] = (
                f"rocwright.{part if part == 'records' else group}.{_UNSAFE.sub('.', job)}.{attempt}"
            )
    return names


def _is_record(key: str) -> bool:
    return key.startswith(PIPELINE) and not key.startswith(_OBJECTS)


def _lay_out(folder: Path, store: LocalStore, files: Sequence[Stored], job: str) -> None:
    listed: list[_Carried] = []
    # By digest: a wheel lies in the run's folder, and among what its step left.
    at: dict[str, str] = {}
    for one in files:
        path = store.root / one.key
        digest = sha256_file(path)
        if digest not in at:
            named = f"{PACKAGES}/{path.name}"
            free = is_distribution(path) and named not in at.values()
            at[digest] = named if free else f"blobs/{digest}"
            link_or_copy(path, folder / at[digest])
        listed.append(_Carried(one.key, digest, at[digest], one.modified.timestamp()))
    manifest = _Manifest(_SCHEMA, job, tuple(listed))
    write_text(folder / _MANIFEST, msgspec.json.encode(manifest).decode())
