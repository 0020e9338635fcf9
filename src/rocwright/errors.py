"""Every error a user can meet, in one tree.

::

    RocwrightError                exit  1   something this tool refuses or could not do
    ├── UsageError                      2   contradictory or missing options
    ├── InvalidInput                    3   a file or value is not what it claims to be
    │   ├── UnknownRelease              3   a version of PyTorch or ROCm that no table knows
    │   ├── InvalidElf                  3
    │   ├── InvalidPe                   3   Windows program or DLL
    │   ├── InvalidBundle               3   device code container
    │   ├── InvalidArchive              3   archive of device code or of an artifact
    │   ├── InvalidWheel                3
    │   ├── InvalidPrefix               3   a directory that is no ROCm
    │   ├── InvalidData                 3   a TOML table or JSON document: file, line, field
    │   ├── InvalidPin                  3   related_commits, triton.txt
    │   ├── InvalidPatch                3   a patch that cannot be read, or does not apply
    │   └── NoObject                    3   a store has nothing under this key
    ├── MissingTool                     4   apt, git, a compiler … is not there
    ├── WrongTorch                      4   a torch is installed, and is not for ROCm
    ├── Unreachable                     5   a mirror, repository or index did not answer
    │   └── NotOffered                  5   a repository answers, but hands this commit out to nobody
    ├── IntegrityError                  6   bytes differ from their recorded digest
    ├── CommandFailed                   7   a sub-process ended with an error
    ├── NoSpace                         8   not enough room on the disk
    ├── ContractBroken                  9   a wheel or set fails its checks
    ├── GateClosed                     10   promotion refused by policy
    ├── UnsavedWork                    11   a checkout holds changes or commits of yours; nothing was touched
    ├── NotReady                       12   what a build needs is missing, all of it named; nothing was begun
    ├── ChannelBusy                    13   another publisher is changing this channel; try again later
    ├── ClaimFailed                    14   an installed torch does less than is claimed of it
    ├── TorchBroken                    15   a torch is installed, and cannot be imported
    ├── NotSetUp                       16   a repository lacks what its workflows need; nothing was changed
    ├── SuiteFailed                     1   tests failed, or a run that was expected gave no report
    ├── NoGpu                           1   no GPU here fits what the tests are for
    └── Interrupted                   130   Ctrl-C or SIGTERM; run again to resume

An error says what is wrong, in which file, and what to do next. Only the
command line turns one into text and an exit code; libraries never exit.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from os import PathLike

__all__ = [
    "ChannelBusy",
    "ClaimFailed",
    "CommandFailed",
    "ContractBroken",
    "GateClosed",
    "IntegrityError",
    "Interrupted",
    "InvalidArchive",
    "InvalidBundle",
    "InvalidData",
    "InvalidElf",
    "InvalidInput",
    "InvalidPatch",
    "InvalidPe",
    "InvalidPin",
    "InvalidPrefix",
    "InvalidWheel",
    "MissingTool",
    "NoGpu",
    "NoObject",
    "NoSpace",
    "NotOffered",
    "NotReady",
    "NotSetUp",
    "RocwrightError",
    "SuiteFailed",
    "TorchBroken",
    "UnknownRelease",
    "Unreachable",
    "UnsavedWork",
    "UsageError",
    "WrongTorch",
]


def see_who_may_read(path: str | PathLike[str]) -> str:
    """The next step where a file or directory cannot be read."""
    return f"see who may read it: ls -ld {shlex.quote(str(path))}"


class RocwrightError(Exception):
    """Root of the tree.

    ``what`` is one sentence, ``where`` the file or directory it is about,
    ``next_step`` what the user can do now. Where nothing is known of the case,
    the command line says the ``usual_step`` of the class.
    """

    exit_code = 1
    usual_step = "see what the message names, then run again"

    def __init__(
        self, what: str, *, where: str | PathLike[str] | None = None, next_step: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.next_step = next_step

    def __str__(self) -> str:
        return self.told()

    def listed(self) -> list[str]:
        """What the message only counts, each thing with what to do about it; printed above the message."""
        return []

    def told(self, most: int | None = None) -> str:
        """The message in at most so many lines; how many of a list were left out stands in their place."""
        foot = [] if self.where is None or self.where in self.what else [f"  in: {self.where}"]
        foot += [] if self.next_step is None else f"  next: {self.next_step}".splitlines()
        head = self.what.splitlines()
        if most is not None and len(head) + len(foot) > most:
            head = _shortened(head, max(1, most - len(foot)))
            foot = _shortened(foot, most - len(head))
        return "\n".join([*head, *foot])


def _shortened(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    kept = max(1, most - 1)
    return [*lines[:kept], f"  and {len(lines) - kept} more lines; -v shows them"]


class UsageError(RocwrightError):
    """Contradictory or missing options; nothing was started."""

    exit_code = 2
    usual_step = "see what the command takes: add --help to it"


class InvalidInput(RocwrightError):
    """A file or value is not what it claims to be."""

    exit_code = 3
    usual_step = "correct the file or value that is named, or give another"


class UnknownRelease(InvalidInput):
    """A version of PyTorch or ROCm that no table knows."""


class InvalidElf(InvalidInput):
    """A file is no ELF object, or one whose headers contradict each other."""

    usual_step = "build or fetch the file again, or name another"


class InvalidPe(InvalidInput):
    """A file is no Windows program or DLL, or its headers contradict each other."""

    usual_step = "build or fetch the file again, or name another"


class InvalidBundle(InvalidInput):
    """A device code bundle is malformed."""

    usual_step = "build or fetch the file again"


class InvalidArchive(InvalidInput):
    """An archive of device code or of an artifact, or the marker that leads to one, is malformed."""

    usual_step = "make or fetch the archive again, or name another"


class InvalidWheel(InvalidInput):
    """A wheel cannot be read, or its metadata contradicts its name."""

    usual_step = "build or fetch the wheel again"


class InvalidPrefix(InvalidInput):
    """A directory is not a ROCm installation."""

    usual_step = "name the directory of another ROCm, or install this one again"


class InvalidData(InvalidInput):
    """A data table or document does not fit its schema."""

    usual_step = "correct what is named, or name another file"


class InvalidPin(InvalidInput):
    """A pin file of a source tree cannot be parsed; names file and line."""

    usual_step = "correct the line that is named, or check the sources out again"


class InvalidPatch(InvalidInput):
    """A patch cannot be read, or does not fit the sources; the checkout is as it was."""

    usual_step = "make the patch again on these sources, or leave it out"


class NoObject(InvalidInput):
    """A store has nothing under this key, or not any more."""

    usual_step = "is --store the right one? `rocwright set list` shows its sets"


class MissingTool(RocwrightError):
    """A program this step needs is not installed."""

    exit_code = 4
    usual_step = "install what is named; `rocwright doctor` lists all that is missing"


class WrongTorch(RocwrightError):
    """A torch is installed that is not for ROCm: the one for CUDA, or for the CPU only."""

    exit_code = 4


class Unreachable(RocwrightError):
    """A mirror, repository or index did not answer or lacks what was asked for."""

    exit_code = 5
    usual_step = "check the address and the network, then run again"


class NotOffered(Unreachable):
    """A repository answers, but does not hand out what was asked for."""


class IntegrityError(RocwrightError):
    """Bytes differ from their recorded digest."""

    exit_code = 6
    usual_step = "build or fetch the file again"


class CommandFailed(RocwrightError):
    """A sub-process ended with an error.

    ``command`` can be pasted into a shell; ``tail`` holds the last lines it
    printed and ``log`` the file with all of them.
    """

    exit_code = 7
    usual_step = "fix what its last lines report, then run again"

    def __init__(
        self,
        command: str,
        status: int,
        *,
        cwd: str | None = None,
        tail: str = "",
        log: str | None = None,
        next_step: str | None = None,
    ) -> None:
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
        super().__init__(f"command {ended}: {command}", next_step=next_step)
        self.command = command
        self.status = status
        self.cwd = cwd
        self.tail = tail
        self.log = log

    def told(self, most: int | None = None) -> str:
        """As for every error; of what the command printed the last lines stay, and its first error."""
        head = [self.what] + ([] if self.cwd is None else [f"  directory: {self.cwd}"])
        said = [f"    {line}" for line in self.tail.splitlines()]
        said = ["  last lines:", *said] if said else []
        foot = [] if self.log is None else [f"  log: {self.log}"]
        foot += [] if self.next_step is None else [f"  next: {self.next_step}"]
        if most is not None and (left := len(head) + len(said) + len(foot) - most) > 0:
            kept = said[left + 1 :]
            # As compilers and tools write it; what follows is mostly who passed it on.
            first = next((line for line in said[1:] if "error: " in line.lower()), None)
            if kept and first and first not in kept:
                kept[0] = first
            said = [f"  of its last lines; -v shows {left} more:", *kept]
        return "\n".join([*head, *said, *foot])


class NoSpace(RocwrightError):
    """The disk has not enough room; what was complete is kept."""

    exit_code = 8
    usual_step = "free some space, then run again"


class ContractBroken(RocwrightError):
    """Wheels, a set or skip entries fail their checks; nothing was changed or published."""

    exit_code = 9


class GateClosed(RocwrightError):
    """Policy refuses a promotion; the channel is unchanged."""

    exit_code = 10


class UnsavedWork(RocwrightError):
    """A checkout holds changes or commits that are not from this tool; nothing was touched."""

    exit_code = 11


class NotReady(RocwrightError):
    """Things that a build needs are missing or wrong; nothing was begun."""

    exit_code = 12
    usual_step = "fix what is listed, then run again"

    def __init__(
        self,
        what: str,
        *,
        found: Sequence[str] = (),
        where: str | PathLike[str] | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(what, where=where, next_step=next_step)
        self.found = tuple(found)

    def listed(self) -> list[str]:
        """The things that are missing or wrong."""
        return [f"  - {text}" for text in self.found]

    def __str__(self) -> str:
        first, *rest = self.told().splitlines()
        return "\n".join([first, *self.listed(), *rest])


class ChannelBusy(RocwrightError):
    """Another publisher is at this channel; what this run recorded is kept, a new run completes it."""

    exit_code = 13


class ClaimFailed(RocwrightError):
    """An installed torch does less than is claimed of it; the message names what."""

    exit_code = 14


class TorchBroken(RocwrightError):
    """A torch is installed and cannot be imported: the message holds what it said."""

    exit_code = 15


class NotSetUp(RocwrightError):
    """A repository lacks what its workflows need, or has it wrong; nothing was changed."""

    exit_code = 16
    usual_step = "do what stands above after `next for`, then run again"


class SuiteFailed(RocwrightError):
    """Tests failed, or a run that was expected gave no report. The exit code is pytest's."""


class NoGpu(RocwrightError):
    """No GPU here fits what the tests are for; the message lists what is there."""


class Interrupted(RocwrightError):
    """The user or the system stopped the run; a new run resumes it."""

    exit_code = 130
    usual_step = "run the same command again to go on"
