"""What the C library does with memory that was freed."""

from __future__ import annotations

import contextlib
import ctypes

# From malloc.h of glibc.
_M_MMAP_THRESHOLD = -3
_LARGE = 1 << 20


def return_large_blocks() -> None:
    """Let freed blocks of 1 MiB and more go back to the system at once, in this whole process.

    glibc raises that limit with the blocks it sees, up to 32 MiB, and then keeps what each thread freed:
    with many threads several times what is in use. For programs, not for libraries; other C libraries are
    left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
