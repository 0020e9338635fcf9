"""Let a process under an emulator do one thing after the other; one that is lost costs the thing it was at.

The process prints lines of JSON: `{"begin": NAME}`, then `{"done": NAME, …}`, or `{"problem": WHY}` where it
can do none of them. Into the file of ROCWRIGHT_EMULATOR_LOG, where that is set, it writes a mark when it
begins one and when that is over. Many things are done by one process, since its start is what costs time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.emulator.session import Session

Lost = Literal["crashed", "hung", "failed"]


class Done(msgspec.Struct, frozen=True):
    """What came of one thing: its line, or how the process was lost in it.

    `dispatches` are the kernels that were executed for it; None where the emulator cannot tell.
    """

    name: str
    line: Mapping[str, Any]
    lost: Lost | None = None
    said: str = ""
    dispatches: int | None = None


class Driven(msgspec.Struct):
    """Everything that was done, in order; `problem` says why nothing more was.

    `wall_s` and `cpu_s` are seconds of the processes, `own_s` processor seconds of this one beside them.
    """

    done: dict[str, Done] = msgspec.field(default_factory=dict)
    problem: str = ""
    starts: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    own_s: float = 0.0
    dispatches: int = 0


class _Watch(msgspec.Struct):
    """Hears the lines of one process, and tells when it has been at one thing for too long."""

    start_s: float
    each_s: float
    note: Callable[[str], None]
    done: dict[str, Done] = msgspec.field(default_factory=dict)
    at: str | None = None
    problem: str = ""
    since: float = msgspec.field(default_factory=time.monotonic)
    begun: bool = False

    def heard(self, text: str) -> None:
        try:
            line = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            return  # the runtime, or the emulator, prints there, too
        if isinstance(name := line.get("begin"), str):
            self.at, self.since, self.begun = name, time.monotonic(), True
        elif isinstance(name := line.get("done"), str):
            self.done[name] = Done(name, line)
            self.at, self.since = None, time.monotonic()
            self.note(name)
        elif isinstance(why := line.get("problem"), str):
            self.problem = why

    def late(self) -> str | None:
        limit = self.each_s if self.begun else self.start_s
        if time.monotonic() - self.since <= limit:
            return None
        return f"nothing came in {limit:g} seconds"


def drive(
    session: Session,
    command: Callable[[Sequence[str]], Sequence[str | os.PathLike[str]]],
    names: Sequence[str],
    *,
    start_s: float,
    each_s: float,
    most_lost: int,
    log: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Driven:
    """Do all of `names`; `command` gives the process that does those that it is told.

    Each may take `each_s` seconds, the start `start_s`. A process that is lost is followed by another for the
    rest, unless `most_lost` were lost in a row. `note` is told each name that is done.
    """
    found = Driven()
    rest = list(names)
    in_a_row = 0
    began = time.monotonic()
    own, below = _times()
    while rest and not found.problem:
        watch = _Watch(start_s, each_s, note)
        found.starts += 1
        run = session.run(
            command(rest),
            limit_s=start_s + each_s * len(rest),
            log=log,
            dispatching=False,
            heard=watch.heard,
            until=watch.late,
        )
        for name, one in watch.done.items():
            found.done[name] = msgspec.structs.replace(one, dispatches=session.executed(name))
        found.dispatches += run.dispatches
        if watch.at is not None and run.ended != "done":
            lost: Lost = "hung" if run.ended == "hung" else "crashed" if run.ended == "crashed" else "failed"
            found.done[watch.at] = Done(watch.at, {}, lost, run.said, session.executed(watch.at))
            in_a_row = 1 if watch.done else in_a_row + 1
        left = [name for name in rest if name not in found.done]
        if watch.problem:
            found.problem = watch.problem
        elif len(left) == len(rest) or (run.ended == "done" and left):
            said = run.said.strip().rpartition("\n")[2]
            found.problem = f"its process {_ended(run.ended, run.status)}" + (f": {said}" if said else "")
        elif left and in_a_row >= most_lost:
            found.problem = f"{in_a_row} processes in a row were lost"
        rest = left
    after_own, after_below = _times()
    found.wall_s = time.monotonic() - began
    found.cpu_s, found.own_s = after_below - below, after_own - own
    return found


def _ended(ended: str, status: int) -> str:
    if ended == "hung":
        return "did not begin in its time"
    if ended == "crashed":
        return f"was killed by signal {-status if status < 0 else status - 128}"
    return f"ended with exit code {status}"


def _times() -> tuple[float, float]:
    """Processor seconds of this process, and of those below it that have ended."""
    used = os.times()
    return used.user + used.system, used.children_user + used.children_system
