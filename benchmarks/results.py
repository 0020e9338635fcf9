"""Rows of figures with goals: printed by benchmarks, kept in files, of which `docs/generate.py` makes tables.

A goal about a ratio of CPU medians is judged on any machine: both sides meet the same neighbours. Seconds,
and every wall, are results only where others left the cores alone (`LOADED`); elsewhere they are refused, so
that they neither meet nor miss a goal. A benchmark ends (`ended`) with 0, with 1 and the goals that it missed
by name, or with 2 where it could not measure. ``--json FILE`` writes its rows; those that the file has
besides stay.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from measured import CORES, UNMEASURED, Load, Side, Turns, Watched, give_up

__all__ = [
    "Figure",
    "Point",
    "Report",
    "Row",
    "compared",
    "ended",
    "grown",
    "read_results",
    "row",
    "seconds",
    "shown",
]

# What `docs/generate.py` makes tables of.
TABLED = Path(__file__).resolve().with_name("results")


class Figure(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A figure of a row: of what, its unit, the most that it may be; `text` says why there is no value."""

    of: str
    unit: str = ""
    value: float | None = None
    most: float | None = None
    text: str = ""

    @property
    def met(self) -> bool:
        """False where a goal is missed; what is no result misses none."""
        return self.value is None or self.most is None or self.value <= self.most

    def __str__(self) -> str:
        return f"{self.of} {self.told}".strip()

    @property
    def told(self) -> str:
        """The value in words. What missed its goal has as many digits as it takes not to look like it."""
        if self.text or self.value is None:
            return self.text
        usual = shown(self.value, self.unit)
        if self.met or self.most is None:
            return usual
        longer = (shown(self.value, self.unit, more) for more in range(1, 9))
        goal = shown(self.most, self.unit)
        return usual if usual != goal else next((text for text in longer if text != goal), usual)

    @property
    def bound(self) -> str:
        """The most that it may be, in words; empty without a goal."""
        return "" if self.most is None else shown(self.most, self.unit)

    @property
    def goal(self) -> str:
        """The goal in words; empty without one."""
        return f"{self.of} {self.bound}" + ("" if self.met else ", missed") if self.bound else ""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When and on what a row was measured; `note` where the benchmark did not write it."""

    date: str
    cores: int
    memory_gb: int
    load: Load | None = None
    note: str = ""


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an input of a size cost: CPU seconds, and the most bytes of anonymous memory."""

    size: int
    cpu_s: float
    memory: int


