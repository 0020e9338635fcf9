from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from rocwright.errors import InvalidInput, Unreachable
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import make_server, prefers_json, served_indexes, serving

PIP = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"
UV = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
JSON = "application/vnd.pypi.simple.v1+json"
FOREVER = "public, max-age=31536000, immutable"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "torch").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "torch" / "index.html").write_text("page")
    (root / "a-1+r.whl").write_bytes(b"wheel")
    (root / "a-1+r.whl.metadata").write_bytes(b"metadata")
    (root / "half.whl.partial").write_bytes(b"ha")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "index.html").write_text("secret")
    (root / "way-out").symlink_to(tmp_path / "secret")
    (root / "way-out-folder").symlink_to(tmp_path / "outside")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("secret")
    return root


@pytest.fixture
def indexed(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "indexed")
    for key in ("v2/fam/index.html", "v2/fam/torch/index.html", "v2/fam/old/index.html", "v2/index.html"):
        store.put_bytes(key, f"<{key}>".encode())
    for key in ("v2/fam/_json/index.html", "v2/fam/_json/torch/index.html"):
        store.put_bytes(key, b"{}")
    return store


class Answer:
    def __init__(self, base: str, path: str, method: str = "GET", **headers: str) -> None:
        connection = http.client.HTTPConnection(base.removeprefix("http://").rstrip("/"), timeout=10)
        # Exactly this path: no client of the standard library cleans it up.
        connection.request(
            method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()
        connection.close()

    def __getitem__(self, name: str) -> str | None:
        return self.headers[name]


def test_files_and_types(root: Path) -> None:
    with serving(root, max_age=77) as base:
        assert base.startswith("http://127.0.0.1:")
        for path, kind, keep, body in [
            ("/a-1%2Br.whl", "application/zip", FOREVER, b"wheel"),
            ("/a-1+r.whl", "application/zip", FOREVER, b"wheel"),
            ("/a-1%2Br.whl.metadata", "text/plain; charset=utf-8", FOREVER, b"metadata"),
            ("/torch/", "text/html; charset=utf-8", "public, max-age=77", b"page"),
            ("/torch/?a=b", "text/html; charset=utf-8", "public, max-age=77", b"page"),
            ("/torch/index.html", "text/html; charset=utf-8", "public, max-age=77", b"page"),
        ]:
            found = Answer(base, path)
            assert (found.status, found.body) == (200, body), path
            assert (found["Content-Type"], found["Cache-Control"]) == (kind, keep)
            assert found["Content-Length"] == str(len(body))
            assert found["Content-Encoding"] is None, "a wheel that is unpacked on the way has another digest"
            head = Answer(base, path, "HEAD")
            assert (head.status, head.body) == (200, b"")
            assert (head["Content-Length"], head["ETag"]) == (found["Content-Length"], found["ETag"])
        slash = Answer(base, "/torch")
        assert (slash.status, slash["Location"]) == (301, "/torch/")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/empty/",
        "/empty",
        "/none",
        "/half.whl.partial",
        "/way-out",
        "/way-out-folder/",
        "/way-out-folder",
        "/way-out-folder/index.html",
        "/%2e%2e/secret",
        "/../secret",
        "/torch/../../secret",
        "/torch/..%2f..%2fsecret",
        "//etc/passwd",
        "/%2Fetc/passwd",
        "/.git/config",
        "/torch\\index.html",
        "/torch/index.html%00",
        "/torch//index.html",
        "/%ff",
        "secret",
    ],
)
def test_what_is_not_published_is_not_served(root: Path, path: str) -> None:
    with serving(root) as base:
        found = Answer(base, path)
        assert found.status in (400, 404)
        assert b"secret" not in found.body


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_nothing_can_be_written(root: Path, method: str) -> None:
    with serving(root) as base:
        assert Answer(base, "/torch/index.html", method).status == 501
    assert (root / "torch" / "index.html").read_text() == "page"


