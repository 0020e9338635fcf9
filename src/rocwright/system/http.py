"""The door to web servers: pages, parts of files, whole files; with a bound on everything.

What passes by itself (a lost connection, a busy server) is tried again a few times. A server that does not
answer, answers too slowly, or sends more than was to be expected ends in a named error.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TypeVar

import msgspec

from rocwright.errors import IntegrityError, InvalidInput, Unreachable
from rocwright.system.files import atomic_write, require_space
from rocwright.system.http_pace import Pace, TooSlow
from rocwright.system.http_send import Passing, Refused, Sender, number, shown
from rocwright.system.progress import counted
from rocwright.system.remote import PAUSES_S

__all__ = ["FileRange", "NoRanges", "Pace", "Refused", "Response", "Web"]

_T = TypeVar("_T")
_CHUNK = 1 << 18
_MOST_WAIT_S = 20.0
# Some servers do not say how much they send, and no wheel or tarball has more.
_LARGEST_FILE = 256 << 30
_RANGE = re.compile(r"bytes (?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})/(?P<total>[0-9]{1,18})")
# zlib's word for "gzip or zlib, see which".
_EITHER = zlib.MAX_WBITS | 32


class NoRanges(Unreachable):
    """A server sends whole files only, and this file is too large for that."""


class Response(msgspec.Struct, frozen=True):
    """What a server sent: `url` is where it came from in the end, header names are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class FileRange(msgspec.Struct, frozen=True):
    """Bytes of a file from `start` on, and how long all of it is."""

    data: bytes
    start: int
    total: int


