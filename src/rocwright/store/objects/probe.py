"""What a store honours, found out by trying it: servers that speak S3 differ, and few say so.

Everything happens below `_probe/<random>/` and is removed afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

import msgspec

from rocwright.errors import IntegrityError, InvalidInput, RocwrightError
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore

# S3 refuses every request beyond this.
_SKEW_S = 15 * 60


class Property(msgspec.Struct, frozen=True):
    """What a store may honour: whether it `holds` (None: does not apply), what that means for publishing."""

    id: str
    holds: bool | None
    needed: bool
    means: str


class Probe(msgspec.Struct, frozen=True):
    """What was found out about the store at `place`."""

    place: str
    findings: tuple[Property, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """What publishing needs and this store does not do."""
        return tuple(one.id for one in self.findings if one.needed and one.holds is False)


# id, needed, what it means that it holds, what that it does not
_MEANINGS = {
    "read-after-write": (
        True,
        "what was written is read at once",
        "a reader may see an old object after a write",
    ),
    "list-after-write": (
        True,
        "what was written is listed at once",
        "retention and repair may overlook objects",
    ),
    "create-only": (
        False,
        "of two writers of one key the store itself refuses the second",
        "two writers at once are noticed by reading back; run one publisher at a time",
    ),
    "replace": (True, "pages are replaced as a whole", "pages cannot be replaced"),
    "range": (True, "parts of wheels can be read", "metadata of wheels costs a whole download"),
    "suffix-range": (
        False,
        "the end of a wheel can be asked for",
        "installers ask for the size of a wheel first, then for its end",
    ),
    "headers-on-put": (
        True,
        "types and lifetimes of pages and files are kept",
        "JSON pages have the wrong type, and files are fetched again and again",
    ),
    "headers-on-copy": (
        False,
        "copies by other tools keep their headers",
        "copies by other tools lose their headers; ours are written again",
    ),
    "multipart": (True, "large files go up in parts", "files larger than one part cannot be stored"),
    "wrong-checksum-refused": (
        False,
        "bytes that were damaged in transit are refused",
        "only reading again finds them: rocwright set verify",
    ),
    "hard-links": (
        False,
        "files come in as links and take no room",
        "files come in as copies; where renaming replaces what is there, nothing can be put",
    ),
    "clock": (
        True,
        "its clock and that of this machine agree",
        "its clock and that of this machine are more than 15 minutes apart: S3 refuses such requests",
    ),
    "delete": (True, "objects can be removed", "retention cannot remove anything"),
}


def probe(store: ObjectStore, *, now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> Probe:
    """Try everything; raises what the store raises when not even a first object can be written."""
    prefix = f"_probe/{secrets.token_hex(8)}/"
    store.put_bytes(f"{prefix}first", b"first")
    results: dict[str, bool | None] = {}
    try:
        for name, check in _checks(store, prefix, now):
            results[name] = _tried(check)
    finally:
        results["delete"] = _tried(lambda: _remove(store, prefix))
    place = str(store.root) if isinstance(store, LocalStore) else str(getattr(store, "place", "the store"))
    return Probe(place, tuple(_finding(name, results[name]) for name in _MEANINGS if name in results))


def _finding(name: str, holds: bool | None) -> Property:
    needed, good, bad = _MEANINGS[name]
    return Property(name, holds, needed, "does not apply here" if holds is None else good if holds else bad)


def _tried(check: Callable[[], bool | None]) -> bool | None:
    try:
        return check()
    except RocwrightError:
        return False


def _checks(
    store: ObjectStore, prefix: str, now: Callable[[], datetime]
) -> Iterator[tuple[str, Callable[[], bool | None]]]:
    first = f"{prefix}first"
    yield "read-after-write", lambda: _read_after_write(store, prefix)
    yield "list-after-write", lambda: _list_after_write(store, prefix)
    yield "replace", lambda: _replace(store, prefix)
    yield "range", lambda: (store.read_range(first, 1, 3), store.read_range(first, 9, 3)) == (b"irs", b"")
    yield "clock", lambda: _clock(store, prefix, now)
    if isinstance(store, LocalStore):
        yield "create-only", lambda: _refuses_other_bytes(store, prefix)
        yield "hard-links", lambda: _links(store, prefix)
        return
    from rocwright.store.objects import probe_remote
    from rocwright.store.objects.remote import RemoteStore

    if isinstance(store, RemoteStore):
        yield from probe_remote.checks(store, prefix)


def _read_after_write(store: ObjectStore, prefix: str) -> bool:
    for number in range(5):
        content = str(number).encode()
        store.put_bytes(f"{prefix}read-{number}", content)
        if store.read(f"{prefix}read-{number}") != content:
            return False
    return True


def _list_after_write(store: ObjectStore, prefix: str) -> bool:
    for number in range(5):
        key = f"{prefix}list/{number}"
        store.put_bytes(key, b"")
        if key not in [one.key for one in store.list(f"{prefix}list/")]:
            return False
    store.delete(f"{prefix}list/0")
    return f"{prefix}list/0" not in [one.key for one in store.list(f"{prefix}list/")]


def _replace(store: ObjectStore, prefix: str) -> bool:
    for number in range(5):
        store.put_bytes(f"{prefix}page", str(number).encode(), overwrite=True)
        if store.read(f"{prefix}page") != str(number).encode():
            return False
    return True


def _refuses_other_bytes(store: ObjectStore, prefix: str) -> bool:
    try:
        store.put_bytes(f"{prefix}first", b"other")
    except IntegrityError:
        return True
    return False


def _links(store: LocalStore, prefix: str) -> bool:
    store.copy(f"{prefix}first", f"{prefix}link")
    return (store.root / prefix / "first").samefile(store.root / prefix / "link")


def _clock(store: ObjectStore, prefix: str, now: Callable[[], datetime]) -> bool:
    before = now()
    store.put_bytes(f"{prefix}clock", b"")
    stored = store.stat(f"{prefix}clock")
    if stored is None:
        raise InvalidInput(f"the store has no object {prefix}clock")
    return abs((stored.modified - before).total_seconds()) <= _SKEW_S


def _remove(store: ObjectStore, prefix: str) -> bool:
    first = f"{prefix}first"
    for key in {first, *(one.key for one in store.list(prefix))}:
        store.delete(key)
    return store.list(prefix) == () and not store.exists(first)
