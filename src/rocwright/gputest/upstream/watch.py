"""Watches a run_test.py: what it says, whether it does anything, and that it ends when its work is done.

It may never end by itself, with all its tests over (https://github.com/ROCm/TheRock/issues/999).
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

_RUNNING = re.compile(r"Running (?P<module>\S+) (?P<part>[0-9]+/[0-9]+) \.\.\. ")
_FAILED = re.compile(
    r"(?P<module>[\w./-]*(?:test_|_test|doctests)[\w./-]*) (?:[0-9]+/[0-9]+ )?failed!"
    r"(?: Received signal: (?P<signal>SIG[A-Z0-9]+))?"
)
_THRICE = re.compile(r"The following tests failed consistently: (?P<list>\[.*\])")
_AGAIN = re.compile(
    r"The following tests failed and then succeeded when run in a new process(?P<list>\[.*\])"
)


@dataclass(frozen=True)
class RunTestOutcome:
    """What run_test.py said: modules that failed, with the signal that ended them (empty: none), tests that
    failed each time (`consistent`) and tests that passed when they were run again."""

    modules: tuple[tuple[str, str], ...] = ()
    consistent: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


def read_said(lines: Iterable[str]) -> RunTestOutcome:
    """What the lines of a log say of failures; each once, in order."""
    modules: dict[str, str] = {}
    consistent: dict[str, None] = {}
    again: dict[str, None] = {}
    for line in lines:
        if failed := _FAILED.match(line):
            modules[failed["module"]] = failed["signal"] or modules.get(failed["module"], "")
        elif found := _THRICE.search(line):
            consistent.update(dict.fromkeys(_names(found["list"])))
        elif found := _AGAIN.search(line):
            again.update(dict.fromkeys(_names(found["list"])))
    return RunTestOutcome(tuple(modules.items()), tuple(consistent), tuple(again))


def _names(text: str) -> list[str]:
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return []
    # The tests lie below the checkout, node ids below the directory of the tests.
    return [str(name).removeprefix("test/") for name in names]


@dataclass
class Watch:
    """Takes each line of standard error, and says when the process has to be ended.

    `done` is the beginning of the line that says that the tests are over; `end_s` the seconds from there to
    the end, `silent_s` those without a line and without a change below `reports` or of `log`.
    """

    done: str
    end_s: float
    silent_s: float
    reports: Path
    log: Path
    note: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    over: bool = False
    _since: float = field(init=False)
    _seen: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def line(self, text: str) -> None:
        """One line of standard error."""
        if not self.over:
            self._since = self.clock()
        if running := _RUNNING.match(text):
            self.note(f"{running['module']} {running['part']}")
        elif _FAILED.match(text):
            self.note(text)
        elif text.startswith(self.done) and " cost " in text:
            self.over = True
            self._since = self.clock()

    def ended(self) -> str | None:
        """Why the process has to be ended now; None: it has not."""
        now = self.clock()
        if self.over:
            return (
                None if now - self._since < self.end_s else f"its tests were over {self.end_s:g} seconds ago"
            )
        seen = self._look()
        if seen != self._seen:
            self._seen, self._since = seen, now
        if now - self._since < self.silent_s:
            return None
        return f"nothing happened for {self.silent_s:g} seconds"

    def _look(self) -> tuple[int, int]:
        """How many bytes the reports and the log are, and when they last changed."""
        size = latest = 0
        for path in (self.log, *self.reports.rglob("*")):
            try:
                facts = path.stat()
            except OSError:
                continue
            size += facts.st_size
            latest = max(latest, facts.st_mtime_ns)
        return size, latest