class Web:
    """Asks web servers; for use by several threads, and as a context manager.

    No single read waits longer than `timeout_s`; what is read into memory is there within `deadline_s`, and
    so is the head of every answer; files of any size come at `pace` or faster. `pauses` are the seconds
    before each further try: what was too slow is not tried again. `received` counts bytes of content.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 30.0,
        deadline_s: float = 180.0,
        pauses: tuple[float, ...] = PAUSES_S,
        pace: Pace | None = None,
    ) -> None:
        self.received = 0
        self._sender = Sender(timeout_s, deadline_s, pace or Pace())
        self._deadline, self._pauses = deadline_s, pauses
        self._lock = Lock()

    def __enter__(self) -> Web:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sender.close()

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return self._sender.requests

    def enter(self, url: str) -> str:
        """The address without login and fragment; the login is kept for that server, and never shown."""
        return self._sender.enter(url)

    def get(self, url: str, *, limit: int, accept: str = "*/*", packed: bool = False) -> Response:
        """The content of an address, at most `limit` bytes; `packed` lets the server compress it.

        Raises `Unreachable` when it cannot be had (`Refused` with the server's status), `InvalidInput` when
        it is larger.
        """
        headers = {"Accept": accept, "Accept-Encoding": "gzip, deflate" if packed else "identity"}
        return self._tried("GET", url, headers, limit)

    def size(self, url: str) -> int:
        """How many bytes a file has, without its content."""
        try:
            answer = self._tried("HEAD", url, {"Accept-Encoding": "identity"}, 0)
            if (length := number(answer.headers.get("content-length"))) is not None:
                return length
        except Refused as error:
            # Some servers, and some signed addresses, know GET only.
            if error.status not in (403, 405, 501):
                raise
        return self.part(url, "0-0", most_whole=0).total

    def part(self, url: str, wanted: str, *, most_whole: int, into: Path | None = None) -> FileRange:
        """A part of a file: `wanted` is `first-last`, or `-length` for its end.

        A server that ignores the wish sends the whole file: it is written to `into`, and the part is empty.
        Without `into` it is taken up to `most_whole` bytes; raises `NoRanges` beyond that.
        """
        first, _, last = wanted.partition("-")
        length = int(last) - int(first) + 1 if first else int(last)
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={wanted}"}
        answer = self._tried("GET", url, headers, length, most_whole=most_whole, into=into)
        if answer.status != 206:
            size = len(answer.body) if into is None else into.stat().st_size
            return FileRange(answer.body, 0, size)
        found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
        where = shown(url)
        if found is None or len(answer.body) != int(found["last"]) - int(found["first"]) + 1:
            raise Unreachable(f"{where} sent another part of the file than was asked for", where=where)
        return FileRange(answer.body, int(found["first"]), int(found["total"]))

    def save(self, url: str, path: Path, *, sha256: str | None = None) -> str:
        """Download a file to `path`, which is there whole or not at all; returns its hex sha256.

        Raises `IntegrityError` when it has another digest than `sha256`, `NoSpace` when the disk has not the
        room that the server announces, `InvalidInput` for a file without end.
        """

        def act() -> str:
            with self._sender.answered("GET", url, {"Accept-Encoding": "identity"}) as (where, response):
                digest = hashlib.sha256()
                if response.length is not None:
                    require_space(path.absolute().parent, response.length, purpose=f"downloading {path.name}")
                with (
                    atomic_write(path) as stream,
                    counted(f"downloading {path.name}", response.length) as count,
                ):
                    for piece in self._pieces(where, response):
                        digest.update(piece)
                        stream.write(piece)
                        count.add(len(piece))
                    if sha256 not in (None, digest.hexdigest()):
                        raise IntegrityError(
                            f"{path.name} has sha256 {digest.hexdigest()}, its index says {sha256}",
                            where=shown(where),
                            next_step="run again; if that does not help, tell whoever runs the index",
                        )
                return digest.hexdigest()

        return self._again(act, url)

    def _tried(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        limit: int,
        *,
        most_whole: int | None = None,
        into: Path | None = None,
    ) -> Response:
        def act() -> Response:
            end = time.monotonic() + self._deadline
            with self._sender.answered(method, url, headers) as (where, response):
                said = {name.lower(): value for name, value in response.getheaders()}
                if into is not None and response.status == 200:
                    with atomic_write(into) as stream:
                        stream.writelines(self._pieces(where, response))
                    return Response(where, response.status, said)
                most = limit
                if most_whole is not None and response.status == 200:
                    most = most_whole
                    if response.length is None or response.length > most:
                        raise NoRanges(
                            f"{shown(where)} is sent whole only, and is larger than {most:,} bytes",
                            where=shown(where),
                            next_step="allow the download: --download",
                        )
                if (response.length or 0) > most:
                    raise _too_large(where, most)
                pieces = self._pieces(where, response, end=end)
                body = _unpacked(pieces, said.get("content-encoding", ""), most, where)
                return Response(where, response.status, said, body)

        return self._again(act, url)

    def _again(self, act: Callable[[], _T], url: str) -> _T:
        """Do it; what may pass is tried again after a pause."""
        failures = 0
        while True:
            try:
                return act()
            except Passing as failure:
                if failures == len(self._pauses):
                    where = shown(url)
                    tried = f" (tried {failures + 1} times)" if failures else ""
                    raise Unreachable(
                        f"{where} cannot be read{tried}: {failure}",
                        where=where,
                        next_step="check the address and the network, then run again",
                    ) from failure
                time.sleep(min(_MOST_WAIT_S, max(self._pauses[failures], failure.wait)))
                failures += 1

    def _pieces(
        self, where: str, response: http.client.HTTPResponse, *, end: float | None = None
    ) -> Iterator[bytes]:
        """The body as it comes; raises `Passing` where it ends early, `InvalidInput` where it never does."""
        length, done = response.length, 0
        while piece := response.read1(_CHUNK):
            done += len(piece)
            if done > _LARGEST_FILE:
                raise _too_large(where, _LARGEST_FILE)
            with self._lock:
                self.received += len(piece)
            yield piece
            if end is not None and time.monotonic() > end:
                raise TooSlow(done, self._deadline)
        if length is not None and done < length:
            raise Passing(f"it ended after {done:,} of {length:,} bytes")


def _unpacked(pieces: Iterator[bytes], encoding: str, limit: int, where: str) -> bytes:
    """All of a body, unpacked; never more than `limit` bytes of it, however well it was packed."""
    found = bytearray()
    unpack = (
        zlib.decompressobj(_EITHER) if encoding.strip().lower() in ("gzip", "x-gzip", "deflate") else None
    )
    try:
        for piece in pieces:
            found += piece if unpack is None else unpack.decompress(piece, limit + 1 - len(found))
            if len(found) > limit:
                raise _too_large(where, limit)
    except zlib.error as error:
        raise Passing(f"it is not compressed as {encoding}: {error}") from error
    if unpack is not None and not unpack.eof:
        raise Passing("its compressed answer ends early")
    return bytes(found)


def _too_large(where: str, limit: int) -> InvalidInput:
    what = f"{shown(where)} has more than {limit:,} bytes, which is more than can be right"
    return InvalidInput(what, where=shown(where))
