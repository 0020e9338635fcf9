"""The one door to processes: every command is shown, logged, measured and can be interrupted.

Design after pypa/build's and nox's single runners: an argument vector in, a value or `CommandFailed`
out. Output streams stay apart where a value is read, so a warning never ends up in a version.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.errors import CommandFailed, Interrupted, MissingTool

_TAIL_LINES = 25
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY|_AUTH", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")

_running: set[int] = set()
_lock = threading.Lock()
_stopping = threading.Event()


@dataclass(frozen=True)
class Completed:
    """What a command used and printed.

    `cpu_s` counts user and system seconds of the process and the children it waited for, `peak_rss`
    is the largest resident set of any one of them, in bytes.
    """

    command: str
    stdout: str
    wall_s: float
    cpu_s: float
    peak_rss: int


def show(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """The command as it can be pasted into a shell, with its overrides, without secrets."""
    words = [f"{key}={shlex.quote(value)}" for key, value in redact(env or {}).items()]
    words += [shlex.quote(str(word)) for word in argv]
    return _URL_LOGIN.sub("***@", " ".join(words))


def redact(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of `env` in which the values of secret-looking names are `***`."""
    return {key: "***" if _SECRET.search(key) else value for key, value in sorted(env.items())}


def find_program(name: str, *, purpose: str, package: str | None = None) -> Path:
    """Absolute path of a program on PATH; raises `MissingTool` saying what it is needed for."""
    found = shutil.which(name)
    if found is None:
        raise MissingTool(
            f"{name} was not found on PATH; it is needed to {purpose}",
            next_step=f"install the package {package or name} and run again",
        )
    return Path(found)


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    drop_env: Sequence[str] = (),
    clean_env: bool = False,
    log: Path | None = None,
    ok: Sequence[int] = (0,),
    next_step: str | None = None,
) -> Completed:
    """Run a command to its end.

    `env` overrides single variables and `drop_env` removes some; the rest is inherited unless
    `clean_env`. With `log`, everything printed is appended there, behind a line that reproduces the
    command. `Completed.stdout` holds standard output only; standard error goes to the log.

    Raises `MissingTool` when the program does not exist, `CommandFailed` (command, directory, last
    lines, log) for an exit code not in `ok`, `Interrupted` when the run is being stopped.
    """
    words = [os.fspath(word) for word in argv]
    shown = show(words, env)
    environment = {} if clean_env else dict(os.environ)
    for name in drop_env:
        environment.pop(name, None)
    environment.update(env or {})
    if _stopping.is_set():
        raise Interrupted("stopped before the next command", next_step="run again to resume")

    began = time.monotonic()
    stdout: list[str] = []
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    sink = log.open("a", encoding="utf-8") if log is not None else None
    try:
        if sink is not None:
            sink.write(f"$ cd {shlex.quote(str(cwd or Path.cwd()))} && {shown}\n")
            sink.flush()
        try:
            child = subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                # A group of its own, so that stopping the run also stops compilers below make or ninja.
                start_new_session=True,
            )
        except FileNotFoundError as error:
            if cwd is not None and not cwd.is_dir():
                raise MissingTool(f"directory {cwd} does not exist", where=cwd) from error
            raise MissingTool(f"{words[0]} was not found", next_step=f"install {words[0]}") from error
        except PermissionError as error:
            raise MissingTool(f"{words[0]} cannot be executed: {error.strerror}") from error
        with _lock:
            _running.add(child.pid)

        sink_lock = threading.Lock()

        def drain(stream: object, keep: list[str] | None) -> None:
            for line in stream:  # type: ignore[attr-defined]
                if keep is not None:
                    keep.append(line)
                with sink_lock:
                    tail.append(line.rstrip("\n"))
                    if sink is not None:
                        sink.write(line)

        threads = [
            threading.Thread(target=drain, args=(child.stdout, stdout), daemon=True),
            threading.Thread(target=drain, args=(child.stderr, None), daemon=True),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        child.stderr.close()
        with _lock:
            _running.discard(child.pid)
    finally:
        if sink is not None:
            sink.close()

    if _stopping.is_set():
        raise Interrupted(f"stopped while running: {shown}", next_step="run again to resume")
    if child.returncode not in ok:
        raise CommandFailed(
            shown,
            child.returncode,
            cwd=str(cwd) if cwd is not None else None,
            tail="\n".join(tail),
            log=str(log) if log is not None else None,
            next_step=next_step,
        )
    return Completed(
        command=shown,
        stdout="".join(stdout),
        wall_s=time.monotonic() - began,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_rss=usage.ru_maxrss * 1024,
    )


def stop_all(grace_s: float = 3.0) -> None:
    """End every command started here: first politely, after `grace_s` seconds by force."""
    _stopping.set()
    for sig in (signal.SIGTERM, signal.SIGKILL):
        with _lock:
            pids = list(_running)
        for pid in pids:
            try:
                os.killpg(pid, sig)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            with _lock:
                if not _running:
                    return
            time.sleep(0.05)
