"""Promote a tested set from staging to release: exactly the staged bytes, and a statement that says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from rocwright.errors import GateClosed, IntegrityError
from rocwright.model.manifest import FileEntry, SetManifest, set_id
from rocwright.model.statement import PROMOTION, Statement, about_set, statement_id
from rocwright.store import channel
from rocwright.store.gate import Decision
from rocwright.store.layout import RELEASE, STAGING, release_prefix, staging_prefix
from rocwright.store.objects import ObjectStore
from rocwright.store.records import save_set, save_statement


@dataclass(frozen=True)
class Promoted:
    """A set in the release channel and the statement recorded about it."""

    set_id: str
    prefix: str
    index_url: str
    files: tuple[FileEntry, ...]
    statement: Statement


def promote(
    store: ObjectStore,
    manifest: SetManifest,
    decision: Decision,
    statements: Iterable[Statement],
    *,
    by: str = "",
) -> Promoted:
    """Copy the set's files from `v2-staging/<family>/` to `v2/<family>/` and list them there.

    Every staged file is read and compared with the manifest before the first change. `statements` are the
    evidence behind the decision and are recorded with it; `by` says who promotes. Running again after an
    interruption completes the promotion, and after a complete one changes nothing.

    Raises `GateClosed` when the decision is negative or about another set, `IntegrityError` when a staged
    file is not the tested one.
    """
    digest = set_id(manifest)
    _require_open(decision, digest)
    staging, release = staging_prefix(manifest.family), release_prefix(manifest.family)
    channel.listed_files(store, release, adding=manifest)
    _verify_staged(store, manifest, staging)
    # An earlier promotion is no evidence; leaving it out makes a second run say the same again.
    evidence = tuple(item for item in statements if item.predicate_type != PROMOTION)
    save_set(store, manifest)
    for statement in evidence:
        save_statement(store, digest, statement)
    channel.publish(store, release, manifest, lambda entry, key: _copy(store, entry, staging, key))
    said = about_set(
        manifest,
        PROMOTION,
        {
            "from": STAGING,
            "to": RELEASE,
            "family": manifest.family,
            "rule": decision.rule,
            "reason": decision.reason,
            "waivers": msgspec.to_builtins(decision.waivers),
            "by": by,
            "evidence": sorted(statement_id(statement) for statement in evidence),
        },
    )
    save_statement(store, digest, said)
    return Promoted(digest, release, store.url(release), manifest.files, said)


def _require_open(decision: Decision, digest: str) -> None:
    if decision.set_id != digest:
        raise GateClosed(
            f"the decision is about set {decision.set_id[:12]}, not about {digest[:12]}",
            next_step="decide again for the set that is to be promoted",
        )
    if not decision.promote:
        raise GateClosed(
            f"set {digest[:12]} is not promoted (rule {decision.rule}): {decision.reason}",
            next_step="resolve what the reason names; a bypass needs a reason and an expiry date",
        )


def _verify_staged(store: ObjectStore, manifest: SetManifest, staging: str) -> None:
    for entry in manifest.files:
        wanted = {staging + entry.name: entry.sha256}
        if entry.metadata_sha256 is not None:
            wanted[f"{staging}{entry.name}.metadata"] = entry.metadata_sha256
        for key, sha256 in wanted.items():
            if not store.exists(key):
                raise IntegrityError(
                    f"{key} is not staged", where=key, next_step="stage the set again, then promote it"
                )
            found = store.digest(key)
            if found != sha256:
                raise IntegrityError(
                    f"{key} has sha256 {found}, the tested file has {sha256}",
                    where=key,
                    next_step="find out who changed the staged file; stage and test the set again",
                )


def _copy(store: ObjectStore, entry: FileEntry, staging: str, key: str) -> None:
    store.copy(staging + entry.name, key)
    if entry.metadata_sha256 is not None:
        store.copy(f"{staging}{entry.name}.metadata", f"{key}.metadata")