@pytest.mark.parametrize(
    ("asked", "status", "where", "body"),
    [
        ("bytes=0-1", 206, "bytes 0-1/5", b"wh"),
        ("bytes=3-", 206, "bytes 3-4/5", b"el"),
        ("bytes=3-99", 206, "bytes 3-4/5", b"el"),
        ("bytes=-2", 206, "bytes 3-4/5", b"el"),
        ("bytes=4-4", 206, "bytes 4-4/5", b"l"),
        # All of it, in whatever way: also right as an ordinary answer.
        ("bytes=0-", 200, None, b"wheel"),
        ("bytes=-99", 200, None, b"wheel"),
        # What is no range, or several: the whole file is allowed, and what some clients need.
        ("bytes=-", 200, None, b"wheel"),
        ("bytes=0-1,3-4", 200, None, b"wheel"),
        ("lines=0-1", 200, None, b"wheel"),
        ("bytes=5-", 416, "bytes */5", b""),
        ("bytes=9-12", 416, "bytes */5", b""),
        ("bytes=3-1", 416, "bytes */5", b""),
        ("bytes=-0", 416, "bytes */5", b""),
    ],
)
def test_parts_of_a_file(root: Path, asked: str, status: int, where: str | None, body: bytes) -> None:
    with serving(root) as base:
        found = Answer(base, "/a-1+r.whl", Range=asked)
        assert (found.status, found["Content-Range"], found.body) == (status, where, body)
        assert found["Content-Length"] == str(len(body))
        assert found["Accept-Ranges"] == "bytes"


def test_a_client_that_has_it_gets_nothing_and_one_with_an_old_part_gets_all(root: Path) -> None:
    with serving(root) as base:
        etag = Answer(base, "/torch/")["ETag"]
        assert etag == f'"{hashlib.sha256(b"page").hexdigest()}"'
        for known in (etag, f'W/{etag}, "x"', f'"x", {etag}', "*"):
            found = Answer(base, "/torch/", If_None_Match=known)
            assert (found.status, found.body, found["ETag"]) == (304, b"", etag)
        assert Answer(base, "/torch/", If_None_Match='"x"').status == 200
        assert Answer(base, "/torch/", Range="bytes=1-2", If_Range=etag).body == b"ag"
        # Of the same size and within the same second, and yet another page.
        (root / "torch" / "index.html").write_text("PAGE")
        assert Answer(base, "/torch/", If_None_Match=etag).body == b"PAGE"
        found = Answer(base, "/torch/", Range="bytes=1-2", If_Range=etag)
        assert (found.status, found.body) == (200, b"PAGE")


@pytest.mark.parametrize(
    ("accept", "json_wanted"),
    [
        (PIP, True),
        (UV, True),
        (BROWSER, False),
        ("*/*", False),
        ("", False),
        ("text/html", False),
        (JSON, True),
        ("application/vnd.pypi.simple.latest+json", True),
        (f"{JSON};q=0.1, text/html", False),
        (f"{JSON};q=0.5, text/html;q=0.5", True),
        (f"{JSON};q=0", False),
        (f"{JSON};q=nonsense", False),
        (f"{JSON.upper()} ; Q=1", True),
        ("application/json", False),
    ],
)
def test_which_form_a_client_prefers(accept: str, json_wanted: bool) -> None:
    assert prefers_json(accept) is json_wanted


