"""Write what was planned: all files or none."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import IO

import msgspec

from rocwright.errors import InvalidWheel, UsageError
from rocwright.system.files import (
    CHUNK,
    PARTIAL,
    atomic_write,
    disk_error,
    link_or_copy,
    make_directory,
    remove_tree,
    require_space,
    sha256_file,
)
from rocwright.wheel.reversion.headers import Headers
from rocwright.wheel.reversion.sdists import write_sdist
from rocwright.wheel.reversion.values import FileChange, ReversionPlan, WheelEdits
from rocwright.wheel.reversion.verify import verify_wheel

_BUFFERS = 4


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that was written: hex sha256 and size in bytes.

    `left` are members that mention the old ROCm; of those that nobody looked into, it says nothing.
    """

    path: Path
    sha256: str
    size: int
    left: tuple[str, ...] = ()


def write_reversion(
    plan: ReversionPlan, directory: Path, *, verify: bool = False, threads: int = 2
) -> tuple[WrittenFile, ...]:
    """Write every file of the set into `directory`, or none: what stays as it is, is linked or copied.

    With `verify` every member of each new wheel is inflated and compared with RECORD, and searched for the
    old version, before any file gets its place. Raises `UsageError` when a file would replace one of the set,
    `NoSpace`, `InvalidWheel` for a wheel that is not what it seemed, `IntegrityError` where RECORD is wrong.
    """
    for change in plan.files:
        if (directory / change.name).resolve() == change.source.resolve():
            raise UsageError(
                f"{change.name} would be written onto itself", next_step="choose another --output-dir"
            )
    make_directory(directory)
    require_space(
        directory, sum(change.source.stat().st_size for change in plan.files), purpose="the new files"
    )
    partial = directory / f"reversion{PARTIAL}"
    try:
        remove_tree(partial)
        written = [_write(change, partial / change.name) for change in plan.files]
        if verify:
            written = [_verified(file, plan.old, threads) for file in written]
        for file in written:
            file.path.replace(directory / file.path.name)
    except OSError as error:
        raise disk_error(error, directory) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return tuple(msgspec.structs.replace(file, path=directory / file.path.name) for file in written)


def _verified(file: WrittenFile, old: str, threads: int) -> WrittenFile:
    if file.path.suffix != ".whl":
        return file
    return msgspec.structs.replace(file, left=verify_wheel(file.path, old, threads=threads))


def _write(change: FileChange, path: Path) -> WrittenFile:
    if isinstance(change.work, WheelEdits):
        with atomic_write(path) as stream:
            sha256, size = write_wheel(change.work, stream)
        return WrittenFile(path, sha256, size, change.left)
    if change.work is None:
        link_or_copy(change.source, path)
    else:
        with atomic_write(path) as stream:
            write_sdist(change.source, change.work, stream)
    return WrittenFile(path, sha256_file(path), path.stat().st_size, change.left)


def write_wheel(edits: WheelEdits, stream: IO[bytes]) -> tuple[str, int]:
    """Write the pieces of a wheel one after another; hex sha256 and size.

    Bytes are read once: what is in a buffer is written, its headers are looked at, and a second thread takes
    its digest meanwhile. That takes less of a processor than letting the system copy and reading the copy.
    Raises `InvalidWheel` for a header that is not what the directory says.
    """
    source, size = edits.archive.path, 0
    digest = hashlib.sha256()
    with source.open("rb", buffering=0) as old, ThreadPoolExecutor(1) as digesting:
        headers = Headers(edits.archive, old.fileno())
        turns = cycle(_Turn(bytearray(CHUNK)) for _ in range(_BUFFERS))
        for piece in edits.pieces:
            if isinstance(piece, bytes):
                stream.write(piece)
                digesting.submit(digest.update, piece)
                size += len(piece)
                continue
            place, end = piece
            old.seek(place)
            while place < end:
                turn = next(turns)
                turn.wait()
                view = memoryview(turn.buffer)
                count = old.readinto(view[: end - place])
                if not count:
                    raise InvalidWheel(f"{source.name} became shorter while it was read", where=source)
                turn.digested = digesting.submit(digest.update, view[:count])
                stream.write(view[:count])
                headers.seen(turn.buffer, count, place)
                place += count
                size += count
        headers.finish()
    return digest.hexdigest(), size


@dataclass
class _Turn:
    """A buffer, and the digest that is still being taken of what is in it."""

    buffer: bytearray
    digested: Future[None] | None = None

    def wait(self) -> None:
        """Until the buffer may be filled again."""
        if self.digested is not None:
            self.digested.result()
