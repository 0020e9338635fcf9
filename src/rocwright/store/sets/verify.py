"""Whether a recorded set still is what its id says: everything read again, all that is wrong told at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rocwright.errors import IntegrityError, InvalidData, RocwrightError
from rocwright.model.channels import Channel, Channels
from rocwright.model.sets import FileEntry, SetManifest, canonical_json, parse_set, parse_statement, set_id
from rocwright.store.channel_log import read_state
from rocwright.store.damage import MISSING, Damage, how
from rocwright.store.layout import channel_prefix, file_key
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.pool import wanted_objects
from rocwright.store.sets.attest import attested, verify_provenance
from rocwright.store.sets.records import located, manifest_key, names_statement, statement_objects
from rocwright.store.sets.sign import signed_by, signers, unsigned
from rocwright.store.trust.guard import guard_of
from rocwright.store.trust.keys import is_envelope
from rocwright.store.trust.seals import Forged, signature_key
from rocwright.system.progress import each


class Verified(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome: `files` were looked at in the store, `elsewhere` are names that lie outside of it, unread.

    `read` says whether their bytes were digested, or only their sizes compared. `signers` are the keys, of
    those that were asked for, that the set is signed with; `signed_by` the ids of all that it says.
    `attested` are the names of files with provenance (PEP 740), `attestations` of those that hold. `problems`
    are objects that are damaged: their bytes are not those that their names tell. `forged` are objects that
    are whole, and not signed by whom they have to be.
    """

    set_id: str
    problems: tuple[Damage, ...]
    files: int = 0
    statements: int = 0
    elsewhere: tuple[str, ...] = ()
    read: bool = True
    signers: tuple[str, ...] = ()
    signed_by: tuple[str, ...] = ()
    attested: tuple[str, ...] = ()
    attestations: tuple[str, ...] = ()
    forged: tuple[Forged, ...] = ()


def verify_set(
    store: ObjectStore,
    set_digest: str,
    *,
    keys: Sequence[str] = (),
    quick: bool = False,
    offline: bool = False,
    channels: Channels | None = None,
) -> Verified:
    """Compare manifest, files, METADATA, statements, signatures and provenance with what they have to be.

    With `quick` files are not read, only their sizes compared; `offline` asks nobody for the root of trust.
    Each of `keys`, as `rocwright set sign` prints them, must have signed the set; and so must those of each
    of the `channels` that trusts keys and has an event about the set, whether that counts or not. Where these
    name publishers, provenance has to be of one of them. What is wrong is in the outcome.
    """
    problems: list[Damage] = []
    key = manifest_key(set_digest)
    data = read_there(store, key)
    if not data:
        return Verified(set_digest, (Damage(key, how(data)),), read=not quick)
    try:
        manifest = parse_set(data, where=key)
    except InvalidData as error:
        return Verified(set_digest, (Damage(key, error.what),), read=not quick)
    if set_id(manifest) != set_digest:
        problems.append(Damage(key, f"it was changed: its content has the id {set_id(manifest)}"))
    elif data != canonical_json(manifest):
        problems.append(Damage(key, "its content is the same, but another program wrote it"))
    elsewhere: dict[str, str] = {}
    try:
        elsewhere = located(store, set_digest)
    except RocwrightError as error:
        problems.append(Damage(key, error.what))
    inside = [entry for entry in manifest.files if entry.name not in elsewhere]
    for entry in each("verifying", inside, size=lambda entry: entry.size):
        problems += _file(store, entry, quick=quick)
    said = 0
    for stored in statement_objects(store, set_digest):
        said += 1
        problems += _statement(store, stored.key, set_digest)
    found, wrong, forged = _signatures(store, manifest, keys)
    for channel in () if channels is None else map(channels.named, (one.name for one in channels.channel)):
        forged += _in_channel(store, channel, manifest)
    names: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    try:
        names = attested(store, set_digest)
        publishers = () if channels is None else channels.publisher
        held, provenance = verify_provenance(store, manifest, publishers, offline=offline)
        problems += [Damage(*one) for one in provenance]
    except (InvalidData, IntegrityError):
        # A statement that is damaged was told above.
        pass
    return Verified(
        set_digest,
        (*problems, *wrong),
        files=len(inside),
        statements=said,
        elsewhere=tuple(sorted(elsewhere)),
        read=not quick,
        signers=found,
        signed_by=signed_by(store, set_digest),
        attested=names,
        attestations=held,
        forged=tuple(sorted(set(forged))),
    )


