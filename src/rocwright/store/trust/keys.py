"""Ed25519 keys, and DSSE envelopes that are signed and verified with them, by securesystemslib.

A private key is read from a file or the environment, and is in no message, log or file that is written here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocwright.errors import IntegrityError, InvalidInput, MissingTool, UsageError, see_who_may_read
from rocwright.model.sets import canonical_json

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner, SSlibKey

PUBLIC = "ed25519:"
PRIVATE_ENV, PASSWORD_ENV = "ROCWRIGHT_SIGNING_KEY", "ROCWRIGHT_SIGNING_PASSWORD"
FIND_OUT = "find out who changed it; do not install from this set until then"
_MAKE_ONE = "make one: openssl genpkey -algorithm ed25519 -out key.pem"
_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----\n?", re.DOTALL)


@dataclass(frozen=True)
class SigningKey:
    """A private key that can sign, and its public key as `ed25519:…`."""

    public: str
    signer: CryptoSigner = field(repr=False, compare=False)


def signing_keys(pem: bytes, password: str | None = None) -> tuple[SigningKey, ...]:
    """The private keys in a text, PEM after PEM.

    Raises `InvalidInput` for what is not an Ed25519 key in PEM, `MissingTool` without the extra `sign`.
    """
    blocks = [match.group() for match in _PEM.finditer(pem)] or [pem]
    return tuple(_signing_key(block, password) for block in blocks)


def _signing_key(pem: bytes, password: str | None) -> SigningKey:
    serialization, ed25519 = _cryptography()
    from securesystemslib.signer import CryptoSigner

    try:
        key = serialization.load_pem_private_key(pem, password.encode() if password is not None else None)
    except (ValueError, TypeError):
        # The cause may quote the key, so it is not told.
        raise InvalidInput(
            "the key to sign with is not a private key in PEM, or its password is missing or wrong",
            next_step=_MAKE_ONE,
        ) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InvalidInput("the key to sign with is not an Ed25519 key", next_step=_MAKE_ONE)
    public = public_text(key.public_key().public_bytes_raw())
    return SigningKey(public, CryptoSigner(key, _verifier(public)))


def signed_envelope(kind: str, body: bytes, keys: Iterable[SigningKey]) -> bytes:
    """A DSSE envelope of this payload type around the bytes, signed with each key; the same every time."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(body, kind, {})
    for key in keys:
        envelope.sign(key.signer)
    return canonical_json(envelope.to_dict())


def read_envelope(data: bytes, *, where: str) -> Envelope:
    """An envelope as it was written; raises `IntegrityError` for anything else."""
    _cryptography()
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import FormatError

    try:
        return Envelope.from_dict(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, FormatError) as error:
        raise IntegrityError(
            f"{where} is not a signature: {error}", where=where, next_step=FIND_OUT
        ) from error


def is_envelope(data: bytes | None) -> bool:
    """Whether the bytes are an envelope, whatever it is worth."""
    try:
        return data is not None and bool(read_envelope(data, where="").signatures)
    except IntegrityError:
        return False


def holders(envelope: Envelope, keys: Iterable[str]) -> frozenset[str]:
    """Those of the public keys that the envelope is signed with."""
    from securesystemslib.exceptions import VerificationError

    found = []
    for public in dict.fromkeys(keys):
        try:
            envelope.verify([_verifier(public)], 1)
        except VerificationError:
            continue
        found.append(public)
    return frozenset(found)


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
    return public_text(key.public_bytes_raw())


def public_text(raw: bytes) -> str:
    """The 32 bytes of a public key as text."""
    from base64 import b64encode

    return PUBLIC + b64encode(raw).decode()


@cache
def _verifier(public: str) -> SSlibKey:
    _, ed25519 = _cryptography()
    from securesystemslib.signer import SSlibKey

    key = ed25519.Ed25519PublicKey.from_public_bytes(_public_bytes(public))
    return SSlibKey.from_crypto(key, keyid=key_id(public))


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
        import securesystemslib  # noqa: F401
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingTool(
            "signatures need the packages cryptography and securesystemslib",
            next_step="pip install 'rocwright[sign]'",
        ) from error
    return serialization, ed25519


def read_public(text: str) -> str:
    """A public key from `ed25519:…` or the name of a file that holds it, also in PEM."""
    return public_key(text.encode() if text.startswith(PUBLIC) else _read(Path(text)))


def read_private(paths: Iterable[Path] = (), env: Mapping[str, str] = os.environ) -> tuple[SigningKey, ...]:
    """The keys to sign with: from files, else from the environment.

    Raises `UsageError` where neither has a key.
    """
    password = env.get(PASSWORD_ENV) or None
    pems = [_read(path) for path in paths] or [env.get(PRIVATE_ENV, "").encode()]
    if not any(pems):
        raise UsageError(
            "no key to sign with", next_step=f"give --key FILE, or put the key's PEM text into {PRIVATE_ENV}"
        )
    return tuple(key for pem in pems for key in signing_keys(pem, password))


def keys_of_environment(env: Mapping[str, str] = os.environ) -> tuple[SigningKey, ...]:
    """The keys in the environment; none where it has none."""
    return read_private((), env) if env.get(PRIVATE_ENV) else ()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the key {path} cannot be read: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
