"""A channel: a log of sets and the index rendered from it.

Publishing order keeps every page true at every moment: files and their metadata, then project pages
behind the projects they depend on, then the root page, then the log. What the channel listed before stays
listed. An interrupted run has listed nothing that is not there; running it again completes it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rocwright.errors import IntegrityError, InvalidData
from rocwright.model.manifest import FileEntry, SetManifest, canonical_json, set_id
from rocwright.store.index import simple_pages
from rocwright.store.layout import CHANNEL_LOG
from rocwright.store.objects import ObjectStore
from rocwright.store.records import read_set

CHANNEL_SCHEMA = "rocwright.channel/1"


class ChannelLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ids of the sets a channel lists, oldest first."""

    sets: tuple[str, ...] = ()
    schema: str = CHANNEL_SCHEMA


def read_log(store: ObjectStore, prefix: str) -> ChannelLog:
    """The log of the channel at `prefix`; an empty one when nothing was ever published there."""
    key = f"{prefix}{CHANNEL_LOG}"
    if not store.exists(key):
        return ChannelLog()
    try:
        return msgspec.json.decode(store.read(key), type=ChannelLog)
    except msgspec.MsgspecError as error:
        raise InvalidData(f"{key} is no channel log: {error}", where=key) from error


def listed_files(
    store: ObjectStore, prefix: str, *, adding: SetManifest | None = None
) -> tuple[FileEntry, ...]:
    """Every file the channel lists, with those of a set about to be added.

    Raises `IntegrityError` when two sets give one name different content.
    """
    manifests = [read_set(store, digest) for digest in read_log(store, prefix).sets]
    files: dict[str, FileEntry] = {}
    for manifest in [*manifests, *([adding] if adding is not None else [])]:
        for entry in manifest.files:
            known = files.setdefault(entry.name, entry)
            if known.sha256 != entry.sha256:
                raise IntegrityError(
                    f"{prefix} already lists {entry.name} with other content",
                    where=prefix + entry.name,
                    next_step="build the set under a new version; a published name never changes content",
                )
    return tuple(files[name] for name in sorted(files))


def publish(
    store: ObjectStore, prefix: str, manifest: SetManifest, put: Callable[[FileEntry, str], None]
) -> None:
    """List a recorded set in the channel.

    `put(entry, key)` creates the object `key` from the entry's bytes, and its metadata beside it under
    `<key>.metadata` when the entry has any.
    """
    files = listed_files(store, prefix, adding=manifest)
    for entry in manifest.files:
        put(entry, prefix + entry.name)
    for name, text in simple_pages(files).items():
        store.put_bytes(prefix + name, text.encode(), overwrite=True)
    _append(store, prefix, set_id(manifest))


def _append(store: ObjectStore, prefix: str, set_digest: str) -> None:
    log = read_log(store, prefix)
    if set_digest in log.sets:
        return
    key = f"{prefix}{CHANNEL_LOG}"
    content = canonical_json(ChannelLog(sets=(*log.sets, set_digest)))
    store.put_bytes(key, content, overwrite=True)
    # A store that answers "done" and keeps other bytes (a second writer, a stale cache) is found out here.
    if store.read(key) != content:
        raise IntegrityError(
            f"{key} does not hold what was just written",
            where=key,
            next_step="make sure that one run at a time publishes to this channel, then run again",
        )
