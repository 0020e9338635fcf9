"""The jobs of a run as a picture: SVG in layers from left to right, in the colours of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import msgspec

from rocwright.model.plan import Job, Plan
from rocwright.pipeline.tell.state import STATES, CellState, State

# Above so many jobs, those of one name and platform are one box.
_SINGLE = 40
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _EDGE = 188, 46, 20, 14, 6
# Characters that fit into a box.
_FITS = 27
MARKS: dict[State, str] = {
    "done": "✓",
    "reused": "↻",
    "skipped": "–",
    "failed": "✗",
    "dry": "○",
    "running": "▸",
    "waiting": "…",
    "blocked": "⊘",
}


class Box(msgspec.Struct, frozen=True):
    """One job, or those of one name and platform: its lines, state, and the boxes that it needs."""

    id: str
    name: str
    about: str
    state: State
    needs: tuple[str, ...]


def boxes(plan: Plan, cells: Mapping[str, CellState]) -> tuple[Box, ...]:
    """Jobs as boxes, each after those that it needs; many jobs are folded."""
    fold = len(plan.jobs) > _SINGLE
    platforms = {job.platform for job in plan.jobs if job.platform}
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
            about=_about(jobs, cells, folded=fold, platforms=len(platforms)),
            state=job_state([cells[cell].state for job in jobs for cell in job.cells]),
            needs=tuple(needs),
        )
    return _reduced(made)


def job_state(states: Sequence[State]) -> State:
    """The worst state of a job's cells; `skipped` only where all of them are."""
    there = set(states) - {"skipped"} or {"skipped"}
    # What began and is not at its end is at work, or waits for the machine.
    return next(state for state in STATES if state in there)


def _about(jobs: Sequence[Job], cells: Mapping[str, CellState], *, folded: bool, platforms: int) -> str:
    if not folded:
        job = jobs[0]
        python = f"cp{job.python.replace('.', '')}" if job.python else ""
        platform = job.platform if platforms > 1 else ""
        return " ".join(filter(None, (platform, python, job.ref, job.family or job.group, job.part)))
    states = [job_state([cells[cell].state for cell in job.cells]) for job in jobs]
    done = sum(state in ("done", "reused") for state in states)
    left = states.count("skipped")
    words = (
        jobs[0].platform,
        f"{done}/{len(jobs) - left}" if len(jobs) > left else "",
        f"{left} left out" if left else "",
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
    layers = _layers(drawn)
    tallest = max(map(len, layers))
    height = tallest * (_HEIGHT + _GAP_Y) + _GAP_Y
    width = len(layers) * (_WIDTH + _GAP_X) - _GAP_X + 2 * _EDGE
    at: dict[str, tuple[float, float]] = {}
    for column, layer in enumerate(layers):
        top = (height - len(layer) * (_HEIGHT + _GAP_Y) + _GAP_Y) / 2
        for row, box in enumerate(layer):
            at[box.id] = (_EDGE + column * (_WIDTH + _GAP_X), top + row * (_HEIGHT + _GAP_Y))
    lines = "".join(_line(at[need], at[box.id]) for box in drawn for need in box.needs)
    words = f"{len(drawn)} boxes in {len(layers)} layers; each stands right of what it needs"
    return (
        f'<svg class="jobs" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(words)}">{lines}{"".join(_box(box, *at[box.id]) for box in drawn)}</svg>'
    )


def _layers(drawn: Sequence[Box]) -> list[list[Box]]:
    """Each box one layer after the last of what it needs; in a layer near to what it needs."""
    depth: dict[str, int] = {}
    for box in drawn:
        depth[box.id] = 1 + max((depth[need] for need in box.needs), default=-1)
    # What needs nothing stands just before what needs it: locks are made when they are used.
    for box in reversed(drawn):
        after = [depth[other.id] for other in drawn if box.id in other.needs]
        if after and not box.needs:
            depth[box.id] = min(after) - 1
    layers: list[list[Box]] = [[] for _ in range(max(depth.values()) + 1)]
    for box in drawn:
        layers[depth[box.id]].append(box)
    place: dict[str, float] = {}
    for layer in layers:
        wanted = {
            box.id: sum(place[need] for need in box.needs) / len(box.needs) if box.needs else 1.0
            for box in layer
        }
        layer.sort(key=lambda box: wanted[box.id])
        place.update({box.id: (number + 0.5) / len(layer) for number, box in enumerate(layer)})
    return [layer for layer in layers if layer]


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT / 2
    x2, y2 = end[0], end[1] + _HEIGHT / 2
    bend = _GAP_X / 2
    path = f"M{x1:.0f} {y1:.1f} C{x1 + bend:.0f} {y1:.1f} {x2 - bend:.0f} {y2:.1f} {x2:.0f} {y2:.1f}"
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
