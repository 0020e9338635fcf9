"""The one door to processes: every command is shown, logged, measured and can be interrupted.

Design after pypa/build's and nox's single runners: an argument vector in, a value or `CommandFailed`
out. Output streams stay apart where a value is read, so a warning never ends up in a version.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed, Interrupted, MissingTool
from rocwright.system import console
from rocwright.system.files import disk_error
from rocwright.system.group import OWN_GROUP, OWN_SESSION, Started, end_group, pieces, wait
from rocwright.system.marked import MARK
from rocwright.system.output import Output
from rocwright.system.redact import hidden, redact, secrets_in, without_secrets

# How long a command that has ended may still have output under way.
_QUIET_S = 0.5

_running: set[int] = set()
_mark: str | None = None
_lock = threading.Lock()
_stopping = threading.Event()


class Completed(msgspec.Struct, frozen=True):
    """What a command used and printed.

    `cpu_s` counts user and system seconds of the process and the children it waited for, `peak_rss`
    is the largest resident set of any one of them, in bytes (Linux counts this process's own size at the
    time of the start in, so it is never less than that). On Windows both are 0.
    """

    command: str
    stdout: str
    wall_s: float
    cpu_s: float
    peak_rss: int


def show(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    dropped: Sequence[str] = (),
    secrets: Sequence[str] = (),
) -> str:
    """The command as it can be pasted into a shell, with its overrides, without secrets.

    `dropped` are variables that it runs without although the caller has them; `secrets` are hidden wherever
    they stand.
    """
    words = ["env", *(word for name in sorted(dropped) for word in ("-u", name))] if dropped else []
    words += [f"{key}={shlex.quote(value)}" for key, value in redact(env or {}).items()]
    words += [shlex.quote(word) for word in without_secrets([*map(str, argv)])]
    return hidden(" ".join(words), secrets)


def find_program(name: str, *, purpose: str, package: str | None = None) -> Path:
    """Absolute path of a program on PATH; raises `MissingTool` with what it is needed for."""
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
    watch: Callable[[str], None] | None = None,
    heard: Callable[[str], None] | None = None,
    limit_s: float | None = None,
    until: Callable[[], str | None] | None = None,
) -> Completed:
    """Run a command to its end.

    `env` overrides single variables and `drop_env` removes some; the rest is inherited unless
    `clean_env`. With `log`, everything printed is appended there, behind a line that reproduces the
    command. `Completed.stdout` holds standard output only; standard error goes to the log. `watch` is told
    each line of standard error as it comes; those that a carriage return ends, because the next one is to
    be written over them, go nowhere else then. `heard` is told each line of standard output. Logins in
    addresses and the values of secret-looking variables and options are left out of log and error. What
    takes longer than `limit_s` seconds is ended by force, with the processes that it started; its error then
    says so in its last line. `until` is asked every half second: a text that it gives is the reason to end
    the command in the same way.

    Raises `MissingTool` when the program does not exist, `CommandFailed` (command, directory, last
    lines, log) for an exit code not in `ok`, `Interrupted` when the run is being stopped.
    """
    words = [os.fspath(word) for word in argv]
    # What the command runs without is part of it: pasted into the caller's shell it would do something else.
    dropped = [] if clean_env else [name for name in set(drop_env) if name in os.environ]
    environment = {} if clean_env else dict(os.environ)
    for name in drop_env:
        environment.pop(name, None)
    environment.update(env or {})
    secrets = secrets_in(environment, words)
    shown = show(words, env, [name for name in dropped if name not in (env or {})], secrets)
    if _mark is not None:
        environment[MARK] = _mark
    if _stopping.is_set():
        raise Interrupted("stopped before the next command", next_step="run again to resume")

    began = time.monotonic()
    output = Output(log, watch, secrets, heard)
    try:
        console.detail(f"$ {shown}")
        output.begin(f"$ cd {shlex.quote(str(cwd or Path.cwd()))} && {shown}\n")
        child = _start(words, cwd, environment)
        late = threading.Event()
        try:
            with _ended_after(child.pid, limit_s, late), _ended_when(child.pid, until) as reasons:
                _drain(child, output)
                usage = wait(child)
        except BaseException:
            # Interrupted in the main thread: what was started here must not outlive it.
            end_group(child.pid, force=True)
            child.wait()
            raise
        finally:
            with _lock:
                _running.discard(child.pid)
        if late.is_set():
            output.take("err", f"ended by force: not done after {limit_s:g} seconds\n", last=True)
        for reason in reasons:
            output.take("err", f"ended by force: {reason}\n", last=True)
    finally:
        output.close()

    if _stopping.is_set():
        raise Interrupted(f"stopped while running: {shown}", next_step="run again to resume")
    if child.returncode not in ok:
        raise CommandFailed(
            shown,
            child.returncode,
            cwd=str(cwd) if cwd is not None else None,
            tail="\n".join(output.tail),
            log=str(log) if log is not None else None,
            next_step=next_step,
        )
    return Completed(
        command=shown,
        stdout="".join(output.stdout),
        wall_s=time.monotonic() - began,
        cpu_s=usage.cpu_s,
        peak_rss=usage.peak_rss,
    )


def _start(words: list[str], cwd: Path | None, environment: dict[str, str]) -> Started:
    if cwd is not None and not cwd.is_dir():
        state = "is not a directory" if cwd.exists() else "does not exist"
        raise MissingTool(
            f"directory {cwd} {state}; {words[0]} was to run there",
            where=cwd,
            next_step="name an existing directory",
        )
    return _begin(words, cwd, environment, subprocess.PIPE)


def _begin(
    words: list[str],
    cwd: Path | None,
    environment: dict[str, str],
    out: int,
    inherit: Sequence[int] = (),
) -> Started:
    """A process in a group of its own that prints to `out`, known to whoever stops all of them."""
    try:
        child = subprocess.Popen(
            words,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=tuple(inherit),
            creationflags=OWN_GROUP,
            start_new_session=OWN_SESSION,
        )
    except FileNotFoundError as error:
        raise MissingTool(f"{words[0]} was not found", next_step=f"install {words[0]}") from error
    except OSError as error:
        raise MissingTool(
            f"{words[0]} cannot be executed: {error.strerror}",
            next_step="name a program that can be executed",
        ) from error
    with _lock:
        _running.add(child.pid)
    if _stopping.is_set():
        # Stopped between the start and the line above: nobody else knows of this child.
        end_group(child.pid, force=True)
    return child


def start(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path,
    env: Mapping[str, str],
    drop_env: Sequence[str] = (),
    log: Path,
    inherit: Sequence[int] = (),
    mark: str,
) -> Started:
    """Start a process to talk with, in a session of its own; the caller ends it (`system/child.py`).

    What it prints is appended to `log` as it is. `inherit` are descriptors that it shares with this process;
    `mark` is how `marked.end_marked` finds what it leaves behind.
    """
    words = [os.fspath(word) for word in argv]
    environment = {name: value for name, value in os.environ.items() if name not in drop_env}
    environment |= {**env, MARK: mark}
    if _stopping.is_set():
        raise Interrupted("stopped before the next command", next_step="run again to resume")
    try:
        sink = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise disk_error(error, log) from error
    try:
        return _begin(words, cwd, environment, sink, inherit)
    finally:
        os.close(sink)


def forget(child: Started) -> None:
    """A process of `start` has ended and was waited for."""
    with _lock:
        _running.discard(child.pid)


def _drain(child: Started, output: Output) -> None:
    """Read both streams in the order of arrival until both end, or the command has and no more comes."""
    decoder = codecs.getincrementaldecoder("utf-8")
    decoders = {"out": decoder(errors="replace"), "err": decoder(errors="replace")}
    with contextlib.closing(pieces(child, _QUIET_S)) as printed:
        for name, data in printed:
            output.take(name, decoders[name].decode(data, final=not data), last=not data)


@contextlib.contextmanager
def _ended_after(pid: int, limit_s: float | None, late: threading.Event) -> Iterator[None]:
    """End the command by force when its time is over; `late` tells that it was."""
    if limit_s is None:
        yield
        return

    def end() -> None:
        late.set()
        end_group(pid, force=True)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _ended_when(pid: int, until: Callable[[], str | None] | None) -> Iterator[list[str]]:
    """End the command by force as soon as `until` gives a reason, which the list then holds."""
    reasons: list[str] = []
    if until is None:
        yield reasons
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(_QUIET_S):
            reason = until()
            if reason is not None and not over.is_set():
                reasons.append(reason)
                end_group(pid, force=True)
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield reasons
    finally:
        over.set()
        looking.join()


def mark(run: str | None) -> None:
    """Give every command from now on an environment variable that tells which run started it."""
    global _mark
    _mark = run


def pause(seconds: float) -> None:
    """Wait; raises `Interrupted` as soon as the run is being stopped."""
    if _stopping.wait(seconds):
        raise Interrupted("stopped while waiting", next_step="run again to resume")


def stop_all(grace_s: float = 3.0) -> None:
    """End every command started here: first politely, after `grace_s` seconds by force."""
    _stopping.set()
    for force in (False, True):
        with _lock:
            pids = list(_running)
        for pid in pids:
            end_group(pid, force=force)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            with _lock:
                if not _running:
                    return
            time.sleep(0.05)
