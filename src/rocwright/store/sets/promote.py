"""Promote a tested set to another channel: exactly the tested bytes, and a statement that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from rocwright.errors import GateClosed, IntegrityError, NoObject
from rocwright.model.channels import Channel, Channels, PolicyChange
from rocwright.model.sets import (
    PROMOTION,
    RECEIPT,
    FileEntry,
    SetManifest,
    Statement,
    about_set,
    set_id,
    statement_id,
)
from rocwright.store.gate import Decision
from rocwright.store.index.landing import write_landing
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool import wanted_objects
from rocwright.store.publish import list_set, require_listable
from rocwright.store.sets.records import located, read_statements, save_set, save_statement
from rocwright.store.sets.report import Considered, consider
from rocwright.store.sets.sign import require_signed
from rocwright.store.sets.stage import rfc3339
from rocwright.store.trust.guard import minding, trusted_now


class Promoted(msgspec.Struct, frozen=True):
    """A set in a channel and the statement recorded about it."""

    set_id: str
    prefix: str
    index_url: str
    files: tuple[FileEntry, ...]
    statement: Statement


def promote(
    store: ObjectStore,
    channel: Channel,
    manifest: SetManifest,
    decision: Decision,
    statements: Iterable[Statement],
    now: datetime,
    *,
    by: str = "",
    again: Callable[[], Considered] | None = None,
    policy: Sequence[PolicyChange] = (),
) -> Promoted:
    """List the set in `channel`; its files stay where they are, so this is a matter of pages.

    Every file is read and compared with the manifest before the first change. `statements` are the
    evidence behind the decision and are recorded with it, as is how the `policy` differs from the built-in
    one; `by` says who promotes. Running again after an
    interruption completes the promotion, and after a complete promotion changes nothing.

    Reading takes its time, and others may withdraw the set or state a failure meanwhile: `again` looks once
    more while nobody else can change the channel, and what it finds counts.

    Raises `GateClosed` when the decision is negative or about another set, or when not all signed it whom the
    channel asks; `IntegrityError` when a file is not what was tested. A file of an adopted set that
    lies elsewhere is not read here: its page carries the digest, by which installers refuse other bytes.
    """
    digest, statements = set_id(manifest), tuple(statements)
    require_open(decision, digest)
    prefix = channel_prefix(channel.prefix, manifest.family)
    store = minding(store, channel, now.date())
    require_signed(store, channel.name, trusted_now(store, channel), manifest)
    require_listable(store, prefix, manifest)
    _verify_files(store, manifest)
    save_set(store, manifest)
    there = {statement_id(one) for one in read_statements(store, digest, tell=lambda damage: None)}
    for statement in _evidence(statements):
        # What is recorded already is not said again: whoever promotes would sign what others wrote.
        if statement_id(statement) not in there:
            save_statement(store, digest, statement)
    said = _said(channel, manifest, decision, statements, by, policy)

    def consent() -> None:
        nonlocal said
        if again is not None:
            found = again()
            require_open(found.decision, digest)
            said = _said(channel, manifest, found.decision, found.statements, by, policy)
        # Stated before it is done: what a channel lists, somebody has answered for.
        save_statement(store, digest, said)

    # Whether it is to come back where it was withdrawn is for the gate to say, which was asked.
    list_set(store, prefix, manifest, at=rfc3339(now), by=by, again=True, consent=consent)
    write_landing(store, channel)
    return Promoted(digest, prefix, store.url(prefix), manifest.files, said)


def _evidence(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Without what followed from staging and promoting: a second run is to say the same again."""
    return tuple(item for item in statements if item.predicate_type not in (PROMOTION, RECEIPT))


def _said(
    channel: Channel,
    manifest: SetManifest,
    decision: Decision,
    statements: Iterable[Statement],
    by: str,
    policy: Sequence[PolicyChange],
) -> Statement:
    # Left out where there is none, so that what older editions said of a promotion is not said again.
    lifted = {"overrides": decision.overrides, "bypasses": decision.bypasses, "policy": tuple(policy)}
    return about_set(
        manifest,
        PROMOTION,
        {
            **{name: msgspec.to_builtins(values) for name, values in lifted.items() if values},
            "from": channel.after,
            "to": channel.name,
            "family": manifest.family,
            "rule": decision.rule,
            "reason": decision.reason,
            "waivers": msgspec.to_builtins(decision.waivers),
            "by": by,
            "evidence": sorted(statement_id(statement) for statement in _evidence(statements)),
        },
    )


def promote_set(
    store: ObjectStore,
    channels: Channels,
    channel: Channel,
    set_digest: str,
    now: datetime,
    *,
    by: str = "",
    again: bool = False,
    policy: Sequence[PolicyChange] = (),
) -> Promoted:
    """Ask the gate on everything recorded about a set, and promote it; see `consider` and `promote`."""

    def look() -> Considered:
        return consider(store, channels, channel, set_digest, now.date(), again=again)

    found = look()
    return promote(
        store,
        channel,
        found.manifest,
        found.decision,
        found.statements,
        now,
        by=by,
        again=look,
        policy=policy,
    )


def require_open(decision: Decision, digest: str, next_step: str | None = None) -> None:
    """Raise `GateClosed` unless the decision lets this very set pass; `next_step` says what opens it."""
    if decision.set_id != digest:
        raise GateClosed(
            f"the decision is about set {decision.set_id[:12]}, not about {digest[:12]}",
            next_step="decide again for the set that is to be promoted",
        )
    if not decision.promote:
        raise GateClosed(
            f"set {digest[:12]} is not promoted (rule {decision.rule}): {decision.reason}",
            next_step=next_step
            or "resolve what the reason names; a bypass needs a reason and an expiry date",
        )


def _verify_files(store: ObjectStore, manifest: SetManifest) -> None:
    elsewhere = located(store, set_id(manifest))
    for entry in manifest.files:
        if entry.name in elsewhere:
            continue
        for key, sha256 in wanted_objects(entry).items():
            try:
                found = store.digest(key)
            except NoObject:
                raise IntegrityError(
                    f"{key} is not staged", where=key, next_step="stage the set again, then promote it"
                ) from None
            if found != sha256:
                raise IntegrityError(
                    f"{key} has sha256 {found}, the tested file has {sha256}",
                    where=key,
                    next_step="find out who changed the staged file; stage and test the set again",
                )
