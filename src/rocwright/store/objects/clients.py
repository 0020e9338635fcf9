"""Who is connected to a server: how many at once, and how long each may stand still.

A client that sends a byte a second, or reads one, costs a thread and a descriptor as long as it likes. So
every connection has a time by which it has to get further, a bound on how much it may say, and no claim to
its place: when all are taken, who stood still for longest makes room, and who finds none is told so (503).
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable
from typing import IO

import msgspec


class Bounds(msgspec.Struct, frozen=True):
    """How many connections are served at once, and for how long one may stand still; seconds and bytes.

    A client has `wait_s` for a whole request, also for the next one, and again for each `piece` that it is
    sent, with as much on top as `piece` takes at `rate` a second. With every place taken, who stood still for
    `patience_s` loses theirs. `refused` more are told that there is no room. A request has at most `head`
    bytes.
    """

    connections: int = 256
    refused: int = 32
    wait_s: float = 30.0
    patience_s: float = 1.0
    rate: int = 64 << 10
    piece: int = 1 << 20
    head: int = 64 << 10
    clock: Callable[[], float] = time.monotonic

    def time_for(self, size: int) -> float:
        """Seconds within which a client has to take so many bytes."""
        return self.wait_s + size / self.rate


class _Client(msgspec.Struct):
    """Since when it stands still, until when it may, and whether there is no room for it."""

    since: float
    until: float
    refused: bool = False


class Clients:
    """The connections of one server, by socket; for use by several threads."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._all: dict[socket.socket, _Client] = {}
        self._lock = threading.Lock()

    def enter(self, connection: socket.socket) -> bool:
        """Whether a new connection is answered at all, if only to be told that there is no room."""
        now = self.bounds.clock()
        with self._lock:
            served = {one: client for one, client in self._all.items() if not client.refused}
            refused = False
            if len(served) >= self.bounds.connections:
                stillest = min(served, key=lambda one: served[one].since)
                refused = now - served[stillest].since < self.bounds.patience_s
                if not refused:
                    self._end(stillest)
            if refused and len(self._all) - len(served) >= self.bounds.refused:
                return False
            until = now + (self.bounds.patience_s if refused else self.bounds.wait_s)
            self._all[connection] = _Client(now, until, refused)
        return True

    def is_refused(self, connection: socket.socket) -> bool:
        """Whether it came when there was no room."""
        with self._lock:
            client = self._all.get(connection)
            return client is not None and client.refused

    def further(self, connection: socket.socket, size: int = 0) -> None:
        """It got further: a request is whole, or a piece was taken; `size` bytes are sent to it next."""
        now = self.bounds.clock()
        with self._lock:
            if (client := self._all.get(connection)) is not None:
                client.since, client.until = now, now + self.bounds.time_for(size)

    def leave(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._lock:
            self._all.pop(connection, None)

    def end_overdue(self) -> None:
        """Hang up on whoever stood still for too long; their threads see the end of the stream."""
        now = self.bounds.clock()
        with self._lock:
            for connection in [one for one, client in self._all.items() if client.until < now]:
                self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        del self._all[connection]
        # The other side may be gone already.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class Head:
    """What a client says, line by line, no more than `most` bytes for each request."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most = stream, most
        self._left = most

    def again(self) -> None:
        """The next request begins."""
        self._left = self._most

    def readline(self, size: int = -1) -> bytes:
        """The next line; raises `HTTPException`, which is answered with 431, beyond the bound."""
        line = self._stream.readline(size)
        self._left -= len(line)
        if self._left < 0 and len(line) < self._most:
            raise http.client.HTTPException(f"more than {self._most:,} bytes of headers")
        return line

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._stream.closed
