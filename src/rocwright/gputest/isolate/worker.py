"""One worker process: started, talked with, looked after and ended."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.gputest.environment import inside_directory
from rocwright.gputest.isolate.plan import Isolation, grouped
from rocwright.system.child import DUMP_SIGNAL, Child
from rocwright.system.files import make_directory

# A log beyond the first figure keeps its end, of the size of the second.
_LONGEST_LOG = 64 << 20
_KEPT_LOG = 1 << 20
# A tracebacks' dump counts as written when the log has stood still for the first time, or after the second.
_STILL_S = 0.05
_DUMP_S = 0.8

State = Literal["starting", "ready", "collecting", "probing", "ending"]


class Running(msgspec.Struct, frozen=True):
    """A test that was begun: file, index, when, and where its output begins in the log."""

    file: str
    index: int
    since: float
    at: int


class Worker:
    """A worker at its place; `state` and `since` say what it does and since when."""

    def __init__(
        self,
        plan: Isolation,
        place: int,
        plugins: tuple[str, ...],
        env: Mapping[str, str],
        *,
        port: bool = False,
    ) -> None:
        make_directory(plan.log_dir)
        self.log = plan.log_dir.resolve() / f"worker-{place + 1}.log"
        self.state: State = "starting"
        self.began = self.since = time.monotonic()
        # It has collected a file, and so imported what all of them need.
        self.warm = False
        self.running: Running | None = None
        self.collecting = ""
        self.on_gpu = False
        self.own_index: dict[str, dict[int, int]] = {}
        self.ran: tuple[str, int] | None = None
        self.closed = False
        self._heard = b""
        # Behind a program that runs it, that is its parent, whichever process it is.
        told: dict[str, object] = {"parent": None if plan.before else os.getpid(), "dump": DUMP_SIGNAL}
        inherit: tuple[int, ...] = ()
        theirs: socket.socket | None = None
        if port or sys.platform == "win32":
            listener = socket.create_server(("127.0.0.1", 0))
            token = secrets.token_hex(16)
            told |= {"port": listener.getsockname()[1], "token": token}
        else:
            self.socket, theirs = socket.socketpair()
            told["fd"] = theirs.fileno()
            inherit = (theirs.fileno(),)
        arguments, told["directories"] = pytest_arguments(plan, plugins)
        # -u: what a test prints through Python's buffer would be lost with the process.
        # Not resolved: a virtual environment is known by the link to its interpreter.
        python = os.path.abspath(plan.python) if plan.python.parent != Path() else plan.python  # noqa: PTH100
        words = [
            *plan.before,
            python,
            "-u",
            inside_directory() / "rocwright_worker.py",
            json.dumps(told),
            *arguments,
        ]
        self.started_at = self.log.stat().st_size if self.log.exists() else 0
        try:
            self.child = Child(
                words, cwd=plan.root, env=env, drop_env=plan.drop_env, log=self.log, inherit=inherit
            )
            if theirs is None:
                self.socket = self._accept(listener, token, plan.collect_s)
        except BaseException:
            if theirs is not None:
                self.socket.close()
            raise
        finally:
            (listener if theirs is None else theirs).close()
        self.socket.setblocking(False)

    def _accept(self, listener: socket.socket, token: str, limit_s: float) -> socket.socket:
        """The worker's own connection; any process of the machine could open a connection."""
        deadline = time.monotonic() + limit_s
        listener.settimeout(0.1)
        while time.monotonic() < deadline and self.child.ended() is None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                connection.settimeout(1.0)
                if connection.recv(len(token) + 1, socket.MSG_WAITALL) == token.encode() + b"\n":
                    return connection
                connection.close()
        # As if it had closed it: the caller sees that and says what the log says.
        ours, theirs = socket.socketpair()
        theirs.close()
        return ours

    def say(self, *command: object) -> None:
        """Send a command; a worker that is gone is noticed elsewhere."""
        data = json.dumps(command).encode() + b"\n"
        with contextlib.suppress(OSError):
            self.socket.setblocking(True)
            self.socket.settimeout(5.0)
            self.socket.sendall(data)
        with contextlib.suppress(OSError):
            self.socket.setblocking(False)

    def messages(self) -> list[list[Any]]:
        """Its messages since; notes in `closed` that nothing more will come."""
        while True:
            try:
                data = self.socket.recv(1 << 18)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.closed = True
                break
            self._heard += data
        *lines, self._heard = self._heard.split(b"\n")
        found = []
        for line in lines:
            # A test that writes to every descriptor can garble what stands there.
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, list) and message:
                    found.append(message)
        return found

    def enter(self, state: State) -> None:
        """Note what it does from now on."""
        self.state, self.since = state, time.monotonic()

    def dump(self) -> None:
        """Have it write where every thread stands; waits until that is in the log, at most 0.8 s."""
        before = last = self._log_size()
        if not self.child.ask_for_dump():
            return
        deadline = time.monotonic() + _DUMP_S
        still = time.monotonic() + _STILL_S
        while time.monotonic() < deadline:
            time.sleep(0.01)
            size = self._log_size()
            if size != last:
                last, still = size, time.monotonic() + _STILL_S
            elif size > before and time.monotonic() > still:
                return

    def trim(self) -> bool:
        """Shorten a log that grew too long; whether it did. The worker appends, wherever the end is."""
        size = self._log_size()
        if size <= _LONGEST_LOG:
            return False
        with contextlib.suppress(OSError), self.log.open("r+b") as stream:
            stream.seek(size - _KEPT_LOG)
            kept = stream.read(_KEPT_LOG)
            stream.truncate(0)
            stream.seek(0)
            stream.write(b"[the beginning was removed: too long]\n" + kept)
        return True

    def _log_size(self) -> int:
        try:
            return self.log.stat().st_size
        except OSError:
            return 0

    def close(self) -> None:
        """Give up the connection."""
        self.socket.close()


def pytest_arguments(plan: Isolation, plugins: tuple[str, ...]) -> tuple[list[str], int]:
    """pytest's arguments, and how many directories stand at their end.

    Those of the files: so pytest finds its settings and conftest.py as it would for the files themselves.
    """
    arguments = ["--capture=no", "-o", "console_output_style=classic"]
    for plugin in plugins:
        arguments += ["-p", plugin]
    parents = {(plan.root / name).parent for name in grouped(plan.files)}
    directories = sorted(str(path) for path in parents if path.is_dir())
    return [*arguments, *plan.pytest_args, *directories], len(directories)
