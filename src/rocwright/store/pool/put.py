"""Put distribution files into a store, each once, under its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rocwright.errors import IntegrityError
from rocwright.model.manifest import FileEntry
from rocwright.store.layout import file_key, metadata_key
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool.describe import read_metadata
from rocwright.system.files import verify_sha256


def put_pooled(store: ObjectStore, path: Path, entry: FileEntry) -> None:
    """Put a file and its METADATA into the pool; what is there already, whole, stays and is not read again.

    Raises `IntegrityError` when the file is not the one that the entry describes, or the store has a
    file of another size in its place.
    """
    there = [store.stat(key) for key in wanted_objects(entry)]
    if there[0] is not None and there[0].size == entry.size and None not in there:
        return
    # The key promises a digest to everybody, so it is not taken on trust.
    verify_sha256(path, entry.sha256)
    put_distribution(store, path, entry, file_key(entry.sha256, entry.name))


def put_distribution(store: ObjectStore, path: Path, entry: FileEntry, key: str) -> None:
    """Create the file and its `.metadata` sidecar; the sidecar is what the entry's digest names."""
    metadata = None
    if entry.metadata_sha256 is not None:
        metadata = read_metadata(path)
        if hashlib.sha256(metadata).hexdigest() != entry.metadata_sha256:
            raise IntegrityError(f"METADATA of {path.name} is not what was recorded", where=path)
    store.put_file(path, key)
    if metadata is not None:
        store.put_bytes(f"{key}.metadata", metadata)


def wanted_objects(entry: FileEntry) -> dict[str, str]:
    """Keys of a file in the pool and of its METADATA, with the sha256 that each must have."""
    wanted = {file_key(entry.sha256, entry.name): entry.sha256}
    if entry.metadata_sha256 is not None:
        wanted[metadata_key(entry.sha256, entry.name)] = entry.metadata_sha256
    return wanted
