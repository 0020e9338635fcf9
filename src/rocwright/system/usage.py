"""What this process and the commands that it ran have used so far."""

from __future__ import annotations

import os
import sys

import msgspec


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
