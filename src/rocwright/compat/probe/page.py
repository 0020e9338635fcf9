"""A probe as an HTML page for people: one file, nothing from elsewhere, no script."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from html import escape

from rocwright.compat.probe.values import (
    CallResult,
    Exercised,
    HeldLibrary,
    LibraryResult,
    Outcome,
    Probe,
    Step,
)
from rocwright.system import page
from rocwright.system.console import human_bytes
from rocwright.system.page import facts, heads, table

# Mark and class of each outcome: readable without colour.
_OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "as claimed": ("✓", "passed"),
    "less": ("✗", "failed"),
    "more": ("+", "KNOWN"),
    "open": ("?", "no-report"),
    "not claimed": ("–", "quiet"),
}
_GOOD = ("works", "not for this device")
_STEPS = {"ok": "✓", "failed": "✗", "skipped": "–"}


def html_page(report: Probe) -> str:
    """The page; the same report is the same bytes."""
    failed = bool(report.failed)
    state = f"✗ Less than claimed: {', '.join(report.failed)}" if failed else "✓ All that is claimed holds"
    head = f'<p class="state {"failed" if failed else "passed"}">{escape(state)}</p>\n{facts(_about(report))}'
    parts = (
        _tiles(report),
        _dtypes(report),
        _libraries(report.libraries),
        _calls(report.calls),
        _flags(report),
        _lost(report.lost),
        _held(report.held),
        _process(report),
    )
    return page.html_page(f"torch {report.environment.torch}: claimed and found", head, "".join(parts))


def _about(report: Probe) -> list[tuple[str, str]]:
    where = report.environment
    gpus = ", ".join(f"{one.name} ({one.target}, {human_bytes(one.memory)})" for one in where.devices)
    return [
        ("torch", f"{where.torch} ({where.kind})"),
        ("commit", where.git_version),
        ("built for", " ".join(where.architectures)),
        ("Python", f"{where.python}, {where.platform}"),
        ("GPUs", gpus),
        ("computed on", where.device),
        ("no GPU", where.device_problem),
        ("took", f"{report.seconds:.1f} s"),
    ]


def _tiles(report: Probe) -> str:
    working = sum(row.found == "works" for row in report.dtypes)
    shown = sum(row.outcome == "as claimed" for row in report.libraries)
    claimed = sum(row.outcome != "not claimed" for row in report.libraries)
    calls = sum(row.found == "works" for row in report.calls)
    return page.tiles(
        [
            (f"{working} / {len(report.dtypes)}", "data types work", ""),
            (f"{shown} / {claimed}", "libraries as claimed", "")
            if claimed
            else ("–", "not a ROCm torch", ""),
            (f"{calls} / {len(report.calls)}", "groups of functions work", ""),
            (str(len(report.failed)), "less than claimed", "NEW" if report.failed else ""),
            (str(report.restarts), "processes lost", "NEW" if report.restarts else ""),
        ]
    )


def _outcome(outcome: Outcome) -> str:
    mark, kind = _OUTCOMES[outcome]
    return f'<td class="state {kind}">{mark} {outcome}</td>'


def _cells(*texts: str) -> str:
    return "".join(f"<td>{text}</td>" for text in texts)


def _steps(steps: Iterable[Step]) -> str:
    """Each step with its mark; the words of one that failed follow."""
    shown = (one for one in steps if one.name != "kernels")
    return ", ".join(f"{_STEPS[one.state]}&nbsp;{escape(one.name)}" for one in shown)


def _why(detail: str, beyond: Sequence[str]) -> str:
    """Why it is less than claimed, then what was not asked for and failed as well."""
    return "<br>".join(
        [escape(detail)] * bool(detail)
        + [f'<span class="quiet">besides, {escape(one)}</span>' for one in beyond]
    )


def _dtypes(report: Probe) -> str:
    rows = "".join(
        f"<tr>{_cells(_code(' = '.join((row.name, *row.also))), row.claim, row.found)}{_outcome(row.outcome)}"
        f'<td class="why">{_steps(row.steps)}</td><td class="why">{_why(row.detail, row.beyond)}</td></tr>\n'
        for row in report.dtypes
    )
    head = heads(("Data type", "Claimed", "Found", "", "Steps", "Why"))
    others = report.environment.further_dtypes
    more = (
        f"<p class='quiet'>Further data types of this torch: {escape(', '.join(others))}.</p>\n"
        if others
        else ""
    )
    return f"<h2>Data types ({len(report.dtypes)})</h2>\n{table(head, rows, 'Data types')}{more}"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _libraries(libraries: Sequence[LibraryResult]) -> str:
    rows = "".join(
        f"<tr>{_cells(escape(row.name), row.claim, row.found)}{_outcome(row.outcome)}"
        f'{_cells(escape(", ".join(row.exercises)))}<td class="why">{_seen(row)}</td></tr>\n'
        for row in libraries
    )
    head = heads(("Library", "Claimed", "Found", "", "Functions", "Seen"))
    return f"<h2>ROCm libraries ({len(libraries)})</h2>\n{table(head, rows, 'ROCm libraries')}"


def _seen(row: LibraryResult) -> str:
    told = [escape(row.detail)] if row.detail else []
    told += [f"{_code(path)} since {escape(row.since)}" for path in row.files]
    told += [f"needed by {_code(', '.join(row.needed_by))}"] if row.needed_by else []
    told += [f"kernel {_code(name)}" for name in row.kernels[:3]]
    return "<br>".join(told)


def _calls(calls: Sequence[CallResult]) -> str:
    rows = "".join(map(_call, calls))
    head = heads(("Functions", "Found", "Steps", "Why", "Took"), numbers=(4,))
    return f"<h2>Functions</h2>\n{table(head, rows, 'Functions')}"


def _call(row: CallResult) -> str:
    kind = "passed" if row.found == "works" else "no-report" if row.found in _GOOD else "failed"
    more = "".join(f"<li>{_code(name)}</li>" for name in row.kernels)
    kernels = (
        f"<details><summary>{len(row.kernels)} kernels</summary><ul>{more}</ul></details>" if more else ""
    )
    brought = "".join(f"<br>brought in {_code(posixpath.basename(path))}" for path in row.mapped)
    return (
        f'<tr><td>{escape(row.name)}<br><span class="quiet">{escape(", ".join(row.calls))}</span></td>'
        f'<td class="state {kind}">{row.found}</td><td class="why">{_steps(row.steps)}</td>'
        f'<td class="why">{escape(row.detail)}{brought}{kernels}</td>'
        f'<td class="number">{row.seconds:.1f} s</td></tr>\n'
    )


def _flags(report: Probe) -> str:
    rows = "".join(
        f"<tr>{_cells(_code(row.name), escape(row.value), row.found, escape(row.issue))}"
        f'<td class="why">{escape(row.detail or _off(row.off))}</td></tr>\n'
        for row in report.flags
    )
    head = heads(("Flag", "Value", "Found", "Known issue", "Off from double precision"))
    return f"<h2>Flags of known issues</h2>\n{table(head, rows, 'Flags')}"


def _off(off: dict[str, str]) -> str:
    return ", ".join(f"{value}: {one}" for value, one in off.items())


def _lost(lost: Sequence[Exercised]) -> str:
    if not lost:
        return ""
    items = "".join(
        f"<details><summary><code>{escape(one.id)}</code> {one.state} "
        f"in {escape(one.step or 'its beginning')}: "
        f"{escape(one.error)}</summary><pre>{escape(one.output)}</pre></details>\n"
        for one in lost
    )
    return f"<h2>Lost processes ({len(lost)})</h2>\n{items}"


def _held(held: Sequence[HeldLibrary]) -> str:
    if not held:
        return ""
    rows = "".join(
        f"<tr>{_cells(_code(one.file))}<td class='number'>{human_bytes(one.size)}</td>"
        f"{_cells(one.device_code, escape(' '.join(one.targets)))}"
        f'<td class="why">{escape(one.problem) or escape(" ".join(one.needed))}</td></tr>\n'
        for one in held
    )
    head = heads(("Library", "Size", "Device code", "Targets", "Needs"), numbers=(1,))
    return f"<h2>What this torch holds ({len(held)})</h2>\n{table(head, rows, 'Libraries of torch')}"


def _process(report: Probe) -> str:
    where = report.environment
    built = ", ".join(f"{name}: {value}" for name, value in where.built_with.items())
    paths = "\n".join(report.mapped)
    return (
        f"<h2>The process</h2>\n<p class='quiet'>{escape(built)}</p>\n"
        f"<details><summary>{len(report.mapped)} libraries after the import</summary>"
        f"<pre>{escape(paths)}</pre></details>\n"
        f"<details><summary>torch.__config__</summary><pre>{escape(where.config)}</pre></details>\n"
    )