def test_who_prefers_json_is_sent_to_it(indexed: LocalStore) -> None:
    with serving(indexed, max_age=77) as base:
        for path, twin in [("/v2/fam/torch/", "/v2/fam/_json/torch/"), ("/v2/fam/", "/v2/fam/_json/")]:
            page = Answer(base, path, Accept=BROWSER)
            assert (page.status, page["Content-Type"], page["Vary"]) == (
                200,
                "text/html; charset=utf-8",
                "Accept",
            )
            sent = Answer(base, path, Accept=PIP)
            # A redirection, so that what is relative on the page is so to where the page really is.
            assert (sent.status, sent["Location"], sent["Vary"]) == (302, twin, "Accept")
            assert sent["Cache-Control"] == "public, max-age=77"
            found = Answer(base, twin, Accept=BROWSER)
            assert (found.status, found["Content-Type"], found.body) == (200, JSON, b"{}")
        # No JSON there: HTML, whatever is preferred.
        for path in ("/v2/fam/old/", "/v2/"):
            found = Answer(base, path, Accept=PIP)
            assert (found.status, found["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert Answer(base, "/v2/fam/gone/", Accept=PIP).status == 404


def test_requests_are_told_as_they_were_sent(indexed: LocalStore) -> None:
    requests: list[str] = []
    with serving(indexed, requests=requests) as base:
        Answer(base, "/v2/fam/?x=%2B")
        Answer(base, "/none", "HEAD")
    assert requests == ["/v2/fam/?x=%2B", "/none"]


def test_memory_is_served_like_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore", reason="the extra `store` is not installed")
    store = open_store("memory://served")
    large = bytes(range(256)) * 20_000
    digest = hashlib.sha256(large).hexdigest()
    store.put_bytes(f"files/{digest}/a.whl", large)
    with serving(store) as base:
        found = Answer(base, f"/files/{digest}/a.whl")
        assert (found.status, found.body, found["ETag"]) == (200, large, f'"{digest}"')
        part = Answer(base, f"/files/{digest}/a.whl", Range="bytes=-300")
        assert (part.status, part.body) == (206, large[-300:])


def test_a_store_that_does_not_answer_is_said_to_the_client(tmp_path: Path) -> None:
    class Dead(LocalStore):
        """A stand-in for a bucket whose server is gone."""

        def stat(self, key: str) -> None:
            raise Unreachable("gone")

    with serving(Dead(tmp_path)) as base:
        assert Answer(base, "/a").status == 502


def test_many_clients_at_once_and_some_that_go_away(root: Path) -> None:
    (root / "large.bin").write_bytes(b"x" * (8 << 20))
    with serving(root) as base:
        host, _, port = base.removeprefix("http://").rstrip("/").partition(":")
        for _ in range(5):
            with socket.create_connection((host, int(port)), timeout=60) as rude:
                rude.sendall(b"GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n")
                rude.recv(100)
        bodies = []
        threads = [
            threading.Thread(target=lambda: bodies.append(Answer(base, "/large.bin").body)) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [len(body) for body in bodies] == [8 << 20] * 20


def test_the_port_is_closed_afterwards_and_a_taken_one_is_said(root: Path) -> None:
    with serving(root) as base:
        port = int(base.rstrip("/").rpartition(":")[2])
        with pytest.raises(InvalidInput, match=f"port {port} of 127.0.0.1 cannot be used"):
            make_server(LocalStore(root), port=port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)
    with pytest.raises(InvalidInput, match="port 99999"):
        make_server(LocalStore(root), port=99999)


@pytest.mark.slow
@pytest.mark.parametrize("client", ["pip", "uv"])
@pytest.mark.parametrize("form", ["html", "json"])
def test_clients_install_through_the_redirection(tmp_path: Path, make_wheel, client: str, form: str) -> None:
    wheel = make_wheel("torchx", "2.9.0+rocm7.1")
    store = LocalStore(tmp_path / "store")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    place = f"files/{digest}/{wheel.name}"
    store.put_file(wheel, place)
    link = f"../../../{quote(place)}"
    store.put_bytes("v2/fam/torchx/index.html", f'<a href="{link}#sha256={digest}">{wheel.name}</a>'.encode())
    if form == "json":
        # One level deeper, so its relative links differ: followed from the wrong place, they lead nowhere.
        file = {"filename": wheel.name, "url": f"../{link}", "hashes": {"sha256": digest}}
        page = {"meta": {"api-version": "1.0"}, "name": "torchx", "files": [file]}
        store.put_bytes("v2/fam/_json/torchx/index.html", json.dumps(page).encode())
    requests: list[str] = []
    with serving(store, requests=requests) as base:
        index = ["--index-url", f"{base}v2/fam/"]
        target = ["--target", str(tmp_path / "target")]
        argv = {
            "pip": [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-deps", *index, *target],
            "uv": [
                str(Path(sys.executable).with_name("uv")),
                "pip",
                "install",
                "--no-cache",
                *index,
                *target,
            ],
        }[client]
        environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environment |= {"UV_NO_CONFIG": "1", "UV_PYTHON": sys.executable}
        subprocess.run([*argv, "torchx"], check=True, capture_output=True, env=environment, timeout=120)
    assert (tmp_path / "target" / "torchx" / "__init__.py").exists()
    assert ("/v2/fam/_json/torchx/" in requests) == (form == "json")


def test_the_indexes_of_a_store(indexed: LocalStore) -> None:
    from rocwright.data import load_table
    from rocwright.model.channels import Channels

    indexed.put_bytes("v2-staging/gfx/index.html", b"")
    indexed.put_bytes("v2-staging/half/_log/1.json", b"")
    found = served_indexes(indexed, load_table("channels", Channels), "http://127.0.0.1:1/")
    assert [(one.channel, one.family, one.pip) for one in found] == [
        ("staging", "gfx", "pip install --index-url http://127.0.0.1:1/v2-staging/gfx/ PACKAGE"),
        ("release", "fam", "pip install --index-url http://127.0.0.1:1/v2/fam/ PACKAGE"),
    ]


def test_what_the_server_may_not_read_is_said_to_be_forbidden(tmp_path: Path) -> None:
    class Locked(LocalStore):
        """A stand-in for a folder of somebody else: tests run as root, which may read everything."""

        def stat(self, key: str) -> None:
            raise PermissionError(13, "Permission denied", key)

    with serving(Locked(tmp_path)) as base:
        assert Answer(base, "/a").status == 403