class Row(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A row of the tables. `seconds` are medians by side; `command` where it is not the benchmark's.

    `points` are those of a curve, by size of the input, which counts `unit`.
    """

    id: str
    what: str
    figures: list[Figure]
    origin: Origin
    against: str = ""
    command: str = ""
    threads: int = 1
    runs: int = 1
    seconds: dict[str, dict[str, float]] = {}
    unit: str = ""
    points: list[Point] = []


class Results(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `--json` writes."""

    benchmark: str
    command: str
    rows: list[Row]


def read_results(path: Path) -> Results:
    """A file of results; raises `msgspec.ValidationError` for one that is not right."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def shown(value: float, unit: str, more: int = 0) -> str:
    """A figure with three digits or so, and so many more."""
    if unit == "B":
        power = next((power for power in (9, 6, 3) if abs(value) >= 10**power), 0)
        value, unit = value / 10**power, {9: "GB", 6: "MB", 3: "kB", 0: "bytes"}[power]
    text = f"{value:,.{more + (0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2)}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}".strip()


def seconds(of: str, value: float, load: Load, most: float | None = None, unit: str = "s") -> Figure:
    """A figure that neighbours change: refused on a loaded machine."""
    if load.loaded:
        return Figure(of, unit, None, most, "not a result: loaded")
    return Figure(of, unit, round(value, 4), most)


def row(
    name: str,
    what: str,
    load: Load | None,
    figures: Sequence[Figure],
    *,
    threads: int = 1,
    runs: int = 1,
    **more: Any,
) -> Row:
    """A row that was measured just now on this machine."""
    memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    origin = Origin(date.today().isoformat(), CORES, memory, load)
    return Row(name, what, [*figures], origin, threads=threads, runs=runs, **more)


def compared(
    name: str,
    what: str,
    measured: Turns,
    *,
    against: str,
    sides: tuple[str, str] = ("ours", "floor"),
    cpu: float | None = None,
    wall: float | None = None,
    of_cpu: float | None = None,
    more: Sequence[Figure] = (),
    threads: int = 1,
) -> Row:
    """A row of two sides: ratios of their medians.

    `cpu` and `wall` are the most that these may be; `of_cpu` is the most of our wall to our CPU by threads.
    """
    ours, floor = sides
    load = measured.load
    figures = [Figure("CPU", "×", round(measured.cpu(ours) / measured.cpu(floor), 3), cpu)]
    figures.append(seconds("wall", measured.wall(ours) / measured.wall(floor), load, wall, "×"))
    if of_cpu is not None:
        spread = measured.wall(ours) * threads / measured.cpu(ours)
        figures.append(seconds("wall by CPU / threads", spread, load, of_cpu, "×"))
    medians = {}
    for side in sides:
        medians[side] = {"cpu_s": round(measured.cpu(side), 4)}
        if not load.loaded:
            medians[side]["wall_s"] = round(measured.wall(side), 4)
    figures += more
    runs = len(measured.ran[ours])
    return row(name, what, load, figures, threads=threads, runs=runs, against=against, seconds=medians)


def grown(
    name: str,
    what: str,
    unit: str,
    sides: Mapping[int, Side],
    *,
    exponent: float | None = None,
) -> Row:
    """A row of one command on inputs of several sizes, each run once.

    What costs n times as much for n times the input has the exponent 1. It is that of the last step, from the
    second largest input to the largest: small ones are all start. `exponent` is the most that the
    CPU's may be.
    """
    points = []
    with Watched() as watched:
        for size, side in sorted(sides.items()):
            print(f"{name}: {size:,} {unit}", file=sys.stderr)
            ran = side.once(sample=True)
            if not ran.peak_anonymous:
                give_up(f"{name}: of {size:,} {unit} ended before its memory was looked at")
            points.append(Point(size, round(ran.cpu, 3), ran.peak_anonymous))
    before, last = points[-2:]

    def growth(of: str, earlier: float, later: float, most: float | None = None) -> Figure:
        value = math.log(later / earlier) / math.log(last.size / before.size)
        return Figure(f"exponent of {of}", "", round(value, 3), most)

    figures = [
        growth("CPU", before.cpu_s, last.cpu_s, exponent),
        growth("memory", before.memory, last.memory),
        seconds(f"CPU of {last.size:,} {unit}", last.cpu_s, watched.load),
        Figure(f"memory of {last.size:,} {unit}", "B", last.memory),
    ]
    return row(name, what, watched.load, figures, unit=unit, points=points)


class Report:
    """A benchmark's options and rows."""

    def __init__(self, name: str, doc: str | None, *, runs: int = 5, command: str = "") -> None:
        self.name, self.command, self.rows = name, command or f"make bench-{name}", list[Row]()
        self.parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
        self.parser.add_argument("--runs", type=int, default=runs, help="how often each side runs")
        self.parser.add_argument(
            "--json", type=Path, metavar="FILE", help="write the rows here, beside others'"
        )

    def parse(self) -> argparse.Namespace:
        """The options."""
        options = self.parser.parse_args()
        self._file: Path | None = options.json
        return options

    def add(self, *rows: Row) -> None:
        """Take rows, and print them as a table."""
        self.rows += rows
        for one in rows:
            print(f"{one.id}: {one.what}" + (f", against {one.against}" if one.against else ""))
            for figure in one.figures:
                verdict = ("met" if figure.met else "MISSED") if figure.value is not None else "not judged"
                goal = f"goal {figure.bound:10} {verdict}" if figure.bound else ""
                print(f"  {figure.of:24} {figure.told:22} {goal}".rstrip())
            for point in one.points:
                cost = f"CPU {point.cpu_s:.2f} s, memory {shown(point.memory, 'B')}"
                print(f"  {f'{point.size:,} {one.unit}':24} {cost}")
            for side, medians in one.seconds.items():
                print(f"  {side:24} " + ", ".join(f"{key} {value}" for key, value in medians.items()))
            if load := one.origin.load:
                used = f"{one.threads} threads of {CORES} cores, {one.runs} runs, load {load.before} before"
                print(f"  {used} and {load.after} after, others took {load.others:.0%} of the cores")
            sys.stdout.flush()

    def finish(self) -> int:
        """Write the file, name the goals that were missed, say what comes next; the exit status."""
        if self._file is not None:
            results = Results(self.name, self.command, self._among_kept())
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        missed = [(one.id, figure) for one in self.rows for figure in one.figures if not figure.met]
        for name, figure in missed:
            print(f"missed: {self.name}: {name}: {figure}, goal {figure.bound}")
        if self._file is not None:
            stale = self._file.resolve().parent == TABLED
            print(f"wrote {self._file}" + ("; now: python docs/generate.py" if stale else ""))
        return 1 if missed else 0

    def _among_kept(self) -> list[Row]:
        """The rows of the file with ours in their places, and a new one behind that measured before it."""
        assert self._file is not None
        rows = read_results(self._file).rows if self._file.is_file() else []
        at = len(rows)
        for one in self.rows:
            known = [other.id for other in rows]
            if one.id in known:
                at = known.index(one.id)
                rows[at] = one
            else:
                rows.insert(at := min(at + 1, len(rows)), one)
        return rows


def ended(main: Callable[[], int]) -> NoReturn:
    """Run a benchmark. What it did not expect is no missed goal, and is told with its traceback."""
    try:
        status: object = main()
    except SystemExit as stopped:
        status = stopped.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = UNMEASURED
    except Exception:
        traceback.print_exc()
        status = UNMEASURED
    raise SystemExit(status)
