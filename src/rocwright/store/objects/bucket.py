"""A bucket of S3: how it is asked (pieces, time limits, what is tried again), and what its refusals mean.

What an S3 client reports is text: an HTTP status, the code of S3's XML answer, addresses. Only status and
code are repeated to the user, so no signed address and no header can leak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from obstore.store import S3Store

from rocwright.errors import InvalidInput, NoObject, RocwrightError, Unreachable

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig


# S3 takes 10,000 parts, so files up to 80 GB; an upload holds four in memory.
PART = 8 << 20
AT_ONCE = 4
# Each piece is a request of its own: a slow line (1 Mbit/s) still gets a piece through.
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


class Bucket(msgspec.Struct, frozen=True):
    """A bucket, or the part of it below `prefix`; `settings` are obstore's, without any secret.

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


Act = Literal["read", "write", "list", "delete"]
_RIGHTS: dict[Act, str] = {
    "read": "s3:GetObject (and s3:ListBucket: without it an absent object looks forbidden)",
    "write": "s3:PutObject (and s3:AbortMultipartUpload)",
    "list": "s3:ListBucket",
    "delete": "s3:DeleteObject",
}
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_UNKNOWN_LOGIN = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken")
_CLOCK = ("RequestTimeTooSkewed", "RequestExpired")
# A slow or damaged body, two requests at once, an upload that is complete although the answer was lost.
_PASSING = (
    "RequestTimeout",
    "IncompleteBody",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
    "OperationAborted",
    "ConditionalRequestConflict",
    "NoSuchUpload",
)
_NO_CREDENTIALS = re.compile(
    r"/latest/(?:api/token|meta-data)|CredentialsProvider|WebIdentity", re.IGNORECASE
)


def can_pass(error: Exception) -> bool:
    """Whether the same request may succeed later: no answer, 5xx, or a 4xx that is about this one moment."""
    status = _status(error)
    return status is None or status >= 500 or status in (408, 429) or code_of(error) in _PASSING


def code_of(error: Exception) -> str:
    """The code of S3's answer, such as `NoSuchBucket`; `""` where there was none."""
    found = _CODE.search(str(error))
    return found.group(1) if found else ""


def named(error: Exception, place: str, key: str, act: Act) -> RocwrightError:
    """The user's error for what a client raised while it tried to `act` on `key` of the store at `place`."""
    status, code, text = _status(error), code_of(error), str(error)
    what = f"{status or ''} {code}".strip() or "no answer"
    if code == "NoSuchBucket":
        return InvalidInput(f"there is no bucket for {place}", next_step="create it, or correct the address")
    if code in _CLOCK:
        return InvalidInput(
            f"{place} refuses every request: the clock of this machine is too far from its own ({code})",
            next_step="set the clock (timedatectl set-ntp true) and run again",
        )
    if code in _UNKNOWN_LOGIN:
        return InvalidInput(
            f"{place} does not accept these credentials ({code})",
            next_step="correct AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or AWS_PROFILE",
        )
    if _NO_CREDENTIALS.search(text):
        return InvalidInput(
            f"there are no credentials for {place}",
            next_step="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; to read a public "
            "bucket, AWS_SKIP_SIGNATURE=true",
        )
    if "InvalidCertificate" in text:
        return Unreachable(
            f"this machine does not trust the certificate of {place}",
            next_step="set AWS_CA_BUNDLE to a file with the certificates of its authority, in PEM",
        )
    if status in (401, 403):
        return InvalidInput(
            f"{place} does not let these credentials {act} {key or 'it'} ({what})",
            next_step=f"give them the right {_RIGHTS[act]}; if they have it, the credentials are wrong",
        )
    if status in (301, 307) or "incorrectly configured region" in text:
        return InvalidInput(f"the bucket of {place} is in another region", next_step="set AWS_REGION to it")
    if isinstance(error, FileNotFoundError):
        return NoObject(f"the store has no object {key}", where=place)
    if not can_pass(error):
        return InvalidInput(
            f"{place} refuses to {act} {key or 'it'} ({what})",
            next_step="see what the store reports about its account; AWS_PROFILE chooses another",
        )
    return Unreachable(
        f"{place} did not {act} {key or 'it'}: {what}",
        next_step="run again when it answers; what is complete is kept",
    )


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found.group(1)) if found else None
