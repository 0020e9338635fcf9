"""Who is told how the work goes on: a display, a log, or nobody."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Told about pieces of work that may run at the same time; `system.progress.Progress` is one."""

    def expect(self, count: int) -> None:
        """So many more pieces are to come."""

    def start(self, name: str) -> None:
        """A piece begins."""

    def note(self, name: str, text: str) -> None:
        """What a running piece is doing now."""

    def end(self, name: str, state: str, text: str = "") -> None:
        """A piece ended: `state` is done, cached, skipped or failed."""


class _Nobody:
    def expect(self, count: int) -> None:
        pass

    def start(self, name: str) -> None:
        pass

    def note(self, name: str, text: str) -> None:
        pass

    def end(self, name: str, state: str, text: str = "") -> None:
        pass


NOBODY: Watch = _Nobody()
