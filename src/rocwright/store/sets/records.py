"""Sets in a store: their manifests, the statements about them, and where the files of adopted sets are.

`sets/<id>/manifest.json` and `sets/<id>/_statements/` are written once. Files of a set lie in the pool, as a
receipt states, or, adopted from an index, where `locations.json` says, on which the set's id does not depend.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from rocwright.errors import IntegrityError, InvalidData, InvalidInput, NoObject
from rocwright.model.sets import (
    PROVENANCE,
    RECEIPT,
    SetManifest,
    Statement,
    about_set,
    canonical_json,
    parse_set,
    parse_statement,
    set_id,
    statement_id,
)
from rocwright.store.damage import DAMAGED, MISSING, Damage, Tell, how, pass_over, put_right, refuse
from rocwright.store.index.listed import ListedSet
from rocwright.store.layout import file_key, is_key, set_prefix
from rocwright.store.objects.protocol import ObjectStore, Stored, download, read_there
from rocwright.system.redact import signs

LOCATIONS_SCHEMA = "rocwright.locations/1"
_WEB = ("https://", "http://")
_ID = re.compile(r"[0-9a-f]{64}")
_STATEMENT = re.compile(r"(?P<kind>[^/]+)-[0-9a-f]{32}\.json")


def save_set(store: ObjectStore, manifest: SetManifest) -> str:
    """Write the manifest under its id; returns the key."""
    key = manifest_key(set_id(manifest))
    put_right(store, key, canonical_json(manifest))
    return key


def manifest_key(set_digest: str) -> str:
    """The key of a set's manifest."""
    return f"{set_prefix(set_digest)}manifest.json"


def read_set(store: ObjectStore, set_digest: str) -> SetManifest:
    """The set with this id; raises `IntegrityError` for a damaged manifest, `NoObject` without a set."""
    key = manifest_key(set_digest)
    data = read_there(store, key)
    if data is None:
        if store.list(set_prefix(set_digest)):
            refuse(Damage(key, MISSING))
        raise NoObject(f"the store has no object {key}", where=key)
    try:
        manifest = parse_set(data, where=key)
    except InvalidData:
        # A manifest with its digest that cannot be read is one of another version.
        if hashlib.sha256(data).hexdigest() == set_digest:
            raise
        refuse(Damage(key, how(data)))
        raise
    if set_id(manifest) != set_digest:
        raise IntegrityError(
            f"{key} has the id {set_id(manifest)}",
            where=key,
            next_step="find out who changed it; create the set again from its files, or see "
            "`rocwright set repair`",
        )
    return manifest


def recorded_sets(store: ObjectStore, tell: Tell = refuse) -> tuple[str, ...]:
    """Ids of every set that is recorded in the store, sorted; `tell` is told of those without a manifest."""
    found = []
    for name in set_folders(store):
        if store.exists(manifest_key(name)):
            found.append(name)
        elif any(f"{set_prefix(name)}_statements/" in one.key for one in store.list(set_prefix(name))):
            tell(Damage(manifest_key(name), MISSING))
    return tuple(found)


def set_folders(store: ObjectStore) -> tuple[str, ...]:
    """Ids that something of is below `sets/`; other names are strays."""
    names = store.folders("sets/")
    pass_over(f"sets/{name}/" for name in names if _ID.fullmatch(name) is None)
    return tuple(name for name in names if _ID.fullmatch(name) is not None)


def save_statement(store: ObjectStore, set_digest: str, statement: Statement) -> str:
    """Write a statement about the set; to write it again is fine. Returns the key.

    Raises `InvalidInput` when the statement is about something else.
    """
    if not statement.about(set_digest):
        raise InvalidInput(
            f"the statement {statement.predicate_type} is not about set {set_digest}",
            next_step="make it with about_set() from the manifest of this set",
        )
    kind = _kind(statement.predicate_type)
    key = f"{set_prefix(set_digest)}_statements/{kind}-{statement_id(statement)[:32]}.json"
    put_right(store, key, canonical_json(statement))
    return key


