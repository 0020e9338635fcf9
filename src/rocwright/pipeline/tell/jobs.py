"""The jobs of a run as a picture: SVG in layers from top to bottom, in the colours of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import msgspec

from rocwright.model.plan import Job, Plan
from rocwright.pipeline.tell.state import STATES, CellState, State

# So many jobs are drawn one by one, and so many boxes stand beside each other on a screen of 1280 pixels.
_SINGLE, _BESIDE = 40, 6
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _EDGE = 182, 46, 14, 22, 4
_AXES = ("platform", "python", "ref", "group", "family", "part")
# Characters that fit into a box.
_FITS = 25
MARKS: dict[State, str] = {
    "done": "✓",
    "reused": "↻",
    "skipped": "–",
    "failed": "✗",
    "dry": "○",
    "running": "▸",
    "waiting": "…",
    "blocked": "⊘",
    "tolerated": "⚠",
}


class Box(msgspec.Struct, frozen=True):
    """One job, or those of one name and platform: its lines, state, and the boxes that it needs."""

    id: str
    name: str
    about: str
    state: State
    needs: tuple[str, ...]


def boxes(plan: Plan, cells: Mapping[str, CellState]) -> tuple[Box, ...]:
    """Jobs as boxes, each after those that it needs; what is too wide for a screen is folded."""
    if len(plan.jobs) <= _SINGLE:
        drawn = _boxes(plan, cells, fold=False)
        if max(map(len, layers(drawn)), default=0) <= _BESIDE:
            return drawn
    return _boxes(plan, cells, fold=True)


def _boxes(plan: Plan, cells: Mapping[str, CellState], *, fold: bool) -> tuple[Box, ...]:
    # What all jobs have in common tells none of them apart.
    differ = [axis for axis in _AXES if len({getattr(job, axis) for job in plan.jobs} - {""}) > 1]
    held: dict[str, list[Job]] = {}
    box_of: dict[str, str] = {}
    for job in plan.jobs:
        id_ = f"{job.name} {job.platform}" if fold else job.id
        held.setdefault(id_, []).append(job)
        box_of[job.id] = id_
    made: dict[str, Box] = {}
    for id_, jobs in held.items():
        needs = dict.fromkeys(box_of[need] for job in jobs for need in job.needs)
        needs.pop(id_, None)
        made[id_] = Box(
            id=id_,
            name=jobs[0].name,
            about=_folded(jobs, cells) if fold else _caption(jobs[0], differ),
            state=job_state([cells[cell].state for job in jobs for cell in job.cells]),
            needs=tuple(needs),
        )
    return _reduced(made)


def job_state(states: Sequence[State]) -> State:
    """The worst state of a job's cells; `skipped` only where all of them are."""
    there = set(states) - {"skipped"} or {"skipped"}
    # What began and is not at its end is at work, or waits for the machine.
    return next(state for state in STATES if state in there)


def _caption(job: Job, axes: Sequence[str]) -> str:
    words = {axis: getattr(job, axis) for axis in axes}
    if python := words.get("python"):
        words["python"] = f"cp{python.replace('.', '')}"
    if words.get("family"):
        words.pop("group", "")
    return " ".join(filter(None, words.values())) or job.family or job.group or job.ref


def _folded(jobs: Sequence[Job], cells: Mapping[str, CellState]) -> str:
    states = [job_state([cells[cell].state for cell in job.cells]) for job in jobs]
    done = sum(state in ("done", "reused") for state in states)
    left = states.count("skipped")
    words = (
        jobs[0].platform,
        f"{done}/{len(jobs) - left}" if len(jobs) > left else "",
        f"{MARKS['skipped']} {left}" if 0 < left < len(jobs) else f"{left} left out" if left else "",
    )
    return " ".join(filter(None, words))


