"""The door to the terminal: stdout carries data, stderr carries talk.

Readable without colour (NO_COLOR, a pipe, a CI log) and with a screen reader. `system.progress` draws at its
foot how far long work is.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from rich.console import Console as _RichConsole
from rich.table import Table as _Table
from rich.text import Text as _Text

from rocwright.errors import RocwrightError

# Set by `-q`: nothing is said of how far work is.
quiet = False


def redraws() -> bool:
    """Whether lines on stderr can be drawn again: a terminal that obeys, outside of CI, and not `quiet`."""
    return (
        not quiet
        and sys.stderr is not None
        and sys.stderr.isatty()
        and "CI" not in os.environ
        and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
        # The older terminal of Windows shows the codes as text.
        and (os.name != "nt" or "WT_SESSION" in os.environ)
    )


class _Foot:
    """Lines below all others on the terminal, which are drawn again and gone in the end."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Show these instead of those that are there, each cut to the width: one that wraps stays behind."""
        width = _width() - 1
        with self._lock:
            text = self._erased() + "\n".join(_visible(line)[:width] for line in lines)
            self.drawn = len(lines)
            if text:
                sys.stderr.write(text)
                sys.stderr.flush()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While the block prints something that stays, nothing is drawn."""
        with self._lock:
            if self.drawn:
                self.draw(())
            yield

    def _erased(self) -> str:
        return "\r\x1b[K" + "\x1b[A\x1b[K" * (self.drawn - 1) if self.drawn else ""


FOOT = _Foot()


def _width() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or 80
    except ValueError:
        pass
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _err() -> _RichConsole:
    return _RichConsole(stderr=True, highlight=False, soft_wrap=True)


# Names of files may hold these, and a terminal obeys them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _visible(text: str) -> str:
    return _CONTROLS.sub(lambda match: ascii(match.group())[1:-1], text)


def say(text: str = "") -> None:
    """One line of talk, on stderr."""
    with FOOT.aside():
        _err().print(_Text(_visible(text)))


def out(text: str) -> None:
    """One line of data, on stdout, unstyled; characters that it cannot show are spelled out."""
    if sys.stdout is None:
        # Closed by the caller (`>&-`), who does not want it.
        return
    encoding = sys.stdout.encoding or "utf-8"
    with FOOT.aside():
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()


def out_json(value: object) -> None:
    """A value as indented JSON, on stdout."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_spelled(msgspec.to_builtins(value)))
    out(msgspec.json.format(encoded, indent=2).decode())


def _spelled(value: object) -> object:
    """The value with bytes that are no UTF-8 spelled out: names on disk may be anything, JSON not."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_spelled(key): _spelled(item) for key, item in value.items()}
    return [_spelled(item) for item in value] if isinstance(value, (list, tuple)) else value


def error(problem: RocwrightError) -> None:
    """Show a user's error: what, where, next step; never a traceback."""
    if problem.next_step is None:
        problem.next_step = problem.usual_step
    console = _err()
    kind = type(problem).__name__
    text = _Text()
    text.append(f"error ({kind}): ", style="bold red")
    text.append(_visible(str(problem)))
    with FOOT.aside():
        console.print(text)


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> None:
    """A table for people, on stdout; `right` lists the columns to align right."""
    console = _RichConsole(highlight=False)
    grid = _Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        grid.add_column(column, justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(_Text(_visible(cell)) for cell in row))
    if console.is_terminal:
        with FOOT.aside():
            console.print(grid)
        return
    # Without a terminal there is no width to respect; never cut a path that someone wants to copy.
    wide = _RichConsole(highlight=False, width=500, file=io.StringIO(), color_system=None)
    with wide.capture() as captured:
        wide.print(grid)
    out("\n".join(line.rstrip() for line in captured.get().splitlines()))


def human_bytes(count: int) -> str:
    """Bytes in decimal units, as package managers print them: 148807836 → '148.8 MB'."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        # Rounded first: 999,960 bytes are 1.0 MB, not 1000.0 kB.
        if round(value, 1) < 1000 or unit == "GB":
            break
    return f"{value:.1f} {unit}"
