"""Addresses of git repositories and names of folders, as tables, pins and locks may hold them."""

from __future__ import annotations

import re

_SCHEMES = ("https", "http", "ssh", "git", "file")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")
_HELPER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
# Letters, digits and what lies between them: safe on every file system and never an option.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+-])?")
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)


def origin_problem(origin: str, *, relative: bool = False) -> str | None:
    """Why `origin` is no address that may be written down, `None` for a good one.

    Good are URLs, `host:path` of ssh, and local paths; a relative path only where `relative` allows it,
    because a file is read from other directories. A login has no place in files that are handed on: the
    answer never repeats the address.
    """
    if not origin.strip():
        return "is empty"
    if origin.startswith("-"):
        return "starts with a dash"
    if not origin.isprintable() or origin != origin.strip():
        return "holds control characters or spaces around it"
    if _HELPER.match(origin):
        return "names a git remote helper instead of a repository"
    url = _URL.match(origin)
    if url is not None:
        return _url_problem(url[1].lower(), url[2], origin)
    if not relative and is_path(origin) and not origin.startswith(("/", "~")) and not _DRIVE.match(origin):
        return "is a relative path"
    return None


def _url_problem(scheme: str, host: str, origin: str) -> str | None:
    if scheme not in _SCHEMES:
        return f"has the scheme {scheme}; git repositories have one of {', '.join(_SCHEMES)}"
    login, at, _ = host.rpartition("@")
    # The user of ssh is part of the address; anywhere else it is half a secret or all of it.
    if at and (scheme != "ssh" or ":" in login):
        return "holds a login; leave it out, git asks its credential helper (or ~/.netrc) for it"
    if scheme != "file" and (" " in origin or not host):
        return "is no complete address"
    return None


def is_path(origin: str) -> bool:
    """Whether `origin` is a path of this machine (a `file://` address is not written as one)."""
    # host:path is ssh; C:/path is a Windows drive.
    return "://" not in origin and re.match(r"[^/\\]{2,}:", origin) is None


def folder_problem(name: str) -> str | None:
    """Why `name` cannot be the name of one folder on every system, `None` when it can."""
    if not _NAME.fullmatch(name):
        return "is no bare name of letters, digits, '.', '_', '+' and '-'"
    if name.split(".")[0].lower() in _DEVICES:
        return "is the name of a device on Windows"
    if len(name) > 100:
        return "is longer than 100 characters"
    return None


def ref_problem(ref: str) -> str | None:
    """Why `ref` is no name of a branch, tag or commit, `None` when it can be one."""
    if not ref:
        return "is empty"
    if ref.startswith(("-", "/")) or ref.endswith(("/", ".", ".lock")) or "//" in ref or "@{" in ref:
        return "is no name that git gives a branch or tag"
    if re.search(r"[\s~^:?*\[\\\x7f]|\.\.", ref) or not ref.isprintable():
        return "is no name that git gives a branch or tag"
    return None
