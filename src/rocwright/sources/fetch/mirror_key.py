"""One name for one repository of a server, however its address is spelled; also a safe path anywhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import unquote_to_bytes

from rocwright.system import git

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<server>[^/]*)/*(?P<path>.*)", re.DOTALL)
_SCP = re.compile(r"(?P<server>(?:[^@/]*@)?(?:\[[^]]*\]|[^:\[]*)):(?P<path>.*)", re.DOTALL)
_PORT = re.compile(r"(?P<host>.*?)(?::(?P<port>\d*))?", re.DOTALL)
_USUAL_PORT = {"https": "443", "http": "80", "ssh": "22", "git+ssh": "22", "ssh+git": "22", "git": "9418"}
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+")
# Names that Windows keeps for devices, with any ending.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
_LONGEST = 100


def key(origin: str) -> PurePosixPath | None:
    """Host and path of an address: `git@github.com:a/b` and `https://github.com/a/b/` → `github.com/a/b.git`.

    Folded are scheme, login, a usual port, the letters' case of the host, `.git` and spare slashes. Other
    than plain characters are spelled `%41`, so different repositories have different keys. `None` for a
    repository of this machine and for an address without a path.
    """
    if git.is_local(origin):
        return None
    found = _URL.fullmatch(origin)
    scheme = found["scheme"].lower() if found else "ssh"
    found = found or _SCP.fullmatch(origin)
    if found is None:
        return None
    server = found["server"].rpartition("@")[2]
    path = unquote_to_bytes(found["path"]) if scheme != "ssh" or "://" in origin else found["path"].encode()
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    host = _host(server, scheme)
    if not parts or host is None:
        return None
    parts[-1] = parts[-1].removesuffix(b".git") or parts[-1]
    *above, last = [_safe(part) for part in parts]
    # A mirror's directory ends in .git, no other does: none lies inside another.
    above = [re.sub(r"\.(?=git$)", "%2E", part, flags=re.IGNORECASE) for part in above]
    return PurePosixPath(host, *above, last + ".git")


def _host(server: str, scheme: str) -> str | None:
    split = _PORT.fullmatch(server)
    host, port = (server, None) if split is None else (split["host"], split["port"])
    name = host.lower().rstrip(".")
    if not name:
        return None
    return _safe((name if port in (None, "", _USUAL_PORT.get(scheme)) else f"{name}:{port}").encode())


def _safe(part: bytes) -> str:
    text = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in part)
    # Neither hidden nor `..`, and nothing that Windows takes for something else.
    if text.startswith(".") or _DEVICE.match(text):
        text = f"%{ord(text[0]):02X}" + text[1:]
    if text.endswith("."):
        text = text[:-1] + "%2E"
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 20] + "%%" + hashlib.sha256(part).hexdigest()[:16]
