"""Finds and ends processes by the variable that tells which run started them.

Runs as a program, too, beside a process that may be killed: `marked.py FD` reads marks, a line each, until
the descriptor ends, as it does when that process is gone, and ends what bears a mark. Standard library only,
so that it starts within milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

MARK = "ROCWRIGHT_RUN"


def end_marked(*runs: str, patience_s: float = 10.0) -> int:
    """End by force what killed runs of these marks left behind, descendants included; returns how many.

    Linux only (reads /proc); processes of other users cannot be looked into and are left alone.
    """
    if sys.platform == "win32":
        return 0
    wanted = {f"{MARK}={run}".encode() for run in runs}
    ended: set[int] = set()
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        alive = [pid for pid in _other_processes() if not wanted.isdisjoint(_environment_of(pid))]
        if not alive:
            break
        for pid in alive:
            ended.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return len(ended)


def _other_processes() -> list[int]:
    here = os.getpid()
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and int(entry.name) != here
    ]


def _environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), encoding="ascii") as told:
        marks = told.read().split()
    end_marked(*marks)
