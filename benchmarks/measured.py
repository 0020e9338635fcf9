"""How benchmarks measure: commands as processes, sides in turn, and what others took of the cores."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import msgspec

from rocwright.system.files import sha256_file as sha256

__all__ = [
    "Command",
    "Ran",
    "Side",
    "Turns",
    "disk_bytes",
    "fresh",
    "give_up",
    "middle",
    "run",
    "sha256",
    "turns",
]

# The share of the cores' time that others may take from a wall that counts.
LOADED = 0.1
# How a benchmark ends that could not measure; 1 is a missed goal.
UNMEASURED = 2
CORES = len(os.sched_getaffinity(0))
ROCWRIGHT = Path(sys.executable).with_name("rocwright")
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
    """Looks at a tree of processes every 10 ms, or as often as a tenth of a core lets it."""

    def __init__(self, pid: int, directories: Sequence[Path]) -> None:
        super().__init__(daemon=True)
        self.pid, self.directories = pid, directories
        self.anonymous = self.disk = 0
        self.done = threading.Event()

    def run(self) -> None:
        pause = 0.01
        while not self.done.wait(pause):
            began = time.thread_time()
            pids = processes(self.pid)
            self.anonymous = max(self.anonymous, sum(map(anonymous_bytes, pids)))
            if self.directories:
                now = sum(map(disk_bytes, self.directories)) + sum(map(nameless_bytes, pids))
                self.disk = max(self.disk, now)
            pause = max(0.01, 9 * (time.thread_time() - began))


def run(
    command: Sequence[str | Path],
    *,
    watch: Sequence[Path] = (),
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    sample: bool = True,
    accept: Collection[int] = (0,),
) -> Ran:
    """Run to the end; a failure ends the benchmark with what the command said. Byte code is kept."""
    argv = [str(word) for word in command]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as talk:
        began = time.monotonic()
        child = subprocess.Popen(argv, stdout=out, stderr=talk, cwd=cwd, env={**kept, **(env or {})})
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
        if child.returncode not in accept:
            give_up(f"{shlex.join(argv)} ended with {child.returncode}\n{talk.read()[-2000:]}")
        cpu = usage.ru_utime + usage.ru_stime
        return Ran(wall, cpu, watcher.anonymous, watcher.disk, out.read())


def give_up(why: str) -> NoReturn:
    """End a benchmark that cannot measure."""
    print(why, file=sys.stderr)
    raise SystemExit(UNMEASURED)


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
    """Anonymous memory of a process; cached files do not count."""
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


def fresh(path: Path, *, made: bool = False) -> Path:
    """A directory that is not there, or one that is empty, whatever an earlier run left."""
    shutil.rmtree(path, ignore_errors=True)
    if made:
        path.mkdir(parents=True)
    return path


def middle(values: Iterable[float], digits: int = 2) -> float:
    """The median, rounded."""
    return round(statistics.median(values), digits)


# The machine meanwhile.


class Load(msgspec.Struct, frozen=True):
    """Load averages before and after, and the share of our cores' time that others took in between."""

    before: float
    after: float
    others: float

    @property
    def loaded(self) -> bool:
        """Whether seconds of this time are no result."""
        return self.others > LOADED


class Watched:
    """Measures the load while it is open; `load` is there afterwards.

    What others took is what the kernel counted as busy on the cores that this process may use, less the CPU
    seconds of this process and of those that it waited for.
    """

    load: Load

    def __enter__(self) -> Watched:
        self._before = os.getloadavg()[0], _busy_s(), _own_s(), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        average, busy, own, began = self._before
        others = max(0.0, _busy_s() - busy - (_own_s() - own)) / ((time.monotonic() - began) * CORES)
        self.load = Load(round(average, 2), round(os.getloadavg()[0], 2), round(min(others, 1.0), 2))


def _busy_s() -> float:
    cores = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in cores:
            user, nice, system, _, _, irq, soft, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + soft + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


# Sides in turn.


@dataclass(frozen=True)
class Side:
    """A command, and how it is run. `inner`: it prints its `cpu_s` and `wall_s` itself, without its start."""

    command: Sequence[str | Path]
    prepare: Callable[[], object] | None = None
    inner: bool = False
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    accept: Collection[int] = (0,)

    def once(self, *, sample: bool = False) -> Ran:
        """One run."""
        if self.prepare:
            self.prepare()
        ran = run(self.command, cwd=self.cwd, env=self.env, sample=sample, accept=self.accept)
        return replace(ran, cpu=ran.said["cpu_s"], wall=ran.said["wall_s"]) if self.inner else ran


@dataclass(frozen=True)
class Turns:
    """All runs of each side, but the first, which fills the caches of both and tells of memory."""

    first: dict[str, Ran]
    ran: dict[str, list[Ran]]
    load: Load

    def cpu(self, side: str) -> float:
        """Median CPU seconds."""
        return statistics.median(one.cpu for one in self.ran[side])

    def wall(self, side: str) -> float:
        """Median seconds."""
        return statistics.median(one.wall for one in self.ran[side])

    def told(self, side: str, key: str) -> float:
        """Median of a figure that the side prints itself."""
        return statistics.median(float(one.said[key]) for one in self.ran[side])


def turns(sides: Mapping[str, Side], runs: int, *, sample: Collection[str] = ()) -> Turns:
    """Run all sides in turn, so often; memory of those to `sample` in the first run, which does not count."""
    first = {}
    for name, side in sides.items():
        print(f"{name}: {shlex.join(map(str, side.command))}"[:300].replace("\n", " "), file=sys.stderr)
        first[name] = side.once(sample=name in sample)
    ran: dict[str, list[Ran]] = {name: [] for name in sides}
    with Watched() as watched:
        for _ in range(runs):
            for name, side in sides.items():
                ran[name].append(side.once())
    return Turns(first, ran, watched.load)
