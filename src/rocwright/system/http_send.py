"""Connections to web servers: kept per thread, logins for their own server only, redirects, proxies."""

from __future__ import annotations

import http.client
import re
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from rocwright.errors import InvalidInput, Unreachable
from rocwright.system.http_pace import Allowance, Pace, TooSlow, paced
from rocwright.system.redact import without_login

Origin = tuple[str, str, int]
_PORTS = {"http": 80, "https": 443}
_MOST_REDIRECTS = 5
_SMALL = 1 << 16
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GOOD = frozenset({200, 206})
# What may stand in an address; anything else is written as its bytes.
_SAFE = "/%:@!$&'()*+,;=~-._"
_NEXT = {
    401: "give the login in the address, as in https://user:password@host/…",
    403: "give the login in the address, or ask for the right to read it",
    407: "give the login of the proxy in the variable that names it",
}


def shown(url: str) -> str:
    """An address as it may be shown: without a login, and without a query, which may be a signature."""
    clean, query, _ = without_login(url).partition("?")
    return f"{clean}?…" if query else clean


class Passing(Exception):
    """A failure that may be gone in a moment; `wait` is how many seconds the server asks for."""

    def __init__(self, what: str, wait: float = 0.0) -> None:
        super().__init__(what)
        self.wait = wait


