"""A package index on loopback that keeps a record and misbehaves on request; and miniature wheels for it.

with serving(folder) as index:
    index.manner.json = True
    index.url("simple/"), index.url("flat.html")
    index.asked, index.whole()
"""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
import time
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from wheels import write_sdist, write_wheel

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
# More than the end of a wheel that is read first.
PADDING = 100_000


def wheel(
    folder: Path,
    project: str,
    version: str,
    *,
    tag: str = "py3-none-linux_x86_64",
    padding: int = PADDING,
    python: str = ">=3.10",
    **options: Any,
) -> Path:
    """A wheel whose METADATA and a lump of zeros stand uncompressed, so that it is as long as it says."""
    name = project.replace("-", "_")
    files = {f"{name}/__init__.py": b"", f"{name}/lump.bin": bytes(padding)}
    return write_wheel(folder, project, version, files, tag=tag, python=python, stored=files, **options)


def sdist(folder: Path, project: str, version: str) -> Path:
    """An sdist whose requirements are known only where it is installed."""
    return write_sdist(folder, project, version, headers="Dynamic: Requires-Dist\n")


@dataclass
class Manner:
    """How the server behaves: by default it does all that an index should."""

    json: bool = False
    content_type: str | None = None
    sidecars: bool = True
    wrong_sidecars: bool = False
    digests: bool = True
    ranges: bool = True
    gzip: bool = False
    gzip_lacks: int = 0
    redirects: int = 0
    login: str | None = None
    hangs: str = ""
    fails: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    yanked: set[str] = field(default_factory=set)
    requires_python: dict[str, str] = field(default_factory=dict)
    more: str = ""
    padding: int = 0


@dataclass
class Asked:
    """One request as it was answered; `sent` are bytes of content."""

    method: str
    path: str
    status: int
    sent: int
    headers: dict[str, str]


@dataclass
class IndexServer:
    """What is served, and what was asked for.

    `below` takes the place of `simple/`, and the files lie beside the folders of the projects, as in AMD's
    index of one family of GPUs: `v2/gfx94X-dcgpu/`.
    """

    folder: Path
    manner: Manner = field(default_factory=Manner)
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    below: str = ""

    def url(self, path: str = "simple/", *, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}/{path}"

    def names(self) -> list[str]:
        return sorted(one.name for one in self.folder.iterdir() if not one.name.startswith("."))

    def whole(self) -> list[str]:
        """Wheels of which all content was sent."""
        sent: dict[str, int] = {}
        for one in self.asked:
            if one.path.endswith(".whl") and one.method == "GET":
                name = unquote(one.path).rpartition("/")[2]
                sent[name] = sent.get(name, 0) + one.sent
        return [name for name, count in sent.items() if count >= (self.folder / name).stat().st_size]

    def sent(self) -> int:
        return sum(one.sent for one in self.asked)


def project_of(name: str) -> str:
    return name.split("-")[0].replace("_", "-").lower()


