"""What stands in the way of a build, found before it begins: all of it at once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rocwright.errors import CommandFailed, NotReady, RocwrightError

# How many of the last lines of a command a finding shows.
_SAID = 3


class Problem(msgspec.Struct, frozen=True):
    """One thing to put right: what it is, the file or directory it is about, what to do."""

    what: str
    next_step: str
    where: str = ""

    def __str__(self) -> str:
        place = f"\n    in: {self.where}" if self.where and self.where not in self.what else ""
        return f"{self.what}{place}\n    next: {self.next_step}"


def problem_of(error: RocwrightError) -> Problem:
    """An error met while facts were gathered, as one finding among others."""
    what = error.what
    if isinstance(error, CommandFailed) and error.tail:
        # The command alone does not say what is wrong.
        what += "".join(f"\n      {line}" for line in error.tail.splitlines()[-_SAID:])
    return Problem(what, error.next_step or "put it right and run again", error.where or "")


def require_none(problems: Sequence[Problem], *, work: str) -> None:
    """Raise `NotReady` naming every problem; `work` is what was to begin, such as "the build"."""
    if not problems:
        return
    count = "one thing stands" if len(problems) == 1 else f"{len(problems)} things stand"
    lines = "\n".join(f"  - {problem}" for problem in problems)
    raise NotReady(f"{work} has not begun: {count} in its way\n{lines}")
