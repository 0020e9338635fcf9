"""What a command prints, on its way into a value, into the last lines of an error and into a log.

Nothing secret is shown; what is, says `system/redact.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rocwright.system.files import disk_error
from rocwright.system.redact import hidden

_TAIL_LINES = 25
# A line beyond this many characters is passed on in pieces; so many more wait for what may complete a secret.
_LONGEST_LINE = 1 << 18
_HELD_BACK = 1 << 12


class Output:
    """What a command prints: standard output whole, the last lines of both streams, all of it in the log."""

    def __init__(
        self,
        log: Path | None,
        watch: Callable[[str], None] | None = None,
        secrets: Sequence[str] = (),
        heard: Callable[[str], None] | None = None,
    ) -> None:
        self._watch, self._heard = watch, heard
        self._secrets = secrets
        self.stdout: list[str] = []
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._rest = {"out": "", "err": ""}
        self._sink = None
        self._fresh = True
        self._log = log
        if log is not None:
            with _on_disk(log):
                log.parent.mkdir(parents=True, exist_ok=True)
                self._fresh = _ends_a_line(log)
                self._sink = log.open("a", encoding="utf-8")

    def begin(self, line: str) -> None:
        """The command itself, on a line of its own."""
        if self._sink is not None:
            with _on_disk(self._log):
                self._sink.write(line if self._fresh else "\n" + line)
                self._sink.flush()

    def take(self, stream: str, text: str, *, last: bool = False) -> None:
        """Text of one stream, in the order of arrival; lines are kept whole."""
        if stream == "out":
            self.stdout.append(text)
        whole = self._rest[stream] + text
        lines = whole.splitlines(keepends=True)
        self._rest[stream] = lines.pop() if lines and not last and not lines[-1].endswith("\n") else ""
        for line in lines:
            if self._watch is not None and stream == "err":
                self._watch(self._clean(line).strip())
                if line.endswith("\r"):
                    continue
            if self._heard is not None and stream == "out":
                self._heard(self._clean(line).strip())
            self._put(self._clean(line))
        if len(self._rest[stream]) > _LONGEST_LINE:
            line = self._clean(self._rest[stream])
            self._rest[stream] = line[-_HELD_BACK:]
            self._put(line[:-_HELD_BACK])

    def _clean(self, text: str) -> str:
        return hidden(text, self._secrets)

    def _put(self, text: str) -> None:
        self.tail.append(text.rstrip("\r\n"))
        if self._sink is not None:
            with _on_disk(self._log):
                self._sink.write(text)

    def close(self) -> None:
        """End the log."""
        if self._sink is not None:
            with _on_disk(self._log):
                self._sink.close()


@contextlib.contextmanager
def _on_disk(log: Path | None) -> Iterator[None]:
    """Raise the error of a full disk by its name."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, log or Path()) from error


def _ends_a_line(log: Path) -> bool:
    if not log.exists() or log.stat().st_size == 0:
        return True
    with log.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