def read_statements(
    store: ObjectStore,
    set_digest: str,
    *predicate_types: str,
    tell: Tell = refuse,
    known: dict[str, Statement] | None = None,
) -> tuple[Statement, ...]:
    """Every statement recorded about the set, sorted by key; only those of some types where they are given.

    Those that are `known`, by their keys, are not read again; the others are added to these. `tell` is told
    of one that is damaged; by default that raises `IntegrityError`. Raises `InvalidData` for one that is
    whole and cannot be read.
    """
    there = {} if known is None else known
    found = []
    for stored in statement_objects(store, set_digest, *map(_kind, predicate_types)):
        if stored.key not in there:
            data = read_there(store, stored.key)
            if data is None or not names_statement(stored.key, data):
                tell(Damage(stored.key, how(data)))
                continue
            there[stored.key] = parse_statement(data, where=stored.key)
        found.append(there[stored.key])
    return tuple(found)


def statement_objects(store: ObjectStore, set_digest: str, *kinds: str) -> tuple[Stored, ...]:
    """The statements about a set as objects, of some kinds where they are given; other names are strays."""
    folder = f"{set_prefix(set_digest)}_statements/"
    objects = store.list(folder)
    pass_over(one.key for one in objects if _STATEMENT.fullmatch(one.key.removeprefix(folder)) is None)
    return tuple(
        one
        for one in objects
        if (match := _STATEMENT.fullmatch(one.key.removeprefix(folder)))
        and (not kinds or match["kind"] in kinds)
    )


# Kinds of statements that can close a gate: without one of them it might be open.
_CLOSING = ("build-", "findings-", "test-")


def refuse_closing(damage: Damage) -> None:
    """Raise `IntegrityError` for a damaged statement that may say something against its set."""
    if damage.key.rpartition("/")[2].startswith(_CLOSING):
        refuse(damage)


def lost_statements(store: ObjectStore, set_digest: str) -> tuple[str, ...]:
    """Keys of statements that were set aside as damaged, and that may have said something against the set."""
    folder = f"{set_prefix(set_digest)}_statements/"
    aside = store.list(f"{DAMAGED}{folder}")
    return tuple(
        one.key
        for one in aside
        if one.key.removeprefix(f"{DAMAGED}{folder}").startswith(_CLOSING)
        and not store.exists(one.key.removeprefix(DAMAGED))
    )


def names_statement(key: str, data: bytes) -> bool:
    """Whether the key is that of a statement with just these bytes."""
    return key.endswith(f"-{hashlib.sha256(data).hexdigest()[:32]}.json")


def _kind(predicate_type: str) -> str:
    return predicate_type.removesuffix(":v1").rpartition(":")[2]


def save_receipt(store: ObjectStore, manifest: SetManifest, at: str) -> None:
    """State that every file of the set is in the store since `at` (RFC 3339, UTC); the first time counts."""
    digest = set_id(manifest)
    if received(read_statements(store, digest, RECEIPT)) is None:
        save_statement(store, digest, about_set(manifest, RECEIPT, {"uploaded": at}))


def located(store: ObjectStore, set_digest: str) -> dict[str, str]:
    """URLs of files of a set that lie outside of the store; none where a receipt says that all are in it."""
    if received(read_statements(store, set_digest, RECEIPT)) is not None:
        return {}
    return dict(read_locations(store, set_digest).files)


def received(statements: Iterable[Statement]) -> str | None:
    """When the files of a set came in, by the statements about it; None when they are not in the store."""
    times = (item.predicate.get("uploaded") for item in statements if item.predicate_type == RECEIPT)
    return min((time for time in times if isinstance(time, str)), default=None)


