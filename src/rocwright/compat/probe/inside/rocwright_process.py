"""A process that may be lost: forked before torch is imported, heard through a pipe, ended by force."""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
from typing import Any

NO_FORK = "exercises run in forked processes, which this system lacks: use Linux, or WSL"
# So much of what it printed last is kept, in bytes.
_TAIL = 2000
# A process in a driver's hands may not even be killed.
_STUCK_S = 20.0


class Worker:
    """A process that imports torch and does exercises; it talks in lines of JSON through a pipe."""

    def __init__(self, todo: list[dict[str, Any]], asked: str, profile: bool, log: str) -> None:
        self.log = log
        open(log, "ab").close()  # noqa: PTH123
        # Where its output begins.
        self.start = self.size()
        reader, writer = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = _fork()
        if self.pid == 0:
            os.close(reader)
            _become_worker(writer, parent, todo, asked, profile, log)
        os.close(writer)
        self._reader = reader
        self._heard = b""
        self.closed = False

    def messages(self, wait_s: float) -> list[dict[str, Any]]:
        """What it says within so many seconds; notes in `closed` that nothing more will come."""
        if not select.select([self._reader], [], [], max(0.0, wait_s))[0]:
            return []
        data = os.read(self._reader, 1 << 16)
        self.closed = not data
        *lines, self._heard = (self._heard + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> str:
        """End it, if it did not end by itself; how it ended, in words."""
        if sys.platform == "win32":
            raise OSError(NO_FORK)
        if not self.closed:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._reader)
        deadline = time.monotonic() + _STUCK_S
        while True:
            gone, status = os.waitpid(self.pid, os.WNOHANG)
            if gone:
                break
            if time.monotonic() > deadline:
                return "cannot be ended: it is stuck in the system"
            time.sleep(0.005)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            try:
                name = signal.Signals(number).name
            except ValueError:
                name = str(number)
            return f"ended by signal {name}"
        return f"ended with exit code {os.WEXITSTATUS(status)}"

    def size(self) -> int:
        """How much it has printed, in bytes."""
        return os.path.getsize(self.log)  # noqa: PTH202

    def printed(self, start: int = 0) -> str:
        """The end of what it printed behind `start`."""
        with open(self.log, "rb") as stream:  # noqa: PTH123
            stream.seek(max(start, self.size() - _TAIL))
            return stream.read().decode("utf-8", "replace").strip()


def _fork() -> int:
    if sys.platform == "win32":
        raise OSError(NO_FORK)
    return os.fork()


def _become_worker(
    writer: int, parent: int, todo: list[dict[str, Any]], asked: str, profile: bool, log: str
) -> None:
    """The forked process; never returns."""
    status = 1
    try:
        sink = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
        faulthandler.enable(all_threads=False)
        _die_with(parent)
        from rocwright_exercise import work

        work(writer, todo, asked, profile=profile)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        # Past what atexit and a GPU's runtime would do: nothing of that is measured here.
        os._exit(status)


def _die_with(parent: int) -> None:
    """Neither outlive the one who waits, nor write the memory of a crash to the disk."""
    if sys.platform != "linux":
        return
    import ctypes
    import resource

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(70)
    # One byte rather than none: Linux hands the whole memory to a program in core_pattern whatever the limit.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    wanted = 0 if hard == 0 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (wanted, hard))
