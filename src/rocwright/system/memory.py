"""Memory: how much this process may still take, and what the C library does with what was freed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

import msgspec

from rocwright.system.cgroup import Groups, find_groups, read_number, read_table

# From malloc.h of glibc.
_M_MMAP_THRESHOLD = -3
_LARGE = 1 << 20


class Memory(msgspec.Struct, frozen=True):
    """Bytes that programs may use, and `available`: what of them is free or can be freed at once.

    Both None where the system does not tell. `limit_of` names the directory of the control group that allows
    less than the machine has; empty when the machine itself is the limit. Swap is not counted: a compiler
    that swaps is slower than one that waits.
    """

    total: int | None = None
    available: int | None = None
    limit_of: str = ""


def available_memory(*, root: Path = Path("/")) -> Memory:
    """What the machine and every control group around this process leave; the tightest of them decides.

    `root` stands for the file system's root.
    """
    memory = _of_machine(root)
    groups = find_groups("memory", root=root)
    for directory in groups.directories if groups else ():
        limit = _limit(groups, directory) if groups else None
        if groups is None or limit is None or (memory.total is not None and limit >= memory.total):
            continue
        free = max(0, limit - _in_use(groups, directory))
        if memory.available is None or free < memory.available:
            memory = Memory(limit, free, str(directory))
    return memory


def _of_machine(root: Path) -> Memory:
    table = read_table(root / "proc/meminfo")
    if "MemTotal" in table:
        total = table["MemTotal"] << 10
        return Memory(total, table.get("MemAvailable", table["MemTotal"]) << 10)
    if sys.platform == "win32":
        return Memory()
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return Memory()
    return Memory(total, total)


def _limit(groups: Groups, directory: Path) -> int | None:
    """Bytes; None without one. Beyond `memory.high` a group is slowed down until nothing moves any more."""
    if groups.version == 2:
        limits = [read_number(directory / name) for name in ("memory.max", "memory.high")]
        return min((limit for limit in limits if limit is not None), default=None)
    if directory != groups.directories[0] and read_number(directory / "memory.use_hierarchy") == 0:
        return None
    return read_number(directory / "memory.limit_in_bytes")


def _in_use(groups: Groups, directory: Path) -> int:
    """Bytes that cannot be freed at once: files in the page cache can, and count as used in a group."""
    prefix = "total_" if groups.version == 1 else ""
    usage = "memory.usage_in_bytes" if groups.version == 1 else "memory.current"
    table = read_table(directory / "memory.stat")
    cached = sum(
        table.get(name, 0) for name in (f"{prefix}inactive_file", f"{prefix}active_file", "slab_reclaimable")
    )
    return max(0, (read_number(directory / usage) or 0) - cached)


def return_large_blocks() -> None:
    """Let freed blocks of 1 MiB and more go back to the system at once, in this whole process.

    glibc raises that limit with the blocks it sees, up to 32 MiB, and then keeps what each thread freed:
    with many threads several times what is in use. For programs, not for libraries; other C libraries are
    left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
