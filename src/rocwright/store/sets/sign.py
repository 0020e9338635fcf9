"""Signatures under sets, and the keys for them: Ed25519 over the canonical manifest, in a DSSE envelope.

Each key has a file of its own. https://github.com/secure-systems-lab/dsse/blob/master/protocol.md gives the
bytes that are signed. The id of a set is the digest of its manifest, so whoever signs the manifest vouches
for every file of the set. A private key is read from a file or the environment, and is in no message, log or
file that is written here.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rocwright.errors import (
    GateClosed,
    IntegrityError,
    InvalidInput,
    MissingTool,
    UsageError,
    see_who_may_read,
)
from rocwright.model.channels import Channel
from rocwright.model.sets import SetManifest, canonical_json, set_id
from rocwright.store.layout import set_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


PAYLOAD_TYPE = "application/vnd.rocwright.set+json"
PUBLIC = "ed25519:"
PRIVATE_ENV, PASSWORD_ENV = "ROCWRIGHT_SIGNING_KEY", "ROCWRIGHT_SIGNING_PASSWORD"


class _Signature(msgspec.Struct, frozen=True):
    keyid: str
    sig: str


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    payload_type: str
    payload: str
    signatures: tuple[_Signature, ...]


@dataclass(frozen=True)
class Signed:
    """A signature that was written: its key in the store, and the public key that it is checked with."""

    key: str
    public: str


def sign_set(
    store: ObjectStore, manifest: SetManifest, private_pem: bytes, password: str | None = None
) -> Signed:
    """Sign a recorded set; the same key again changes nothing.

    Raises `InvalidInput` for what is not an Ed25519 key in PEM, `MissingTool` without `cryptography`.
    """
    private = _private_key(private_pem, password)
    public = _public_text(private.public_key())
    body = canonical_json(manifest)
    envelope = _Envelope(
        PAYLOAD_TYPE,
        b64encode(body).decode(),
        (_Signature(key_id(public), b64encode(private.sign(_signed_bytes(PAYLOAD_TYPE, body))).decode()),),
    )
    key = f"{_folder(set_id(manifest))}{key_id(public)}.json"
    store.put_bytes(key, canonical_json(envelope))
    return Signed(key, public)


def signers(store: ObjectStore, manifest: SetManifest, keys: Sequence[str]) -> tuple[str, ...]:
    """Those of the public keys that the set is signed with.

    Raises `IntegrityError` for a signature under a name of one of these keys that does not hold: somebody
    changed the set or the signature.
    """
    found = []
    for public in dict.fromkeys(keys):
        key = f"{_folder(set_id(manifest))}{key_id(public)}.json"
        data = read_there(store, key)
        if data is not None:
            _verify(data, manifest, public, where=key)
            found.append(public)
    return tuple(found)


def signed_by(store: ObjectStore, set_digest: str) -> tuple[str, ...]:
    """Ids of the keys that somebody put a signature of the set under, not verified."""
    folder = _folder(set_digest)
    return tuple(one.key.removeprefix(folder).removesuffix(".json") for one in store.list(folder))


def require_signed(store: ObjectStore, channel: Channel, manifest: SetManifest) -> None:
    """Raise `GateClosed` when the channel trusts keys and the set has a signature of none of them.

    Raises `IntegrityError` for a signature that does not hold.
    """
    if channel.keys and not signers(store, manifest, channel.keys):
        raise GateClosed(unsigned(channel, set_id(manifest)), next_step=SIGN_NEXT)


SIGN_NEXT = "rocwright set sign, with a key that the channel trusts; then promote the set"


def unsigned(channel: Channel, set_digest: str) -> str:
    """Why a channel does not take a set that nobody signed whom it trusts."""
    ids = ", ".join(key_id(key) for key in channel.keys)
    return f"set {set_digest[:12]} is not signed with a key that {channel.name} trusts ({ids})"


def key_id(public: str) -> str:
    """The first 16 hexadecimal digits of the sha256 of a public key: what signatures are filed under."""
    return hashlib.sha256(_public_bytes(public)).hexdigest()[:16]


def public_key(text: bytes) -> str:
    """A public key as `ed25519:…`, from this form or PEM; raises `InvalidInput` for anything else."""
    words = text.decode("utf-8", "replace").strip()
    if words.startswith(PUBLIC):
        _public_bytes(words)
        return words
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_public_key(text)
    except ValueError as error:
        raise _no_public_key() from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise _no_public_key()
    return _public_text(key)


def _folder(set_digest: str) -> str:
    return f"{set_prefix(set_digest)}_signatures/"


def _signed_bytes(kind: str, body: bytes) -> bytes:
    """What DSSE signs: type and body with their lengths, so that neither can be read as the other."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(body), body)


