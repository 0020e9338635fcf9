"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from rocwright.system.cgroup import Groups, find_groups, read_number, read_words


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
