"""RECORD: what a wheel contains, with digests, as the wheel specification writes it."""

from __future__ import annotations

import base64
import binascii
import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from rocwright.errors import InvalidWheel


@dataclass(frozen=True)
class RecordRow:
    """One line of RECORD; `sha256` is hex, None (with `size`) for RECORD itself and its signatures."""

    path: str
    sha256: str | None
    size: int | None


def encode_digest(sha256: str) -> str:
    """A hex sha256 as RECORD writes it: URL-safe base64 without `=`."""
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("=")


def decode_digest(text: str) -> str:
    """The hex sha256 of a RECORD field; raises `InvalidWheel` for another algorithm or spelling."""
    algorithm, _, value = text.partition("=")
    if algorithm != "sha256":
        raise InvalidWheel(f"RECORD digest {text!r} is not sha256")
    try:
        digest = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except (binascii.Error, ValueError):
        digest = b""
    # Encoding again also catches padding, the +/ alphabet and hex, which decoders let through.
    if len(digest) != 32 or encode_digest(digest.hex()) != text:
        raise InvalidWheel(f"RECORD digest {text!r} is not URL-safe base64 of a sha256 without '='")
    return digest.hex()


def render_record(rows: Iterable[RecordRow]) -> bytes:
    """RECORD's bytes, rows in the order given."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        digest = "" if row.sha256 is None else encode_digest(row.sha256)
        writer.writerow((row.path, digest, "" if row.size is None else row.size))
    return stream.getvalue().encode()


def parse_record(data: bytes) -> tuple[RecordRow, ...]:
    """The rows of a RECORD; raises `InvalidWheel` naming the line that is malformed."""
    rows = []
    try:
        lines = list(csv.reader(io.StringIO(data.decode(), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidWheel(f"RECORD cannot be read: {error}") from error
    for number, fields in enumerate(lines, start=1):
        if not fields:
            continue
        if len(fields) != 3 or not (fields[2] == "" or (fields[2].isascii() and fields[2].isdigit())):
            raise InvalidWheel(f"RECORD line {number} is not path,digest,size: {','.join(fields)!r}")
        path, digest, size = fields
        rows.append(RecordRow(path, decode_digest(digest) if digest else None, int(size) if size else None))
    return tuple(rows)
