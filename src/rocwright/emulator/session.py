"""Run commands with an emulated GPU: their environment, how many kernels were executed, how they ended.

The log of an emulator that is preloaded goes through a pipe that has a name: several processes of a session
open it and none overwrites what another one wrote, and nothing of it is lost when one crashes.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.emulator.protocol import RESULT, read_result
from rocwright.emulator.values import Emulator, EmulatorRow, HipRuntime
from rocwright.errors import CommandFailed, MissingTool, NotReady
from rocwright.model.emulated import Emulated
from rocwright.system import process
from rocwright.system.files import sha256_file

# `done`: to its end, with a kernel executed; `no dispatch`: to its end, and none was.
Ended = Literal["done", "failed", "crashed", "hung", "no dispatch"]
_LATE = "ended by force: "
_SAID = 40
_SCRATCH = "rocwright-emulated-"
# Where a program may write lines of its own into the log, MARK with `begin NAME` or `end NAME`: they are in
# order with those of the emulator, and what the program prints is not.
LOG = "ROCWRIGHT_EMULATOR_LOG"
MARK = b"\x1e"


class EmulatedRun(msgspec.Struct, frozen=True):
    """How a command under an emulator ended; `said` is the end of what it and the emulator printed."""

    ended: Ended
    stdout: str = ""
    said: str = ""
    status: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    dispatches: int = 0


@dataclass
class Session:
    """An emulated GPU for the processes of one worker.

    A command is started as `words(command)` with `env` over its environment, and without `drop_env`.
    """

    emulator: Emulator
    target: str
    runtime: HipRuntime
    directory: Path
    env: Mapping[str, str]
    drop_env: tuple[str, ...] = ()
    _log: _Log | None = field(default=None, repr=False)

    def words(self, command: Sequence[str | os.PathLike[str]]) -> list[str]:
        """The command as it is started: as it is, or behind the program that emulates."""
        own = [os.fspath(word) for word in command]
        if self.emulator.row is not None:
            return own
        return [str(self.emulator.library), "--target", self.target, "--", *own]

    @property
    def dispatches(self) -> int:
        """How many kernels were handed to the emulated GPU so far; 0 is never a pass."""
        if self._log is not None:
            return self._log.dispatches()
        result = read_result(self.directory / "result.json")
        return 0 if result is None else result.dispatches

    @property
    def said(self) -> str:
        """The end of the emulator's own log, or what a program refused."""
        if self._log is not None:
            return self._log.said()
        result = read_result(self.directory / "result.json")
        return "" if result is None else "\n".join(result.refused)

    def executed(self, name: str) -> int | None:
        """Kernels between a program's marks of this name in the log; None where nobody can tell."""
        return None if self._log is None else self._log.between(name)

    def record(self) -> Emulated:
        """What a record says of it; `dispatches` as they are now."""
        configuration = self.emulator.configurations[self.target]
        return Emulated(
            name=self.emulator.name,
            target=self.target,
            version=self.emulator.version,
            digest=self.emulator.digest,
            configuration="" if configuration is None else configuration.name,
            configuration_digest="" if configuration is None else sha256_file(configuration),
            runtime=self.runtime.version,
            dispatches=self.dispatches,
        )

    def run(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        limit_s: float,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        dispatching: bool = True,
        heard: Callable[[str], None] | None = None,
        until: Callable[[], str | None] | None = None,
    ) -> EmulatedRun:
        """Run a command to its end, whichever; `dispatching`: one that executes no kernel has not passed.

        `heard` is told each line that it prints, `until` is asked for a reason to end it, which is a hang.
        """
        before = self.dispatches if self._log is not None else 0
        try:
            done = process.run(
                self.words(command),
                cwd=cwd or self.directory,
                env={**self.env, **(env or {})},
                drop_env=self.drop_env,
                log=log,
                limit_s=limit_s,
                heard=heard,
                until=until,
            )
        except CommandFailed as error:
            late = error.tail.rpartition("\n")[2].startswith(_LATE)
            # A program that emulates passes a signal on as a shell does.
            lost = error.status < 0 or error.status > 128
            ended: Ended = "hung" if late else "crashed" if lost else "failed"
            return EmulatedRun(
                ended, said=error.tail, status=error.status, dispatches=self.dispatches - before
            )
        executed = self.dispatches - before
        ended = "done" if executed or not dispatching else "no dispatch"
        return EmulatedRun(ended, done.stdout, self.said, 0, done.wall_s, done.cpu_s, executed)


