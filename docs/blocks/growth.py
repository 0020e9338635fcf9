"""Pictures of what larger inputs cost, out of the curves that `make bench-scale` measured.

Seconds of a loaded machine are no result: of such a curve the CPU is told by that of the smallest input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from blocks.measured import all_results, cells, origin, results
from blocks.text import table

__all__ = ["render_scale", "scale_files"]

IMAGES = Path(__file__).resolve().parent.parent / "images"
WIDTH, HEIGHT = 720, 250
# A panel each: left edge of the axes; both share the height.
PANEL, TOP, BOTTOM, LEFTS = 235, 40, 200, (70, 435)
CPU, MEMORY = "#1f6feb", "#bf3989"

Row = results.Row


def curves() -> list[Row]:
    """The rows that have a curve."""
    return [one for one in all_results()["scale"].rows if one.points]


def scale_files() -> dict[Path, Callable[[], str]]:
    """The picture of each curve."""
    return {IMAGES / f"scale-{one.id}.svg": _drawing(one) for one in curves()}


def render_scale() -> str:
    """Each curve with its figures, its picture, and the points as text for those who do not see it."""
    return "\n".join(map(_section, curves()))


def _section(row: Row) -> str:
    what, told, goals = cells(row)
    title, values, unit = _cpu(row)
    points = (
        (f"{point.size:,}", results.shown(value, unit), results.shown(point.memory, "B"))
        for point, value in zip(row.points, values, strict=True)
    )
    goal = f" Goal: {goals}." if goals else ""
    return (
        f"## {what[:1].upper()}{what[1:]}\n\n{told}.{goal} Measured {origin(row)}.\n\n"
        f"![{title} and memory by number of {row.unit}; the table below has the values]"
        f"(../images/scale-{row.id}.svg)\n\n" + table((row.unit, title, "memory"), points)
    )


def _cpu(row: Row) -> tuple[str, list[float], str]:
    """What the CPU of the points is called, their values, the unit."""
    values = [point.cpu_s for point in row.points]
    if row.origin.load is None or not row.origin.load.loaded:
        return "CPU", values, "s"
    return "CPU by the first", [value / values[0] for value in values], "×"


def _drawing(row: Row) -> Callable[[], str]:
    return lambda: draw(row)


def draw(row: Row) -> str:
    """An SVG of two panels with logarithmic axes; a dashed line shows the slope of what is proportional."""
    sizes = [point.size for point in row.points]
    title, values, unit = _cpu(row)
    panels = (
        (title, CPU, values, unit),
        ("memory", MEMORY, [float(point.memory) for point in row.points], "B"),
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' font-family="sans-serif" font-size="12" fill="#57606a">',
        f"<title>{escape(row.what)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff"/>',
    ]
    for left, (title, color, values, unit) in zip(LEFTS, panels, strict=True):
        parts += _panel(left, title, row.unit, color, sizes, values, unit)
    return "\n".join([*parts, "</svg>\n"])


def _panel(
    left: int, title: str, across: str, color: str, sizes: Sequence[int], values: Sequence[float], unit: str
) -> Iterator[str]:
    # Whole powers of ten, and as many of them up as across: what is proportional is a diagonal.
    first, low = math.floor(math.log10(min(sizes))), math.floor(math.log10(min(values)))
    decades = max(math.ceil(math.log10(max(sizes))) - first, math.ceil(math.log10(max(values))) - low, 1)

    def at(size: float, value: float) -> str:
        x = left + (math.log10(size) - first) / decades * PANEL
        y = BOTTOM - (math.log10(value) - low) / decades * (BOTTOM - TOP)
        return f"{x:.1f},{y:.1f}"

    yield f'<text x="{left}" y="22" font-weight="bold" fill="#1f2328">{title}</text>'
    yield f'<text x="{left + PANEL}" y="{BOTTOM + 36}" text-anchor="end">{escape(across)}</text>'
    for step in range(decades + 1):
        x, y = at(10 ** (first + step), 10**low).split(",")
        up = at(10**first, 10 ** (low + step)).split(",")[1]
        yield f'<path d="M{x},{TOP}V{BOTTOM}M{left},{up}H{left + PANEL}" stroke="#d0d7de"/>'
        yield f'<text x="{x}" y="{BOTTOM + 17}" text-anchor="middle">{10 ** (first + step):,}</text>'
        label = results.shown(10.0 ** (low + step), unit)
        yield f'<text x="{left - 6}" y="{float(up) + 4:.1f}" text-anchor="end">{label}</text>'
    rise = min(max(sizes) / min(sizes), 10 ** (low + decades) / values[0])
    end = at(sizes[0] * rise, values[0] * rise)
    yield f'<path d="M{at(sizes[0], values[0])} L{end}" stroke="#8c959f" stroke-dasharray="4 4" fill="none"/>'
    line = " ".join(at(size, value) for size, value in zip(sizes, values, strict=True))
    yield f'<polyline points="{line}" stroke="{color}" stroke-width="2" fill="none"/>'
    for size, value in zip(sizes, values, strict=True):
        x, y = at(size, value).split(",")
        yield f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>'
