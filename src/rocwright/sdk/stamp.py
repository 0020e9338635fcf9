"""Tell in well under a second that packages need not be built again.

A stamp lies beside the packages. It holds the options, a digest of rocwright's own code and of what ships
with it, how the inputs looked before they were read, and how the packages were left. Size, times, inode and
mode stand for content. A restored mtime does not deceive, since ctime cannot be set. What times cannot tell
is a change within the same tick as the one before: files changed less than two seconds before they were
looked at are compared by content (git calls them racy).
"""

from __future__ import annotations

import hashlib
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from rocwright import __version__
from rocwright.engine.left import InputLook, room_digest
from rocwright.engine.record import digest, read_record, still_there, write_record
from rocwright.errors import RocwrightError
from rocwright.system.files import (
    content_digest,
    fact_line,
    sha256_file,
    shipped_directory,
    stat_files,
)
from rocwright.wheel.deflate import COMPRESSOR

NAME = ".rocwright-sdk.json"
# Coarse clocks (FAT, network file systems, whose clock may also be another) do not see shorter intervals.
_RACY_NS = 2_000_000_000
# Digests of more than this would cost every rerun more than waiting once costs the first run.
_MOST_RACY_BYTES = 64 << 20
_ROOMS = ("sdk", "device_code", "binary", "wheel", "system", "model", "data")

_T = TypeVar("_T", bound=msgspec.Struct)


@dataclass(frozen=True)
class Begun:
    """A build under way: what was asked for and how its inputs looked before they were read."""

    record: Path
    decided: str
    inputs: Mapping[str, InputLook]


def unchanged(path: Path, options: object, roots: Sequence[Path], result: type[_T]) -> _T | None:
    """The earlier result, if nothing it depends on has changed and the packages lie as they were left.

    `options` is any value that msgspec can write as JSON; `roots` are the files and directories that are
    read. A damaged stamp, or one of another version of rocwright, counts as none.
    """
    record = read_record(path)
    if record is None or record.inputs != _decided(options) or list(record.looked) != _names(roots):
        return None
    try:
        value = msgspec.json.decode(record.value, type=result)
        looks = {name: _still(Path(name), looked) for name, looked in record.looked.items()}
    except (OSError, msgspec.DecodeError, RocwrightError):
        return None
    same = {name: looked for name, looked in looks.items() if looked is not None}
    if len(same) < len(looks):
        return None
    now = msgspec.structs.replace(record, looked=same)
    return value if still_there(path, record, now) else None


def begin(path: Path, options: object, roots: Sequence[Path]) -> Begun:
    """Look at the inputs, before anything is read; from here on an older record holds no more.

    Raises `InvalidInput` for a directory that cannot be listed.
    """
    path.unlink(missing_ok=True)
    return Begun(path, _decided(options), {name: _look(Path(name)) for name in _names(roots)})


def finish(begun: Begun, value: msgspec.Struct, outputs: Mapping[Path, str | None]) -> None:
    """Record a finished build. `outputs` maps its files to their sha256, None where it is not known.

    A build whose inputs changed under way is recorded too, but never found unchanged.
    """
    write_record(begun.record, "sdk", begun.decided, value, outputs, looked=begun.inputs)


def _decided(options: object) -> str:
    return digest({"tool": _tool(), "options": options})


def _names(roots: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(str(root.resolve()) for root in roots))


def _tool() -> str:
    parts = [__version__, sys.version, COMPRESSOR, content_digest(shipped_directory("runtime"))]
    return hashlib.sha256("\0".join([*parts, *map(room_digest, _ROOMS)]).encode()).hexdigest()


@dataclass(frozen=True)
class _Seen:
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
