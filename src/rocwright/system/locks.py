"""Locks between runs of this tool, held by the process: a killed process holds nothing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

from rocwright.errors import RocwrightError, UsageError
from rocwright.system import files, process

Waiting = Callable[[], None]
Turn = AbstractContextManager[None]

_POLL_S = 0.05

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _taken(stream: IO[str]) -> bool:
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(stream: IO[str]) -> None:
        # Closing releases it, too, but the system takes its time.
        with contextlib.suppress(OSError):
            msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)

    def _place(directory: Path) -> Path:
        """The file that stands for a directory, which cannot be locked here: among temporary ones."""
        name = hashlib.sha256(os.path.normcase(directory.resolve()).encode()).hexdigest()[:32]
        return Path(tempfile.gettempdir(), f"rocwright-{name}.lock")

else:
    import fcntl

    def _taken(stream: IO[str]) -> bool:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(stream: IO[str]) -> None:
        # A child that another thread is just starting still holds a copy of the file until it becomes its
        # program; closing ours alone would leave the lock with it for that moment.
        fcntl.flock(stream, fcntl.LOCK_UN)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    files.make_directory(path.parent)
    try:
        stream = path.open("a", encoding="utf-8")
    except OSError as error:
        raise files.disk_error(error, path) from error
    with stream:
        try:
            yield stream
        finally:
            _release(stream)


@contextmanager
def exclusive(git_dir: Path) -> Iterator[None]:
    """Keep other runs of this tool off a checkout while the block runs; raises when another is at it."""
    with _opened(git_dir / "rocwright.lock") as stream:
        if not _taken(stream):
            raise RocwrightError(
                "another run is working on this checkout",
                where=git_dir.parent,
                next_step="wait until it has ended",
            )
        yield


def silently() -> None:
    """Tell nobody of a wait."""


@contextmanager
def turn(path: Path, waiting: Waiting = silently) -> Iterator[None]:
    """Run the block when no other thread or run holds the lock file `path`; `waiting` is told of a wait.

    The file stays: removing it would let two in. Raises `Interrupted` when the run is stopped meanwhile.
    """
    with _opened(path) as stream:
        told = False
        while not _taken(stream):
            if not told:
                waiting()
                told = True
            process.pause(_POLL_S)
        yield


@contextmanager
def alone_in(directory: Path, doing: str, next_step: str) -> Iterator[None]:
    """Keep other runs of this tool out of a directory while the block runs; leaves no file there.

    Raises `UsageError` when another run is in it. Where the system locks no directories (some network file
    systems) nobody is kept out.
    """
    files.make_directory(directory)
    if sys.platform == "win32":  # pragma: no cover
        with _opened(_place(directory)) as stream:
            if not _taken(stream):
                raise UsageError(f"another run {doing}", where=directory, next_step=next_step)
            yield
    else:
        held = os.open(directory, os.O_RDONLY)
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"another run {doing}", where=directory, next_step=next_step) from None
            except OSError:
                pass
            yield
        finally:
            os.close(held)


@contextmanager
def turn_in(directory: Path) -> Iterator[None]:
    """Run the block when no other run is in such a block for this directory; leaves no file there.

    Where the system locks no directories (some network file systems) nobody is waited for.
    """
    if sys.platform == "win32":  # pragma: no cover
        with turn(_place(directory)):
            yield
    else:
        held = os.open(directory, os.O_RDONLY)
        try:
            # Closing releases it; nothing is started inside that could inherit it.
            with contextlib.suppress(OSError):
                fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)