def _verify(data: bytes, manifest: SetManifest, public: str, *, where: str) -> None:
    _, ed25519 = _cryptography()
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        body = b64decode(envelope.payload, validate=True)
        signatures = [b64decode(one.sig, validate=True) for one in envelope.signatures]
    except (msgspec.MsgspecError, Base64Error) as error:
        raise IntegrityError(
            f"{where} is not a signature: {error}", where=where, next_step=_FIND_OUT
        ) from error
    if envelope.payload_type != PAYLOAD_TYPE or body != canonical_json(manifest):
        raise IntegrityError(f"{where} is a signature of something else", where=where, next_step=_FIND_OUT)
    key: Ed25519PublicKey = ed25519.Ed25519PublicKey.from_public_bytes(_public_bytes(public))
    if not any(_holds(key, one, body) for one in signatures):
        raise IntegrityError(
            f"{where}: the signature is not that of key {key_id(public)}", where=where, next_step=_FIND_OUT
        )


_FIND_OUT = "find out who changed it; do not install from this set until then"


def _holds(key: Ed25519PublicKey, signature: bytes, body: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _signed_bytes(PAYLOAD_TYPE, body))
    except InvalidSignature:
        return False
    return True


def _private_key(pem: bytes, password: str | None) -> Ed25519PrivateKey:
    serialization, _ = _cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(pem, password.encode() if password is not None else None)
    except (ValueError, TypeError):
        # The cause may quote the key, so it is not told.
        raise InvalidInput(
            "the key to sign with is not a private key in PEM, or its password is missing or wrong",
            next_step="make one: openssl genpkey -algorithm ed25519 -out key.pem",
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            "the key to sign with is not an Ed25519 key",
            next_step="make one: openssl genpkey -algorithm ed25519 -out key.pem",
        )
    return key


def _public_text(key: Ed25519PublicKey) -> str:
    return PUBLIC + b64encode(key.public_bytes_raw()).decode()


def _public_bytes(public: str) -> bytes:
    try:
        raw = b64decode(public.removeprefix(PUBLIC), validate=True)
    except Base64Error as error:
        raise _no_public_key() from error
    if not public.startswith(PUBLIC) or len(raw) != 32:
        raise _no_public_key()
    return raw


def _no_public_key() -> InvalidInput:
    return InvalidInput(
        "this is not an Ed25519 public key",
        next_step="give ed25519:… as rocwright set sign prints it, or a PEM file with a public key",
    )


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingTool(
            "signatures need the package cryptography", next_step="pip install 'rocwright[sign]'"
        ) from error
    return serialization, ed25519


def read_public(text: str) -> str:
    """A public key from `ed25519:…` or the name of a file that holds it, also in PEM."""
    return public_key(text.encode() if text.startswith(PUBLIC) else _read(Path(text)))


def read_private(path: Path | None, env: Mapping[str, str] = os.environ) -> tuple[bytes, str | None]:
    """A private key as its PEM and its password, if it has one: from a file, else from the environment.

    Raises `UsageError` where neither has a key.
    """
    password = env.get(PASSWORD_ENV) or None
    if path is not None:
        return _read(path), password
    pem = env.get(PRIVATE_ENV)
    if not pem:
        raise UsageError(
            "no key to sign with", next_step=f"give --key FILE, or put the key's PEM text into {PRIVATE_ENV}"
        )
    return pem.encode(), password


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the key {path} cannot be read: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
