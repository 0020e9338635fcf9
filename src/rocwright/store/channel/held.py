"""A store as its lease holder sees it: every write asks first whether the lease still holds."""

from __future__ import annotations

from pathlib import Path

from rocwright.store.channel.lease import Lease
from rocwright.store.objects.protocol import ObjectStore, Stored


class HeldStore:
    """The lease's store; `put_*`, `copy` and `delete` raise `LeaseLost` once somebody else may publish."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.below: ObjectStore = lease.store

    def put_file(self, source: Path, key: str) -> None:
        """See `ObjectStore.put_file`."""
        self.lease.check()
        self.below.put_file(source, key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`."""
        self.lease.check()
        self.below.put_bytes(key, data, overwrite=overwrite)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        self.lease.check()
        self.below.copy(source, key)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self.lease.check()
        self.below.delete(key)

    def read(self, key: str) -> bytes:
        """See `ObjectStore.read`."""
        return self.below.read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `ObjectStore.read_range`."""
        return self.below.read_range(key, start, length)

    def stat(self, key: str) -> Stored | None:
        """See `ObjectStore.stat`."""
        return self.below.stat(key)

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return self.below.exists(key)

    def list(self, prefix: str) -> tuple[Stored, ...]:
        """See `ObjectStore.list`."""
        return self.below.list(prefix)

    def folders(self, prefix: str) -> tuple[str, ...]:
        """See `ObjectStore.folders`."""
        return self.below.folders(prefix)

    def digest(self, key: str) -> str:
        """See `ObjectStore.digest`."""
        return self.below.digest(key)

    def url(self, key: str) -> str:
        """See `ObjectStore.url`."""
        return self.below.url(key)
