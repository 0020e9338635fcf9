"""Read at an offset of an open file, on every system."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":  # pragma: no cover
    import threading

    # The place of a handle is moved, so two threads must not read at the same time.
    _moving = threading.Lock()

    def pread(handle: int, length: int, offset: int) -> bytes:
        """At most `length` bytes from `offset`, fewer at the end; raises `OSError`."""
        with _moving:
            os.lseek(handle, offset, os.SEEK_SET)
            return os.read(handle, length)

else:
    pread = os.pread
