"""The door to the terminal: stdout carries data, stderr carries talk.

Readable without colour (NO_COLOR, a pipe, a CI log) and with a screen reader: progress is one line a
step where no terminal is attached.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
from rich.console import Console as _RichConsole
from rich.live import Live as _Live
from rich.table import Table as _Table
from rich.text import Text as _Text

from rocwright.errors import RocwrightError

# So many lines has an error that is not told whole.
_ERROR_LINES = 6


def _err() -> _RichConsole:
    return _RichConsole(stderr=True, highlight=False, soft_wrap=True)


# Names of files may hold these, and a terminal obeys them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _visible(text: str) -> str:
    return _CONTROLS.sub(lambda match: ascii(match.group())[1:-1], text)


# How much is said beside results and errors: -1 nothing, 0 what people need, 1 details and errors whole.
_level = 0


def talk(level: int) -> None:
    """Say nothing but results and errors (-1), what people need (0), or details, too (1)."""
    global _level
    _level = level


def say(text: str = "") -> None:
    """One line of talk, on stderr."""
    if _level >= 0:
        _err().print(_Text(_visible(text)))


def detail(text: str) -> None:
    """One line that only -v shows, on stderr."""
    if _level > 0:
        _err().print(_Text(_visible(text), style="dim"))


def out(text: str, style: str = "") -> None:
    """One line of data, on stdout; characters that it cannot show are spelled out.

    With a `style` its first word has that colour, on a terminal only and not with NO_COLOR.
    """
    if sys.stdout is None:
        # Closed by the caller (`>&-`), who does not want it.
        return
    if style and (terminal := _RichConsole(highlight=False, soft_wrap=True)).is_terminal:
        styled = _Text(_visible(text))
        indent = len(text) - len(text.lstrip())
        styled.stylize(style, indent, indent + len(text.split()[0]))
        terminal.print(styled)
        return
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    sys.stdout.flush()


def heading(text: str) -> None:
    """A heading among lines of data: bold on a terminal."""
    if sys.stdout is not None and sys.stdout.isatty():
        _RichConsole(highlight=False).print(_Text(text, style="bold"))
    else:
        out(text)


def width() -> int:
    """Columns for text on stdout: the terminal's, or $COLUMNS, else 80."""
    return _RichConsole().width


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
    """Show a user's error: what, where, next step; never a traceback.

    What is long is told whole with `-v`, and in the log of a CI, which nobody can ask again.
    """
    if problem.next_step is None:
        problem.next_step = problem.usual_step
    console = _err()
    kind = type(problem).__name__
    text = _Text()
    text.append(f"error ({kind}): ", style="bold red")
    whole = _level > 0 or "CI" in os.environ
    text.append(_visible(problem.told(None if whole else _ERROR_LINES)))
    console.print(text)
    cause = problem.__cause__
    while cause is not None:
        detail(f"  because: {type(cause).__name__}: {cause}")
        cause = cause.__cause__


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


_NAME_WIDTH = 40


def _short(name: str) -> str:
    """A name of at most 40 characters, its middle left out: what tells submodules apart stands at the end."""
    if len(name) <= _NAME_WIDTH:
        return name
    return name[:12] + "…" + name[13 - _NAME_WIDTH :]


@dataclass
class Progress:
    """Shows which steps run and for how long.

    On a terminal a live block; elsewhere a line when a step starts (unless `starts` is false, for many short
    ones), and what it is doing every `every_s` seconds, so that a log of a long step is not silent. On both
    a line when one ends (unless `ends` is false, where the result tells of all of them; with `cached` false
    not for a step whose earlier result holds). With `beats` a step that says nothing new is told of, too.
    Safe to call from several threads.
    """

    total: int
    quiet: bool = False
    starts: bool = True
    ends: bool = True
    cached: bool = True
    beats: bool = False
    every_s: float = 30.0
    _active: dict[str, tuple[float, str]] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)
    _done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _live: _Live | None = None
    _console: _RichConsole = field(default_factory=_err)

    def __post_init__(self) -> None:
        self.quiet |= _level < 0

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        """Keep the display up while the block runs."""
        live_wanted = self._console.is_terminal and not self.quiet and "CI" not in os.environ
        if not live_wanted:
            with self._beating():
                yield self
            return
        with _Live(
            get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True
        ) as live:
            self._live = live
            yield self
        self._live = None

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """Tell of long steps while the block runs, whether or not they say anything."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(min(self.every_s, 1.0)):
                with self._lock:
                    names = list(self._active)
                for name in names:
                    self._heard_of(name)

        if self.beats and not self.quiet:
            threading.Thread(target=beat, daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _render(self) -> _Text:
        now = time.monotonic()
        with self._lock:
            names = {name: _short(_visible(name)) for name in self._active}
            width = max([24, *map(len, names.values())])
            lines = [f"[{self._done}/{self.total}]"]
            lines += [
                f"  {names[name]:<{width}} {now - began:6.1f} s  {_visible(note)}"
                for name, (began, note) in self._active.items()
            ]
        return _Text("\n".join(lines))

    def expect(self, count: int) -> None:
        """So many more steps are to come than `total` counts."""
        with self._lock:
            self.total += count

    def start(self, name: str) -> None:
        """A step begins."""
        now = time.monotonic()
        with self._lock:
            self._active[name] = (now, "")
            self._told[name] = now
        if self._live is None and not self.quiet and self.starts:
            self._console.print(_Text(f"  start  {_visible(name)}"))

    def note(self, name: str, text: str) -> None:
        """What a running step is doing now."""
        with self._lock:
            if name not in self._active:
                return
            self._active[name] = (self._active[name][0], text)
        self._heard_of(name)

    def _heard_of(self, name: str) -> None:
        """A line of a log on a running step, if it was not heard of for long enough."""
        now = time.monotonic()
        with self._lock:
            if name not in self._active or now - self._told[name] < self.every_s:
                return
            began, text = self._active[name]
            self._told[name] = now
        if self._live is None and not self.quiet:
            line = f"    ...  {_visible(name)}  {now - began:.0f} s  {_visible(text)}"
            self._console.print(_Text(line.rstrip()))

    def end(self, name: str, state: str, text: str = "") -> None:
        """A step ended: `state` is done, cached, skipped or failed."""
        with self._lock:
            began, _ = self._active.pop(name, (time.monotonic(), ""))
            self._told.pop(name, None)
            self._done += 1
            count = self._done
        if not self.quiet and self.ends and (self.cached or state != "cached"):
            seconds = time.monotonic() - began
            position = f"[{count}/{self.total}]"
            line = f"{state:>7}  {position:>7} {_visible(name):<24} {seconds:6.1f} s  {_visible(text)}"
            self._console.print(_Text(line.rstrip()))
