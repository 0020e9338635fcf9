"""A store as it would be: what is written and deleted stays in memory, and the store below is as it was."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from pathlib import Path

from rocwright.errors import NoObject
from rocwright.store.objects.local import LocalStore, require_same
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.system.files import sha256_file


class Rehearsed:
    """An `ObjectStore` in front of another that it only reads. Files stay where they are and must not go."""

    def __init__(self, below: ObjectStore) -> None:
        self._below = below
        self._written: dict[str, tuple[bytes | Path, datetime]] = {}
        self._gone: set[str] = set()

    def _write(self, key: str, content: bytes | Path) -> None:
        self._written[key] = (content, datetime.now(timezone.utc))
        self._gone.discard(key)

    def put_file(self, source: Path, key: str) -> None:
        """See `ObjectStore.put_file`."""
        if self.exists(key):
            require_same(self.digest(key), sha256_file(source), key)
        else:
            self._write(key, source)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`."""
        if not overwrite and self.exists(key):
            require_same(self.digest(key), hashlib.sha256(data).hexdigest(), key)
        else:
            self._write(key, data)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        if isinstance(self._below, LocalStore) and source not in self._written and source not in self._gone:
            self.put_file(self._below.root / source, key)
        else:
            self.put_bytes(key, self.read(source))

    def read(self, key: str) -> bytes:
        """See `ObjectStore.read`."""
        if key in self._gone:
            raise NoObject(f"the store has no object {key}", where=key)
        if key not in self._written:
            return self._below.read(key)
        content, _ = self._written[key]
        return content if isinstance(content, bytes) else content.read_bytes()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `ObjectStore.read_range`."""
        if key in self._written or key in self._gone:
            return self.read(key)[start : start + length]
        return self._below.read_range(key, start, length)

    def stat(self, key: str) -> Stored | None:
        """See `ObjectStore.stat`."""
        if key in self._gone:
            return None
        if key not in self._written:
            return self._below.stat(key)
        content, at = self._written[key]
        return Stored(key, len(content) if isinstance(content, bytes) else content.stat().st_size, at)

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return self.stat(key) is not None

    def list(self, prefix: str) -> tuple[Stored, ...]:
        """See `ObjectStore.list`."""
        there = {one.key: one for one in self._below.list(prefix) if one.key not in self._gone}
        mine = (self.stat(key) for key in self._written if key.startswith(prefix))
        there.update({one.key: one for one in mine if one is not None})
        return tuple(there[key] for key in sorted(there))

    def folders(self, prefix: str) -> tuple[str, ...]:
        """See `ObjectStore.folders`; one whose objects are all gone may still be among them."""
        mine = (key.removeprefix(prefix) for key in self._written if key.startswith(prefix))
        return tuple(
            sorted({*self._below.folders(prefix), *(key.split("/")[0] for key in mine if "/" in key)})
        )

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self._written.pop(key, None)
        self._gone.add(key)

    def digest(self, key: str) -> str:
        """See `ObjectStore.digest`."""
        if key in self._written or key in self._gone:
            return hashlib.sha256(self.read(key)).hexdigest()
        return self._below.digest(key)

    def url(self, key: str) -> str:
        """See `ObjectStore.url`."""
        return self._below.url(key)
