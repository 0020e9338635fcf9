"""How far long work is: what is done of what, how fast, and for how long still.

On a terminal lines at its foot, drawn again four times a second and gone in the end; elsewhere (a log, CI, a
terminal that cannot) a plain line a minute. Always on stderr; nothing with `-q`, and nothing about work that
ends within a moment. One thread shows all that is under way; whoever works only adds to a number.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rocwright.system import console

BYTES = "bytes"
EVERY_S = 60.0
_AFTER_S = 1.5
_REDRAW_S = 0.25
# A rate is that of the last half minute: what a cache held, or the start of a connection, is soon forgotten.
_RECENT_S = 30.0
_NAME_WIDTH = 40

_T = TypeVar("_T")


@contextmanager
def counted(what: str, total: int | None = None, unit: str = BYTES) -> Iterator[Count]:
    """Show how much of `total` is done while the block runs; `unit` is `BYTES` or the plural of a thing."""
    count = Count(what, total, unit)
    with _shown(count):
        yield count


def each(
    what: str, items: Collection[_T], unit: str = "files", *, size: Callable[[_T], int] | None = None
) -> Iterator[_T]:
    """The items, counted as each is done with: by `size` in bytes, or one by one."""
    total = len(items) if size is None else sum(map(size, items))
    with counted(what, total, unit if size is None else BYTES) as count:
        for item in items:
            yield item
            count.add(1 if size is None else size(item))


class _Display(Protocol):
    """Something under way."""

    def lines(self, now: float) -> list[str]:
        """What a terminal shows now."""

    def beat(self, now: float) -> list[str]:
        """What a log has to be told now, mostly nothing."""


class Count:
    """A number that grows towards a total; see `counted`. Safe to add to from several threads."""

    def __init__(
        self, what: str, total: int | None, unit: str = BYTES, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._lock = threading.Lock()
        self._began = self._told = clock()
        self._seen = deque([(self._began, 0)])

    def add(self, count: int) -> None:
        """So much more is done."""
        with self._lock:
            self.done += count

    def expect(self, count: int) -> None:
        """So much more is to be done."""
        with self._lock:
            self.total = (self.total or 0) + count

    def reach(self, done: int, total: int) -> None:
        """So much of so much is done by now, as a tool that counts by itself says."""
        with self._lock:
            self.done, self.total = done, total

    def lines(self, now: float) -> list[str]:
        """One line, unless it has only just begun."""
        rate = self._rate(now)
        return [self._line(rate, now)] if now - self._began >= _AFTER_S else []

    def beat(self, now: float) -> list[str]:
        """A line a minute."""
        rate = self._rate(now)
        if now - self._told < EVERY_S:
            return []
        self._told = now
        return [self._line(rate, now)]

    def _rate(self, now: float) -> float:
        """How much a second: of late, or since the beginning where nothing was done of late."""
        self._seen.append((now, self.done))
        while self._seen[1][0] <= now - _RECENT_S:
            self._seen.popleft()
        began, before = self._seen[0]
        if self.done == before:
            began, before = self._began, 0
        return (self.done - before) / (now - began) if now > began else 0.0

    def _line(self, rate: float, now: float) -> str:
        if not (self.done or self.total):
            return f"{self.what}: {_duration(now - self._began)} so far"
        shown = console.human_bytes if self.unit == BYTES else "{:,}".format
        amount = shown(self.done)
        if self.total:
            amount += f" of {shown(self.total)}"
        if self.unit != BYTES:
            amount += f" {self.unit}"
        pace = f"{console.human_bytes(round(rate))}/s" if self.unit == BYTES else _often(rate)
        return f"{self.what}: {', '.join([amount, *_pace(self.done, self.total, rate, pace)])}"


def _pace(done: int, total: int | None, rate: float, shown: str) -> list[str]:
    """Percent, rate and remaining time, as far as they are known."""
    said = [] if not total else [f"{100 * done // total} %"]
    if rate > 0:
        said.append(shown)
        if total and done < total:
            said.append(f"{_duration((total - done) / rate)} left")
    return said


def _often(rate: float) -> str:
    return f"{rate:,.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"


def _duration(seconds: float) -> str:
    # Not the next second for an error of the last digits.
    whole = math.ceil(round(seconds, 3))
    if whole < 60:
        return f"{whole} s"
    minutes = math.ceil(whole / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class _Shown:
    """All that is under way, and the thread that shows it as long as there is any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[_Display] = []
        self._over = threading.Event()

    def begin(self, one: _Display) -> None:
        with self._lock:
            self._all.append(one)
            if len(self._all) == 1:
                self._over = threading.Event()
                threading.Thread(target=self._run, args=(self._over,), daemon=True).start()

    def end(self, one: _Display) -> None:
        with self._lock:
            self._all.remove(one)
            if not self._all:
                self._over.set()
            if console.FOOT.drawn:
                console.FOOT.draw(self._lines())

    def _run(self, over: threading.Event) -> None:
        while not over.wait(_REDRAW_S):
            # Where nobody hears it any more, the work goes on.
            with self._lock, suppress(OSError, ValueError):
                if over.is_set():
                    return
                if console.redraws():
                    console.FOOT.draw(self._lines())
                    continue
                now = time.monotonic()
                for line in [line for one in self._all for line in one.beat(now)]:
                    if not console.quiet():
                        console.say(line)

    def stop(self) -> None:
        """Say no more: a thread that writes while the interpreter ends takes it down."""
        with self._lock:
            self._over.set()
            if console.FOOT.drawn:
                console.FOOT.draw(())

    def _lines(self) -> list[str]:
        now = time.monotonic()
        return [line for one in self._all for line in one.lines(now)]


