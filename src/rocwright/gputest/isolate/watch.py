"""Watches the memory and the number of the processes of workers."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from rocwright.model.testing import Verdict
from rocwright.system.cgroup import find_groups, read_table
from rocwright.system.child import Child, processes_below, shared_out

# Looking at every process of the machine takes some milliseconds.
_ALL_S = 0.5
_MOST_PROCESSES = 1000


class Watch:
    """`limit` in bytes for a worker with its children; None where nobody tells how much there is."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._looked = 0.0
        self._kills = _system_kills()

    def over(self, children: Sequence[tuple[int, Child]], now: float) -> dict[int, tuple[Verdict, str]]:
        """By worker: verdict and message for those that are to be ended."""
        found: dict[int, tuple[Verdict, str]] = {}
        if self._limit is not None:
            for number, child in children:
                if (held := child.memory()) > self._limit:
                    found[number] = "memory", self._message(held)
        if now - self._looked >= _ALL_S:
            self._looked = now
            below = processes_below([child.pid for _, child in children])
            for number, child in children:
                if number not in found and (reason := self._of_all(below[child.pid])) is not None:
                    found[number] = reason
        return found

    def _of_all(self, below: dict[int, int]) -> tuple[Verdict, str] | None:
        if len(below) > _MOST_PROCESSES:
            return "crashed", f"started more than {_MOST_PROCESSES} processes"
        # What forked processes share is counted in each of them: only where that sum is too much, exactly.
        if self._limit is None or sum(below.values()) <= self._limit:
            return None
        held = shared_out(below)
        return ("memory", self._message(held)) if held > self._limit else None

    def _message(self, held: int) -> str:
        assert self._limit is not None
        return f"its processes held {held / 1e9:.2f} GB; the limit is {self._limit / 1e9:.2f} GB"

    def killed_by_system(self, code: int | None) -> bool:
        """Whether a process that ended with this code was ended because memory ran out."""
        kills, self._kills = self._kills, _system_kills()
        return code == -int(getattr(signal, "SIGKILL", 9)) and self._kills > kills


def _system_kills() -> int:
    """How many processes Linux has ended for memory, in this group or on the machine."""
    groups = find_groups("memory")
    tables = [read_table(path / "memory.events") for path in groups.directories] if groups else []
    return sum(table.get("oom_kill", 0) for table in (*tables, read_table(Path("/proc/vmstat"))))
