"""An object store: keys and immutable bytes, and how one of its objects comes to disk.

What an S3 bucket, a folder and a dictionary can all keep. Correctness never rests on a conditional put, which
several servers accept and ignore: a key is created once, its content is known by digest, and what changes
(pages) is a function of what does not.

A download is resumed where it stopped, compared with its digest, and there whole or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from rocwright.errors import IntegrityError, InvalidInput, NoObject, Unreachable
from rocwright.system.files import PARTIAL, disk_error, sha256_file
from rocwright.system.parallel import in_order
from rocwright.system.progress import counted

_T = TypeVar("_T")
_R = TypeVar("_R")

# What of an object is downloaded at a time.
_PIECE = 16 << 20


class Stored(msgspec.Struct, frozen=True):
    """An object as its store describes it: `size` in bytes, `modified` by the clock of the store, in UTC."""

    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Keys and bytes. Methods raise `InvalidInput` for a malformed key, `NoObject` for an absent object.

    Others may write and delete at any moment: what `exists`, `stat` or `list` answered may be wrong when the
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


class InFront:
    """An `ObjectStore` in front of another, which does all that its subclass does not say."""

    def __init__(self, below: ObjectStore) -> None:
        self.below = below

    def put_file(self, source: Path, key: str) -> None:
        """See `ObjectStore.put_file`."""
        self.below.put_file(source, key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`."""
        self.below.put_bytes(key, data, overwrite=overwrite)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        self.below.copy(source, key)

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

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self.below.delete(key)

    def digest(self, key: str) -> str:
        """See `ObjectStore.digest`."""
        return self.below.digest(key)

    def url(self, key: str) -> str:
        """See `ObjectStore.url`."""
        return self.below.url(key)


def beneath(store: ObjectStore) -> ObjectStore:
    """The store itself, without what stands in front of it: a lease, or who minds signatures."""
    while (inner := getattr(store, "below", None)) is not None:
        store = inner
    return store


def read_there(store: ObjectStore, key: str) -> bytes | None:
    """The bytes of `key`; None when it is not there, or goes while it is asked for."""
    try:
        return store.read(key)
    except NoObject:
        return None


def side_by_side(store: ObjectStore, work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    """Outcomes of `work`, which asks the store, in the order of `items`.

    Several at a time where each request waits for its answer: a bucket says how many by `at_once`.
    """
    threads = getattr(beneath(store), "at_once", 1)
    if threads == 1:
        yield from map(work, items)
    else:
        yield from in_order(work, ((item, 1) for item in items), threads=threads, window=2 * threads)


def download(store: ObjectStore, key: str, target: Path, sha256: str | None) -> str:
    """Write an object to `target`; returns its hex sha256.

    What an earlier call left half-done is gone on with if the object is still the same. Raises
    `IntegrityError` when the bytes have another digest than `sha256`, and keeps none of them.
    """
    stored = store.stat(key)
    if stored is None:
        raise InvalidInput(f"the store has no object {key}", where=key)
    partial = _partial(target, stored)
    for other in target.parent.glob(f"*{PARTIAL}"):
        # Of this object as it was before.
        if other.name.startswith(f"{target.name}.") and other != partial:
            other.unlink()
    try:
        resumed = _fill(store, stored, partial)
        digest = sha256_file(partial)
        if sha256 not in (None, digest) and resumed:
            # What was there may have been damaged since; all of it once more tells.
            partial.unlink()
            _fill(store, stored, partial)
            digest = sha256_file(partial)
        if sha256 not in (None, digest):
            partial.unlink()
            raise IntegrityError(
                f"{key} has sha256 {digest}, but {sha256} was recorded",
                where=store.url(key),
                next_step="it is damaged in the store, or was replaced; upload it again",
            )
        partial.replace(target)
    except OSError as error:
        raise disk_error(error, target) from error
    return digest


def _partial(target: Path, stored: Stored) -> Path:
    # Size and time in the name: another object is not taken for the rest of this object.
    return target.with_name(f"{target.name}.{stored.size}-{int(stored.modified.timestamp())}{PARTIAL}")


def _fill(store: ObjectStore, stored: Stored, partial: Path) -> bool:
    """Append what is missing; returns whether something was there."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("ab") as stream:
        begin = stream.tell()
        if begin > stored.size:
            stream.truncate(0)
            begin = 0
        place = begin
        with counted(f"downloading {stored.key.rpartition('/')[2]}", stored.size - begin) as count:
            while place < stored.size:
                piece = store.read_range(stored.key, place, min(_PIECE, stored.size - place))
                if not piece:
                    raise Unreachable(
                        f"{stored.key} ends after {place:,} of {stored.size:,} bytes",
                        where=store.url(stored.key),
                        next_step="run again; the download continues where it ended",
                    )
                stream.write(piece)
                place += len(piece)
                count.add(len(piece))
    return begin > 0