_ALL = _Shown()
atexit.register(_ALL.stop)


@contextmanager
def _shown(one: _Display) -> Iterator[None]:
    _ALL.begin(one)
    try:
        yield
    finally:
        _ALL.end(one)


@dataclass(eq=False)
class Progress:
    """Shows which steps run and for how long.

    On a terminal lines at its foot; elsewhere a line when a step starts (unless `starts` is false, for many
    short ones), and what it is doing every `every_s` seconds, so that a log of a long step is not silent. On
    both a line when one ends (unless `ends` is false, where the result tells of all of them; with `cached`
    false not for one whose earlier result holds). Safe to call from several threads.
    """

    total: int
    quiet: bool = False
    starts: bool = True
    ends: bool = True
    cached: bool = True
    every_s: float = EVERY_S
    _active: dict[str, tuple[float, str]] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)
    _done: int = 0
    _worked: int = 0
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        """Keep the display up while the block runs."""
        if self._silent:
            yield self
            return
        with _shown(self):
            yield self

    @property
    def _silent(self) -> bool:
        return self.quiet or console.quiet()

    def lines(self, now: float) -> list[str]:
        """How many of the steps are done, and a line for each that runs."""
        with self._lock:
            names = {name: _short(name) for name in self._active}
            width = max([24, *map(len, names.values())])
            rate = self._worked / (now - self._began) if now > self._began else 0.0
            head = [f"[{self._done}/{self.total}]", *_pace(self._done, self.total, rate, _often(rate))]
            steps = [
                f"  {names[name]:<{width}} {now - began:6.1f} s  {note}".rstrip()
                for name, (began, note) in self._active.items()
            ]
        return [", ".join(head), *steps]

    def beat(self, now: float) -> list[str]:
        """A line on each running step that was not heard of for long enough."""
        with self._lock:
            due = [name for name in self._active if now - self._told[name] >= self.every_s]
            self._told.update(dict.fromkeys(due, now))
            running = [(name, *self._active[name]) for name in due]
        return [f"    ...  {name}  {now - began:.0f} s  {note}".rstrip() for name, began, note in running]

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
        if self.starts and not self._silent and not console.redraws():
            console.say(f"  start  {name}")

    def note(self, name: str, text: str) -> None:
        """What a running step is doing now."""
        with self._lock:
            if name in self._active:
                self._active[name] = (self._active[name][0], text)

    def end(self, name: str, state: str, text: str = "") -> None:
        """A step ended: `state` is done, cached, skipped or failed."""
        now = time.monotonic()
        with self._lock:
            began, _ = self._active.pop(name, (now, ""))
            self._told.pop(name, None)
            self._done += 1
            self._worked += state != "cached"
            position = f"[{self._done}/{self.total}]"
        if self.ends and not self._silent and (self.cached or state != "cached"):
            line = f"{state:>7}  {position:>7} {name:<24} {now - began:6.1f} s  {text}"
            console.say(line.rstrip())


def _short(name: str) -> str:
    """A name of at most 40 characters, its middle left out: what tells submodules apart stands at the end."""
    if len(name) <= _NAME_WIDTH:
        return name
    return name[:12] + "…" + name[13 - _NAME_WIDTH :]
