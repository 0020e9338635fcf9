"""What can only be tried below the promises of `ObjectStore`: the bare requests of a bucket."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from rocwright.store.objects.remote import RemoteStore

# The smallest that S3 takes for a part that is not the last.
_PART = 5 << 20
_HEADERS = {"Content-Type": "application/zip", "Cache-Control": "max-age=77", "sha256": "0" * 64}


def checks(store: RemoteStore, prefix: str) -> Iterator[tuple[str, Callable[[], bool | None]]]:
    """Each by its id; a request that is refused means that it does not hold."""
    yield "create-only", lambda: _tried(lambda: _creates_only(store, prefix))
    yield "suffix-range", lambda: _tried(lambda: _suffix(store, prefix))
    yield "headers-on-put", lambda: _tried(lambda: _headers_on_put(store, prefix))
    yield "headers-on-copy", lambda: _tried(lambda: _headers_on_copy(store, prefix))
    yield "multipart", lambda: _tried(lambda: _multipart(store, prefix))
    yield "wrong-checksum-refused", lambda: _wrong_checksum(store, prefix)


def _tried(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (BaseError, OSError, ValueError):
        return False


def _creates_only(store: RemoteStore, prefix: str) -> bool:
    key = f"{prefix}create"
    obstore.put(store.backend, key, b"1", mode="create")
    try:
        obstore.put(store.backend, key, b"2", mode="create")
    except AlreadyExistsError:
        return store.read(key) == b"1"
    return False


def _suffix(store: RemoteStore, prefix: str) -> bool:
    answer = obstore.get(store.backend, f"{prefix}first", options={"range": {"suffix": 2}})
    return bytes(answer.bytes()) == b"st"


def _headers_on_put(store: RemoteStore, prefix: str) -> bool:
    obstore.put(store.backend, f"{prefix}headers", b"x", attributes=_HEADERS)
    return store.headers(f"{prefix}headers") == _HEADERS


def _headers_on_copy(store: RemoteStore, prefix: str) -> bool:
    obstore.put(store.backend, f"{prefix}copied", b"x", attributes=_HEADERS)
    obstore.copy(store.backend, f"{prefix}copied", f"{prefix}copy")
    return store.headers(f"{prefix}copy") == _HEADERS


def _multipart(store: RemoteStore, prefix: str) -> bool:
    key, data = f"{prefix}parts", b"part" * (_PART // 4) + b"last"
    obstore.put(
        store.backend, key, data, attributes=_HEADERS, use_multipart=True, chunk_size=_PART, max_concurrency=2
    )
    return store.digest(key) == hashlib.sha256(data).hexdigest() and store.headers(key) == _HEADERS


def _wrong_checksum(store: RemoteStore, prefix: str) -> bool | None:
    if store.bucket is None:
        return None
    other = hashlib.md5(b"other", usedforsecurity=False).digest()
    client = store.bucket.connect(headers={"Content-MD5": base64.b64encode(other).decode()})
    try:
        obstore.put(client, f"{prefix}checksum", b"these", use_multipart=False)
    except (BaseError, OSError, ValueError):
        return True
    return False
