"""Download one object of a store: resumed where it stopped, compared with its digest, there whole or not."""

from __future__ import annotations

from pathlib import Path

from rocwright.errors import IntegrityError, InvalidInput, Unreachable
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.system.files import PARTIAL, disk_error, sha256_file

_PIECE = 16 << 20


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
                f"{key} has sha256 {digest}, recorded is {sha256}",
                where=store.url(key),
                next_step="it is damaged in the store, or was replaced; upload it again",
            )
        partial.replace(target)
    except OSError as error:
        raise disk_error(error, target) from error
    return digest


def _partial(target: Path, stored: Stored) -> Path:
    # Size and time in the name: another object is not taken for the rest of this one.
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
        while place < stored.size:
            piece = store.read_range(stored.key, place, min(_PIECE, stored.size - place))
            if not piece:
                raise Unreachable(
                    f"{stored.key} ends after {place:,} of {stored.size:,} bytes",
                    where=store.url(stored.key),
                    next_step="run again; what is there is gone on with",
                )
            stream.write(piece)
            place += len(piece)
    return begin > 0
