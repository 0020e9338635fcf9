"""Signatures under sets: whoever signs the manifest, which has the digest of each file, vouches for them all.

Envelopes, keys, and what else a channel asks to be signed are the business of `rocwright.store.trust`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from rocwright.errors import GateClosed, IntegrityError
from rocwright.model.sets import SetManifest, canonical_json, parse_statement, set_id
from rocwright.model.trusted import Trusted
from rocwright.store.layout import set_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import names_statement, statement_objects
from rocwright.store.trust.keys import FIND_OUT, SigningKey, holders, key_id, read_envelope
from rocwright.store.trust.seals import SET_TYPE, SIGNATURES, STATEMENT_TYPE, save_signature, signature_key

_NAME = re.compile(r"[0-9a-f]{16}\.json")


class Signed(msgspec.Struct, frozen=True):
    """A signature that was written: its key in the store, and the public key that it is checked with."""

    key: str
    public: str


def sign_set(store: ObjectStore, manifest: SetManifest, keys: Iterable[SigningKey]) -> tuple[Signed, ...]:
    """Sign a recorded set with each of the keys; the same key again changes nothing."""
    body, of = canonical_json(manifest), _manifest(set_id(manifest))
    return tuple(Signed(save_signature(store, of, SET_TYPE, body, key), key.public) for key in keys)


def sign_statements(
    store: ObjectStore, set_digest: str, keys: Sequence[SigningKey], *, but: Collection[str] = ()
) -> tuple[str, ...]:
    """Sign what is stated about a set, as if the keys' holder had stated it; returns the signatures' keys.

    Statements under a key of `but` are left out. Raises `IntegrityError` for one that is damaged.
    """
    found = []
    for stored in statement_objects(store, set_digest):
        if stored.key in but:
            continue
        data = store.read(stored.key)
        said = parse_statement(data, where=stored.key)
        if not names_statement(stored.key, data) or not said.about(set_digest):
            raise IntegrityError(
                f"{stored.key} is damaged, or about something else", where=stored.key, next_step=FIND_OUT
            )
        found += [save_signature(store, stored.key, STATEMENT_TYPE, data, key) for key in keys]
    return tuple(found)


def signers(store: ObjectStore, manifest: SetManifest, keys: Sequence[str]) -> tuple[str, ...]:
    """Those of the public keys that the set is signed with.

    Raises `IntegrityError` for a signature under a name of one of these keys that does not hold: somebody
    changed the set or the signature.
    """
    found = []
    for public in dict.fromkeys(keys):
        key = signature_key(_manifest(set_id(manifest)), public)
        data = read_there(store, key)
        if data is not None:
            _verify(data, manifest, public, where=key)
            found.append(public)
    return tuple(found)


def signed_by(store: ObjectStore, set_digest: str) -> tuple[str, ...]:
    """Ids of the keys that somebody put a signature of the set under, not verified."""
    folder = f"{set_prefix(set_digest)}{SIGNATURES}"
    return tuple(
        one.key.removeprefix(folder).removesuffix(".json")
        for one in store.list(folder)
        if signs_manifest(one.key)
    )


def signs_manifest(key: str) -> bool:
    """Whether a key is that of a signature of a manifest, not of a statement."""
    return _NAME.fullmatch(key.rpartition("/")[2]) is not None


def require_signed(store: ObjectStore, name: str, trusted: Trusted | None, manifest: SetManifest) -> None:
    """Raise `GateClosed` when a channel trusts keys and not enough of those of its release signed the set.

    Raises `IntegrityError` for a signature that does not hold.
    """
    why = None if trusted is None else unsigned(store, name, trusted, manifest)
    if why is not None:
        raise GateClosed(why, next_step=SIGN_NEXT)


SIGN_NEXT = "rocwright set sign, with a key that the channel trusts; then promote the set"


def unsigned(store: ObjectStore, name: str, trusted: Trusted, manifest: SetManifest) -> str | None:
    """Why a channel does not take a set that nobody signed whom it trusts; None where it does."""
    keys, needed = trusted.keys("release"), trusted.threshold("release")
    count = len(signers(store, manifest, keys))
    if count >= needed:
        return None
    ids, which = ", ".join(map(key_id, keys)), set_id(manifest)[:12]
    if needed == 1:
        return f"set {which} is not signed with a key that {name} trusts ({ids})"
    return f"set {which} is signed with {count} of the {needed} keys that {name} asks for ({ids})"


def _manifest(set_digest: str) -> str:
    return f"{set_prefix(set_digest)}manifest.json"


def _verify(data: bytes, manifest: SetManifest, public: str, *, where: str) -> None:
    envelope = read_envelope(data, where=where)
    if envelope.payload_type != SET_TYPE or envelope.payload != canonical_json(manifest):
        raise IntegrityError(f"{where} is a signature of something else", where=where, next_step=FIND_OUT)
    if not holders(envelope, (public,)):
        raise IntegrityError(
            f"{where}: the signature is not that of key {key_id(public)}", where=where, next_step=FIND_OUT
        )
