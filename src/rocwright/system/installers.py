"""What pip and uv run with, and what their last words mean: gone for good, or not there yet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TypeVar

from rocwright.errors import CommandFailed

# Variables that would let the caller's Python or libraries into an installer and the builds that it starts.
LEAKS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD")
# Of an installer's own, those that say how to reach a place or what to keep, not where to look.
_REACH = {
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_TIMEOUT",
    "PIP_RETRIES",
    "PIP_CACHE_DIR",
    "PIP_NO_CACHE_DIR",
    "UV_CACHE_DIR",
    "UV_NO_CACHE",
    "UV_HTTP_TIMEOUT",
    "UV_HTTP_RETRIES",
    "UV_INSECURE_HOST",
    "UV_KEYRING_PROVIDER",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_LINK_MODE",
    "UV_CONCURRENT_DOWNLOADS",
    "UV_CONCURRENT_INSTALLS",
}
# What else counts where the user's own indexes are asked: where to look, and what to prefer. Others would put
# it elsewhere (PIP_TARGET, PIP_USER), or refuse (PIP_REQUIRE_VIRTUALENV).
_PLACES = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|NO_INDEX|FIND_LINKS|KEYRING_PROVIDER|RESUME_RETRIES|CONFIG_FILE"
    r"|(BUILD_)?CONSTRAINT|PRE|PREFER_BINARY|ONLY_BINARY|NO_BINARY|USE_FEATURE|USE_DEPRECATED)"
    r"|UV_(DEFAULT_INDEX|INDEX|INDEX_\w+|EXTRA_INDEX_URL|NO_INDEX|FIND_LINKS|CONFIG_FILE|NO_CONFIG"
    r"|(BUILD_)?CONSTRAINT|OVERRIDE|PRERELEASE|EXCLUDE_NEWER|NO_BINARY\w*|NO_BUILD\w*)"
)

SILENT = "the index does not answer yet"
TROUBLED = "the index answers with errors of its own"
BROKEN_OFF = "a download broke off"
NOT_SHOWN = "the index does not show the packages yet"
# How pip and uv say that a package is not to be had; on an index that is catching up, it will be.
_NOT_YET = (
    (re.compile(r"Connection ?refused|tcp connect error|operation timed out", re.IGNORECASE), SILENT),
    (
        re.compile(r"too many 5\d\d error|\b5\d\d Server Error|HTTP error 5\d\d|server error \(5\d\d"),
        TROUBLED,
    ),
    (
        re.compile(
            r"Wheel '[^']*' located at .* is invalid|IncompleteRead|Connection broken|unexpected end of data"
            r"|ended before the end-of-stream|Failed to extract archive|error decoding response body",
        ),
        BROKEN_OFF,
    ),
    (
        re.compile(
            r"No matching distribution found|Could not find a version that satisfies"
            r"|404 Client Error|HTTP error 404|client error \(404|No solution found when resolving",
            re.IGNORECASE,
        ),
        NOT_SHOWN,
    ),
)
# What ends in the same words and is there tomorrow, too.
_NEVER = re.compile(
    r"\b4(?!04|08|29)\d\d (?:Client )?Error|\b40[13] (?:Unauthorized|Forbidden)|certificate"
    r"|require a different python version|requires Python [<>=!~]|no wheels with a matching"
    r"|Name or service not known|name resolution|getaddrinfo|No address associated|dns error",
    re.IGNORECASE,
)


_TAKEN_OUT = re.compile(r"No such file or directory: '[^'\n]*/wheels/[^'\n]*\.whl'")
_AGAIN = 3
_T = TypeVar("_T")


def not_yet(tail: str) -> str | None:
    """Why a failure of pip or uv may be over in a moment, by its last lines; None when it will not be."""
    if _NEVER.search(tail):
        return None
    return next((reason for pattern, reason in _NOT_YET if pattern.search(tail)), None)


def despite_others(act: Callable[[], _T], note: Callable[[str], None]) -> _T:
    """Do an installation, again where another one took a wheel out of pip's cache before it was used.

    pip keeps the wheel that it built of `rocm` in a cache that all share, and whoever chooses for another GPU
    takes it out.
    """
    for _ in range(_AGAIN):
        try:
            return act()
        except CommandFailed as failed:
            if _TAKEN_OUT.search(failed.tail) is None:
                raise
            note("another installation took a wheel out of pip's cache; trying again")
    return act()


def own_settings(installer: str) -> list[str]:
    """Names of the caller's settings of `pip` or `uv` that would change where it looks or what it does."""
    prefix = f"{installer.upper()}_"
    return [name for name in os.environ if name.startswith(prefix) and name not in _REACH]


def misplaced_settings(installer: str) -> list[str]:
    """Of the same those that do not count even where the caller's own indexes are asked."""
    return [name for name in own_settings(installer) if not _PLACES.fullmatch(name)]
