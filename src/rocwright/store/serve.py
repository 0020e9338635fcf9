"""A web server for a store's folder, on the loopback interface only: to install over HTTP in a test.

Installers behave differently over HTTP and from a folder, so what is published is tried over both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rocwright.system.files import PARTIAL


class _Handler(SimpleHTTPRequestHandler):
    """Files and `index.html`; never a listing, never a file that is being written."""

    protocol_version = "HTTP/1.1"
    server_version = "rocwright"
    sys_version = ""
    extensions_map = {  # noqa: RUF012 - the base class declares it so
        "": "application/octet-stream",
        ".html": "text/html; charset=utf-8",
        ".json": "application/json",
        ".metadata": "text/plain; charset=utf-8",
        ".gz": "application/gzip",
        ".whl": "application/zip",
    }

    def __init__(self, *arguments: Any, requests: list[str] | None = None, **options: Any) -> None:
        self.requests = requests
        super().__init__(*arguments, **options)

    def send_head(self) -> Any:
        """Refuse what is no part of the published tree."""
        if self.requests is not None:
            self.requests.append(self.path)
        path = Path(self.translate_path(self.path))
        inside = path.resolve().is_relative_to(Path(self.directory).resolve())
        if not inside or path.name.endswith(PARTIAL):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:
        """A store is no listing: what no page links to is not published."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay quiet."""


@contextmanager
def serving(root: Path, *, requests: list[str] | None = None) -> Iterator[str]:
    """Serve `root` on a free port of 127.0.0.1 while the block runs; yields the base URL, ending with `/`.

    The path of each request is appended to `requests`, as it was sent.
    """
    handler = partial(_Handler, directory=str(root), requests=requests)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
