"""The door to the terminal: stdout carries data, stderr carries talk.

Readable without colour (NO_COLOR, a pipe, a CI log) and with a screen reader. `system.progress` draws at its
foot how far long work is.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TextIO

import msgspec
from rich.console import Console as _RichConsole
from rich.text import Text as _Text

from rocwright.errors import RocwrightError
from rocwright.system.redact import hidden, secrets_in

_WIDTH, _UNLIMITED = 80, 100_000
# A column is narrower than its words only down to the one, and the last one only from the other on.
_LEAST, _MOST = 12, 40
# So many lines has an error that is not told whole.
_ERROR_LINES = 6
# Bytes of JSON that are made text at a time.
_PIECE = 1 << 20
# How much is said beside results and errors: -1 nothing, 0 what people need, 1 details and errors whole.
_level = 0


def talk(level: int) -> None:
    """Say nothing but results and errors (-1), what people need (0), or details, too (1)."""
    global _level
    _level = level


def quiet() -> bool:
    """Whether nothing is said but results and errors, as `-q` asks."""
    return _level < 0


def redraws() -> bool:
    """Whether lines on stderr can be drawn again: a terminal that obeys, outside of CI, and not `quiet`."""
    return (
        not quiet()
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
        width = _width(sys.stderr) - 1
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


def _styled(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty() and _RichConsole(file=stream).color_system is not None


def _width(stream: TextIO | None) -> int:
    """Columns of the terminal that a stream goes to, `COLUMNS` where that is set; else 80."""
    with suppress(ValueError):
        return int(os.environ.get("COLUMNS", "")) or _WIDTH
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH if stream else _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def _err() -> _RichConsole:
    return _RichConsole(stderr=True, highlight=False, soft_wrap=True)


# Names of files may hold these, and a terminal obeys them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _visible(text: str) -> str:
    return _CONTROLS.sub(lambda match: ascii(match.group())[1:-1], text)


def say(text: str = "") -> None:
    """One line of talk, on stderr."""
    if not quiet():
        with FOOT.aside():
            _err().print(_Text(_visible(text)))


def detail(text: str) -> None:
    """One line that only -v shows, on stderr."""
    if _level > 0:
        with FOOT.aside():
            _err().print(_Text(_visible(text), style="dim"))


def out(text: str, style: str = "", *, hang: int | None = None) -> None:
    """A line of data, on stdout; characters that it cannot show are spelled out.

    With a `style` its first word has that colour, on a terminal only and not with NO_COLOR. With `hang` it is
    prose: beyond the width of a terminal it goes on in further lines that are indented so far.
    """
    if sys.stdout is None:
        # Closed by the caller (`>&-`), who does not want it.
        return
    if hang is not None:
        text = "\n".join(_wrapped(text, _room(), hang))
    with FOOT.aside():
        if style and _styled(sys.stdout):
            _RichConsole(highlight=False, soft_wrap=True).print(_first_word(_visible(text), style))
            return
        _write((text, "\n"))


def _write(pieces: Iterable[str]) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    for piece in pieces:
        sys.stdout.write(piece.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _first_word(text: str, style: str) -> _Text:
    styled = _Text(text)
    indent = len(text) - len(text.lstrip())
    styled.stylize(style, indent, indent + len(text.split()[0]))
    return styled


def heading(text: str) -> None:
    """A heading among lines of data: bold on a terminal."""
    out(f"\x1b[1m{text}\x1b[0m" if _styled(sys.stdout) else text)


def width() -> int:
    """Columns for text on stdout: the terminal's, or $COLUMNS, else 80."""
    return _width(sys.stdout)


def _room() -> int:
    """Columns that lines are wrapped at: a pipe or a log gets them whole, to be searched and cut."""
    return width() if sys.stdout is not None and sys.stdout.isatty() else _UNLIMITED


