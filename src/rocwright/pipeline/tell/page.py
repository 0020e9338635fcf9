"""A run as an HTML page: one file, nothing from elsewhere, no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from rocwright.gputest.report.markdown import clock
from rocwright.model.plan import Plan
from rocwright.pipeline.tell.picture import MARKS, boxes, picture
from rocwright.pipeline.tell.reproduce import MINIATURE
from rocwright.pipeline.tell.state import CellState, GateState, RunState, State
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
