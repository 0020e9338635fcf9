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
from rocwright.errors import RocwrightError
from rocwright.system.files import (
    content_digest,
    fact_line,
    sha256_file,
    shipped_directory,
    stat_files,
    write_text,
)
from rocwright.system.left import CLOCK_TICK_S, Left, leave, room_digest, still_left
from rocwright.wheel.deflate import COMPRESSOR

SCHEMA = 1
NAME = ".rocwright-sdk.json"
# Coarse clocks (FAT, network file systems, whose clock may also be another) do not see shorter intervals.
_RACY_NS = 2_000_000_000
# Digests of more than this would cost every rerun more than waiting once costs the first run.
_MOST_RACY_BYTES = 64 << 20
_ROOMS = ("sdk", "device_code", "binary", "wheel", "system", "model", "data")

_T = TypeVar("_T", bound=msgspec.Struct)


class Looked(msgspec.Struct, frozen=True):
    """How an input looked: digest of the facts of all its files, and content digests of the racy ones."""

    facts: str
    racy: dict[str, str]


class Stamp(msgspec.Struct, frozen=True):
    """What packages were made of, with what, and how they were left; `value` is the builder's result."""

    schema: int
    tool: str
    options: str
    inputs: dict[str, Looked]
    outputs: dict[str, Left]
    value: msgspec.Raw


@dataclass(frozen=True)
class Begun:
    """A build under way: what was asked for and how its inputs looked before they were read."""

    stamp: Path
    options: str
    inputs: Mapping[str, Looked]


def unchanged(stamp: Path, options: object, roots: Sequence[Path], result: type[_T]) -> _T | None:
    """The earlier result, if nothing it depends on has changed and the packages lie as they were left.

    `options` is any value that msgspec can write as JSON; `roots` are the files and directories that are
    read. A damaged stamp, or one of another version of rocwright, counts as none.
    """
    try:
        found = msgspec.json.decode(stamp.read_bytes(), type=Stamp)
        if (found.schema, found.tool, found.options) != (SCHEMA, _tool(), _canonical(options)):
            return None
        value = msgspec.json.decode(found.value, type=result)
        if list(found.inputs) != _names(roots):
            return None
        inputs = {name: _still(Path(name), looked) for name, looked in found.inputs.items()}
        outputs = {name: still_left(Path(name), left) for name, left in found.outputs.items()}
    except (OSError, msgspec.DecodeError, RocwrightError):
        return None
    same_inputs = {name: looked for name, looked in inputs.items() if looked is not None}
    same_outputs = {name: left for name, left in outputs.items() if left is not None}
    if len(same_inputs) < len(inputs) or len(same_outputs) < len(outputs):
        return None
    if same_inputs != found.inputs or same_outputs != found.outputs:
        _write(stamp, msgspec.structs.replace(found, inputs=same_inputs, outputs=same_outputs))
    return value


def begin(stamp: Path, options: object, roots: Sequence[Path]) -> Begun:
    """Look at the inputs, before anything is read; from here on an older stamp holds no more.

    Raises `InvalidInput` for a directory that cannot be listed.
    """
    stamp.unlink(missing_ok=True)
    return Begun(stamp, _canonical(options), {name: _look(Path(name)) for name in _names(roots)})


def finish(begun: Begun, value: msgspec.Struct, outputs: Mapping[Path, str | None]) -> None:
    """Record a finished build. `outputs` maps its files to their sha256, None where it is not known.

    A build whose inputs changed under way is recorded too, but never found unchanged.
    """
    # Past the clock tick of the last write, so that a later one shows in the times.
    time.sleep(CLOCK_TICK_S)
    _write(
        begun.stamp,
        Stamp(
            schema=SCHEMA,
            tool=_tool(),
            options=begun.options,
            inputs=dict(begun.inputs),
            outputs={str(path.absolute()): leave(path, sha256=known) for path, known in outputs.items()},
            value=msgspec.Raw(msgspec.json.encode(value)),
        ),
    )


def _write(path: Path, stamp: Stamp) -> None:
    write_text(path, msgspec.json.format(msgspec.json.encode(stamp), indent=1).decode() + "\n")


def _canonical(options: object) -> str:
    return msgspec.json.encode(options, order="sorted").decode()


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


def _look(root: Path) -> Looked:
    seen = _see(root)
    wait = seen.newest_ns + _RACY_NS - time.time_ns()
    if seen.racy_bytes > _MOST_RACY_BYTES and wait <= _RACY_NS:
        time.sleep(max(0, wait) / 1e9)
        seen = _see(root)
    return Looked(seen.facts, {name: _content(root, name) for name in seen.racy})


def _still(root: Path, looked: Looked) -> Looked | None:
    """`looked`, with fewer racy files if time has passed, when the input is what it was."""
    seen = _see(root)
    if seen.facts != looked.facts:
        return None
    if any(_content(root, name) != content for name, content in looked.racy.items()):
        return None
    return Looked(looked.facts, {name: looked.racy[name] for name in seen.racy if name in looked.racy})


def _content(root: Path, name: str) -> str:
    path = root / name if root.is_dir() else root
    try:
        return str(path.readlink()) if path.is_symlink() else sha256_file(path)
    except OSError as error:
        return f"not readable: {error.strerror}"