@cache
def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def metadata_of(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA")))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        index, manner = self.server.index, self.server.index.manner
        path = unquote(self.path)
        if manner.hangs and manner.hangs in path:
            self.server.released.wait(10)
            self.close_connection = True
            return
        if manner.login is not None:
            wanted = "Basic " + b64encode(manner.login.encode()).decode()
            if self.headers.get("Authorization") != wanted:
                self._send(401, b"who are you?", {})
                return
        for part, count in manner.fails.items():
            if part in path and count > 0:
                manner.fails[part] = count - 1
                self._send(503, b"later", {})
                return
        if path.count("/moved") < manner.redirects:
            self._send(302, b"", {"Location": f"/moved{self.path}"})
            return
        self._answer(index, path.replace("/moved", ""))

    def _answer(self, index: IndexServer, path: str) -> None:
        name = path.rpartition("/")[2]
        files = "../../files/"
        if index.below:
            files, inside = "../", path.startswith(f"/{index.below}")
            path = path.replace(index.below, "files/" if name else "simple/") if inside else ""
        if path.startswith("/files/"):
            self._file(index, name)
        elif path == "/flat.html":
            self._page(index, self._html(index, index.names(), "files/"), "text/html")
        elif path == "/simple/":
            projects = sorted({project_of(one) for one in index.names()})
            if index.manner.json:
                body = {"meta": {"api-version": "1.1"}, "projects": [{"name": one} for one in projects]}
                self._page(index, json.dumps(body), SIMPLE_JSON)
            else:
                links = "".join(f'<a href="{one}/">{one}</a>\n' for one in projects)
                self._page(index, f"<!DOCTYPE html>{links}", "text/html")
        elif path.startswith("/simple/"):
            project = path.split("/")[2]
            names = [one for one in index.names() if project_of(one) == project]
            if not names:
                self._send(404, b"no such project", {})
            elif index.manner.json:
                self._page(index, self._json(index, project, names), SIMPLE_JSON)
            else:
                self._page(index, self._html(index, names, files), "text/html; charset=utf-8")
        else:
            self._send(404, b"nothing", {})

    def _page(self, index: IndexServer, text: str, content_type: str) -> None:
        body = (text + index.manner.more + " " * index.manner.padding).encode()
        headers = {"Content-Type": index.manner.content_type or content_type}
        if index.manner.gzip and "gzip" in (self.headers.get("Accept-Encoding") or ""):
            packed = gzip.compress(body)
            body, headers["Content-Encoding"] = packed[: len(packed) - index.manner.gzip_lacks], "gzip"
        self._send(200, body, headers)

    def _html(self, index: IndexServer, names: list[str], base: str) -> str:
        anchors = []
        for name in names:
            path = index.folder / name
            digest = f"#sha256={digest_of(path)}" if index.manner.digests else ""
            more = ""
            if index.manner.sidecars and name.endswith(".whl"):
                more = f' data-core-metadata="sha256={hashlib.sha256(metadata_of(path)).hexdigest()}"'
            if name in index.manner.yanked:
                more += ' data-yanked="broken"'
            if name in index.manner.requires_python:
                more += f' data-requires-python="{escape(index.manner.requires_python[name])}"'
            anchors.append(f'<a href="{escape(quote(base + name))}{digest}"{more}>{escape(name)}</a><br>\n')
        return "<!DOCTYPE html><html><body>" + "".join(anchors) + "</body></html>"

    def _json(self, index: IndexServer, project: str, names: list[str]) -> str:
        files = []
        for name in names:
            path = index.folder / name
            one: dict[str, object] = {
                "filename": name,
                "url": index.url(f"files/{quote(name)}"),
                "size": path.stat().st_size,
                "hashes": {"sha256": digest_of(path)} if index.manner.digests else {},
                "yanked": "broken" if name in index.manner.yanked else False,
            }
            if index.manner.sidecars and name.endswith(".whl"):
                one["core-metadata"] = {"sha256": hashlib.sha256(metadata_of(path)).hexdigest()}
            files.append(one)
        return json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": files})

    def _file(self, index: IndexServer, name: str) -> None:
        manner = index.manner
        path = index.folder / name.removesuffix(".metadata")
        if not path.is_file() or name in manner.absent:
            self._send(404, b"gone", {})
            return
        if name.endswith(".metadata"):
            if not manner.sidecars:
                self._send(404, b"none", {})
                return
            data = metadata_of(path)
            self._send(200, data + (b"X-Changed: yes\n" if manner.wrong_sidecars else b""), {})
            return
        data = path.read_bytes()
        if name in manner.cut:
            data = data[: len(data) // 2]
        wanted = self.headers.get("Range")
        if wanted is None or not manner.ranges:
            self._send(200, data, {})
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first else len(data)
        self._send(206, data[start:end], {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        head = self.command == "HEAD"
        sent = 0 if head else len(body)
        self.server.index.asked.append(
            Asked(self.command, self.path, status, sent, dict(self.headers.items()))
        )
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Stay quiet."""


class _Server(ThreadingHTTPServer):
    index: IndexServer
    released: threading.Event

    def handle_error(self, request: object, client_address: object) -> None:
        """That a client went away is no news."""


@contextmanager
def serving(folder: Path, below: str = "") -> Iterator[IndexServer]:
    """An index of the files in `folder`, on a free port, while the block runs."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.index = IndexServer(folder, port=server.server_address[1], below=below)
    server.released = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.index
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
        time.sleep(0)


TARGETS = ("gfx942", "gfx1100", "gfx1201")
DATES = ("20260426", "20260427", "20260428", "20260429", "20260430")


def multi_arch(folder: Path) -> Path:
    """Five nightly builds with packages for three GPU targets each, three of them mixed:

    torchvision of the 30th pins torch of the 29th, the torch of the 28th has no device package for gfx1201,
    and the libraries of the 27th pin the core of the 26th.
    """
    for day in DATES:
        build(folder, day)
    torchvision = next(folder.glob("torchvision-*a20260430-*"))
    torchvision.unlink()
    _torchvision(folder, "20260430", torch="20260429")
    next(folder.glob("amd_torch_device_gfx1201-*a20260428-*")).unlink()
    next(folder.glob("rocm_sdk_libraries-*a20260427-*")).unlink()
    _libraries(folder, "20260427", core="20260426")
    return folder


def build(folder: Path, day: str) -> None:
    """One whole nightly build."""
    rocm = f"7.12.0a{day}"
    torch = f"2.10.0+rocm{rocm}"
    for python in ("cp311", "cp312"):
        tag = f"{python}-{python}-linux_x86_64"
        wheel(folder, "triton", f"3.5.1+rocm{rocm}", tag=tag)
        wheel(
            folder,
            "torch",
            torch,
            tag=tag,
            extras=[f"device-{one}" for one in TARGETS],
            requires=[
                "filelock",
                f"triton==3.5.1+rocm{rocm}",
                f"rocm[libraries]=={rocm}",
                *(f'amd-torch-device-{one}=={torch}; extra == "device-{one}"' for one in TARGETS),
            ],
        )
    _torchvision(folder, day, torch=day)
    _libraries(folder, day, core=day)
    wheel(folder, "rocm-sdk-core", rocm)
    sdist(folder, "rocm", rocm)
    for one in TARGETS:
        wheel(folder, f"amd-torch-device-{one}", torch, requires=[f"torch=={torch}"])
        wheel(folder, f"rocm-sdk-device-{one}", rocm, requires=[f"rocm-sdk-libraries=={rocm}"])


def _torchvision(folder: Path, day: str, *, torch: str) -> None:
    for python in ("cp311", "cp312"):
        wheel(
            folder,
            "torchvision",
            f"0.25.0+rocm7.12.0a{day}",
            tag=f"{python}-{python}-linux_x86_64",
            requires=[f"torch==2.10.0+rocm7.12.0a{torch}", "numpy"],
        )


def _libraries(folder: Path, day: str, *, core: str) -> None:
    wheel(folder, "rocm-sdk-libraries", f"7.12.0a{day}", requires=[f"rocm-sdk-core==7.12.0a{core}"])
