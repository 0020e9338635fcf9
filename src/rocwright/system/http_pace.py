"""How slowly a web server may answer: a time for the head of an answer, and a least pace for all of it.

A limit for each single read is none for the whole: a server that sends a byte a second keeps it for ever. So
the bytes of each stretch of waiting are counted, and a transfer of any size ends where too few of them come.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec

# More than any server says before the content; 100 (Continue) may come any number of times.
_MOST_HEAD = 1 << 20


class Pace(msgspec.Struct, frozen=True):
    """At least `least` bytes in each `window_s` seconds of waiting: 1 kB a second, by default."""

    window_s: float = 60.0
    least: int = 60_000
    clock: Callable[[], float] = time.monotonic


class TooSlow(Exception):
    """So few bytes in so many seconds."""

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__(f"only {count:,} bytes came within {seconds:g} s")


class Allowance:
    """What one request has left: its head until a time and up to a size, the rest at a pace."""

    def __init__(self, pace: Pace, head_s: float) -> None:
        self.pace = pace
        self._head_s = head_s
        self._began = pace.clock()
        self._in_head = True
        self._head, self._waited, self._came = 0, 0.0, 0

    def next_head(self) -> None:
        """Another answer is waited for, after a redirection: within the same time."""
        self._in_head, self._head = True, 0

    def content(self) -> None:
        """The head is over."""
        self._in_head = False

    def left(self) -> float:
        """Seconds that the next read may take; raises `TooSlow` without any."""
        now = self.pace.clock()
        if self._waited >= self.pace.window_s:
            if self._came < self.pace.least:
                raise TooSlow(self._came, self.pace.window_s)
            self._waited, self._came = 0.0, 0
        if not self._in_head:
            return self.pace.window_s
        if now - self._began >= self._head_s:
            raise TooSlow(self._head, self._head_s)
        return self._head_s - (now - self._began)

    def came(self, count: int, waited: float) -> None:
        """So many bytes came after so many seconds; raises `HTTPException` for a head without end."""
        self._waited += waited
        self._came += count
        self._head += count if self._in_head else 0
        if self._in_head and self._head > _MOST_HEAD:
            raise http.client.HTTPException(f"its answer has a head of more than {_MOST_HEAD:,} bytes")


class _PacedRaw(io.RawIOBase):
    """What comes from a socket, as long as the allowance lasts."""

    def __init__(
        self, connection: socket.socket, raw: io.RawIOBase, allowance: Allowance, most_s: float
    ) -> None:
        self._connection, self._raw = connection, raw
        self._allowance, self._most_s = allowance, most_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        clock = self._allowance.pace.clock
        left = self._allowance.left()
        self._connection.settimeout(min(left, self._most_s))
        began = clock()
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            if left < self._most_s:
                # The whole time is over, not that of a single read.
                self._allowance.came(0, clock() - began)
                self._allowance.left()
            raise
        self._allowance.came(count or 0, clock() - began)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def paced(
    connection: http.client.HTTPConnection, allowance: Allowance, timeout_s: float
) -> http.client.HTTPConnection:
    """The connection, whose next answers are read within an allowance, no single read beyond `timeout_s`."""

    def answer(sock: socket.socket, *given: Any, **named: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *given, **named)
        response.fp = io.BufferedReader(_PacedRaw(sock, response.fp.detach(), allowance, timeout_s))
        return response

    connection.response_class = cast("Any", answer)
    return connection
