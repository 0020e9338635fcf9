"""An object store: keys and immutable bytes.

What an S3 bucket, a folder and a dictionary can all keep. Correctness never rests on a conditional put, which
several servers accept and ignore: a key is created once, its content is known by digest, and what changes
(pages) is a function of what does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from rocwright.errors import NoObject


@dataclass(frozen=True)
class Stored:
    """An object as its store describes it: `size` in bytes, `modified` by the clock of the store, in UTC."""

    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Keys and bytes. Methods raise `InvalidInput` for a malformed key, `NoObject` for an absent object.

    Others may write and delete at any moment: what `exists`, `stat` or `list` said may be wrong when the
    next method is called. Who reads what may go asks `read_there`.

    What a client is told about an object (Content-Type, Cache-Control) follows from its key:
    `rocwright.store.layout.headers_for`.
    """

    def put_file(self, source: Path, key: str) -> None:
        """Create `key` with the file's bytes; the same bytes again are fine, others `IntegrityError`."""

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """Create `key`, or with `overwrite` replace it at once; else as `put_file`."""

    def copy(self, source: str, key: str) -> None:
        """Create `key` with the bytes of another key; as `put_file`."""

    def read(self, key: str) -> bytes:
        """The bytes of `key`."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes of `key` from `start` on; fewer where the object ends."""

    def stat(self, key: str) -> Stored | None:
        """What the store says of `key`; None when it is not there, whole."""

    def exists(self, key: str) -> bool:
        """Whether `key` is there, whole."""

    def list(self, prefix: str) -> tuple[Stored, ...]:
        """Every object whose key starts with `prefix` (which ends with `/`, or is empty), sorted by key."""

    def folders(self, prefix: str) -> tuple[str, ...]:
        """The next parts of keys below `prefix` that have more behind them, sorted, without `/`."""

    def delete(self, key: str) -> None:
        """Remove `key`; absent is fine."""

    def digest(self, key: str) -> str:
        """Hex sha256 of the bytes of `key`, read again, not remembered."""

    def url(self, key: str) -> str:
        """Where a client finds `key` (or a prefix ending with `/`)."""


def read_there(store: ObjectStore, key: str) -> bytes | None:
    """The bytes of `key`; None when it is not there, or goes while it is asked for."""
    try:
        return store.read(key)
    except NoObject:
        return None