class _Log:
    """Reads an emulator's log as it is written, by whichever of the session's processes."""

    def __init__(self, path: Path, row: EmulatorRow) -> None:
        if sys.platform != "win32":  # where nothing is emulated
            os.mkfifo(path)
        # Open for both, so that no process waits for a reader and the end of one is not that of the log.
        self._pipe = os.open(path, os.O_RDWR)
        self._pattern = re.compile(row.dispatch)
        self._count = 0
        self._tail: deque[str] = deque(maxlen=_SAID)
        self._change = threading.Condition()
        self._marks = 0
        self._begun: dict[str, int] = {}
        self._over: dict[str, int] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        rest = b""
        while piece := os.read(self._pipe, 1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            over = False
            with self._change:
                for line in lines:
                    if line in (_MARK, _END):
                        self._marks += 1
                        self._change.notify_all()
                        over = over or line == _END
                        continue
                    text = line.decode("utf-8", "replace")
                    if line.startswith(MARK):
                        kind, _, name = text[1:].partition(" ")
                        (self._begun if kind == "begin" else self._over)[name] = self._count
                        continue
                    self._count += self._pattern.search(text) is not None
                    if text.strip():
                        self._tail.append(text)
            if over:
                return

    def _seen(self, mark: bytes) -> None:
        """Wait until all that was written before now is read: our own mark comes behind it."""
        if not self._thread.is_alive():
            return
        with self._change:
            wanted = self._marks + 1
        os.write(self._pipe, b"\n" + mark + b"\n")
        with self._change:
            self._change.wait_for(lambda: self._marks >= wanted, timeout=10)

    def dispatches(self) -> int:
        self._seen(_MARK)
        return self._count

    def between(self, name: str) -> int:
        self._seen(_MARK)
        if name not in self._begun:
            return 0
        return self._over.get(name, self._count) - self._begun[name]

    def said(self) -> str:
        self._seen(_MARK)
        return "\n".join(self._tail)

    def close(self) -> None:
        self._seen(_END)
        self._thread.join(timeout=10)
        os.close(self._pipe)


_MARK = MARK + b"mark"
_END = MARK + b"over"


@contextmanager
def emulated(emulator: Emulator, target: str, runtime: HipRuntime) -> Iterator[Session]:
    """A session of an emulator as `target`, with a directory of its own, which goes when the session ends.

    Raises `UsageError` for a target that it has no configuration for, `MissingTool` for a configuration that
    is gone, `NotReady` where the system cannot preload a library.
    """
    base = emulator.require(target)
    if sys.platform == "win32":  # pragma: no cover
        raise NotReady("GPUs are emulated on Linux only", next_step="run it on Linux")
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        row = emulator.row
        env = _search(runtime)
        if row is None:
            env[RESULT] = str(directory / "result.json")
            yield Session(emulator, base, runtime, directory, env)
            return
        configuration = emulator.configurations[base]
        if configuration is None or not configuration.is_file():
            raise MissingTool(
                f"the configuration {configuration} of {emulator.name} for {base} is gone",
                where=configuration,
                next_step="install the emulator again, or name another: --emulator",
            )
        words = {"directory": str(directory), "configuration": str(configuration)}
        for name, text in row.write.items():
            (directory / name).write_text(text.format(**words) + "\n", encoding="utf-8")
        env |= {name: text.format(**words) for name, text in row.set.items()}
        preloaded = os.environ.get("LD_PRELOAD", "")
        env["LD_PRELOAD"] = ":".join(filter(None, (str(emulator.library), preloaded)))
        env[LOG] = str(directory / row.log)
        log = _Log(directory / row.log, row)
        try:
            yield Session(emulator, base, runtime, directory, env, row.removed, log)
        finally:
            log.close()


def _search(runtime: HipRuntime) -> dict[str, str]:
    """LD_LIBRARY_PATH with the runtime's directories before those of the caller."""
    if not runtime.directories:
        return {}
    held = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": ":".join(filter(None, (*map(str, runtime.directories), held)))}
