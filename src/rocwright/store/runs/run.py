"""One run of a workflow in a store: where it lies, and the records that say what it uploaded, whole.

A record is written last, so an upload with a record is complete; what a killed upload left has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.sets import FileEntry, canonical_json
from rocwright.store.layout import Kind, run_folder, run_prefix
from rocwright.store.objects.protocol import ObjectStore

RUN_SCHEMA = "rocwright.run/1"
RecordKind = Literal["python", "pytorch", "artifacts"]
Result = Literal["success", "failure", "cancelled"]
# What takes the place of a group's name: packages for all GPUs.
ALL_GROUPS = "_all"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")


class RunFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a run: its name, hex sha256 and size in bytes."""

    name: str
    sha256: str
    size: int


class RunRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run uploaded of one kind for one group (None: for all GPUs), sorted by name."""

    run_id: str
    platform: str
    kind: RecordKind
    group: str | None
    result: Result
    files: tuple[RunFile, ...]
    schema: str = RUN_SCHEMA


_Record = TypeVar("_Record", RunRecord, FileEntry)


class Run(msgspec.Struct, frozen=True):
    """A run on a platform; `external_repo` is `owner-name/` where it is of a fork or another repository."""

    run_id: str
    platform: str
    external_repo: str = ""

    @property
    def folder(self) -> str:
        """Where it lies, ending with `/`."""
        return run_folder(self.run_id, self.platform, external_repo=self.external_repo)

    def prefix(self, kind: Kind, group: str | None) -> str:
        """Where its packages lie, ending with `/`."""
        return run_prefix(self.run_id, self.platform, kind, group, external_repo=self.external_repo)

    def record_key(self, kind: str, group: str | None) -> str:
        """Where the record of one kind and group lies."""
        return f"{self.folder}_run/{kind}/{group or ALL_GROUPS}.json"

    def combined(self, group: str | None) -> str:
        """Where the page of all packages for a group lies, whatever their kind."""
        return f"{self.folder}_combined/{group + '/' if group else ''}index.html"


def external_repo(repository: str | None, own: str) -> str:
    """`owner-name/` for a repository other than `own` (both `owner/name`), else `""`."""
    if not repository or repository == own:
        return ""
    if _REPOSITORY.fullmatch(repository) is None:
        raise InvalidInput(
            f"{repository!r} is not a GitHub repository", next_step="write it as owner/name, or leave it out"
        )
    return repository.replace("/", "-") + "/"


def save_record(store: ObjectStore, run: Run, record: RunRecord) -> None:
    """Write a record, the last thing of an upload; an earlier record is replaced."""
    store.put_bytes(run.record_key(record.kind, record.group), canonical_json(record), overwrite=True)


def run_record(
    run: Run, kind: RecordKind, group: str | None, result: Result, files: Iterable[RunFile]
) -> RunRecord:
    """The record of these files, in order."""
    ordered = tuple(sorted(files, key=lambda file: file.name))
    return RunRecord(run.run_id, run.platform, kind, group, result, ordered)


def records_of(store: ObjectStore, run: Run, kind: str) -> tuple[RunRecord, ...]:
    """What the run uploaded of a kind, by group; raises `InvalidData` for a record that cannot be read."""
    keys = [stored.key for stored in store.list(f"{run.folder}_run/{kind}/")]
    return tuple(_read(store, key, RunRecord) for key in keys)


def file_records(store: ObjectStore, prefix: str) -> tuple[FileEntry, ...]:
    """Entries of the packages below a prefix of a run."""
    return tuple(_read(store, one.key, FileEntry) for one in store.list(f"{prefix}_records/"))


def runs_in(store: ObjectStore, platform: str, external_repo: str) -> tuple[Run, ...]:
    """The runs of a store, the newest first: by number, which GitHub counts up; other names come last."""
    ending = f"-{platform}"
    folders = [name.removesuffix(ending) for name in store.folders(external_repo) if name.endswith(ending)]
    ordered = sorted(folders, key=lambda name: (name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    return tuple(Run(name, platform, external_repo) for name in reversed(ordered))


def _read(store: ObjectStore, key: str, kind: type[_Record]) -> _Record:
    try:
        return msgspec.json.decode(store.read(key), type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidData(
            f"{key} is not a record of a run: {error}", where=key, next_step="upload the run again"
        ) from error
