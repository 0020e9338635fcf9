"""Open files that may be anything, and notice when they change."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple


class Identity(NamedTuple):
    """What tells one state of a file from another; times in nanoseconds, `size` in bytes."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


def identity_of(handle: int) -> Identity:
    """The state of an open file."""
    told = os.fstat(handle)
    return Identity(told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)


if sys.platform == "win32":
    # Line ends would be turned otherwise; no pipe that could be waited for lies among files.
    _READ = os.O_RDONLY | os.O_BINARY
else:
    _READ = os.O_RDONLY | os.O_NONBLOCK


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; raises `OSError`, also for a folder or a pipe, without waiting."""
    handle = os.open(path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file")
    except OSError:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as stream:
        yield stream


def reason(error: OSError) -> str:
    """Why a file cannot be read, without its path."""
    return error.strerror or str(error)