def _reduced(made: Mapping[str, Box]) -> tuple[Box, ...]:
    """Without needs that another need has already: the picture has as few lines as can be."""
    before: dict[str, set[str]] = {}
    found = []
    for id_, box in made.items():
        over = {far for need in box.needs for far in before.get(need, ())}
        before[id_] = {*box.needs, *over}
        found.append(msgspec.structs.replace(box, needs=tuple(one for one in box.needs if one not in over)))
    return tuple(found)


def picture(drawn: Sequence[Box]) -> str:
    """The boxes as SVG; empty without any. What it shows stands in words in its title and in the table."""
    if not drawn:
        return ""
    rows = [part for row in layers(drawn) for part in _beside(row)]
    widest = max(map(len, rows))
    width = widest * (_WIDTH + _GAP_X) + 2 * _EDGE
    height = len(rows) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _EDGE
    at: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        for column, box in enumerate(row):
            at[box.id] = (_EDGE + column * (_WIDTH + _GAP_X), _EDGE + number * (_HEIGHT + _GAP_Y))
    lines = "".join(_line(at[need], at[box.id]) for box in drawn for need in box.needs)
    words = f"{len(drawn)} boxes in {len(rows)} layers; each stands below what it needs"
    # Two beside each other can be read on a phone, more of them scroll there.
    return (
        f'<svg class="jobs{" wide" if widest > 2 else ""}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(words)}">{lines}'
        f"{''.join(_box(box, *at[box.id]) for box in drawn)}</svg>"
    )


def _beside(row: Sequence[Box]) -> list[Sequence[Box]]:
    """A layer, below each other what would not fit on a screen."""
    size = -(-len(row) // -(-len(row) // _BESIDE))
    return [row[at : at + size] for at in range(0, len(row), size)]


def layers(drawn: Sequence[Box]) -> list[list[Box]]:
    """Each box one layer after the last of what it needs; in a layer near to what it needs."""
    depth: dict[str, int] = {}
    for box in drawn:
        depth[box.id] = 1 + max((depth[need] for need in box.needs), default=-1)
    # What needs nothing stands just before what needs it: locks are made when they are used.
    first: dict[str, int] = {}
    for box in drawn:
        for need in box.needs:
            first[need] = min(depth[box.id], first.get(need, depth[box.id]))
    for box in drawn:
        if box.id in first and not box.needs:
            depth[box.id] = first[box.id] - 1
    rows: list[list[Box]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for box in drawn:
        rows[depth[box.id]].append(box)
    place: dict[str, float] = {}
    for row in rows:
        wanted = {
            box.id: sum(place[need] for need in box.needs) / len(box.needs) if box.needs else 1.0
            for box in row
        }
        row.sort(key=lambda box: wanted[box.id])
        place.update({box.id: (number + 0.5) / len(row) for number, box in enumerate(row)})
    return [row for row in rows if row]


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1 = start[0] + _WIDTH / 2, start[1] + _HEIGHT
    x2, y2 = end[0] + _WIDTH / 2, end[1]
    bend = _GAP_Y / 2
    path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f}"
    if y2 - y1 > _GAP_Y:
        # Past other layers it goes beside the boxes: behind one it would seem to end there.
        beside = start[0] + _WIDTH + _GAP_X / 2
        path += (
            f" {beside:.0f} {y1:.0f} {beside:.0f} {y1 + _GAP_Y:.0f} V{y2 - _GAP_Y:.0f} C{beside:.0f} {y2:.0f}"
        )
    path += f" {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    return f'<path class="need" d="{path}"/>'


def _box(box: Box, x: float, y: float) -> str:
    told = escape(f"{box.name} {box.about}: {box.state}")
    text = x + 10
    return (
        f'<g class="box {box.state}"><title>{told}</title>'
        f'<rect x="{x:.0f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>'
        f'<text class="name" x="{text:.0f}" y="{y + 19:.1f}">{MARKS[box.state]} {_short(box.name)}</text>'
        f'<text x="{text:.0f}" y="{y + 36:.1f}">{_short(box.about)}</text></g>'
    )


def _short(text: str) -> str:
    return escape(text if len(text) <= _FITS else text[: _FITS - 1] + "…")
