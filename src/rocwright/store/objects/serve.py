"""A web server for a store, on the loopback interface only, and the indexes that it offers to installers.

Installers behave differently over HTTP and from a folder, so what is published is tried over both. It answers
as a bucket behind a CDN does, with the headers of `rocwright.store.layout`; and it negotiates, which
a bucket cannot: who prefers JSON is sent to the JSON page.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote, unquote, urlsplit

import msgspec

from rocwright.data import load_table
from rocwright.errors import InvalidInput, RocwrightError
from rocwright.model.channels import Channels
from rocwright.store.layout import JSON_PAGES, channel_prefix, headers_for, is_key
from rocwright.store.objects.clients import Bounds, Clients, Head
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore, Stored

_PIECE = 4 << 20
# Smaller objects are read whole, and their ETag is a digest: a page may be written twice within a second.
_SMALL = 4 << 20
_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)")
# No file has a size of more digits.
_MOST_DIGITS = 18
_POOLED = re.compile(r"files/([0-9a-f]{64})/[^/]+")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Installers open many connections at once.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Any, bounds: Bounds) -> None:
        self.clients = Clients(bounds)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A new connection: it gets a thread if there is room for one."""
        if self.clients.enter(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """A connection ends."""
        self.clients.leave(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Between connections, and several times a second without any."""
        self.clients.end_overdue()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours, and what else happens is answered by the handler."""


class _Handler(BaseHTTPRequestHandler):
    """Objects and `index.html`; never a listing, never a file that is being written."""

    protocol_version = "HTTP/1.1"
    server_version = "rocwright"
    sys_version = ""

    def __init__(self, store: ObjectStore, max_age: int, requests: list[str] | None, *arguments: Any) -> None:
        self.store = store
        self.max_age = max_age
        self.requests = requests
        super().__init__(*arguments)

    def setup(self) -> None:
        """A connection begins."""
        super().setup()
        self.clients = cast("_Server", self.server).clients
        self.head = Head(cast("IO[bytes]", self.rfile), self.clients.bounds.head)
        self.rfile = cast("Any", self.head)

    def handle_one_request(self) -> None:
        """Each request may be as large, and take as long, as any other."""
        self.head.again()
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True
        self.clients.further(self.connection)

    def do_GET(self) -> None:
        """An object, a part of it, or that the client has it already."""
        self._answer()

    def do_HEAD(self) -> None:
        """The same without the bytes."""
        self._answer()

    def _answer(self) -> None:
        if self.requests is not None:
            self.requests.append(self.path)
        # What would follow as content is no request.
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
        try:
            if self.clients.is_refused(self.connection):
                self.close_connection = True
                self._plain(HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1", "Connection": "close"})
                return
            self.clients.further(self.connection)
            self._find()
        except ConnectionError:
            self.close_connection = True
        except PermissionError:
            # Whoever serves a folder may not read all of it.
            self._plain(HTTPStatus.FORBIDDEN)
        except OSError:
            # A name that no file can have.
            self._plain(HTTPStatus.NOT_FOUND)
        except RocwrightError:
            # A store that does not answer, or an object that went away in between.
            self._plain(HTTPStatus.BAD_GATEWAY)

    def _find(self) -> None:
        try:
            path = unquote(urlsplit(self.path).path, errors="strict")
        except ValueError:
            self._plain(HTTPStatus.BAD_REQUEST)
            return
        key = path.removeprefix("/")
        folder = key == "" or key.endswith("/")
        target = f"{key}index.html" if folder else key
        if not is_key(target):
            self._plain(HTTPStatus.NOT_FOUND)
            return
        twin = self._twin(key) if folder else None
        if twin is not None and prefers_json(", ".join(self.headers.get_all("Accept") or ())):
            self._redirect(HTTPStatus.FOUND, twin, vary=True)
            return
        stored = self._stat(target)
        if stored is not None:
            self._send(stored, vary=twin is not None)
        elif not folder and self._stat(f"{key}/index.html") is not None:
            self._redirect(HTTPStatus.MOVED_PERMANENTLY, f"{key}/")
        else:
            self._plain(HTTPStatus.NOT_FOUND)

    def _twin(self, folder: str) -> str | None:
        """The place of the JSON page for that of a view or of one of its projects; None if there is none."""
        if f"/{JSON_PAGES}" in f"/{folder}":
            return None
        parent, _, name = folder.rstrip("/").rpartition("/")
        above = f"{parent}/" if parent else ""
        candidates = [f"{folder}{JSON_PAGES}"] + ([f"{above}{JSON_PAGES}{name}/"] if name else [])
        return next((one for one in candidates if self._stat(f"{one}index.html") is not None), None)

    def _stat(self, key: str) -> Stored | None:
        if isinstance(self.store, LocalStore):
            path = self.store.root / key
            if not path.resolve().is_relative_to(self.store.root):
                return None
        return self.store.stat(key)

    def _send(self, stored: Stored, *, vary: bool) -> None:
        content = self.store.read(stored.key) if stored.size <= _SMALL else None
        size = stored.size if content is None else len(content)
        etag = _etag(stored, content)
        headers = headers_for(stored.key, self.max_age)
        common = {"ETag": etag, "Cache-Control": headers.cache_control, "Accept-Ranges": "bytes"}
        if vary:
            common["Vary"] = "Accept"
        if _has(self.headers.get("If-None-Match"), etag):
            self._start(HTTPStatus.NOT_MODIFIED, common)
            return
        part = self._part(size, etag)
        if part is None:
            self._start(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                {**common, "Content-Range": f"bytes */{size}", "Content-Length": "0"},
            )
            return
        start, length = part
        common |= {"Content-Type": headers.content_type, "Content-Length": str(length)}
        whole = length == size
        if not whole:
            common["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
        self._start(HTTPStatus.OK if whole else HTTPStatus.PARTIAL_CONTENT, common)
        if self.command == "GET":
            self._body(stored.key, content, start, length)

    def _part(self, size: int, etag: str) -> tuple[int, int] | None:
        """Start and length of what is asked for; None for a range outside of the object."""
        asked = _RANGE.fullmatch(self.headers.get("Range", "").strip())
        unchanged = self.headers.get("If-Range", etag).strip() == etag
        # Several ranges, or what is no range: the whole object is a right answer, too.
        if asked is None or not unchanged or asked.group(0) == "bytes=-":
            return 0, size
        first, last = asked.groups()
        if not first:
            length = min(_number(last), size)
            return (size - length, length) if length else None
        start, end = _number(first), min(_number(last), size - 1) if last else size - 1
        return (start, end - start + 1) if start <= end else None

    def _body(self, key: str, content: bytes | None, start: int, length: int) -> None:
        try:
            if content is not None:
                self._pieces(memoryview(content)[start : start + length])
                return
            if isinstance(self.store, LocalStore):
                with (self.store.root / key).open("rb") as stream:
                    for position, some in self._parts(start, length, self.clients.bounds.piece):
                        self.clients.further(self.connection, some)
                        if self.connection.sendfile(stream, position, some) != some:
                            # It became shorter.
                            raise ConnectionError
                return
            for position, some in self._parts(start, length, _PIECE):
                self._pieces(memoryview(self.store.read_range(key, position, some)))
        except (OSError, RocwrightError):
            # Too late for another answer; the client sees that it is short.
            self.close_connection = True

    def _pieces(self, content: memoryview) -> None:
        for position, some in self._parts(0, len(content), self.clients.bounds.piece):
            self.clients.further(self.connection, some)
            self.wfile.write(content[position : position + some])

    @staticmethod
    def _parts(start: int, length: int, most: int) -> Iterator[tuple[int, int]]:
        end = start + length
        return ((place, min(most, end - place)) for place in range(start, end, most))

    def _redirect(self, status: HTTPStatus, key: str, *, vary: bool = False) -> None:
        headers = {"Location": f"/{quote(key)}", "Content-Length": "0"}
        if vary:
            headers |= {
                "Vary": "Accept",
                "Cache-Control": headers_for("index.html", self.max_age).cache_control,
            }
        self._start(status, headers)

    def _plain(self, status: HTTPStatus, more: Mapping[str, str] = {}) -> None:
        text = f"{status.value} {status.phrase}\n".encode()
        headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(text))}
        self._start(status, {**headers, "Cache-Control": "no-store", **more})
        if self.command == "GET":
            self.wfile.write(text)

    def _start(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay quiet."""


def _number(digits: str) -> int:
    """What a client asks for; beyond the size of any file all numbers mean the same."""
    kept = digits.lstrip("0") or "0"
    return int(kept) if len(kept) <= _MOST_DIGITS else int(10**_MOST_DIGITS)


def _etag(stored: Stored, content: bytes | None) -> str:
    pooled = _POOLED.fullmatch(stored.key)
    if content is not None:
        return f'"{hashlib.sha256(content).hexdigest()}"'
    if pooled is not None:
        return f'"{pooled.group(1)}"'
    return f'"{stored.size:x}-{stored.modified.timestamp():.6f}"'


def _has(condition: str | None, etag: str) -> bool:
    if condition is None:
        return False
    known = [one.strip().removeprefix("W/") for one in condition.split(",")]
    return "*" in known or etag in known


def make_server(
    store: ObjectStore,
    *,
    port: int = 0,
    max_age: int | None = None,
    requests: list[str] | None = None,
    bounds: Bounds | None = None,
) -> ThreadingHTTPServer:
    """A server of `store` on a port of 127.0.0.1 (0: any free port), not running yet.

    No client can block the others: `bounds` say how many there may be, and how slow.

    Raises `InvalidInput` for a port that is taken or that this user may not use.
    """
    keep = load_table("channels", Channels).max_age if max_age is None else max_age
    try:
        return _Server(("127.0.0.1", port), partial(_Handler, store, keep, requests), bounds or Bounds())
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"port {port} of 127.0.0.1 cannot be used: {error}",
            next_step="give another --port; 0 finds a free one",
        ) from error


def address_of(server: ThreadingHTTPServer) -> str:
    """The base URL of a server, ending with `/`."""
    return f"http://127.0.0.1:{server.server_address[1]}/"


@contextmanager
def serving(
    root: Path | ObjectStore,
    *,
    requests: list[str] | None = None,
    max_age: int | None = None,
    bounds: Bounds | None = None,
) -> Iterator[str]:
    """Serve a store, or a folder as a store, on a free port of 127.0.0.1 while the block runs.

    Yields the base URL, ending with `/`. The path of each request is appended to `requests`, as it was sent.
    """
    store = LocalStore(root) if isinstance(root, Path) else root
    server = make_server(store, max_age=max_age, requests=requests, bounds=bounds)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield address_of(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# -- which form of a page a client prefers, by its `Accept` header (RFC 9110, PEP 691)


_JSON = ("application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.latest+json")
_HTML = ("application/vnd.pypi.simple.v1+html", "application/vnd.pypi.simple.latest+html", "text/html")


def prefers_json(accept: str) -> bool:
    """Whether JSON is asked for by name, at least as much as HTML; who asks for anything gets HTML."""
    weights = dict(map(_weight, accept.split(",")))
    wanted = max((weights.get(name, 0.0) for name in _JSON), default=0.0)
    return wanted > 0 and wanted >= max((weights.get(name, 0.0) for name in _HTML), default=0.0)


def _weight(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    weight = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                weight = min(max(float(value), 0.0), 1.0)
            except ValueError:
                weight = 0.0
    return name, weight


class ServedIndex(msgspec.Struct, frozen=True):
    """An index at `url`, how pip is told to use it, and the channel's page for people (empty: none)."""

    channel: str
    family: str
    url: str
    pip: str
    page: str = ""


def served_indexes(store: ObjectStore, channels: Channels, base: str) -> tuple[ServedIndex, ...]:
    """The indexes below `base` (ending with `/`), channel by channel; of families without a page none."""
    found = []
    for channel in channels.channel:
        page = f"{base}{channel.prefix}/" if store.exists(f"{channel.prefix}/index.html") else ""
        for family in store.folders(f"{channel.prefix}/"):
            if family.startswith("_"):
                continue
            prefix = channel_prefix(channel.prefix, family)
            if store.exists(f"{prefix}index.html"):
                url = base + prefix
                pip = f"pip install --index-url {url} PACKAGE"
                found.append(ServedIndex(channel.name, family, url, pip, page))
    return tuple(found)
