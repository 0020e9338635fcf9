"""An object store: keys and immutable bytes; here in a local folder.

The protocol is what an S3 bucket can keep as well. Correctness never rests on a conditional put, which
several servers accept and ignore: a key is created once, its content is known by digest, and one writer
at a time publishes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

from rocwright.errors import IntegrityError, InvalidInput
from rocwright.store.layout import check_key
from rocwright.system import files


class ObjectStore(Protocol):
    """Keys and bytes. Every method raises `InvalidInput` for a malformed key or an absent object."""

    def put_file(self, source: Path, key: str) -> None:
        """Create `key` with the file's bytes; the same bytes again are fine, others `IntegrityError`."""

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """Create `key`, or with `overwrite` replace it at once; else as `put_file`."""

    def copy(self, source: str, key: str) -> None:
        """Create `key` with the bytes of another key; as `put_file`."""

    def read(self, key: str) -> bytes:
        """The bytes of `key`."""

    def exists(self, key: str) -> bool:
        """Whether `key` is there, whole."""

    def list(self, prefix: str) -> tuple[str, ...]:
        """Every key that starts with `prefix` (which ends with `/`, or is empty), sorted."""

    def digest(self, key: str) -> str:
        """Hex sha256 of the bytes of `key`, read again, not remembered."""

    def url(self, key: str) -> str:
        """Where a client finds `key` (or a prefix ending with `/`)."""


class LocalStore:
    """A store in a folder. Files come in as hard links where the file system allows."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    def _existing(self, key: str) -> Path:
        path = self._path(key)
        if not path.is_file():
            raise InvalidInput(f"the store has no object {key}", where=self.root)
        return path

    def put_file(self, source: Path, key: str) -> None:
        """See `ObjectStore.put_file`. The source must never be written in place afterwards."""
        path = self._path(key)
        if not source.is_file():
            raise InvalidInput(f"{source.name} does not exist, so it cannot be stored", where=source)
        if path.exists():
            _require_same(files.sha256_file(path), files.sha256_file(source), key)
            return
        # A link to a link would keep pointing outside of the store.
        files.link_or_copy(source.resolve(), path)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`."""
        path = self._path(key)
        if path.exists() and not overwrite:
            _require_same(files.sha256_file(path), hashlib.sha256(data).hexdigest(), key)
            return
        with files.atomic_write(path) as stream:
            stream.write(data)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        self.put_file(self._existing(source), key)

    def read(self, key: str) -> bytes:
        """See `ObjectStore.read`."""
        return self._existing(key).read_bytes()

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return self._path(key).is_file()

    def list(self, prefix: str) -> tuple[str, ...]:
        """See `ObjectStore.list`; files that are still being written are left out."""
        folder = self.root / check_key(prefix.removesuffix("/")) if prefix else self.root
        if not folder.is_dir():
            return ()
        found = (path.relative_to(self.root).as_posix() for path in files.walk_files(folder))
        return tuple(sorted(key for key in found if not key.endswith(files.PARTIAL)))

    def digest(self, key: str) -> str:
        """See `ObjectStore.digest`."""
        return files.sha256_file(self._existing(key))

    def url(self, key: str) -> str:
        """A `file://` URL."""
        folder = key.endswith("/")
        address = (self.root / check_key(key.removesuffix("/"))).as_uri()
        return address + "/" if folder else address


def _require_same(stored: str, offered: str, key: str) -> None:
    if stored != offered:
        raise IntegrityError(
            f"{key} is in the store with sha256 {stored}; refusing to replace it by {offered}",
            where=key,
            next_step="give the changed file a new version or run id: a published name never changes content",
        )
