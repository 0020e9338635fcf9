"""The file that is filled before it is renamed to what it is to be: each writer has one of its own."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# Marks a file or directory that is being written; never taken for a whole one, removed on the next run.
PARTIAL = ".partial"

if sys.platform == "win32":  # pragma: no cover

    def _ours(stream: IO[bytes], path: Path) -> bool:
        return True

else:
    import fcntl

    def _ours(stream: IO[bytes], path: Path) -> bool:
        """Whether no other writer fills the file, and it still has this name: a writer gives it another."""
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks.
            return True
        try:
            return os.path.samestat(os.fstat(stream.fileno()), path.stat())
        except FileNotFoundError:
            return False


@contextmanager
def opened_partial(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """An empty file beside `path` to write into, and its name: `<name>.partial`.

    While another run or thread fills that one, it has a random name. What a killed writer left is used again.
    Rename it before the block ends: until then no other writer takes it.
    """
    partial = path.with_name(path.name + PARTIAL)
    with _opened(partial) as stream:
        if _ours(stream, partial):
            # Devices cannot be cut.
            if os.fstat(stream.fileno()).st_size:
                stream.truncate(0)
            yield partial, stream
            return
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{PARTIAL}")
    with _opened(partial) as stream:
        yield partial, stream


def _opened(path: Path) -> IO[bytes]:
    """Open for writing, made where it is not there; not cut: somebody may be writing it."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags & ~os.O_TRUNC, 0o666))
