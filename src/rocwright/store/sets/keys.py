"""Keys as people give them: a file, the environment, or the text itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rocwright.errors import InvalidInput, UsageError
from rocwright.store.sets.sign import PUBLIC, public_key

PRIVATE_ENV, PASSWORD_ENV = "ROCWRIGHT_SIGNING_KEY", "ROCWRIGHT_SIGNING_PASSWORD"


def read_public(text: str) -> str:
    """A public key from `ed25519:…` or the name of a file that holds one, also in PEM."""
    return public_key(text.encode() if text.startswith(PUBLIC) else _read(Path(text)))


def read_private(path: Path | None, env: Mapping[str, str] = os.environ) -> tuple[bytes, str | None]:
    """A private key as its PEM and the password, if there is one: from a file, else from the environment.

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
        raise InvalidInput(f"the key {path} cannot be read: {error.strerror}", where=path) from error
