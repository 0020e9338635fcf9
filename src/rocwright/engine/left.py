"""How files were left by the work that made them, and the digest of the code that did it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from rocwright.system.files import content_digest, fingerprint, sha256_file

# Past this much time a file's next change shows in its ctime (git's "racy" index entries); local disks only.
CLOCK_TICK_S = 0.02


class Left(msgspec.Struct, frozen=True):
    """A file or tree as it was left.

    `fingerprint` is cheap to compare. Hard-linking a file into a store changes its ctime and with it the
    fingerprint, so files have their sha256 recorded too, which decides when fingerprints differ.
    """

    fingerprint: str
    sha256: str | None


def leave(path: Path, *, sha256: str | None = None) -> Left:
    """Note how `path` lies there now; `sha256` spares reading a file whose digest is known."""
    return Left(fingerprint(path), (sha256 or sha256_file(path)) if path.is_file() else None)


def still_left(path: Path, left: Left) -> Left | None:
    """`left`, its fingerprint renewed, if `path` still has the content that it was left with."""
    now = fingerprint(path)
    if now == left.fingerprint:
        return left
    if left.sha256 is None or not path.is_file() or sha256_file(path) != left.sha256:
        return None
    return Left(now, left.sha256)


@cache
def room_digest(room: str) -> str:
    """Digest of the sources of a room or module (`wheel`, `sdk/fetch.py`): other code, other results."""
    package = Path(__file__).resolve().parent.parent
    path = package / room
    return content_digest(path if path.exists() else package / f"{room}.py")
