"""What this process may use of the machine, and what it has used: cores, memory, time.

On Linux containers, services and batch jobs are given less than their machine has: the limits stand in the
control groups of the process.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from pathlib import Path, PurePosixPath

import msgspec

# From malloc.h of glibc.
_M_MMAP_THRESHOLD = -3
_LARGE = 1 << 20


def available_cores(*, root: Path = Path("/")) -> int:
    """Cores this process may use at once: those that it may run on, at most as many as its groups pay for.

    A container that is given one core and a half still sees every core of its machine; two jobs are right
    for it. `root` stands for the file system's root.
    """
    cores = _allowed()
    groups = find_groups("cpu", root=root)
    quotas = [] if groups is None else [_quota(groups, path) for path in groups.directories]
    return max(1, min([cores, *(math.ceil(quota) for quota in quotas if quota is not None)]))


def _allowed() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(groups: Groups, directory: Path) -> float | None:
    """Cores' worth of time that a group gets; None without a limit."""
    if groups.version == 2:
        words = read_words(directory / "cpu.max")
        numbers = [int(word) for word in words if word.isdigit()]
        return numbers[0] / numbers[1] if len(numbers) == 2 and numbers[1] else None
    quota = read_number(directory / "cpu.cfs_quota_us")
    period = read_number(directory / "cpu.cfs_period_us")
    return quota / period if quota is not None and quota > 0 and period else None


class Memory(msgspec.Struct, frozen=True):
    """Bytes that programs may use, and `available`: what of them is free or can be freed at once.

    Both None where the system does not tell. `limit_of` names the directory of the control group that allows
    less than the machine has; empty when the machine itself is the limit. Swap is not counted: a compiler
    that swaps is slower than a build that waits.
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
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


class Used(msgspec.Struct, frozen=True):
    """Seconds of CPU, and the largest resident set of this process or any one command in bytes.

    `peak_rss` is 0 where the system does not tell; Windows counts commands in neither.
    """

    cpu_s: float
    peak_rss: int


if sys.platform == "win32":  # pragma: no cover

    def used() -> Used:
        """What was used until now."""
        return Used(sum(os.times()[:4]), 0)

else:
    import resource

    def used() -> Used:
        """What was used until now."""
        both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return Used(
            sum(one.ru_utime + one.ru_stime for one in both), max(one.ru_maxrss for one in both) * 1024
        )


class Groups(msgspec.Struct, frozen=True):
    """Directories of one controller, the process's own group first, then those around it as far as is seen.

    `version` is 1 or 2; a limit of any of them holds for the process.
    """

    version: int
    directories: tuple[Path, ...]


def find_groups(controller: str, *, root: Path = Path("/")) -> Groups | None:
    """The groups that limit this process's use of `controller` (`memory`, `cpu`); None where nobody tells.

    Version 1 is looked for first: where both are mounted, a controller belongs to one of them, and one that
    version 1 lists is not in the tree of version 2. `root` stands for the file system's root.

    Source: cgroups(7), proc_pid_mountinfo(5).
    """
    own = _own_groups(_text(root / "proc/self/cgroup"))
    mounts = _mounts(_text(root / "proc/self/mountinfo"))
    for version, name in ((1, controller), (2, "")):
        for mount in mounts:
            if mount.version == version and name in mount.controllers and name in own:
                found = _directories(mount, own[name], root)
                if version == 1 or any((group / f"{controller}.stat").exists() for group in found):
                    return Groups(version, found)
    return None


class _Mount(msgspec.Struct, frozen=True):
    """A mounted tree of groups; `base` is the group that its topmost directory is."""

    version: int
    controllers: frozenset[str]
    base: str
    point: str


def _own_groups(text: str) -> dict[str, str]:
    """Lines such as `4:memory:/docker/1a2b` (version 1) and `0::/user.slice` (version 2, no controller)."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            own |= dict.fromkeys(fields[1].split(","), fields[2])
    return own


def _mounts(text: str) -> list[_Mount]:
    """`ID PARENT DEVICE BASE POINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS`; spaces are written `\\040`."""
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if not separator or len(left) < 5 or len(right) < 3 or right[0] not in ("cgroup", "cgroup2"):
            continue
        base, point = (field.replace("\\040", " ") for field in left[3:5])
        if right[0] == "cgroup":
            mounts.append(_Mount(1, frozenset(right[2].split(",")), base, point))
        else:
            mounts.append(_Mount(2, frozenset([""]), base, point))
    return mounts


def _directories(mount: _Mount, own: str, root: Path) -> tuple[Path, ...]:
    """From the own group up to the topmost that is mounted.

    In a container without a namespace of its own for groups, `own` is the path on the host, of which only the
    part below `base` is mounted. A group that lies outside of what is mounted (`/../x`) leaves the topmost.
    """
    top = root / mount.point.lstrip("/")
    try:
        below = PurePosixPath(own).relative_to(mount.base)
    except ValueError:
        return (top,)
    if ".." in below.parts:
        return (top,)
    group = top / below
    around = [group, *group.parents]
    return tuple(path for path in around[: len(below.parts) + 1] if path.is_dir())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def read_number(path: Path) -> int | None:
    """The number that a file of a group holds; None where there is no file, or no limit (`max`)."""
    try:
        return int(_text(path))
    except ValueError:
        return None


def read_table(path: Path) -> dict[str, int]:
    """The lines `NAME NUMBER` of a file such as `memory.stat`; empty where there is none."""
    table = {}
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdigit():
            table[words[0].rstrip(":")] = int(words[1])
    return table


def read_words(path: Path) -> tuple[str, ...]:
    """What stands in a file of a group, such as `max 100000`; empty where there is none."""
    return tuple(_text(path).split())
