"""A stand-in for a bad network: stands between an S3 client and a real server, and loses what it is told to.

Only bytes on the way are touched; what the server does, it really does.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OWN = ("connection", "transfer-encoding", "content-length")


class Stutter:
    """A proxy at `endpoint` in front of the server at a port of 127.0.0.1, which it hands everything on to.

    Signatures hold, because the client's Host header is handed on as it is.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._seen: list[str] = []
        self._fault: tuple[str, str, int, object] | None = None
        self._limit: tuple[int, Callable[[], None]] | None = None
        self._passed = 0
        self.lost = 0
        self.instead = 0

    def lose_answers(self, method: str, count: int) -> None:
        """Hand the next requests on and hang up instead of answering; `complete` ends an upload in parts."""
        self._fault = ("answer", method, count, None)

    def lose_requests(self, method: str, count: int, meanwhile: Callable[[], object]) -> None:
        """Hang up without handing the next requests on; something else happens in that moment."""
        self._fault = ("request", method, count, meanwhile)

    def answer_instead(self, method: str, count: int, status: int, code: str) -> None:
        """Answer the next requests with an error of S3, without handing them on."""
        self._fault = ("instead", method, count, (status, code))

    def cut_bodies(self, method: str, count: int) -> None:
        """Hand on the first half of the next bodies only."""
        self._fault = ("cut", method, count, None)

    def cut_answers(self, method: str, count: int, meanwhile: Callable[[], object]) -> None:
        """Hang up after the first half of the next bodies of answers; something happens in that moment."""
        self._fault = ("half", method, count, meanwhile)

    def after(self, size: int, act: Callable[[], None]) -> None:
        """Do something once so many more bytes of bodies went to the server."""
        self._passed, self._limit = 0, (size, act)

    def requests(self, method: str) -> int:
        """How many requests of a method there were."""
        with self._lock:
            return self._seen.count(method)

    def __enter__(self) -> Stutter:
        stutter = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                stutter.hand_on(self)

            def log_message(self, *args: object) -> None:
                pass

        for method in ("GET", "PUT", "HEAD", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.handle_any)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, handler: BaseHTTPRequestHandler) -> tuple[str, object] | None:
        """The fault of this request, if it has one."""
        method = handler.command
        completes = method == "POST" and "uploadId=" in handler.path
        with self._lock:
            self._seen.append(method)
            if self._fault is None:
                return None
            kind, wanted, count, more = self._fault
            if wanted != method and not (wanted == "complete" and completes):
                return None
            self._fault = (kind, wanted, count - 1, more) if count > 1 else None
            return kind, more

    def _count(self, size: int) -> None:
        with self._lock:
            self._passed += size
            due = self._limit is not None and self._passed >= self._limit[0]
            act = self._limit[1] if due else None
            if due:
                self._limit = None
        if act is not None:
            act()

    def hand_on(self, handler: BaseHTTPRequestHandler) -> None:
        """One request, with its fault."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        fault = self._take(handler)
        kind, more = fault if fault is not None else ("", None)
        if kind == "request":
            more()
            self.lost += 1
            self._hang_up(handler)
            return
        if kind == "instead":
            self.instead += 1
            self._error(handler, *more)
            return
        if kind == "cut":
            body = body[: len(body) // 2]
        self._count(len(body))
        try:
            answer, content = self._ask(handler, body)
        except (OSError, http.client.HTTPException):
            self._hang_up(handler)
            return
        if kind == "answer":
            self.lost += 1
            self._hang_up(handler)
            return
        handler.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN:
                handler.send_header(name, value)
        length = answer.getheader("Content-Length") if handler.command == "HEAD" else str(len(content))
        handler.send_header("Content-Length", length or "0")
        handler.end_headers()
        if kind == "half":
            self.lost += 1
            handler.wfile.write(content[: len(content) // 2])
            more()
            self._hang_up(handler)
            return
        handler.wfile.write(content)

    def _ask(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in _OWN:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    @staticmethod
    def _error(handler: BaseHTTPRequestHandler, status: int, code: str) -> None:
        content = f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode()
        handler.send_response_only(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(content)

    @staticmethod
    def _hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