def provenance(set_digest: str, statements: Iterable[Statement], *, whole: bool = True) -> dict[str, str]:
    """Where the provenance of each file is, by name, as the latest statement has it: an address on the web.

    That of a key is below the address that the store had when it was stated; not `whole` is the key itself.
    What is neither a key of this set nor on the web is left out: pages link to it.
    """
    said = [one.predicate for one in statements if one.predicate_type == PROVENANCE]
    said.sort(key=_number)
    found: dict[str, str] = {}
    own = f"{set_prefix(set_digest)}_provenance/"
    for one in said:
        files, base = one.get("files"), one.get("base", "")
        for name, place in files.items() if isinstance(files, dict) else ():
            if not isinstance(place, str):
                continue
            if place.startswith(own) and is_key(place):
                if not whole:
                    found[name] = place
                elif isinstance(base, str) and base.startswith(_WEB):
                    found[name] = base + quote(place)
            elif place.startswith(_WEB):
                found[name] = place
    return found


def _number(said: Mapping[str, object]) -> int:
    """Which statement of provenance it is, as times may be equal; one of an adopted index has no number."""
    number = said.get("number")
    return number if isinstance(number, int) else 0


class Locations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address of each file by name, without logins; `sidecars` are those with METADATA beside them."""

    files: Mapping[str, str] = {}
    sidecars: tuple[str, ...] = ()
    schema: str = LOCATIONS_SCHEMA


def save_locations(store: ObjectStore, set_digest: str, locations: Locations) -> str:
    """Write where the files are; what was known before is replaced. Returns the key."""
    key = locations_key(set_digest)
    store.put_bytes(key, canonical_json(locations), overwrite=True)
    return key


def read_locations(store: ObjectStore, set_digest: str) -> Locations:
    """Where the files of a set are, as far as they are not in the store."""
    key = locations_key(set_digest)
    # They go when the files come in.
    data = read_there(store, key)
    if data is None:
        return Locations()
    try:
        return msgspec.json.decode(data, type=Locations)
    except msgspec.MsgspecError:
        refuse(Damage(key, how(data)))
        raise


def recordable(url: str) -> str:
    """An address without what only its user may know: login, signature, token."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    kept = [word for word in parts.query.split("&") if not signs(word.partition("=")[0])]
    # A part of a signature says nothing without the rest of it.
    query = parts.query if len(kept) == len(parts.query.split("&")) else ""
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def locations_key(set_digest: str) -> str:
    """The key of what says where a set's files are."""
    return f"{set_prefix(set_digest)}locations.json"


def read_listed(
    store: ObjectStore,
    set_digest: str,
    *,
    yanked: str | None = None,
    manifest: SetManifest | None = None,
    known: dict[str, Statement] | None = None,
) -> ListedSet:
    """A recorded set as a view lists it; what of it never changes may be `known`, as in `read_statements`."""
    manifest = manifest or read_set(store, set_digest)
    statements = read_statements(store, set_digest, RECEIPT, PROVENANCE, known=known)
    uploaded, attested = received(statements), provenance(set_digest, statements)
    if uploaded is not None:
        return ListedSet(manifest, uploaded=uploaded, yanked=yanked, provenance=attested)
    places = read_locations(store, set_digest)
    if not places.files:
        # They go as soon as the receipt is there: perhaps between the two looks.
        uploaded = received(read_statements(store, set_digest, RECEIPT))
    sidecars = frozenset(places.sidecars)
    return ListedSet(manifest, uploaded, yanked, places.files, sidecars, attested)


def fetch_set(store: ObjectStore, manifest: SetManifest, folder: Path) -> list[Path]:
    """Download the files of a recorded set, each compared with its digest.

    Raises `InvalidInput` where files lie outside of the store, `IntegrityError` for other bytes.
    """
    elsewhere = sorted(located(store, set_id(manifest)))
    if elsewhere:
        raise InvalidInput(
            f"{len(elsewhere)} files of set {set_id(manifest)[:12]} are not in the store: {elsewhere[0]}, …",
            next_step="adopt the set with its files: rocwright set create --from-index URL --download",
        )
    paths = []
    for entry in manifest.files:
        path = folder / entry.name
        download(store, file_key(entry.sha256, entry.name), path, entry.sha256)
        paths.append(path)
    return paths
