"""A run as an HTML page, its jobs as a picture in it (SVG): one file, nothing from elsewhere, no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

import msgspec

from rocwright.gputest.report.markdown import clock
from rocwright.model.plan import Job, Plan
from rocwright.pipeline.tell.reproduce import MINIATURE
from rocwright.pipeline.tell.state import STATES, CellState, GateState, RunState, State
from rocwright.system.console import human_bytes
from rocwright.system.page import facts, heads, html_page, linked, table, tiles

_HEADS: dict[State, str] = {
    "done": "Everything is done",
    "reused": "Everything is done",
    "skipped": "Everything was left out",
    "failed": "Steps failed",
    "blocked": "Steps failed",
    "dry": "A dry run: nothing was written",
    "running": "At work",
    "waiting": "Not finished",
}
# Beyond these the page would be slow; the JSON has all.
_CELLS, _LISTED = 1500, 200
# Outputs that people follow.
_PLACES = ("package_find_links_url", "package_index_url", "release_index_url")


def run_page(plan: Plan, run: RunState, *, title: str = "") -> str:
    """The page; the same run is the same bytes."""
    cells = {cell.id: cell for cell in run.cells}
    head = (
        f'<p class="state {run.state}">{MARKS[run.state]} {_HEADS[run.state]}</p>\n'
        f"{f'<p>{MINIATURE}</p>' if run.sources == 'miniature' else ''}{facts(_about(plan, run))}"
    )
    parts = [
        _tiles(run),
        _bad(run),
        _picture(plan, cells),
        _gates(run.gates),
        _places(run),
        _path(run, cells),
        _cells(run),
        _notes(run),
    ]
    style = resources.files("rocwright.pipeline.tell").joinpath("page.css").read_text("utf-8")
    return html_page(title or f"Run {run.run_id}", head, "".join(parts), style=style)


def _about(plan: Plan, run: RunState) -> list[tuple[str, str]]:
    def axis(name: str) -> str:
        return ", ".join(dict.fromkeys(filter(None, (getattr(cell, name) for cell in plan.cells))))

    return [
        ("Profile", run.profile),
        ("Platforms", axis("platform")),
        ("Python", axis("python")),
        ("PyTorch", axis("ref")),
        ("Families", axis("family")),
        ("Publishing", run.publishing),
    ]


def _tiles(run: RunState) -> str:
    shown: list[tuple[str, str, str]] = [
        (f"{run.counts.get(state, 0):,}", _words(state), state if run.counts.get(state) else "")
        for state in ("done", "reused", "failed", "blocked", "running", "waiting", "skipped", "dry")
        if run.counts.get(state) or state in ("done", "failed")
    ]
    shown += [
        (clock(run.path_s), "longest chain", ""),
        (clock(run.machine_s), "of all machines", ""),
    ]
    # A run on one machine alone leaves nothing for others.
    shown += [(human_bytes(run.bytes), "left by steps", "")] if run.bytes else []
    return tiles(shown)


def _words(state: str) -> str:
    return {"skipped": "left out", "dry": "dry", "blocked": "wait for failed ones"}.get(state, state)


def _bad(run: RunState) -> str:
    failed = [cell for cell in run.cells if cell.state == "failed"]
    if not failed:
        return ""
    items = "".join(
        f"<h3><code>{escape(cell.id)}</code></h3>\n<pre>{escape(cell.why or cell.summary)}</pre>\n"
        for cell in failed[:_LISTED]
    )
    return f"<h2>What failed ({len(failed)})</h2>\n{items}{_more(len(failed), _LISTED)}"


def _picture(plan: Plan, cells: Mapping[str, CellState]) -> str:
    drawn = picture(boxes(plan, cells))
    if not drawn:
        return ""
    return (
        '<h2>Jobs</h2>\n<div class="picture" role="region" aria-label="Picture of the jobs" tabindex="0">\n'
        f"{drawn}\n</div>\n"
    )


def _gates(gates: Sequence[GateState]) -> str:
    if not gates:
        return ""
    rows = "".join(map(_gate, gates[:_LISTED]))
    head = heads(("Step", "Gate", "Rule", "Why"))
    return f"<h2>The gate</h2>\n{table(head, rows, 'Decisions of the gate')}{_more(len(gates), _LISTED)}"


def _gate(one: GateState) -> str:
    state = ("passed", "✓ open") if one.decision.promote else ("failed", "✗ closed")
    return (
        f'<tr><td><code>{escape(one.cell)}</code></td><td class="state {state[0]}">{state[1]}</td>'
        f'<td>{escape(one.decision.rule)}</td><td class="why">{escape(one.decision.reason)}</td></tr>\n'
    )


def _places(run: RunState) -> str:
    found = [
        (cell.id, cell.outputs[name])
        for cell in run.cells
        for name in _PLACES
        if cell.state in ("done", "reused") and cell.outputs.get(name)
    ]
    if not found:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(id_)}</code></td><td>{linked(url)}</td></tr>\n"
        for id_, url in found[:_LISTED]
    )
    head = heads(("Step", "Where pip finds them"))
    return f"<h2>Packages</h2>\n{table(head, rows, 'Pages of packages')}{_more(len(found), _LISTED)}"


def _path(run: RunState, cells: Mapping[str, CellState]) -> str:
    if not run.critical_path:
        return ""
    items = "".join(
        f'<li><code>{escape(id_)}</code> <span class="quiet">{clock(cells[id_].wall_s)}</span></li>\n'
        for id_ in run.critical_path
    )
    return (
        f"<h2>The longest chain ({clock(run.path_s)})</h2>\n"
        f"<p class='quiet'>More machines would not make the run shorter than this.</p>\n<ol>\n{items}</ol>\n"
    )


def _cells(run: RunState) -> str:
    rows = "".join(map(_row, run.cells[:_CELLS]))
    head = heads(("Step", "State", "Result", "Time", "Files", "Machine"), numbers=(3, 4))
    return f"<h2>Steps ({len(run.cells):,})</h2>\n{table(head, rows, 'Steps')}{_more(len(run.cells), _CELLS)}"


def _row(cell: CellState) -> str:
    took = clock(cell.wall_s) if cell.by else ""
    told = "; ".join(filter(None, (cell.summary, cell.why)))
    return (
        f'<tr><td><code>{escape(cell.id)}</code></td><td class="state {cell.state}">{MARKS[cell.state]} '
        f'{cell.state}</td><td class="why">{escape(told)}</td><td class="number">{took}</td>'
        f'<td class="number">{human_bytes(cell.bytes) if cell.bytes else ""}</td>'
        f"<td>{escape(cell.by)}</td></tr>\n"
    )


def _notes(run: RunState) -> str:
    if not run.notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>\n" for note in run.notes[:_LISTED])
    return f"<h2>Left out of the plan</h2>\n<ul>\n{items}</ul>\n{_more(len(run.notes), _LISTED)}"


def _more(there: int, shown: int) -> str:
    return (
        f"<p>{there - shown:,} more: <code>rocwright pipeline show --json</code>.</p>\n"
        if there > shown
        else ""
    )


# -- the jobs as a picture: SVG in layers from left to right, in the colours of the page


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
            about=_caption(jobs, cells, folded=fold, platforms=len(platforms)),
            state=job_state([cells[cell].state for job in jobs for cell in job.cells]),
            needs=tuple(needs),
        )
    return _reduced(made)


def job_state(states: Sequence[State]) -> State:
    """The worst state of a job's cells; `skipped` only where all of them are."""
    there = set(states) - {"skipped"} or {"skipped"}
    # What began and is not at its end is at work, or waits for the machine.
    return next(state for state in STATES if state in there)


def _caption(jobs: Sequence[Job], cells: Mapping[str, CellState], *, folded: bool, platforms: int) -> str:
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
