"""What differs between systems about a process and those that it starts: group, output, end and use.

On POSIX a command leads a session of its own, so a signal reaches all below it. On Windows it leads a console
group, which takes one polite event, and `taskkill` ends the tree below it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from typing import IO

import msgspec

Started = subprocess.Popen[bytes]


class Usage(msgspec.Struct, frozen=True):
    """What an ended process used, with the children it waited for; zeros where the system does not tell."""

    cpu_s: float = 0.0
    peak_rss: int = 0


if sys.platform == "win32":
    _UNHEARD_S = 0.5
    # What `Popen` is told as `creationflags` and `start_new_session`.
    OWN_GROUP, OWN_SESSION = subprocess.CREATE_NEW_PROCESS_GROUP, False

    def end_group(pid: int, *, force: bool) -> None:
        """Ask a process with a group of its own and those below it to end, or end them by force."""
        if not force:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.CTRL_BREAK_EVENT)
            return
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)

    def has_ended(child: Started) -> bool:
        """Whether a process has ended; it is still to be waited for."""
        return child.poll() is not None

    def wait(child: Started) -> Usage:
        """Wait for the end of a process: its exit code is then set."""
        # Ctrl-C ends no wait on Windows: it is heard between short waits.
        while not has_ended(child):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_UNHEARD_S)
        return Usage()

else:
    # A group of its own, so that stopping the run also stops compilers below make or ninja.
    OWN_GROUP, OWN_SESSION = 0, True

    def end_group(pid: int, *, force: bool) -> None:
        """Ask a process with a group of its own and those below it to end, or end them by force."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL if force else signal.SIGTERM)

    def has_ended(child: Started) -> bool:
        """Whether a process has ended; it is still to be waited for."""
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(child: Started) -> Usage:
        """Wait for the end of a process: its exit code is then set."""
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return Usage(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def pieces(child: Started, quiet_s: float) -> Generator[tuple[str, bytes], None, None]:
    """What a process prints to `out` and `err` as it comes; b"" where a stream ends.

    Ends with both streams, or when nothing came for `quiet_s` seconds after the process ended: a daemon that
    it started keeps them open.
    """
    return from_threads(child, quiet_s) if sys.platform == "win32" else _selected(child, quiet_s)


def _streams(child: Started) -> dict[str, IO[bytes]]:
    assert child.stdout is not None and child.stderr is not None
    return {"out": child.stdout, "err": child.stderr}


def _selected(child: Started, quiet_s: float) -> Generator[tuple[str, bytes], None, None]:
    streams = _streams(child)
    with selectors.DefaultSelector() as waiting, streams["out"], streams["err"]:
        for name, stream in streams.items():
            waiting.register(stream, selectors.EVENT_READ, name)
        while waiting.get_map():
            ready = waiting.select(timeout=quiet_s)
            if not ready and has_ended(child):
                return
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                yield key.data, data
                if not data:
                    waiting.unregister(key.fileobj)


def from_threads(child: Started, quiet_s: float) -> Generator[tuple[str, bytes], None, None]:
    """`pieces` where a pipe cannot be waited for: a thread reads each."""
    streams = _streams(child)
    come: queue.Queue[tuple[str, bytes]] = queue.Queue()

    def read(name: str, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                come.put((name, data))
        come.put((name, b""))

    for name, stream in streams.items():
        threading.Thread(target=read, args=(name, stream), daemon=True).start()
    left = len(streams)
    while left:
        try:
            name, data = come.get(timeout=quiet_s)
        except queue.Empty:
            if has_ended(child):
                return
            continue
        yield name, data
        left -= not data
