"""Servers that take for ever, never end or talk nonsense end in an error with a name, in bounded time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from rocwright.cli import main
from rocwright.errors import InvalidInput, RocwrightError, Unreachable
from rocwright.system import http as door
from rocwright.system.http import Pace, Web

_OK = b"HTTP/1.1 200 OK\r\n"
Act = Callable[[socket.socket], object]


@contextmanager
def answering(act: Act) -> Iterator[str]:
    """A server that reads a request and acts on its connection; yields an address with a login."""
    over = threading.Event()

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            act(connection)

    def accept() -> None:
        while not over.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=one, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://ann:hunter2@127.0.0.1:{port}/file?sig=f00d"
        finally:
            over.set()
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


def dripping(head: bytes, piece: bytes = b"x") -> Act:
    """Never silent for long, and never done."""

    def act(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(0.01)

    return act


def sending(text: bytes) -> Act:
    return lambda connection: connection.sendall(text)


def hasty(**more: float) -> Web:
    """Nothing is tried again, and what is slow is known at once."""
    limits = {"timeout_s": 5.0, "deadline_s": 0.4, **more}
    return Web(pauses=(), pace=Pace(window_s=0.4, least=10_000), **limits)


@pytest.mark.parametrize(
    "act",
    [
        dripping(b""),
        dripping(_OK + b"X-Header: "),
        dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        dripping(_OK + b"\r\n"),
        dripping(_OK + b"Content-Length: 1000000\r\n\r\n"),
        dripping(_OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        dripping(_OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    ],
    ids=["status", "header", "continue", "endless", "length", "chunks", "chunk size"],
)
@pytest.mark.parametrize("whole", [False, True], ids=["page", "file"])
def test_a_byte_now_and_then_is_too_slow(tmp_path: Path, act: Act, whole: bool) -> None:
    target = tmp_path / "file.whl"
    with answering(act) as url, hasty() as web, pytest.raises(Unreachable) as caught:
        # Its pieces are as small, but a deadline of its own has only the head of a file.
        web.save(url, target) if whole else web.get(url, limit=1 << 20)
    assert "?… is too slow: only " in caught.value.what
    assert "hunter2" not in str(caught.value)
    assert "f00d" not in str(caught.value)
    assert "run again when the network or the server is faster" in str(caught.value)
    assert [*tmp_path.iterdir()] == []


def test_a_large_file_may_take_longer_than_a_page(tmp_path: Path) -> None:
    """It is the pace that counts: of a file in small pieces more come in each window than have to."""

    def act(connection: socket.socket) -> None:
        connection.sendall(_OK + b"Content-Length: 800000\r\n\r\n")
        for _ in range(80):
            connection.sendall(b"x" * 10_000)
            time.sleep(0.01)

    with answering(act) as url, hasty() as web:
        began = time.monotonic()
        web.save(url, tmp_path / "file.whl")
        assert time.monotonic() - began > 0.4
    assert (tmp_path / "file.whl").stat().st_size == 800_000


def test_redirections_share_one_time() -> None:
    def act(connection: socket.socket) -> None:
        time.sleep(0.2)
        host, port = connection.getsockname()[:2]
        connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: http://{host}:{port}/x\r\n".encode())
        connection.sendall(b"Content-Length: 0\r\nConnection: close\r\n\r\n")

    with answering(act) as url, hasty() as web, pytest.raises(Unreachable, match="is too slow"):
        web.get(url, limit=10)


def test_a_head_without_end_is_not_read_for_ever() -> None:
    def act(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    said = pytest.raises(Unreachable, match="head of more than 1,048,576 bytes")
    with answering(act) as url, hasty(deadline_s=60.0) as web, said:
        web.get(url, limit=10)


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 503 Busy\r\nRetry-After: \xb2\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\nRetry-After: " + b"9" * 5000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[::1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://" + b"a" * 300 + b"/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://a:99999999999/\r\nContent-Length: 0\r\n\r\n",
        _OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 5000 + b"\r\nabc",
        _OK + b"Content-Length: 9\r\n\r\nabc",
        _OK + b"X: y\r\n" * 2000 + b"\r\n",
        _OK + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        b"\xff\xfe\x00",
        b"",
    ],
)
def test_nonsense_is_an_error_with_a_name(text: bytes) -> None:
    with answering(sending(text)) as url, hasty() as web, pytest.raises(RocwrightError) as caught:
        web.get(url, limit=1 << 20)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("said", [b"\xb2", b"9" * 5000, b"-5"])
def test_a_length_that_is_none_is_not_believed(said: bytes) -> None:
    head = _OK + b"Content-Length: " + said + b"\r\nConnection: close\r\n\r\n"
    with answering(sending(head)) as url, hasty() as web, pytest.raises(RocwrightError):
        web.size(url)
    with answering(sending(head + b"abc")) as url, hasty() as web:
        assert web.get(url, limit=1 << 20).body == b"abc"
    part = b"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-0/" + said + b"\r\nContent-Length: 1\r\n\r\nx"
    another = pytest.raises(Unreachable, match="another part of the file")
    with answering(sending(part)) as url, hasty() as web, another:
        web.part(url, "0-0", most_whole=10)


def test_a_file_without_end_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_LARGEST_FILE", 1 << 20)

    def act(connection: socket.socket) -> None:
        connection.sendall(_OK + b"\r\n")
        while True:
            connection.sendall(b"x" * 100_000)

    too_large = pytest.raises(InvalidInput, match="more than 1,048,576 bytes")
    with answering(act) as url, hasty() as web, too_large:
        web.save(url, tmp_path / "file.whl")
    assert [*tmp_path.iterdir()] == []


def test_a_file_larger_than_the_disk_is_not_begun(tmp_path: Path) -> None:
    huge = _OK + b"Content-Length: 999999999999999\r\n\r\nabc"
    with answering(sending(huge)) as url, hasty() as web, pytest.raises(RocwrightError, match="are free"):
        web.save(url, tmp_path / "file.whl")
    assert [*tmp_path.iterdir()] == []


def test_adopting_from_such_an_index_ends_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        url = stack.enter_context(answering(dripping(_OK + b"X-Header: ")))
        words = ["set", "create", "--from-index", url.partition("?")[0] + "/", "--store", "store"]
        ended = stack.enter_context(pytest.raises(SystemExit))
        main([*words, "--timeout", "0.1"])
    said = capsys.readouterr().err
    assert ended.value.code == Unreachable.exit_code, said
    assert "is too slow: only " in said
    assert "hunter2" not in said
