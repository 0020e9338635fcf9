"""Stage a checked set: its files into the store, the set recorded, and listed in the first channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from rocwright.errors import ContractBroken, IntegrityError, InvalidInput
from rocwright.model.channels import Channel
from rocwright.model.sets import FileEntry, SetManifest, Statement, canonical_json, set_id
from rocwright.store.index.landing import write_landing
from rocwright.store.index.set_pages import publish_set_pages
from rocwright.store.layout import channel_prefix, set_prefix
from rocwright.store.lease import leased
from rocwright.store.mend.heal import heal_receipt
from rocwright.store.objects.durable import together
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore, beneath
from rocwright.store.pool import put_pooled
from rocwright.store.publish import list_set, require_listable
from rocwright.store.sets.records import read_listed, read_statements, save_receipt, save_set, save_statement
from rocwright.store.sets.sign import require_signed
from rocwright.store.statements import verdict_on
from rocwright.store.trust.guard import as_gate_sees, minding, trusted_now
from rocwright.system.files import sha256_file
from rocwright.system.progress import each

_YOUNG = timedelta(days=1)


class Staged(msgspec.Struct, frozen=True):
    """A set in the staging channel: `index_url` is what `pip install --index-url` takes."""

    set_id: str
    prefix: str
    index_url: str
    files: tuple[FileEntry, ...]


def stage_set(
    store: ObjectStore,
    channel: Channel,
    manifest: SetManifest,
    files: Iterable[Path],
    statements: Iterable[Statement],
    now: datetime,
) -> Staged:
    """Put a checked set into the store, record it under `sets/<id>/`, and list it in `channel`.

    `files` are the set's files, all of them and no other; `statements` are kept with the set, waivers
    included, which count if they are in force on the day of `now`; so do those that the store has already.
    Raises `ContractBroken` without a passing findings statement about this set, `InvalidInput` for a missing
    or foreign file, `IntegrityError` when a file is not that of the manifest, `GateClosed` when the channel
    trusts keys and none of them signed the set, or when the set was withdrawn from it; nothing is published
    in these cases.
    """
    said = tuple(statements)
    digest = set_id(manifest)
    _require_checked(channel, manifest, said, now)
    by_name = _match(manifest, files)
    store = minding(store, channel, now.date())
    require_signed(store, channel.name, trusted_now(store, channel), manifest)
    prefix = channel_prefix(channel.prefix, manifest.family)
    require_listable(store, prefix, manifest)
    record_set(store, manifest, by_name, said, now)

    def consent() -> None:
        # Somebody may have checked the same files before, or meanwhile, and have found more.
        seen = as_gate_sees(store, channel, now.date())
        _require_checked(channel, manifest, (*said, *read_statements(seen, digest)), now)

    list_set(store, prefix, manifest, at=rfc3339(now), consent=consent)
    write_landing(store, channel)
    return Staged(set_id=digest, prefix=prefix, index_url=store.url(prefix), files=manifest.files)


def _require_checked(
    channel: Channel, manifest: SetManifest, statements: Iterable[Statement], now: datetime
) -> None:
    found = verdict_on(manifest, statements, now.date(), overrides=channel.overrides)
    if found.problem is not None:
        raise ContractBroken(
            f"set {set_id(manifest)[:12]} has no passing check, so it is not published: {found.problem}",
            next_step="run the checks over exactly these files and resolve their findings, or waive them",
        )


def record_set(
    store: ObjectStore,
    manifest: SetManifest,
    files: Mapping[str, Path],
    statements: Iterable[Statement],
    now: datetime,
) -> None:
    """Put the files into the store, then the manifest, the statements, the receipt and the set's own pages.

    In this order, also on a disk that loses power. Running again after an interruption completes the set, and
    puts back what of it is damaged.
    """
    digest = set_id(manifest)
    # What a machine that lost its power left in a folder may have the right size and hold nothing.
    reread = isinstance(beneath(store), LocalStore)
    with together():
        for entry in each("storing", manifest.files, size=lambda entry: entry.size):
            put_pooled(store, files[entry.name], entry, reread=reread)
    save_set(store, manifest)
    with together():
        for statement in statements:
            save_statement(store, digest, statement)
    _hold(store, manifest)
    heal_receipt(store, manifest)
    with together():
        for entry in manifest.files:
            put_pooled(store, files[entry.name], entry)
    with together():
        save_receipt(store, manifest, rfc3339(now))
    publish_set_pages(store, read_listed(store, digest))


def _hold(store: ObjectStore, manifest: SetManifest) -> None:
    """Wait until nothing is being deleted: from then on retention knows that the set needs its files.

    What it took just before, because nothing seemed to need it, has to be put again. A set that was recorded
    long ago is young again.
    """
    key = f"{set_prefix(set_id(manifest))}manifest.json"
    with leased(store, set_prefix(set_id(manifest))) as lease:
        stored = store.stat(key)
        if stored is not None and lease.now - stored.modified > _YOUNG:
            store.put_bytes(key, canonical_json(manifest), overwrite=True)


def rfc3339(time: datetime) -> str:
    """A time as statements and indexes write it: UTC, whole seconds."""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _match(manifest: SetManifest, files: Iterable[Path]) -> dict[str, Path]:
    by_name = {path.name: path for path in files}
    wanted = {entry.name for entry in manifest.files}
    wrong = sorted(wanted ^ set(by_name))
    if wrong:
        raise InvalidInput(
            f"the files given are not those of set {set_id(manifest)[:12]}: {', '.join(wrong)}",
            next_step="give every file of the manifest and no other",
        )
    for entry in manifest.files:
        if sha256_file(by_name[entry.name]) != entry.sha256:
            raise IntegrityError(
                f"{entry.name} is not the file that was checked: its sha256 differs from the manifest",
                where=by_name[entry.name],
                next_step="describe and check the set again",
            )
    return by_name
