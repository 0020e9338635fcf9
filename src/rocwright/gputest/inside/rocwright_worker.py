"""A worker: a pytest session that collects files and runs tests as told, and reports what each showed.

Runs in the environment under test, as `python rocwright_worker.py '{"fd": 5, …}' PYTEST-ARGUMENTS`: standard
library and pytest only. The other end is `rocwright.gputest.isolate`; both talk in lines of JSON. All output
goes to the worker's log, uncaptured: what a crash printed is seen there.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

# Exit code of a worker whose connection or log was closed by a test, or by the end of the coordinator.
LOST = 70
_PR_SET_PDEATHSIG = 1


class Connection:
    """The connection; messages wait for the next `flush`."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._owner = os.getpid()
        self._heard = b""
        self._said: list[str] = []

    def say(self, *message: object) -> None:
        """Note a message for the next `flush`."""
        self._said.append(json.dumps(message))

    def flush(self) -> None:
        """Send the messages; without a connection this process is of no use."""
        if os.getpid() != self._owner:
            # A child that a test forked and that returned into pytest: its results are nobody's.
            os._exit(LOST)
        data = "".join(line + "\n" for line in self._said).encode()
        self._said.clear()
        try:
            self._socket.sendall(data)
        except OSError:
            os._exit(LOST)

    def give_up(self) -> None:
        """End this process: it is of no use any more."""
        os._exit(LOST)

    def hear(self, *, wait: bool) -> list[Any] | None:
        """The next command; None when there is none and `wait` is false."""
        while b"\n" not in self._heard:
            try:
                if not wait and not select.select([self._socket], [], [], 0)[0]:
                    return None
                data = self._socket.recv(1 << 16)
            except (OSError, ValueError):
                os._exit(LOST)
            if not data:
                os._exit(LOST)
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        command: list[Any] = json.loads(line)
        return command


def connect(told: dict[str, Any]) -> Connection:
    """The inherited socket, or a connection to the coordinator's port."""
    if "fd" in told:
        connection = socket.socket(fileno=told["fd"])
        connection.set_inheritable(False)
        return Connection(connection)
    connection = socket.create_connection(("127.0.0.1", told["port"]))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(told["token"].encode() + b"\n")
    return Connection(connection)


def settle(told: dict[str, Any]) -> int:
    """Let this process be lost without harm: returns a descriptor of the log of its own."""
    log = os.dup(2)
    faulthandler.enable(file=log, all_threads=True)
    if sys.platform != "win32" and told.get("dump") is not None:
        faulthandler.register(told["dump"], file=log, all_threads=True)
    if sys.platform == "linux":
        # What the coordinator's SIGKILL leaves running would hold the GPU.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if told["parent"] is not None and os.getppid() != told["parent"]:
            os._exit(LOST)
        # Writing the memory of a crashed torch to the disk takes longer than starting the next worker. One
        # byte rather than none: Linux hands the whole memory to a program in core_pattern whatever the limit,
        # but for a limit of one (fs/coredump.c).
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))
        with contextlib.suppress(OSError):
            # Should memory run out, this is the process to end, not that which reports it.
            Path("/proc/self/oom_score_adj").write_text("600", encoding="ascii")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    return log


def main() -> int:
    """Run until told to end."""
    told = json.loads(sys.argv[1])
    # Test files read the command line as pytest's.
    sys.argv = [sys.argv[0], *sys.argv[2:]]
    log = settle(told)
    line = connect(told)
    # PYTHONSAFEPATH leaves the directory of the program out.
    inside = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - links stay as they are named
    if inside not in sys.path:
        sys.path.insert(0, inside)
    try:
        import pytest
        from rocwright_session import WorkerPlugin
    except ImportError as missing:
        line.say("no pytest", str(missing))
        line.flush()
        return 1
    sys.stdout = os.fdopen(os.dup(log), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    worker = WorkerPlugin(line, log, told["directories"])
    code = pytest.main(sys.argv[1:], plugins=[worker])
    line.say("bye", int(code))
    line.flush()
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
