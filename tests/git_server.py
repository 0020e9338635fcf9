"""A git server on loopback that keeps a record and misbehaves on request: smart HTTP by `git http-backend`.

with serving(root) as server:
    server.url("torch")                  # root/torch, a work tree or a bare repository
    server.faults.how = "drop"; server.faults.first = 2
    server.count("torch"), server.sent("torch"), server.peak()
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

BACKEND = ("git", "http-backend")


@dataclass
class Faults:
    """What goes wrong; may be changed while the server runs.

    The `first` requests (of repository `only`, when given) fail like `how`: "drop" ends the connection
    without an answer, "cut" resets it in the middle of a pack (answers without one pass and do not
    count), "stall" stops sending there and keeps the connection, a number is the HTTP status answered.
    `status` answers every request for a repository with this status. `latency_s` delays every answer.
    `hide` speaks protocol 0 and hands out nothing but what branches and tags name. `no_filter` ignores
    partial fetches. `login` ("user:secret") is required of every request.
    """

    first: int = 0
    how: str | int = "drop"
    only: str | None = None
    status: dict[str, int] = field(default_factory=dict)
    latency_s: float = 0.0
    hide: bool = False
    no_filter: bool = False
    login: str | None = None


@dataclass(frozen=True)
class Record:
    """One request that was answered: seconds of the monotonic clock, bytes of the two bodies."""

    repository: str
    method: str
    target: str
    status: int
    began_s: float
    ended_s: float
    received: int
    sent: int
    authorization: str | None


@dataclass
class GitServer:
    """A running server; `requests` is in the order of their ends."""

    root: Path
    port: int
    faults: Faults
    requests: list[Record] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    def url(self, name: str, *, host: str = "127.0.0.1", login: str | None = None) -> str:
        """The address of a repository below the root."""
        return f"http://{login + '@' if login else ''}{host}:{self.port}/{name}"

    def of(self, repository: str | None = None) -> list[Record]:
        """The requests for one repository, or all."""
        with self.lock:
            return [r for r in self.requests if repository in (None, r.repository)]

    def count(self, repository: str | None = None) -> int:
        """How many requests there were."""
        return len(self.of(repository))

    def sent(self, repository: str | None = None) -> int:
        """How many bytes went to clients."""
        return sum(record.sent for record in self.of(repository))

    def peak(self, repository: str | None = None) -> int:
        """How many requests were in work at the same time at most."""
        records = self.of(repository)
        return max((sum(o.began_s <= r.began_s < o.ended_s for o in records) for r in records), default=0)

    def rounds(self, repository: str | None = None) -> int:
        """The longest chain of requests of which each began after the one before had ended."""
        ended, length = float("-inf"), 0
        for record in sorted(self.of(repository), key=lambda r: r.ended_s):
            if record.began_s >= ended:
                ended, length = record.ended_s, length + 1
        return length

    def forget(self) -> None:
        """Begin a new record."""
        with self.lock:
            self.requests.clear()

    def take_fault(self, repository: str, *, pack: bool) -> str | int | None:
        """The fault that this request meets, counted down."""
        with self.lock:
            faults = self.faults
            if faults.first <= 0 or faults.only not in (None, repository):
                return None
            if (faults.how in ("cut", "stall")) != pack:
                return None
            faults.first -= 1
            return faults.how


@contextmanager
def serving(root: Path, **faults: object) -> Iterator[GitServer]:
    """Serve the repositories below `root` on a free port of loopback; keywords as in `Faults`."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    httpd.daemon_threads = True
    state = GitServer(root, httpd.server_address[1], Faults(**faults))
    httpd.state = state
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        httpd.shutdown()
        httpd.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self._body())

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _serve(self, body: bytes) -> None:
        state: GitServer = self.server.state
        began = time.monotonic()
        repository, inner, query = self._target(state)
        state.closing.wait(state.faults.latency_s)
        status, headers, answer = self._decide(state, repository, inner, query, body)
        cut = state.take_fault(repository, pack=True) if b"PACK" in answer else None
        # Recorded before the answer ends, or a client that has it would not find it counted.
        record = Record(
            repository, self.command, self.path, status, began, time.monotonic(),
            len(body), len(answer) // 2 if cut else len(answer), self.headers.get("Authorization"),
        )  # fmt: skip
        with state.lock:
            state.requests.append(record)
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answer(state, status, headers, answer, cut)

    def _answer(
        self,
        state: GitServer,
        status: int,
        headers: list[tuple[str, str]],
        answer: bytes,
        cut: str | int | None,
    ) -> None:
        self.close_connection = True
        if status == 0:
            self._reset()
            return
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if cut is None:
            self.wfile.write(answer)
            return
        self.wfile.write(answer[: len(answer) // 2])
        self.wfile.flush()
        if cut == "stall":
            state.closing.wait(60)
        self._reset()

    def _reset(self) -> None:
        # Lingering for no time makes the kernel send a reset instead of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def _target(self, state: GitServer) -> tuple[str, str, str]:
        """Repository, path inside it, query."""
        parts = urlsplit(self.path)
        path = unquote(parts.path).lstrip("/")
        for ending in ("/info/refs", "/git-upload-pack", "/HEAD"):
            if path.endswith(ending):
                name = path.removesuffix(ending)
                if not (state.root / name).exists():
                    name = name.removesuffix(".git")
                return name, ending, parts.query
        return path, "", parts.query

    def _decide(
        self, state: GitServer, repository: str, inner: str, query: str, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        faults = state.faults
        fault = state.take_fault(repository, pack=False)
        if fault == "drop":
            return 0, [], b""
        if isinstance(fault, int):
            return fault, [], b"out of order\n"
        if repository in faults.status:
            status = faults.status[repository]
            return status, [("WWW-Authenticate", 'Basic realm="git"')] if status == 401 else [], b"no\n"
        if faults.login is not None:
            expected = "Basic " + b64encode(faults.login.encode()).decode()
            if self.headers.get("Authorization") != expected:
                return 401, [("WWW-Authenticate", 'Basic realm="git"')], b"who are you\n"
        if not inner or not (state.root / repository).is_dir():
            return 404, [], b"not here\n"
        return self._backend(state, repository + inner, query, body)

    def _backend(
        self, state: GitServer, path: str, query: str, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        hide = state.faults.hide
        settings = {
            "uploadpack.allowAnySHA1InWant": "false" if hide else "true",
            "uploadpack.allowFilter": "false" if state.faults.no_filter else "true",
            "safe.directory": "*",
        }
        env = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PROJECT_ROOT": str(state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": "/" + path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (key, value) in enumerate(settings.items()):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        if not hide:
            env["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        program = shutil.which(BACKEND[0])
        assert program is not None
        done = subprocess.run([program, *BACKEND[1:]], input=body, env=env, capture_output=True)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().splitlines() if ": " in line]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        return status, [(n, v) for n, v in headers if n not in ("Status", "Content-Length")], answer
