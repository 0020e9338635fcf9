"""An imitation of GitHub's REST API on loopback, for what the doctor asks; shapes by GitHub's documentation.

It is no GitHub: it knows one repository, one token, and answers badly where a test says so.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghp_imitated"
MOST = {"variables": 30, "organization-variables": 30}


@dataclass
class Bad:
    """An answer as GitHub does not give it when all is well."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass
class Imitation:
    """What GitHub knows of `me/rocwright`; `bad` answers by the end of a path, `asked` are paths."""

    about: dict[str, Any] = field(
        default_factory=lambda: {
            "id": 1296269,
            "full_name": "me/rocwright",
            "private": False,
            "fork": True,
            "default_branch": "main",
            "owner": {"login": "me", "id": 1, "type": "User"},
        }
    )
    variables: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    runners: list[dict[str, Any]] = field(default_factory=list)
    of_organisation: list[dict[str, Any]] = field(default_factory=list)
    lent: list[str] = field(default_factory=list)
    permissions: dict[str, Any] = field(
        default_factory=lambda: {"enabled": True, "allowed_actions": "all", "sha_pinning_required": False}
    )
    selected: dict[str, Any] = field(default_factory=dict)
    workflows: dict[str, str] = field(default_factory=dict)
    bad: dict[str, Bad] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str) -> Any:
        """The whole of what stands at a path: a list is dealt out in pages by the server."""
        mine, ours = "/repos/me/rocwright", "/orgs/me/actions"
        return {
            mine: self.about,
            f"{mine}/actions/variables": _values(self.variables),
            f"{mine}/actions/organization-variables": _values(self.shared),
            f"{mine}/actions/permissions": self.permissions,
            f"{mine}/actions/permissions/selected-actions": self.selected,
            f"{mine}/actions/workflows": [
                {"id": number, "name": path, "path": path, "state": state}
                for number, (path, state) in enumerate(self.workflows.items())
            ],
            f"{mine}/actions/runners": self.runners,
            f"{ours}/runners": self.of_organisation,
            f"{ours}/hosted-runners": [
                {"id": 5, "name": name, "status": "Ready", "platform": "linux-x64"} for name in self.lent
            ],
        }.get(path)


def _values(of: dict[str, str]) -> list[dict[str, str]]:
    at = "2026-11-24T10:00:00Z"
    return [{"name": name, "value": value, "created_at": at, "updated_at": at} for name, value in of.items()]


def runner(name: str, *labels: str, status: str = "online") -> dict[str, Any]:
    """A runner as GitHub lists it: the labels that each has by itself, and its own."""
    usual = [{"id": 1, "name": "self-hosted", "type": "read-only"}]
    own = [{"id": 20, "name": label, "type": "custom"} for label in labels]
    return {"id": 23, "name": name, "os": "linux", "status": status, "busy": False, "labels": usual + own}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        github, parts = self.server.github, urlsplit(self.path)
        github.asked.append(self.path)
        for end, bad in github.bad.items():
            if parts.path.endswith(end):
                return self._send(bad.status, bad.body, bad.headers, cut=bad.cut)
        login = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {login}":
            return self._send(401, b'{"message": "Bad credentials", "status": "401"}')
        found = github.answer(parts.path)
        if found is None:
            return self._send(404, b'{"message": "Not Found", "status": "404"}')
        if isinstance(found, list):
            found = _page(parts.path.rpartition("/")[2], found, parse_qs(parts.query))
        return self._send(200, json.dumps(found).encode())

    def _send(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json; charset=utf-8", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + (10 if cut else 0)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _page(kind: str, entries: list[Any], query: dict[str, list[str]]) -> dict[str, Any]:
    most = min(int(query.get("per_page", ["30"])[0]), MOST.get(kind, 100))
    first = (int(query.get("page", ["1"])[0]) - 1) * most
    key = {"organization-variables": "variables", "hosted-runners": "runners"}.get(kind, kind)
    return {"total_count": len(entries), key: entries[first : first + most]}


class _Server(ThreadingHTTPServer):
    github: Imitation


@contextmanager
def imitated() -> Iterator[Imitation]:
    """Serve it while the block runs."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.github = Imitation(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.github
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
