"""How a bucket is asked: pieces, time limits, and what is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from obstore.store import S3Store

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

# S3 takes 10,000 parts, so files up to 80 GB; an upload holds four in memory.
PART = 8 << 20
AT_ONCE = 4
# Each piece is a request of its own: a slow line (1 Mbit/s) still gets one through.
_PIECE_TIMEOUT = timedelta(seconds=120)
_CONNECT_TIMEOUT = timedelta(seconds=10)
# Of errors that can pass: no answer, 5xx; the client never repeats what was refused.
RETRY: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=200),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}
# A creation is not repeated by the client: where conditions are ignored, that could replace what somebody
# else wrote in between. We look what is there before each further attempt.
NO_RETRY: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}


@dataclass(frozen=True)
class Bucket:
    """A bucket, or the part of one below `prefix`; `settings` are obstore's, without any secret.

    `authorities` are certificates in PEM that are trusted besides those of the system.
    """

    name: str
    prefix: str
    settings: Mapping[str, Any]
    authorities: bytes | None = None

    def connect(self, retry: RetryConfig = RETRY, headers: Mapping[str, str] | None = None) -> S3Store:
        """A client of it; plain HTTP where the endpoint's own address says so. Nothing is asked yet."""
        options: ClientConfig = {
            "timeout": _PIECE_TIMEOUT,
            "connect_timeout": _CONNECT_TIMEOUT,
            "allow_http": str(self.settings.get("endpoint", "")).startswith("http://"),
        }
        if self.authorities:
            options["root_certificate"] = self.authorities
        if headers:
            options["default_headers"] = dict(headers)
        # Deleting many objects by one request is not taken by every server.
        return S3Store(
            self.name,
            prefix=self.prefix or None,
            client_options=options,
            retry_config=retry,
            disable_bulk_delete=True,
            **self.settings,
        )