def out_json(value: object) -> None:
    """A value as indented JSON, on stdout."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_spelled(msgspec.to_builtins(value)))
    encoded = msgspec.json.format(encoded, indent=2)
    if sys.stdout is not None:
        # A plan's is larger than the plan: no copy of all of it is made.
        pieces = (encoded[at : at + _PIECE] for at in range(0, len(encoded), _PIECE))
        with FOOT.aside():
            _write(chain(codecs.iterdecode(pieces, "utf-8"), ("\n",)))


def _spelled(value: object) -> object:
    """The value with bytes that are no UTF-8 spelled out: names on disk may be anything, JSON not."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_spelled(key): _spelled(item) for key, item in value.items()}
    return [_spelled(item) for item in value] if isinstance(value, (list, tuple)) else value


def error(problem: RocwrightError) -> None:
    """Show a user's error: what, where, next step; never a traceback.

    What is long is told whole with `-v`, and in the log of a CI, which nobody can ask again.
    """
    if problem.next_step is None:
        problem.next_step = problem.usual_step
    kind = type(problem).__name__
    secrets = secrets_in(os.environ)
    text = _Text("".join(f"{_visible(hidden(line, secrets))}\n" for line in problem.listed()))
    text.append(f"error ({kind}): ", style="bold red")
    whole = _level > 0 or "CI" in os.environ
    text.append(_visible(hidden(problem.told(None if whole else _ERROR_LINES), secrets)))
    with FOOT.aside():
        _err().print(text)
    cause = problem.__cause__
    while cause is not None:
        detail(hidden(f"  because: {type(cause).__name__}: {cause}", secrets))
        cause = cause.__cause__


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> None:
    """A table for people, on stdout; `right` aligns to the right. A pipe or a log gets a line a row.

    On a terminal cells go on in further lines between words. No word is ever cut, since somebody may want to
    copy a path: where one is too long for its column, the rest of its row follows below; so it stands best in
    the last.
    """
    width = _room()
    head, *body = [[_visible(cell) for cell in row] for row in (columns, *rows)]
    gap = 2
    widths = _column_widths(head, body, right, width - gap * (len(head) - 1))
    if sum(widths) > width - gap * (len(head) - 1):
        gap = 1
        widths = _column_widths(head, body, right, width - gap * (len(head) - 1))
    for line in [*([_visible(title)] if title else ()), *_row(head, widths, right, gap)]:
        out(f"\x1b[1m{line}\x1b[0m" if _styled(sys.stdout) else line)
    for line in (line for row in body for line in _row(row, widths, right, gap)):
        out(line)


def _column_widths(
    head: Sequence[str], body: Sequence[Sequence[str]], right: Sequence[int], room: int
) -> list[int]:
    """Columns as wide as their cells; where that is too much, the widest give way, first between words."""
    by_column = list(zip(head, *body, strict=True))
    widths = [max(map(len, cells)) for cells in by_column]
    # What is aligned to the right is a number, perhaps with its unit.
    words = [
        widths[number] if number in right else max(len(word) for cell in cells for word in cell.split(" "))
        for number, cells in enumerate(by_column)
    ]
    # What is too long in the last one hides nothing behind it.
    words[-1] = min(words[-1], max(_MOST, len(head[-1])))
    narrowest = [max(_LEAST, *map(len, name.split(" "))) for name in head[:-1]]
    for least in (words, [*narrowest, words[-1]]):
        while sum(widths) > room and any(have > few for have, few in zip(widths, least, strict=True)):
            wide = [have if have > few else 0 for have, few in zip(widths, least, strict=True)]
            widths[wide.index(max(wide))] -= 1
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[int], gap: int) -> list[str]:
    lines: list[str] = []
    place = begun = 0
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        pieces = _wrapped(cell, width, 0)
        lines += [""] * (begun + len(pieces) - len(lines))
        for offset, piece in enumerate(pieces, begun):
            lines[offset] = lines[offset].ljust(place) + (piece.rjust(width) if number in right else piece)
        if max(map(len, pieces)) > width:
            begun = len(lines)
        place += width + gap
    return [line.rstrip() for line in lines if line.strip()] or [""]


def _wrapped(text: str, width: int, hang: int) -> list[str]:
    """Lines of at most `width` characters, the further ones indented; spaces within stay as they are."""
    lines = []
    for line in text.split("\n"):
        lines += textwrap.wrap(
            line,
            max(width, hang + 1),
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
            expand_tabs=False,
            replace_whitespace=False,
        ) or [""]
    return lines


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
