"""Content for objects, and what is in a store, for the tests of real servers."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rocwright.store.objects.protocol import ObjectStore

WHEEL = "files/ab/torch-2!2.9.0+rocm7.1-py3-none-any.whl"
MIB = 1 << 20


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def filled(path: Path, mib: int) -> str:
    """Write a file of random bytes; gives its sha256."""
    digest = hashlib.sha256()
    with path.open("wb") as stream:
        for _ in range(mib):
            block = os.urandom(MIB)
            digest.update(block)
            stream.write(block)
    return digest.hexdigest()


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [one.key for one in store.list(prefix)]
