"""A run as an HTML page: summary, what failed, its steps by platform and family; one file, no script.

A release of ten thousand steps is a page of less than 300 kB: each step is a mark there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from rocwright.gputest.report.judge import normalised
from rocwright.gputest.report.markdown import clock
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.tell.jobs import MARKS, boxes, job_state, picture
from rocwright.pipeline.tell.reproduce import MINIATURE
from rocwright.pipeline.tell.state import STATES, CellState, GateState, RunState, State
from rocwright.system.console import human_bytes
from rocwright.system.page import facts, heads, html_page, legend, linked, shares, table, tiles

_HEADS: dict[State, str] = {
    "done": "Everything is done",
    "reused": "Everything is done",
    "skipped": "Everything was left out",
    "failed": "Steps failed",
    "blocked": "Steps failed",
    "tolerated": "Done, without what failed and may",
    "dry": "A dry run: nothing was written",
    "running": "At work",
    "waiting": "Not finished",
}
_WORDS: dict[State, str] = {"skipped": "left out"}
# In this order people want to know of them.
_ORDER: tuple[State, ...] = (
    "done",
    "reused",
    "failed",
    "blocked",
    "running",
    "waiting",
    "dry",
    "tolerated",
    "skipped",
)
_OPEN = ("failed", "blocked", "running", "waiting")
# With more steps a step is a mark instead of a row, with more than the second it is only counted.
_ROWS, _MARKED = 300, 12_000
# Causes of failures, ids of one, characters of one; rows of other tables, and ids in one; the JSON has all.
_CAUSES, _IDS, _WHY, _LISTED, _FEW = 40, 60, 1500, 60, 3
# Outputs that people follow.
_PLACES = {
    "package_find_links_url": "this run",
    "package_index_url": "staging",
    "release_index_url": "release",
}


def run_page(plan: Plan, run: RunState, *, title: str = "") -> str:
    """The page; the same run is the same bytes."""
    cells = {cell.id: cell for cell in run.cells}
    head = (
        f'<p class="state {run.state}">{MARKS[run.state]} {_headline(run)}</p>\n'
        f"{f'<p>{MINIATURE}</p>' if run.sources == 'miniature' else ''}{facts(_about(plan, run))}"
    )
    parts = [
        _tiles(run),
        _bad(plan, run),
        _picture(plan, cells),
        _steps(plan, cells),
        _gates(run.gates),
        _places(plan, cells),
        _path(run, cells),
        _notes(run),
    ]
    style = resources.files("rocwright.pipeline.tell").joinpath("page.css").read_text("utf-8")
    return html_page(title or f"Run {run.run_id}", head, "".join(parts), style=style)


def _headline(run: RunState) -> str:
    head = _HEADS[run.state]
    if run.state not in _OPEN:
        return head
    told = [(state, run.counts[state]) for state in _ORDER if run.counts.get(state) and state in _OPEN]
    first, *others = [f"{count:,} {state}" for state, count in told]
    return ", ".join((f"{head}: {first} of {_count(sum(run.counts.values()), 'step')}", *others))


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
        ("Compiler cache", run.caches.line),
    ]


def _tiles(run: RunState) -> str:
    shown: list[tuple[str, str, str]] = [
        (f"{run.counts.get(state, 0):,}", _WORDS.get(state, state), state if run.counts.get(state) else "")
        for state in _ORDER
        if run.counts.get(state) or state in ("done", "failed")
    ]
    shown += [
        (clock(run.path_s), "longest chain", ""),
        (clock(run.machine_s), "of all machines", ""),
    ]
    # A run on one machine alone leaves nothing for others.
    shown += [(human_bytes(run.bytes), "left by steps", "")] if run.bytes else []
    return tiles(shown)


# -- what failed: steps that failed alike are one cause


def _bad(plan: Plan, run: RunState) -> str:
    causes: dict[tuple[str, str], list[CellState]] = {}
    roots = _roots(plan, run)
    for cell in run.cells:
        if cell.id in roots:
            causes.setdefault((cell.kind, normalised((cell.why or cell.summary)[:_WHY])), []).append(cell)
    if not causes:
        return ""
    waiting = _waiting(plan, run)
    ordered = sorted(causes.values(), key=lambda alike: -sum(1 + waiting[cell.id] for cell in alike))
    items = "".join(_cause(alike, sum(waiting[cell.id] for cell in alike)) for alike in ordered[:_CAUSES])
    count = sum(map(len, ordered))
    alike = f", {_count(len(ordered), 'cause')}" if len(ordered) < count else ""
    return f"<h2>What failed ({count:,}{alike})</h2>\n{items}{_more(len(ordered), _CAUSES)}"


def _roots(plan: Plan, run: RunState) -> frozenset[str]:
    """What failed by itself. What the run does without may have failed, or wait for another of that kind."""
    spared = {cell.id for cell in run.cells if cell.state == "tolerated"}
    waits = {cell.id for cell in plan.cells if cell.id in spared and spared.intersection(cell.needs)}
    return frozenset(cell.id for cell in run.cells if cell.state == "failed") | (spared - waits)


def _waiting(plan: Plan, run: RunState) -> Counter[str]:
    """How many steps wait for each that failed; each waits for the first that it needs."""
    states = {cell.id: cell.state for cell in run.cells}
    roots = _roots(plan, run)
    cause: dict[str, str] = {}
    for cell in plan.cells:
        if cell.id in roots:
            cause[cell.id] = cell.id
        elif states[cell.id] in ("blocked", "tolerated"):
            cause[cell.id] = next((cause[need] for need in cell.needs if need in cause), "")
    return Counter(of for id_, of in cause.items() if of != id_)


def _cause(alike: Sequence[CellState], waiting: int) -> str:
    first = alike[0]
    why = first.why or first.summary
    why = why if len(why) <= _WHY else f"{why[:_WHY]}…"
    waits = f"{_count(waiting, 'step')} {'waits' if waiting == 1 else 'wait'} for it" if waiting else ""
    if len(alike) == 1:
        told = f' <span class="quiet">{waits}</span>' if waits else ""
        return f"<h3><code>{escape(first.id)}</code>{told}</h3>\n<pre>{escape(why)}</pre>\n"
    ids = "".join(f"<li><code>{escape(cell.id)}</code></li>\n" for cell in alike[:_IDS])
    words = ", ".join(filter(None, (f"{len(alike):,} steps", waits)))
    return (
        f'<h3><code>{escape(first.kind)}</code> <span class="quiet">{words}</span></h3>\n'
        f"<pre>{escape(why)}</pre>\n<details><summary>The {len(alike):,} steps</summary>\n"
        f'<ul class="ids">\n{ids}</ul>\n{_more(len(alike), _IDS)}</details>\n'
    )


def _picture(plan: Plan, cells: Mapping[str, CellState]) -> str:
    drawn = picture(boxes(plan, cells))
    if not drawn:
        return ""
    return (
        '<h2>Jobs</h2>\n<div class="picture" role="region" aria-label="Picture of the jobs" tabindex="0">\n'
        f"{drawn}\n</div>\n"
    )


# -- steps, folded by platform and family: a row for each where they are few, else a mark


def _steps(plan: Plan, cells: Mapping[str, CellState]) -> str:
    places: dict[str, dict[str, list[Cell]]] = {}
    for cell in plan.cells:
        families = places.setdefault(cell.platform, {})
        families.setdefault(cell.group or cell.family, []).append(cell)
    if not places:
        return ""
    few = len(plan.cells) <= _ROWS
    there = Counter(cells[cell.id].state for cell in plan.cells)
    named = [(state, f"{MARKS[state]} {_WORDS.get(state, state)}") for state in _ORDER if there[state]]
    blocked = "What is blocked needs a step that failed." if there["blocked"] else ""
    # What is on no platform waits for all of them.
    shown = sorted(places.items(), key=lambda place: not place[0])
    folds = "".join(_platform(name, families, cells, few=few) for name, families in shown)
    left = _more(len(plan.cells), 0) if len(plan.cells) > _MARKED else ""
    return f"<h2>Steps ({len(plan.cells):,})</h2>\n{legend(named, blocked)}{folds}{left}"


def _platform(
    name: str, families: Mapping[str, Sequence[Cell]], cells: Mapping[str, CellState], *, few: bool
) -> str:
    def bad(family: tuple[str, Sequence[Cell]]) -> int:
        return -sum(cells[cell.id].state in ("failed", "blocked") for cell in family[1])

    show = _listed if few else _marked if len(cells) <= _MARKED else lambda *_: ""
    every = [cell for held in families.values() for cell in held]
    if len(families) == 1 and "" in families:
        folds = show(every, cells, name)
    else:
        folds = "".join(
            _fold(family or "all families", held, cells, show(held, cells, f"{name} {family}"), opened=few)
            for family, held in sorted(families.items(), key=bad)
        )
    return _fold(name or "all platforms", every, cells, folds, opened=True, kind="platform")


def _fold(
    name: str,
    held: Sequence[Cell],
    cells: Mapping[str, CellState],
    inside: str,
    *,
    opened: bool,
    kind: str = "family",
) -> str:
    counts = Counter(cells[cell.id].state for cell in held)
    order = sorted(counts, key=STATES.index)
    words = {state: f"{counts[state]:,} {_WORDS.get(state, state)}" for state in order}
    told = " ".join(f'<span class="{state}">{MARKS[state]} {words[state]}</span>' for state in order)
    bar = shares([(state, counts[state]) for state in _ORDER], ", ".join(words.values()))
    seconds = sum(cells[cell.id].wall_s for cell in held)
    took = f' <span class="quiet">{clock(seconds)}</span>' if seconds else ""
    return (
        f'<details class="fold {kind}"{" open" if opened else ""}><summary><b>{escape(name)}</b> {bar} '
        f"{told}{took}</summary>\n{inside}</details>\n"
    )


def _marked(held: Sequence[Cell], cells: Mapping[str, CellState], where: str) -> str:
    """A mark for each step, those of every Python before those of one."""
    parts: dict[bool, list[Cell]] = {}
    for cell in held:
        parts.setdefault(bool(cell.python), []).append(cell)
    words = {False: f"Steps of {where or 'the run'}", True: f"Steps of {where} for each Python"}
    return "".join(_marks(parts[one], cells, words[one]) for one in (False, True) if one in parts)


def _marks(held: Sequence[Cell], cells: Mapping[str, CellState], label: str) -> str:
    """A column for each kind of step; a row for all Pythons and PyTorchs in which they stand alike."""
    kinds = list(dict.fromkeys(cell.kind for cell in held))
    places: dict[tuple[str, str], dict[str, list[State]]] = {}
    for cell in held:
        state = cells[cell.id].state
        states = places.setdefault((cell.python, cell.ref), {}).setdefault(cell.kind, [])
        states.append("done" if state == "reused" else state)
    alike: dict[tuple[tuple[State, ...], ...], list[tuple[str, str]]] = {}
    for place, of_kind in places.items():
        alike.setdefault(tuple(tuple(of_kind.get(kind, ())) for kind in kinds), []).append(place)
    every = list(dict.fromkeys(ref for _, ref in places))
    # What failed stands first.
    ordered = sorted(alike.items(), key=lambda row: min(STATES.index(one) for kind in row[0] for one in kind))
    rows = "".join(
        f'<tr><th scope="row">{_named(where, every)}</th>{"".join(map(_mark, row))}</tr>\n'
        for row, where in ordered
    )
    head = heads(("Python: PyTorch", *map(escape, kinds)))
    return f'<div class="marks">{table(head, rows, label)}</div>'


def _named(places: Sequence[tuple[str, str]], every: Sequence[str]) -> str:
    """Pythons with the same versions of PyTorch, of `every` one, in a line."""
    refs: dict[str, list[str]] = {}
    for python, ref in places:
        refs.setdefault(python, []).append(ref)
    pythons: dict[str, list[str]] = {}
    for python, held in refs.items():
        without = [ref for ref in every if ref not in held]
        short = len(without) < len(held) and len(every) > 1
        but = f"all but {', '.join(without)}" if without else "all"
        pythons.setdefault(but if short else ", ".join(held), []).append(python)
    lines = (f"{', '.join(held)}: {of}".strip(": ") or "all" for of, held in pythons.items())
    return "<br>".join(map(escape, lines))


def _mark(states: Sequence[State]) -> str:
    if not states:
        return "<td></td>"
    marks = "".join(MARKS[state] for state in states)
    worst = job_state(states)
    # There are ten thousand of them: what is done needs no class, others have a letter.
    return f"<td>{marks}</td>" if worst == "done" else f'<td class="{worst[0]}">{marks}</td>'


def _listed(held: Sequence[Cell], cells: Mapping[str, CellState], where: str) -> str:
    rows = "".join(_row(cells[cell.id]) for cell in held)
    head = heads(("Step", "State", "Result", "Time", "Files", "Machine"), numbers=(3, 4))
    return table(head, rows, f"Steps of {where or 'the run'}")


def _row(cell: CellState) -> str:
    took = clock(cell.wall_s) if cell.by else ""
    told = "; ".join(filter(None, (cell.summary, cell.why)))
    return (
        f'<tr><td><code>{escape(cell.id)}</code></td><td class="state {cell.state}">{MARKS[cell.state]} '
        f'{cell.state}</td><td class="why">{escape(told)}</td><td class="number">{took}</td>'
        f'<td class="number">{human_bytes(cell.bytes) if cell.bytes else ""}</td>'
        f"<td>{escape(cell.by)}</td></tr>\n"
    )


# -- the gate, the packages, the longest chain, what was left out


def _gates(gates: Sequence[GateState]) -> str:
    if not gates:
        return ""
    alike: dict[tuple[bool, str, str], list[str]] = {}
    for one in gates:
        said = one.decision
        alike.setdefault((said.promote, said.rule, said.reason), []).append(one.cell)
    rows = [_gate(key, ids) for key, ids in sorted(alike.items(), key=lambda item: item[0][0])]
    head = heads(("Gate", "Steps", "Rule", "Why", "Which"), numbers=(1,))
    shown = table(head, "".join(rows[:_LISTED]), "Decisions of the gate")
    return f"<h2>The gate</h2>\n{shown}{_more(len(rows), _LISTED)}"


def _gate(key: tuple[bool, str, str], ids: Sequence[str]) -> str:
    promote, rule, reason = key
    state = ("passed", "✓ open") if promote else ("failed", "✗ closed")
    more = f" and {len(ids) - _FEW:,} more" if len(ids) > _FEW else ""
    which = "<br>".join(f"<code>{escape(one)}</code>" for one in ids[:_FEW])
    return (
        f'<tr><td class="state {state[0]}">{state[1]}</td><td class="number">{len(ids):,}</td>'
        f'<td>{escape(rule)}</td><td class="why">{escape(reason)}</td><td>{which}{more}</td></tr>\n'
    )


def _places(plan: Plan, cells: Mapping[str, CellState]) -> str:
    """Each page of packages once: all Pythons of a family share one."""
    found: dict[str, tuple[str, ...]] = {}
    for cell in plan.cells:
        state = cells[cell.id]
        if state.state in ("done", "reused"):
            kind = "ROCm" if cell.kind == "upload-rocm" else "PyTorch"
            for name, where in _PLACES.items():
                if url := state.outputs.get(name):
                    found.setdefault(url, (cell.platform, cell.group, kind, where))
    if not found:
        return ""
    rows = [
        f"<tr>{''.join(f'<td>{escape(word)}</td>' for word in about)}<td>{linked(url)}</td></tr>\n"
        for url, about in found.items()
    ]
    head = heads(("Platform", "Family", "Packages", "Of", "Where pip finds them"))
    shown = table(head, "".join(rows[: 2 * _LISTED]), "Pages of packages") + _more(len(rows), 2 * _LISTED)
    if len(rows) > 2 * _FEW:
        shown = f"<details><summary>{len(rows)} pages where pip finds them</summary>\n{shown}</details>\n"
    return f"<h2>Packages</h2>\n{shown}"


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


def _notes(run: RunState) -> str:
    if not run.notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>\n" for note in run.notes[:_LISTED])
    return f"<h2>Left out of the plan</h2>\n<ul>\n{items}</ul>\n{_more(len(run.notes), _LISTED)}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _more(there: int, shown: int) -> str:
    return (
        f"<p>{there - shown:,} more: <code>rocwright pipeline show --json</code>.</p>\n"
        if there > shown
        else ""
    )
