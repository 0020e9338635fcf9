"""A process that is talked with and may be lost: what it and those below it use, and how all of them end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from rocwright.system import marked, process
from rocwright.system.group import end_group
from rocwright.system.marked import end_marked

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
# A signal that programs leave alone, for a process that has registered a handler; none on Windows.
DUMP_SIGNAL: int | None = int(signal.SIGRTMAX) - 3 if hasattr(signal, "SIGRTMAX") else None


class Child:
    """A running process, the first of a session of its own. `pid` as long as it was not waited for."""

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: Path,
        env: Mapping[str, str],
        drop_env: Sequence[str] = (),
        log: Path,
        inherit: Sequence[int] = (),
    ) -> None:
        self.mark = uuid.uuid4().hex
        self._process = process.start(
            argv, cwd=cwd, env=env, drop_env=drop_env, log=log, inherit=inherit, mark=self.mark
        )
        self.pid = self._process.pid

    def ended(self, patience_s: float = 0.0) -> int | None:
        """Its exit code, a signal as its negative number; None while it runs after `patience_s` seconds."""
        deadline = time.monotonic() + patience_s
        while (code := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return code

    def ask_for_dump(self) -> bool:
        """Have it write the traceback of every thread to its log; whether that can be asked for."""
        if DUMP_SIGNAL is None or self._process.poll() is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, DUMP_SIGNAL)
        return True

    def end(self, patience_s: float) -> int | None:
        """End it and everything it started, by force; its exit code, None where it is stuck in the system."""
        # What it started first sees its end otherwise, and may start others.
        with contextlib.suppress(PermissionError):
            end_group(self.pid, force=True)
        code = self.ended(patience_s)
        if Path("/proc/self/environ").exists():
            end_marked(self.mark, patience_s=1.0)
        if code is not None:
            process.forget(self._process)
        return code

    def memory(self) -> int:
        """Bytes of memory that this process alone holds; 0 where the system does not tell."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return 0


class Guard:
    """Ends what children leave running should this process be killed: a process that outlives it.

    A child alone could tell the system to end it then, but nobody tells those that it started. Linux;
    elsewhere it does nothing.
    """

    def __init__(self) -> None:
        self._child: Child | None = None
        if not Path("/proc/self/environ").exists():
            return
        theirs, self._marks = os.pipe()
        try:
            words = [sys.executable, "-I", "-S", marked.__file__, str(theirs)]
            self._child = Child(words, cwd=Path("/"), env={}, log=Path(os.devnull), inherit=(theirs,))
        except BaseException:
            os.close(self._marks)
            raise
        finally:
            os.close(theirs)

    def watch(self, child: Child) -> None:
        """End what this child started, too."""
        if self._child is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._marks, child.mark.encode() + b"\n")

    def close(self) -> None:
        """Nothing is left to end."""
        if self._child is not None:
            self._child.end(1.0)
            os.close(self._marks)
            self._child = None


def processes_below(pids: Sequence[int]) -> dict[int, dict[int, int]]:
    """Of each process in `pids`: it and those below it or in its session, with the bytes that each holds.

    Linux; elsewhere empty. Source: proc_pid_stat(5).
    """
    rows: dict[int, tuple[int, int, int]] = {}
    for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH112
        if not entry.name.isdigit():
            continue
        try:
            with open(f"/proc/{entry.name}/stat", "rb") as stream:  # noqa: PTH123
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 21:
            rows[int(entry.name)] = (int(fields[1]), int(fields[3]), int(fields[21]) * _PAGE)
    below: dict[int, dict[int, int]] = {pid: {} for pid in pids}
    for pid, (_, session, held) in rows.items():
        owner = session if session in below else None
        at = pid
        while owner is None and at in rows:
            owner = at if at in below else None
            at = rows[at][0]
        if owner is not None:
            below[owner][pid] = held
    return below


def shared_out(pids: Mapping[int, int]) -> int:
    """Bytes that processes hold together, memory that several share counted once; `pids` as above."""
    total = 0
    for pid, held in pids.items():
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_bytes()
            total += next(
                int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(b"Pss:")
            )
        except (OSError, StopIteration, ValueError, IndexError):
            total += held
    return total
