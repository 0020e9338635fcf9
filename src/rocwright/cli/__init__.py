"""The command line as the user sees it: commands by group; each parses, calls, and replies with a value."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from cyclopts import App

from rocwright import __version__
from rocwright.cli.parse import parsed, tell_older
from rocwright.errors import Interrupted, InvalidInput, NoSpace, RocwrightError
from rocwright.system import console

app = App(
    name="rocwright",
    version=__version__,
    help="Build, check, split, index, test and promote PyTorch and ROCm wheels for AMD GPUs.",
    # `guarded` says it; cyclopts would end without a word.
    suppress_keyboard_interrupt=False,
)
_COMMANDS = ("demo", "build", "check", "checkout", "completion", "detect", "doctor", "hipify", "install-rocm")
_GROUPS = ("compat", "data", "kpack", "pipeline", "sdk", "set", "sources", "store", "test", "wheel")
# By command, the module that has it under another name: what Python or pytest would take for something else,
# a command beside its like, and what stands apart with the documented scripts.
_MODULES = {
    "completion": "help",
    "hipify": "checkout",
    "install-rocm": "documented.build_script",
    "test": "gputest",
}
# What a file system says of a path that somebody named, or of itself. That a file is not there is told where
# it is read; here it would be a defect.
_REFUSALS = (
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EIO,
    errno.EEXIST,
)
# By name, so that a command imports what it needs and nothing of the others.
for _name in _COMMANDS:
    app.command(f"rocwright.cli.{_MODULES.get(_name, _name)}:{_name.replace('-', '_')}", name=_name)
for _name in _GROUPS:
    app.command(f"rocwright.cli.{_MODULES.get(_name, _name)}:app", name=_name)


def load_commands(group: App = app) -> None:
    """Import all commands of a group: their summaries are known only then."""
    for name in tuple(group):
        if not name.startswith("-"):
            group[name]


def asked_group(words: Sequence[str]) -> App | None:
    """The group whose help the words ask for: `test skips`, `test skips --help`; None for anything else."""
    group, rest = app, list(words)
    while rest and not rest[0].startswith("-") and rest[0] in group:
        group = group[rest.pop(0)]
    # What does something is no group; its help is its own.
    return group if rest in ([], ["-h"], ["--help"]) and group.default_command is None else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command; a user's mistake ends in a message and its exit code, never a traceback."""

    def act() -> None:
        words = sys.argv[1:] if arguments is None else arguments
        if arguments is None and (group := asked_group(words)) is not None:
            load_commands(group)
        if "--help" in words or "-h" in words:
            # Only help needs it.
            from rocwright.cli.help import add_examples

            add_examples(app, words)
        tell_older(words)
        parsed(app, arguments)

    guarded(act)


def guarded(act: Callable[[], None]) -> None:
    """Run what a door does; its errors end the process with their message and exit code."""
    for name in ("SIGTERM", "SIGHUP"):
        # Not where it is ignored: under nohup the end of the terminal is none of the run.
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _as_interrupt)
    try:
        act()
    except Interrupted as problem:
        console.error(problem)
        # Threads of the run may still be at work; what they leave is marked partial and redone.
        sys.stdout.flush()
        os._exit(problem.exit_code)
    except RocwrightError as problem:
        console.error(problem)
        sys.exit(problem.exit_code)
    except KeyboardInterrupt:
        console.error(Interrupted("interrupted"))
        sys.exit(Interrupted.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (| head); that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (OSError, RuntimeError) as refused:
        told = _of_the_disk(refused)
        if told is None:
            raise
        console.error(told)
        sys.exit(told.exit_code)


def _of_the_disk(refused: OSError | RuntimeError) -> RocwrightError | None:
    """The user's error for what a file system refused; None for what is a defect of this tool."""
    if isinstance(refused, RuntimeError):
        # What Python before 3.13 makes of ELOOP where a path is resolved.
        if "Symlink loop" not in str(refused):
            return None
        return InvalidInput(str(refused), next_step="remove the link, or name another path")
    if refused.errno in (errno.ENOSPC, errno.EDQUOT):
        where = refused.filename or "the disk that was written to"
        return NoSpace(
            f"no space left on {where}",
            next_step="free some space (`df -h . /tmp` shows it), then run again",
        )
    if refused.filename is None:
        return None
    if isinstance(refused, PermissionError):
        # Even looking whether a file is there needs the right to enter its directory: any path can end so.
        return InvalidInput(
            f"you have no right to use {refused.filename}",
            next_step="get it (look at the directories above it, too), or name another path",
        )
    if refused.errno not in _REFUSALS:
        return None
    return InvalidInput(
        f"{refused.filename} cannot be used: {refused.strerror}",
        next_step="look at it and at the directories above it, or name another path",
    )


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
