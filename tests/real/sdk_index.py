"""A package index on the loopback interface: simple pages with sha256, and a log of everything asked for.

It says of its files how long they may be kept, as real indexes do: installers cache by that.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


def project_of(file: str) -> str:
    """The normalized project of a wheel or sdist by its file name."""
    return re.sub(r"[-_.]+", "-", file.split("-")[0]).lower()


@dataclass
class Index:
    """What is served below `url`, and the paths that were asked for, in order."""

    files: dict[str, Path]
    url: str = ""
    asked: list[str] = field(default_factory=list)
    _digests: dict[str, str] = field(default_factory=dict)

    def page(self, project: str) -> bytes | None:
        """The simple page of a project; None where there is none."""
        mine = sorted(name for name in self.files if project_of(name) == project)
        links = [f'<a href="/files/{name}#sha256={self._digest(name)}">{name}</a><br>' for name in mine]
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode() if mine else None

    def projects(self) -> set[str]:
        """The projects that were asked for since the log was cleared."""
        pages = {path.split("/")[2] for path in self.asked if path.startswith("/simple/")}
        return pages | {project_of(path.split("/")[2]) for path in self.asked if path.startswith("/files/")}

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            with self.files[name].open("rb") as stream:
                digest = hashlib.sha256()
                while block := stream.read(1 << 20):
                    digest.update(block)
            self._digests[name] = digest.hexdigest()
        return self._digests[name]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, index: Index, *more: object) -> None:
        self.index = index
        super().__init__(*more)

    def do_GET(self) -> None:
        self.index.asked.append(self.path)
        words = unquote(self.path).strip("/").split("/")
        page = self.index.page(words[1]) if len(words) == 2 and words[0] == "simple" else None
        if page is not None:
            self._begin(HTTPStatus.OK, "text/html", len(page))
            self._send(page)
        elif len(words) == 2 and words[0] == "files" and words[1] in self.index.files:
            self._file(self.index.files[words[1]])
        else:
            self._begin(HTTPStatus.NOT_FOUND, "text/plain", 0)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _file(self, path: Path) -> None:
        """A file, or the piece of it that is asked for: uv reads the metadata at the end of a wheel so."""
        size = path.stat().st_size
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        first, last = 0, size - 1
        if wanted and wanted[1]:
            first, last = int(wanted[1]), int(wanted[2] or last)
        elif wanted:
            first = max(0, size - int(wanted[2]))
        status = HTTPStatus.PARTIAL_CONTENT if wanted else HTTPStatus.OK
        more = {"Content-Range": f"bytes {first}-{last}/{size}"} if wanted else {}
        self._begin(status, "application/octet-stream", last + 1 - first, more)
        with path.open("rb") as stream:
            stream.seek(first)
            left = last + 1 - first
            while left > 0 and (block := stream.read(min(left, 1 << 20))):
                self._send(block)
                left -= len(block)

    def _begin(self, status: HTTPStatus, kind: str, size: int, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(size),
            "Accept-Ranges": "bytes",
            "ETag": f'"{self.path}"',
            "Cache-Control": "max-age=86400, immutable" if self.path.startswith("/files/") else "max-age=0",
            **(more or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, data: bytes) -> None:
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """The index keeps its own log."""


@contextmanager
def serving(*directories: Path) -> Iterator[Index]:
    """Serve the wheels and sdists of the directories while the block runs."""
    found = [path for place in directories for path in place.iterdir() if path.suffix in (".whl", ".gz")]
    index = Index({path.name: path for path in found})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, index))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple/"
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
