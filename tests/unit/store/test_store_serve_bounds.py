"""Clients that take their time, take all places or ask for absurd things leave the server to the others."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from rocwright.store.objects.clients import Bounds
from rocwright.store.objects.serve import serving

_LARGE = 16 << 20


class Clock:
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "page.txt").write_text("hello")
    with (tmp_path / "large.whl").open("wb") as stream:
        stream.truncate(_LARGE)
    return tmp_path


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(stack: ExitStack, url: str, said: bytes) -> socket.socket:
    port = int(url.rstrip("/").rpartition(":")[2])
    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
    client.sendall(said)
    return client


def answer(stack: ExitStack, url: str, header: bytes = b"", path: bytes = b"/page.txt") -> tuple[int, bytes]:
    """Status and content of one request as it stands."""
    said = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + header + b"\r\n"
    client = connected(stack, url, said)
    found = b""
    while piece := client.recv(1 << 16):
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_400_slow_clients_do_not_keep_another_waiting(root: Path, stack: ExitStack) -> None:
    """Half of them send the beginning of a request, half read nothing of what they asked for."""
    clock = Clock()
    with serving(root, bounds=Bounds(clock=clock, patience_s=1.0)) as url:
        for number in range(400):
            whole = b"GET /large.whl HTTP/1.1\r\nHost: x\r\n\r\n"
            connected(stack, url, whole if number % 2 else whole[:5])
            # They come within 20 seconds.
            clock.now += 0.05
        clock.now += 2
        with urllib.request.urlopen(f"{url}page.txt", timeout=20) as response:
            assert response.read() == b"hello"


def test_who_finds_no_room_is_told_so_and_when_to_come_again(root: Path, stack: ExitStack) -> None:
    clock = Clock()
    with serving(root, bounds=Bounds(connections=4, refused=2, clock=clock)) as url:
        held = [connected(stack, url, b"GET /page.txt HTTP/1.1\r\n") for _ in range(4)]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}page.txt", timeout=20)
        with caught.value as refusal:
            assert (refusal.code, refusal.headers["Retry-After"]) == (503, "1")
            assert refusal.read() == b"503 Service Unavailable\n"
        # Nobody lost a place by that.
        held[0].sendall(b"Host: x\r\nConnection: close\r\n\r\n")
        assert held[0].recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
        clock.now += 1.5
        assert answer(stack, url) == (200, b"hello")


def ticks_until_hung_up(client: socket.socket, clock: Clock) -> int:
    """Send a byte a second until the server ends the connection; how many seconds that takes."""
    client.settimeout(0.02)
    for ticks in range(1000):
        with suppress(TimeoutError):
            try:
                client.sendall(b"x")
                if client.recv(1 << 16) == b"":
                    return ticks
            except ConnectionError:
                return ticks
        clock.now += 1
    raise AssertionError("it goes on for ever")


def test_a_client_that_stands_still_is_hung_up_on(root: Path, stack: ExitStack) -> None:
    """A byte a second gets nobody further, and neither does not reading what was asked for."""
    clock = Clock()
    begun = b"GET /page.txt HTTP/1.1\r\nX: "
    with serving(root, bounds=Bounds(clock=clock, wait_s=30.0, rate=1 << 40)) as url:
        reader = connected(stack, url, b"GET /large.whl HTTP/1.1\r\nHost: x\r\n\r\n")
        assert reader.recv(9) == b"HTTP/1.1 "
        assert 29 <= ticks_until_hung_up(connected(stack, url, begun), clock) <= 60
        # By now the buffers between are full, so it stands as still as the next.
        ticks_until_hung_up(connected(stack, url, begun), clock)
        got = 9
        with suppress(ConnectionError):
            while piece := reader.recv(1 << 20):
                got += len(piece)
        assert got < _LARGE


def test_a_client_that_reads_at_its_own_pace_gets_all_of_it(root: Path, stack: ExitStack) -> None:
    clock = Clock()
    with serving(root, bounds=Bounds(clock=clock, wait_s=30.0, piece=1 << 20)) as url:
        reader = connected(stack, url, b"GET /large.whl HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = 0
        while piece := reader.recv(1 << 20):
            got += len(piece)
            # Far longer than any one piece may take, all together.
            clock.now += 1
        assert got > _LARGE


@pytest.mark.parametrize(
    ("asked", "status", "size"),
    [
        (b"bytes=0-" + b"9" * 5000, 200, 5),
        (b"bytes=1-" + b"9" * 5000, 206, 4),
        (b"bytes=" + b"9" * 5000 + b"-", 416, 0),
        (b"bytes=-" + b"9" * 5000, 200, 5),
        (b"bytes=" + b"0" * 5000 + b"1-2", 206, 2),
        # A server may answer with the whole, once: never with thousands of parts.
        (b"bytes=" + b",".join(b"0-%d" % one for one in range(9000)), 200, 5),
        (b"bytes=\xd9\xa1-\xd9\xa2", 200, 5),
    ],
)
def test_absurd_ranges_are_answered(
    root: Path, stack: ExitStack, asked: bytes, status: int, size: int
) -> None:
    with serving(root) as url:
        found, body = answer(stack, url, b"Range: " + asked + b"\r\n")
    assert (found, len(body)) == (status, size)


def test_absurd_requests_are_answered(root: Path, stack: ExitStack) -> None:
    with serving(root) as url:
        many = b"".join(b"X-%d: %s\r\n" % (one, b"y" * 3000) for one in range(40))
        assert answer(stack, url, many)[0] == 431
        assert answer(stack, url, b"X: y\r\n" * 200)[0] == 431
        assert answer(stack, url, path=b"/" + b"a" * 60_000)[0] == 404
        assert answer(stack, url, path=b"/" + b"a/" * 30_000)[0] == 404
        assert answer(stack, url, path=b"/a%00b")[0] == 404
        # What follows a request as its content is not taken for another request.
        inner = b"GET /large.whl HTTP/1.1\r\n\r\n"
        found = answer(stack, url, b"Content-Length: %d\r\n\r\n" % len(inner) + inner)
        assert found == (200, b"hello")
        assert answer(stack, url) == (200, b"hello")