class Refused(Unreachable):
    """A server answered, with a status that will not change.

    `headers` are those of its answer, by names in lower case.
    """

    def __init__(
        self, where: str, status: int, reason: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(
            f"{shown(where)} answers {status} {reason}".rstrip(),
            where=shown(where),
            next_step=_NEXT.get(status, "check the address"),
        )
        self.status = status
        self.headers = headers or {}


class Sender:
    """Sends requests; for use by several threads.

    No single read waits longer than `timeout_s`; the head of an answer, with all redirections to it, is there
    within `head_s`, and everything comes at the `pace`.
    """

    def __init__(self, timeout_s: float, head_s: float, pace: Pace) -> None:
        self.timeout_s = timeout_s
        self._head_s, self._pace = head_s, pace
        self.requests = 0
        self._logins: dict[Origin, str] = {}
        self._here = threading.local()
        self._all: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None

    def close(self) -> None:
        """Close every connection."""
        for connection in self._all:
            connection.close()

    def enter(self, url: str) -> str:
        """The address without login and fragment; the login is remembered for its server.

        Raises `InvalidInput` for what is not an address of a web server.
        """
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError as error:
            raise InvalidInput(
                f"{shown(url)!r} is not an address: {error}", next_step="write it in full: https://host/path/"
            ) from error
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidInput(
                f"{shown(url)!r} is not an address of a web server",
                next_step="write it like https://host/path/",
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        path, query = quote(parts.path, safe=_SAFE) or "/", quote(parts.query, safe=f"{_SAFE}?")
        clean = urlunsplit((parts.scheme, host if port is None else f"{host}:{port}", path, query, ""))
        if parts.username is not None:
            self._logins[_origin(clean)] = _basic(parts)
        return clean

    @contextmanager
    def answered(
        self, method: str, url: str, headers: Mapping[str, str]
    ) -> Iterator[tuple[str, http.client.HTTPResponse]]:
        """A good answer (200, 206) and where it came from; its connection is kept if all of it is read.

        Raises `Passing` for what may be gone in a moment, `Unreachable` for any other failure.
        """
        where = self.enter(url)
        allowance = Allowance(self._pace, self._head_s)
        for _ in range(_MOST_REDIRECTS + 1):
            connection, proxied = self._connection(_origin(where))
            paced(connection, allowance, self.timeout_s)
            allowance.next_head()
            whole = False
            response: http.client.HTTPResponse | None = None
            try:
                response = self._send(connection, method, where, {**headers, **proxied}, full=bool(proxied))
                allowance.content()
                if response.status in _REDIRECTS:
                    where = self._redirected(where, response)
                else:
                    _require_good(response, where)
                    yield where, response
                    whole = response.isclosed()
                    return
                whole = response.isclosed()
            except ssl.SSLCertVerificationError as error:
                raise Unreachable(
                    f"the certificate of {shown(where)} is not accepted: {error.verify_message}",
                    where=shown(where),
                    next_step="check this machine's clock; SSL_CERT_FILE names more authorities",
                ) from error
            except TooSlow as error:
                raise Unreachable(
                    f"{shown(where)} is too slow: {error}",
                    where=shown(where),
                    next_step="run again when the network or the server is faster, or name another server",
                ) from error
            except (http.client.InvalidURL, UnicodeError) as error:
                raise InvalidInput(
                    f"{shown(where)!r} is not an address: {error}",
                    next_step="write it in full: https://host/path/",
                ) from error
            except TimeoutError as error:
                raise Passing(f"no answer within {self.timeout_s:g} s") from error
            except (OSError, http.client.HTTPException) as error:
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise Passing(why) from error
            finally:
                if not whole:
                    # What has been told to be the last of its connection holds the socket itself.
                    if response is not None:
                        response.close()
                    connection.close()
        raise Unreachable(f"{shown(url)} redirects in a circle", where=shown(url))

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        where: str,
        headers: Mapping[str, str],
        *,
        full: bool,
    ) -> http.client.HTTPResponse:
        parts = urlsplit(where)
        target = where if full else urlunsplit(("", "", parts.path, parts.query, ""))
        login = self._logins.get(_origin(where))
        sent = {"User-Agent": "rocwright", **headers, **({"Authorization": login} if login else {})}
        with self._lock:
            self.requests += 1
        kept = connection.sock is not None
        try:
            connection.request(method, target, headers=sent)
            return connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # That the server closed a connection kept for later says nothing about this request.
            connection.close()
            if not kept:
                raise
        connection.request(method, target, headers=sent)
        return connection.getresponse()

    def _redirected(self, where: str, response: http.client.HTTPResponse) -> str:
        try:
            target = urljoin(where, response.getheader("Location") or "")
            before, after = urlsplit(where).scheme, urlsplit(target).scheme
        except ValueError as error:
            raise Unreachable(
                f"{shown(where)} redirects to what is no address: {error}", where=shown(where)
            ) from error
        response.read(_SMALL)
        if after not in _PORTS or (before, after) == ("https", "http"):
            raise Unreachable(
                f"{shown(where)} redirects to {shown(target)}, which is not followed",
                where=shown(where),
                next_step="give the address that it redirects to, if you trust it",
            )
        return self.enter(target)

    def _connection(self, origin: Origin) -> tuple[http.client.HTTPConnection, Mapping[str, str]]:
        """The connection of this thread to a server, and what a proxy is told with each request."""
        kept = self._here.__dict__.setdefault("kept", {})
        if origin not in kept:
            kept[origin] = self._opened(origin)
            with self._lock:
                self._all.append(kept[origin][0])
        found: tuple[http.client.HTTPConnection, Mapping[str, str]] = kept[origin]
        return found

    def _opened(self, origin: Origin) -> tuple[http.client.HTTPConnection, Mapping[str, str]]:
        scheme, host, port = origin
        proxy = None if proxy_bypass(host) else getproxies().get(scheme)
        if proxy is None:
            return self._plain(scheme, host, port), {}
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        login = {} if parts.username is None else {"Proxy-Authorization": _basic(parts)}
        connection = self._plain(scheme, parts.hostname or "", parts.port or 80)
        if scheme == "http":
            return connection, {"Proxy-Connection": "keep-alive", **login}
        connection.set_tunnel(host, port, headers=login)
        return connection, {}

    def _plain(self, scheme: str, host: str, port: int) -> http.client.HTTPConnection:
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self.timeout_s)
        with self._lock:
            self._tls = self._tls or ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=self.timeout_s, context=self._tls)


def number(text: str | None) -> int | None:
    """The number that a header holds; None where it holds none, or one that is none of bytes or seconds."""
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else None


def _origin(url: str) -> Origin:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]


def _basic(parts: SplitResult) -> str:
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(login.encode()).decode()}"


def _require_good(response: http.client.HTTPResponse, where: str) -> None:
    if response.status in _PASSING:
        wait = number(response.getheader("Retry-After")) or 0
        raise Passing(f"it answers {response.status} {response.reason}", wait)
    if response.status not in _GOOD:
        headers = {name.lower(): value for name, value in response.getheaders()}
        raise Refused(where, response.status, response.reason, headers)
