"""What an S3 client reports, as it was seen, and what a user reads."""

from __future__ import annotations

import pytest

from rocwright.errors import InvalidInput, NoObject, Unreachable
from rocwright.store.objects.bucket import can_pass, code_of, named

PLACE = "s3://bucket/p"


def reported(status: int, code: str, *, query: str = "") -> Exception:
    return RuntimeError(
        f"Generic S3 error: Error performing PUT http://127.0.0.1:9/bucket/p/k{query} in 5.1ms - "
        f"Server returned non-2xx status code: {status} Some Words: "
        f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>m</Message></Error>\n\n'
        "Debug source:\nRetryError { headers: Authorization: Credential=sesame }"
    )


@pytest.mark.parametrize(
    ("error", "act", "kind", "said"),
    [
        (reported(404, "NoSuchBucket"), "list", InvalidInput, "there is no bucket for s3://bucket/p"),
        (
            reported(403, "RequestTimeTooSkewed"),
            "write",
            InvalidInput,
            "the clock of this machine is too far",
        ),
        (reported(403, "InvalidAccessKeyId"), "read", InvalidInput, "does not accept these credentials"),
        (reported(403, "SignatureDoesNotMatch"), "write", InvalidInput, "does not accept these credentials"),
        (reported(400, "ExpiredToken"), "write", InvalidInput, "does not accept these credentials"),
        (reported(403, "AccessDenied"), "write", InvalidInput, "the right s3:PutObject"),
        (reported(403, "AccessDenied"), "read", InvalidInput, "the right s3:GetObject"),
        (reported(403, "AccessDenied"), "delete", InvalidInput, "the right s3:DeleteObject"),
        (reported(403, "AccessDenied"), "list", InvalidInput, "the right s3:ListBucket"),
        (reported(401, "Unauthorized"), "list", InvalidInput, "the right s3:ListBucket"),
        (reported(301, "PermanentRedirect"), "read", InvalidInput, "is in another region"),
        (reported(400, "EntityTooLarge"), "write", InvalidInput, "refuses to write k (400 EntityTooLarge)"),
        (reported(400, "BadDigest"), "write", Unreachable, "did not write k: 400 BadDigest"),
        (reported(503, "SlowDown"), "write", Unreachable, "did not write k: 503 SlowDown"),
        (reported(500, "InternalError"), "list", Unreachable, "did not list k: 500 InternalError"),
        (reported(429, "TooManyRequests"), "write", Unreachable, "did not write k: 429 TooManyRequests"),
        (RuntimeError("error sending request: connection refused"), "read", Unreachable, "no answer"),
        (RuntimeError("inner: InvalidCertificate(UnknownIssuer)"), "list", Unreachable, "set AWS_CA_BUNDLE"),
        (FileNotFoundError("not found: status code: 404 Not Found"), "read", NoObject, "has no object k"),
        (
            RuntimeError("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error"),
            "list",
            InvalidInput,
            "there are no credentials for s3://bucket/p",
        ),
    ],
)
def test_each_has_a_name_and_says_what_to_do(error: Exception, act: str, kind: type, said: str) -> None:
    found = named(error, PLACE, "k", act)
    assert type(found) is kind
    assert said in str(found)
    assert found.next_step or found.where or kind is InvalidInput
    assert "sesame" not in str(found)


def test_signed_addresses_are_not_repeated() -> None:
    query = "?X-Amz-Credential=sesame&X-Amz-Signature=sesame"
    for status, code in [(403, "AccessDenied"), (500, "InternalError"), (400, "Odd"), (301, "Moved")]:
        assert "sesame" not in str(named(reported(status, code, query=query), PLACE, "k", "write"))


def test_only_what_can_pass_is_tried_again() -> None:
    passing = [reported(status, "x") for status in (500, 502, 503, 504, 408, 429)]
    # About this one moment, although S3 answers them with 4xx.
    passing += [
        reported(400, "RequestTimeout"),
        reported(400, "BadDigest"),
        reported(409, "OperationAborted"),
    ]
    assert all(map(can_pass, [*passing, RuntimeError("connection reset")]))
    assert not any(
        can_pass(reported(status, "x")) for status in (400, 401, 403, 404, 405, 409, 411, 412, 416)
    )
    assert code_of(reported(404, "NoSuchKey")) == "NoSuchKey"
    assert code_of(RuntimeError("nothing")) == ""
