"""Files of an index, over HTTP(S) or from a directory, with limits; how many requests that took."""

import os
import re
import time

# Files that are asked for at once.
_AT_ONCE = 8
# Seconds without an answer, seconds for one file in all, bytes of one.
SILENT, LONG, LARGE = 10, 60, 16 << 20
# Either form says enough; for JSON some servers lead to another page, which is one more request.
ACCEPT = "application/vnd.pypi.simple.v1+html, text/html;q=0.9, application/vnd.pypi.simple.v1+json;q=0.5"
_GONE = (401, 403, 404, 410)


class NotThere(Exception):
    """The index answers, and has no such file."""


class IndexProblem(Exception):
    """The index cannot be asked, or is none; the text is for people."""


class Got:
    """A file: its bytes, its content type, and the address that it came from after redirects."""

    def __init__(self, data, kind, url):
        self.data, self.kind, self.url = data, kind, url


class Source:
    """Fetches files, each once; `requests` counts what a server was asked for."""

    def __init__(self):
        import threading

        self.requests = 0
        self._seen = {}
        self._count = threading.Lock()
        # By scheme and server: a login in the address of an index is for its files, too.
        self._logins = {}

    def get(self, url):
        """The file; raises `NotThere` or `IndexProblem`."""
        if url not in self._seen:
            try:
                self._seen[url] = _read_file(url) if url.startswith("file:") else self._ask(url)
            except (NotThere, IndexProblem) as problem:
                self._seen[url] = problem
        found = self._seen[url]
        if isinstance(found, Exception):
            raise found
        return found

    def find(self, url):
        """The file, or None where the index has none."""
        try:
            return self.get(url)
        except NotThere:
            return None

    def counted(self):
        """Count a request."""
        with self._count:
            self.requests += 1

    def find_all(self, urls):
        """The files in their order, several asked for at once; None for each that the index has not."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = [pool.submit(self.find, url) for url in urls]
            try:
                return [one.result() for one in asked]
            finally:
                for one in asked:
                    one.cancel()  # what a problem leaves to be asked

    def _ask(self, url):
        # What is asked for is known only now, and these take longer to load than all else.
        import http.client
        import urllib.error
        import urllib.request

        self.counted()
        ends = time.monotonic() + LONG
        try:
            with _opener(self).open(_request(url, self._logins), timeout=SILENT) as answer:
                kind = answer.headers.get("Content-Type", "")
                packed = answer.headers.get("Content-Encoding", "") == "gzip"
                data = _body(answer, url, ends)
                return Got(_unpacked(data, url) if packed else data, kind, answer.geturl())
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _GONE:
                    raise NotThere(f"{shown(url)} answers {error.code} {error.reason}") from None
                raise IndexProblem(f"{shown(url)} answers {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            reason = error.reason
            said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            raise IndexProblem(f"{shown(url)} cannot be reached: {said}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise IndexProblem(f"{shown(url)} cannot be read: {said}") from None


def _opener(source):
    import urllib.parse
    import urllib.request

    class Redirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, request, stream, code, reason, headers, new):
            if not new.startswith("https:") and request.type == "https":
                raise IndexProblem(f"{shown(request.full_url)} leads to {shown(new)}, which is not followed")
            source.counted()
            found = super().redirect_request(request, stream, code, reason, headers, new)
            if urllib.parse.urlsplit(new).netloc != request.host:
                # A login is for the server that it was given for.
                found.headers.pop("Authorization", None)
            return found

    return urllib.request.build_opener(Redirects)


def _request(url, logins):
    import base64
    import urllib.parse
    import urllib.request

    parts = urllib.parse.urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    if login:
        logins[parts.scheme, place] = login
    login = logins.get((parts.scheme, place))
    headers = {"Accept": ACCEPT, "User-Agent": "rocwright-detect"}
    if login:
        user, _, word = map(urllib.parse.unquote, login.partition(":"))
        headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{word}".encode()).decode()
    return urllib.request.Request(parts._replace(netloc=place).geturl(), headers=headers)


def _body(answer, url, ends):
    pieces, size = [], 0
    while True:
        piece = answer.read(1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > LARGE:
            raise _too_large(url)
        if time.monotonic() > ends:
            raise IndexProblem(f"{shown(url)} did not come to its end within {LONG} s")


def _too_large(url):
    return IndexProblem(f"{shown(url)} is larger than {LARGE >> 20} MiB, which no page of an index needs")


def _unpacked(data, url):
    import zlib

    unpacker = zlib.decompressobj(31)
    try:
        text = unpacker.decompress(data, LARGE)
    except zlib.error as error:
        raise IndexProblem(f"{shown(url)} cannot be unpacked: {error}") from None
    if unpacker.unconsumed_tail:
        raise _too_large(url)
    return text


def path_of(url):
    """The path that a file: address names."""
    import urllib.parse
    import urllib.request

    return urllib.request.url2pathname(urllib.parse.urlsplit(url).path)


def _read_file(url):
    path = path_of(url)
    if os.path.isdir(path):
        path, url = os.path.join(path, "index.html"), url.rstrip("/") + "/"
    try:
        with open(path, "rb") as stream:
            data = stream.read(LARGE + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotThere(f"{path} does not exist") from None
    except OSError as error:
        raise IndexProblem(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > LARGE:
        raise _too_large(url)
    return Got(data, "application/json" if path.endswith(".json") else "text/html", url)


def shown(url):
    """An address without a login."""
    return re.sub(r"//[^/@]*@", "//", url)
