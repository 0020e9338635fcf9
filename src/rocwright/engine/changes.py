"""Notices what changed since work was done: the files that it made, those that it read, the code that did it.

Size, times, inode and mode stand for content. A restored mtime does not deceive, since ctime cannot be set.
What times cannot tell is a change within the same tick as the one before: files that were read, and changed
less than two seconds before they were looked at, are compared by content (git calls them racy).
"""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from rocwright.errors import RocwrightError
from rocwright.system.files import content_digest, fact_line, fingerprint, sha256_file, stat_files

# Past this much time a file's next change shows in its ctime (git's "racy" index entries); local disks only.
CLOCK_TICK_S = 0.02
# Coarse clocks (FAT, network file systems, whose clock may also be another) do not see shorter intervals.
_RACY_NS = 2_000_000_000
# Digests of more than this would cost every rerun more than waiting once costs the first run.
_MOST_RACY_BYTES = 64 << 20


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


# -- how the files and directories look that a step reads


class InputLook(msgspec.Struct, frozen=True):
    """How an input looked: digest of the facts of all its files, and content digests of the racy files."""

    facts: str
    racy: dict[str, str]


def look(roots: Iterable[Path]) -> dict[str, InputLook]:
    """How files and directories look now, by resolved path.

    Raises `InvalidInput` for a directory that cannot be listed.
    """
    return {name: _look(Path(name)) for name in _names(roots)}


def same_look(roots: Iterable[Path], looked: Mapping[str, InputLook]) -> dict[str, InputLook] | None:
    """`looked`, with fewer racy files if time has passed, when all are what they were; None otherwise."""
    if _names(roots) != list(looked):
        return None
    try:
        looks = {name: _still(Path(name), each) for name, each in looked.items()}
    except (OSError, RocwrightError):
        return None
    same = {name: each for name, each in looks.items() if each is not None}
    return same if len(same) == len(looks) else None


def _names(roots: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(str(root.resolve()) for root in roots))


class _Seen(msgspec.Struct, frozen=True):
    """One look at a tree: digest of all facts, and what changed too recently for times to tell."""

    facts: str
    racy: tuple[str, ...]
    racy_bytes: int
    newest_ns: int


def _see(root: Path) -> _Seen:
    if not root.exists():
        # Whoever reads it says so.
        return _Seen("absent", (), 0, 0)
    began = time.time_ns()
    digest = hashlib.sha256()
    racy: list[str] = []
    racy_bytes = newest = 0
    for name, facts in stat_files(root):
        digest.update(fact_line(name, facts))
        newest = max(newest, facts.st_ctime_ns)
        if stat.S_ISLNK(facts.st_mode):
            digest.update(_end_of_link(root / name))
        if facts.st_ctime_ns > began - _RACY_NS:
            racy.append(name)
            racy_bytes += facts.st_size
    return _Seen(digest.hexdigest(), tuple(racy), racy_bytes, newest)


def _end_of_link(link: Path) -> bytes:
    """The link's file may lie outside the tree, where nothing else would notice that it changed."""
    try:
        facts = link.stat()
    except OSError:
        return b"nowhere\n"
    return fact_line("", facts) if stat.S_ISREG(facts.st_mode) else b"no file\n"


def _look(root: Path) -> InputLook:
    seen = _see(root)
    wait = seen.newest_ns + _RACY_NS - time.time_ns()
    if seen.racy_bytes > _MOST_RACY_BYTES and wait <= _RACY_NS:
        time.sleep(max(0, wait) / 1e9)
        seen = _see(root)
    return InputLook(seen.facts, {name: _content(root, name) for name in seen.racy})


def _still(root: Path, looked: InputLook) -> InputLook | None:
    """`looked`, with fewer racy files if time has passed, when the input is what it was."""
    seen = _see(root)
    if seen.facts != looked.facts:
        return None
    if any(_content(root, name) != content for name, content in looked.racy.items()):
        return None
    return InputLook(looked.facts, {name: looked.racy[name] for name in seen.racy if name in looked.racy})


def _content(root: Path, name: str) -> str:
    path = root / name if root.is_dir() else root
    try:
        return str(path.readlink()) if path.is_symlink() else sha256_file(path)
    except OSError as error:
        return f"not readable: {error.strerror}"


# -- the code that does the work


@cache
def room_digest(room: str) -> str:
    """Digest of the sources of a room or module (`wheel`, `sdk/fetch.py`): other code, other results."""
    package = Path(__file__).resolve().parent.parent
    path = package / room
    return content_digest(path if path.exists() else package / f"{room}.py")
