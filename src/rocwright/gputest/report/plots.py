"""Plots of a report as SVG: drawn by the page's own colours, each with its numbers in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import msgspec

_WIDTH, _HEIGHT = 560, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 14, 34
# So many labels fit below the axis.
_LABELS = 4
# Above so many characters two of them do; above the second number they are cut.
_SHORT, _LONG = 14, 30


class Mark(msgspec.Struct, frozen=True):
    """A point over the sets: `label` names the set, `bad` marks one that did not pass, `now` this report."""

    label: str
    value: float
    bad: bool = False
    now: bool = False


def line_plot(
    title: str, marks: Sequence[Mark], shown: Callable[[float], str], *, top: float | None = None
) -> str:
    """Values over sets as a line; `top` is the largest value that there can be. Empty below two points."""
    if len(marks) < 2:
        return ""
    values = [one.value for one in marks]
    low, high, step = scale(min(values), max(values) if top is None else top, zero=top is None)
    x = [_LEFT + (_WIDTH - _LEFT - _RIGHT) * at / (len(marks) - 1) for at in range(len(marks))]
    y = [_y(value, low, high) for value in values]
    grid = []
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        at = _y(value, low, high)
        grid.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        grid.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{escape(shown(value))}</text>')
    path = " ".join(f"{'L' if at else 'M'}{x[at]:.1f} {y[at]:.1f}" for at in range(len(marks)))
    dots = "".join(_dot(one, x[at], y[at], shown) for at, one in enumerate(marks))
    words = f"{title}: from {shown(values[0])} to {shown(values[-1])} over {len(marks)} sets"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(words)}">'
        f'{"".join(grid)}<path class="line" d="{path}"/>{dots}{_below(marks, x)}</svg>'
    )


def _dot(one: Mark, x: float, y: float, shown: Callable[[float], str]) -> str:
    kind = "dot bad" if one.bad else "dot"
    told = f"{one.label}{' (this report)' if one.now else ''}: {shown(one.value)}"
    told += ", did not pass" if one.bad else ""
    # What did not pass is a square: colour alone tells some people nothing.
    shape = (
        f'<rect class="{kind}" x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9">'
        if one.bad
        else f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
    )
    return f"{shape}<title>{escape(told)}</title></{'rect' if one.bad else 'circle'}>"


def _below(marks: Sequence[Mark], x: Sequence[float]) -> str:
    """Labels under the axis: the ends, and some between where there is room."""
    labels = _short([one.label for one in marks if not one.now])
    labels += [one.label for one in marks if one.now]
    longest = max(map(len, labels))
    count = min(_LABELS if longest <= _SHORT else 2, len(marks))
    chosen = sorted({round(number * (len(marks) - 1) / (count - 1)) for number in range(count)})
    texts = []
    for at in chosen:
        anchor = "start" if at == 0 else "end" if at == len(marks) - 1 else "middle"
        near = _LEFT if at == 0 else x[at]
        name = labels[at] if len(labels[at]) <= _LONG else "…" + labels[at][1 - _LONG :]
        texts.append(f'<text x="{near:.1f}" y="{_HEIGHT - 10}" text-anchor="{anchor}">{escape(name)}</text>')
    return "".join(texts)


def _short(labels: Sequence[str]) -> list[str]:
    """Labels without what all of them begin with: of nightlies the days stay."""
    first, last = min(labels), max(labels)
    same = [one == other for one, other in zip(first, last, strict=False)]
    common = first[: same.index(False)].rstrip("0123456789") if False in same else ""
    return [label[len(common) :] or label for label in labels]


def unit_of(seconds: float) -> tuple[int, str]:
    """The unit that so many seconds are plotted in: how long it is, and its name."""
    for length, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return length, name
    return 1, "s"


def _y(value: float, low: float, high: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - low) / (high - low))


def scale(smallest: float, largest: float, *, zero: bool) -> tuple[float, float, float]:
    """Ends of an axis and the step between its lines: a round number, three to six lines."""
    low, high = (0.0 if zero else smallest), max(largest, smallest)
    if high - low <= 0:
        low, high = (0.0, high or 1.0) if zero else (low - max(1.0, abs(low) * 0.01), high)
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9) * step
    # A share has an end above which there is nothing.
    last = math.ceil(high / step - 1e-9) * step
    return first, last, step


def bar(share: float, words: str) -> str:
    """A bar in a table, 0 to 1."""
    width = max(0.0, min(1.0, share)) * 100
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(words)}"><rect width="{width:.1f}" height="8"/></svg>'
    )
