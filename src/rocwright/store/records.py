"""Sets and statements in a store: `sets/<id>/manifest.json` and `sets/<id>/statements/`, written once."""

from __future__ import annotations

from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.manifest import SetManifest, canonical_json, parse_set, set_id
from rocwright.model.statement import Statement, parse_statement, statement_id
from rocwright.store.layout import set_prefix
from rocwright.store.objects import ObjectStore


def save_set(store: ObjectStore, manifest: SetManifest) -> str:
    """Write the manifest under its id; returns the key."""
    key = f"{set_prefix(set_id(manifest))}manifest.json"
    store.put_bytes(key, canonical_json(manifest))
    return key


def read_set(store: ObjectStore, set_digest: str) -> SetManifest:
    """The set with this id; raises `IntegrityError` when its content has another digest."""
    key = f"{set_prefix(set_digest)}manifest.json"
    manifest = parse_set(store.read(key), where=key)
    if set_id(manifest) != set_digest:
        raise IntegrityError(f"{key} has the id {set_id(manifest)}", where=key)
    return manifest


def save_statement(store: ObjectStore, set_digest: str, statement: Statement) -> str:
    """Write a statement about the set; the same one again is fine. Returns the key.

    Raises `InvalidInput` when the statement is about something else.
    """
    if not statement.about(set_digest):
        raise InvalidInput(
            f"the statement {statement.predicate_type} is not about set {set_digest}",
            next_step="make it with about_set() from the manifest of this set",
        )
    kind = statement.predicate_type.removesuffix(":v1").rpartition(":")[2]
    key = f"{set_prefix(set_digest)}statements/{kind}-{statement_id(statement)[:32]}.json"
    store.put_bytes(key, canonical_json(statement))
    return key


def read_statements(store: ObjectStore, set_digest: str) -> tuple[Statement, ...]:
    """Every statement recorded about the set, sorted by key."""
    keys = store.list(f"{set_prefix(set_digest)}statements/")
    return tuple(parse_statement(store.read(key), where=key) for key in keys)
