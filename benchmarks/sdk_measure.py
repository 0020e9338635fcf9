"""Run a command and tell what it took: wall, CPU of it and its children, memory and disk while it ran."""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rocwright.system.files import sha256_file as sha256

__all__ = ["Command", "Ran", "cpu_ms", "disk_bytes", "middle", "run", "sha256", "shown"]

Command: TypeAlias = list[str | Path]


@dataclass(frozen=True)
class Ran:
    """Seconds and bytes of one run. `peak_disk` counts the watched directories and files without a name."""

    wall: float
    cpu: float
    peak_anonymous: int
    peak_disk: int
    output: str

    @property
    def said(self) -> Any:
        """The JSON that it printed."""
        return json.loads(self.output)


class _Watch(threading.Thread):
    """Looks at a tree of processes every 10 ms."""

    def __init__(self, pid: int, directories: Sequence[Path]) -> None:
        super().__init__(daemon=True)
        self.pid, self.directories = pid, directories
        self.anonymous = self.disk = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.01):
            pids = processes(self.pid)
            self.anonymous = max(self.anonymous, sum(map(anonymous_bytes, pids)))
            if self.directories:
                now = sum(map(disk_bytes, self.directories)) + sum(map(nameless_bytes, pids))
                self.disk = max(self.disk, now)


def run(
    command: Command,
    *,
    watch: Sequence[Path] = (),
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    sample: bool = True,
) -> Ran:
    """Run to the end; a failure ends the benchmark with what the command said."""
    argv = [str(word) for word in command]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as talk:
        began = time.monotonic()
        child = subprocess.Popen(argv, stdout=out, stderr=talk, cwd=cwd, env={**os.environ, **(env or {})})
        watcher = _Watch(child.pid, watch)
        if sample:
            watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        watcher.done.set()
        if sample:
            watcher.join()
        out.seek(0)
        talk.seek(0)
        if child.returncode:
            raise SystemExit(f"{shlex.join(argv)} ended with {child.returncode}\n{talk.read()[-2000:]}")
        cpu = usage.ru_utime + usage.ru_stime
        return Ran(wall, cpu, watcher.anonymous, watcher.disk, out.read())


def cpu_ms(command: Command) -> float:
    """CPU milliseconds of a short command, with nobody looking on."""
    return run(command, sample=False).cpu * 1000


def processes(pid: int) -> list[int]:
    """A process and everything below it that still runs."""
    found = [pid]
    for parent in found:
        for task in _entries(f"/proc/{parent}/task"):
            try:
                found += [int(word) for word in Path(task, "children").read_text().split()]
            except OSError:
                continue
    return found


def _entries(directory: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(directory)]
    except OSError:
        return []


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that no file stands behind."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def nameless_bytes(pid: int) -> int:
    """Disk under open files that have no name any more; memory files are none."""
    size = 0
    for entry in _entries(f"/proc/{pid}/fd"):
        try:
            text = str(Path(entry).readlink())
            if text.endswith(" (deleted)") and not text.startswith(("/memfd:", "/dev/shm/")):
                size += Path(entry).stat().st_blocks * 512
        except OSError:
            continue
    return size


def disk_bytes(root: Path) -> int:
    """What `du` says: blocks, each file once however many names it has."""
    seen: dict[tuple[int, int], int] = {}
    for here, _, files in os.walk(root):
        for name in files:
            try:
                facts = Path(here, name).lstat()
            except OSError:
                continue
            seen[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(seen.values())


def middle(values: Iterable[float], digits: int = 2) -> float:
    """The median, rounded."""
    return round(statistics.median(values), digits)


def shown(command: Command) -> str:
    """The command line as one would type it."""
    return shlex.join(str(word) for word in command)