def require_sound(found: Verified) -> None:
    """Raise `IntegrityError` when anything is forged or damaged."""
    if found.forged:
        many = len(found.forged)
        also = f", and {len(found.problems)} damaged" if found.problems else ""
        raise IntegrityError(
            f"{many} {'object is' if many == 1 else 'objects are'} forged, or not signed by whom it has to be"
            f"{also}, with set {found.set_id[:12]}: {found.forged[0]}",
            next_step="find out who wrote it: it counts for nothing, and can be deleted. Where it is honest, "
            "sign it: rocwright set sign --statements, or rocwright store trust sign",
        )
    count = len(found.problems)
    if count:
        what = f"{count} {'thing is' if count == 1 else 'things are'} wrong"
        raise IntegrityError(
            f"{what} with set {found.set_id[:12]}: {found.problems[0].key}: {found.problems[0].what}",
            next_step="find out who changed it; `rocwright set repair` brings back what can be had, and "
            "takes out of channels what cannot",
        )


def _file(store: ObjectStore, entry: FileEntry, *, quick: bool) -> Iterator[Damage]:
    for key, sha256 in wanted_objects(entry).items():
        there = store.stat(key)
        if there is None:
            yield Damage(key, MISSING)
        elif key == file_key(entry.sha256, entry.name) and there.size != entry.size:
            yield Damage(key, f"it has {there.size} bytes, the set has {entry.size}")
        elif not there.size:
            yield Damage(key, how(b""))
        elif not quick and (found := store.digest(key)) != sha256:
            yield Damage(key, f"its sha256 is {found}, the set has {sha256}")


def _statement(store: ObjectStore, key: str, set_digest: str) -> Iterator[Damage]:
    data = read_there(store, key)
    if not data:
        yield Damage(key, how(data))
        return
    try:
        said = parse_statement(data, where=key)
    except InvalidData as error:
        yield Damage(key, error.what)
        return
    if not said.about(set_digest):
        yield Damage(key, "it is about something else")
    if not names_statement(key, data):
        yield Damage(key, "it was changed: its name has another digest")


def _signatures(
    store: ObjectStore, manifest: SetManifest, keys: Sequence[str]
) -> tuple[tuple[str, ...], list[Damage], list[Forged]]:
    found: list[str] = []
    wrong, forged = [], []
    for key in keys:
        try:
            held = signers(store, manifest, [key])
        except IntegrityError as error:
            where = str(error.where)
            if is_envelope(read_there(store, where)):
                forged.append(Forged(where, error.what))
            else:
                wrong.append(Damage(where, error.what))
            continue
        if not held:
            where = signature_key(manifest_key(set_id(manifest)), key)
            forged.append(Forged(where, f"the set is not signed with {key}"))
        found += held
    return tuple(found), wrong, forged


def _in_channel(store: ObjectStore, channel: Channel, manifest: SetManifest) -> Iterator[Forged]:
    """What of a set counts for nothing in a channel that trusts keys, and has an event about it."""
    guard = guard_of(store)
    prefix = channel_prefix(channel.prefix, manifest.family)
    trust = None if guard is None else guard.trust(prefix)
    if guard is None or trust is None:
        return
    digest = set_id(manifest)
    refused = guard.refused_events(prefix)
    about = [one for one in refused if digest.encode() in (read_there(guard.below, one.key) or b"")]
    yield from about
    if not about and digest not in read_state(store, prefix).sets:
        return
    try:
        why = unsigned(store, channel.name, trust.trusted, manifest)
    except IntegrityError as error:
        why = error.what
    if why is not None:
        yield Forged(manifest_key(digest), why)
    yield from guard.refused_statements(digest, trust)
