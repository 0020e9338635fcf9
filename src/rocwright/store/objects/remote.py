"""A store in a bucket of S3 or of a compatible server, or in memory, over obstore.

Several servers accept a conditional put and ignore the condition, so nothing rests on it alone: look first,
ask for creation only, look again. Headers and the sha256 go with each object; servers that copy lose them,
so a copy is written like any other object, through this machine.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from rocwright.errors import IntegrityError, InvalidInput, NoObject
from rocwright.store.layout import check_key, headers_for
from rocwright.store.objects.bucket import AT_ONCE, NO_RETRY, PART, Act, Bucket, can_pass, code_of, named
from rocwright.store.objects.local import require_same
from rocwright.store.objects.protocol import Stored
from rocwright.system import files

if TYPE_CHECKING:
    from obstore.store import MemoryStore, S3Store

_ATTEMPTS = 5
_PAUSE_S = 0.2
_REQUESTS_AT_ONCE = 8
# Failures of obstore; ValueError is what it raises for a setting or path that it cannot use.
_FAILURES = (BaseError, OSError, ValueError)

_T = TypeVar("_T")


class RemoteStore:
    """A bucket (or a part of it) or memory; `place` names it to people, `public` is what clients read."""

    def __init__(
        self,
        backend: S3Store | MemoryStore,
        place: str,
        public: str,
        *,
        max_age: int,
        bucket: Bucket | None = None,
        part: int = PART,
    ) -> None:
        self.backend = backend
        self.bucket = bucket
        self.place = place
        self._creator = bucket.connect(NO_RETRY) if bucket is not None else backend
        self._public = public
        self._max_age = max_age
        self._part = part
        # How many requests for small objects to have under way; memory answers at once.
        self.at_once = 1 if bucket is None else _REQUESTS_AT_ONCE

    def put_file(self, source: Path, key: str) -> None:
        """See `ObjectStore.put_file`. In parts when it is large; what is there is not sent again.

        Parts of an upload that was killed are not taken up again (listing them is not in obstore): the file
        is sent anew, and what stays behind of the old upload is invisible until the bucket's rule for
        incomplete uploads removes it.
        """
        check_key(key)
        if not source.is_file():
            raise InvalidInput(
                f"{source.name} does not exist, so it cannot be stored",
                where=source,
                next_step="make sure that nothing removes files meanwhile, then run again",
            )
        digest, size = files.sha256_file(source), source.stat().st_size
        if size <= self._part:
            self._create(key, source.read_bytes(), digest)
            return
        self._create_large(key, source, size, digest)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`."""
        check_key(key)
        digest = hashlib.sha256(data).hexdigest()
        if not overwrite:
            self._create(key, data, digest)
            return
        attributes = self._attributes(key, digest)
        self._do(
            "write",
            key,
            lambda: obstore.put(self.backend, key, data, attributes=attributes, use_multipart=False),
        )

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`; the bytes pass through this machine, a few parts at a time."""
        check_key(key)
        found = self._look(check_key(source))
        if found is None:
            raise self._missing(source)
        size, digest = found[0], found[1].get("sha256") or self.digest(source)
        if size <= self._part:
            self._create(key, self.read(source), digest)
            return
        with ThreadPoolExecutor(1) as reader:
            # In a thread of its own: the client cannot read while it is asked for what to write.
            pieces = (
                reader.submit(self.read_range, source, start, self._part).result()
                for start in range(0, size, self._part)
            )
            self._create_large(key, pieces, size, digest)

    def read(self, key: str) -> bytes:
        """See `ObjectStore.read`."""
        check_key(key)
        attempt = 1
        while True:
            answer = self._do("read", key, lambda: obstore.get(self.backend, key))
            try:
                return bytes(answer.bytes())
            except _FAILURES as error:
                # The client repeats requests, not bodies: a body breaks off where a server has begun to send
                # an object that another writer then replaces.
                if attempt == _ATTEMPTS:
                    raise named(error, self.place, key, "read") from None
            time.sleep(_PAUSE_S * 2 ** (attempt - 1))
            attempt += 1

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `ObjectStore.read_range`."""
        check_key(key)
        try:
            return self._range(key, start, length) if length > 0 else self._nothing(key)
        except _FAILURES as error:
            # Servers and memory refuse a part beyond the end, each in its own words.
            if not isinstance(error, FileNotFoundError) and start >= self._existing(key).size:
                return b""
            raise named(error, self.place, key, "read") from None

    def stat(self, key: str) -> Stored | None:
        """See `ObjectStore.stat`."""
        check_key(key)
        try:
            return _stored(obstore.head(self.backend, key))
        except _FAILURES as error:
            self._require_absent(error, key, "read")
            return None

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return self.stat(key) is not None

    def list(self, prefix: str) -> tuple[Stored, ...]:
        """See `ObjectStore.list`."""
        _check_prefix(prefix)
        found = self._do(
            "list",
            prefix,
            lambda: [one for page in obstore.list(self.backend, prefix or None) for one in page],
        )
        return tuple(sorted(map(_stored, found), key=lambda one: one.key))

    def folders(self, prefix: str) -> tuple[str, ...]:
        """See `ObjectStore.folders`."""
        _check_prefix(prefix)
        found = self._do("list", prefix, lambda: obstore.list_with_delimiter(self.backend, prefix or None))
        return tuple(sorted(one.rstrip("/").rpartition("/")[2] for one in found["common_prefixes"]))

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`; one request each: deleting many at once is not taken everywhere."""
        check_key(key)
        try:
            obstore.delete(self.backend, key)
        except _FAILURES as error:
            self._require_absent(error, key, "delete")

    def digest(self, key: str) -> str:
        """See `ObjectStore.digest`; read in pieces where it is large."""
        size = self._existing(key).size
        if size <= self._part:
            # At once: another may be replacing it, and ranges would be of two versions, or beyond the end.
            return hashlib.sha256(self.read(key)).hexdigest()
        digest = hashlib.sha256()
        for start in range(0, size, self._part):
            digest.update(
                self._do("read", key, partial(self._range, key, start, min(self._part, size - start)))
            )
        return digest.hexdigest()

    def url(self, key: str) -> str:
        """Below the public address of the store."""
        check_key(key.removesuffix("/"))
        return f"{self._public}/{quote(key)}"

    def headers(self, key: str) -> dict[str, str]:
        """What is kept beside the bytes: `Content-Type`, `Cache-Control`, metadata (`sha256`)."""
        found = self._look(check_key(key))
        if found is None:
            raise self._missing(key)
        return found[1]

    def _existing(self, key: str) -> Stored:
        stored = self.stat(key)
        if stored is None:
            raise self._missing(key)
        return stored

    def _nothing(self, key: str) -> bytes:
        self._existing(key)
        return b""

    def _missing(self, key: str) -> NoObject:
        return NoObject(f"the store has no object {key}", where=self.place)

    def _attributes(self, key: str, digest: str) -> dict[str, str]:
        headers = headers_for(key, self._max_age)
        return {
            "Content-Type": headers.content_type,
            "Cache-Control": headers.cache_control,
            "sha256": digest,
        }

    def _create(self, key: str, data: bytes, digest: str) -> None:
        attributes = self._attributes(key, digest)

        def put() -> None:
            obstore.put(self._creator, key, data, attributes=attributes, mode="create", use_multipart=False)

        self._once(key, len(data), digest, put)

    def _create_large(self, key: str, source: Path | Iterator[bytes], size: int, digest: str) -> None:
        """In parts; the condition cannot go with them, so what is there is looked up before and after."""
        attributes = self._attributes(key, digest)

        def put() -> None:
            obstore.put(
                self.backend,
                key,
                source,
                attributes=attributes,
                use_multipart=True,
                chunk_size=self._part,
                max_concurrency=AT_ONCE,
            )

        # An iterator is used up by the first attempt.
        self._once(key, size, digest, put, attempts=_ATTEMPTS if isinstance(source, Path) else 1)

    def _once(
        self, key: str, size: int, digest: str, put: Callable[[], None], attempts: int = _ATTEMPTS
    ) -> None:
        """Create an object unless it is there; where an answer is lost, what is there decides."""
        if self._is_there(key, size, digest):
            return
        for attempt in range(1, attempts + 1):
            problem: Exception | None = None
            try:
                put()
            except _FAILURES as error:
                problem = error
            # Refused because somebody created it, or begun twice: what is there says what happened.
            told = problem is None or isinstance(problem, AlreadyExistsError) or can_pass(problem)
            if told and self._is_there(key, size, digest):
                return
            if problem is not None and not told:
                raise named(problem, self.place, key, "write") from None
            if attempt < attempts:
                time.sleep(_PAUSE_S * 2 ** (attempt - 1))
        if problem is not None:
            raise named(problem, self.place, key, "write") from None
        raise IntegrityError(
            f"the store accepted {key} but does not have it", where=self.place, next_step="run again"
        )

    def _is_there(self, key: str, size: int, digest: str) -> bool:
        """Whether an object is there with these bytes; `IntegrityError` when it is there with others."""
        found = self._look(key)
        if found is None:
            return False
        there, recorded = found[0], found[1].get("sha256")
        if there != size and recorded == digest:
            # Ours by what it says, and not whole: such an object is of no use to anybody.
            self.delete(key)
            raise IntegrityError(
                f"the store kept {there} of the {size} bytes of {key}; they were removed",
                where=self.place,
                next_step="run again",
            )
        if there != size or recorded is None:
            try:
                recorded = self.digest(key)
            except NoObject:
                # Removed by somebody while we looked.
                return False
        require_same(recorded, digest, key)
        return True

    def _look(self, key: str) -> tuple[int, dict[str, str]] | None:
        """Size and headers of an object, by one request; None when it is not there."""
        try:
            found = obstore.get(self.backend, key, options={"head": True})
        except _FAILURES as error:
            self._require_absent(error, key, "read")
            return None
        return found.meta["size"], dict(found.attributes)

    def _require_absent(self, error: Exception, key: str, act: Act) -> None:
        """Raise the named error, unless it only says that the object is not there."""
        if not isinstance(error, FileNotFoundError) or code_of(error) == "NoSuchBucket":
            raise named(error, self.place, key, act) from None

    def _range(self, key: str, start: int, length: int) -> bytes:
        return bytes(obstore.get_range(self.backend, key, start=start, length=length))

    def _do(self, act: Act, key: str, request: Callable[[], _T]) -> _T:
        try:
            return request()
        except _FAILURES as error:
            raise named(error, self.place, key, act) from None


def _check_prefix(prefix: str) -> None:
    if prefix:
        check_key(prefix.removesuffix("/"))


def _stored(meta: Any) -> Stored:
    return Stored(meta["path"], meta["size"], meta["last_modified"])
