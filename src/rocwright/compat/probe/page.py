"""A probe as an HTML page for people: one file, nothing from elsewhere, no script."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from rocwright.compat.probe.values import (
    CallResult,
    DtypeResult,
    Exercised,
    FlagResult,
    HeldLibrary,
    LibraryResult,
    Outcome,
    Probe,
    Step,
)
from rocwright.model.emulated import Emulated
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
_GOOD = {"works": ("✓", "passed"), "not for this device": ("–", "quiet")}
_STEPS = {"ok": "✓", "failed": "✗", "skipped": "–"}


def html_page(report: Probe) -> str:
    """The page; the same report is the same bytes."""
    kind, state = verdict(report)
    head = f'<p class="state {kind}">{escape(state)}</p>\n{facts(_about(report))}'
    parts = (
        _tiles(report),
        _dtypes(report),
        _libraries(report),
        _calls(report.calls),
        _flags(report.flags),
        _lost(report.lost),
        _held(report.held),
        _process(report),
    )
    style = resources.files("rocwright.compat.probe").joinpath("page.css").read_text("utf-8")
    return page.html_page(f"Probe of torch {report.environment.torch}", head, "".join(parts), style=style)


def verdict(report: Probe) -> tuple[str, str]:
    """The class and words of the headline: on what it was tried, and whether that says anything of ROCm."""
    where = report.environment
    gpus = ", ".join(dict.fromkeys(f"{one.name} ({one.target})" for one in where.devices))
    tried = f"{where.kind}, on {gpus if where.device == 'cuda' and gpus else f'the {where.device.upper()}'}"
    less = ", ".join(report.failed)
    if isinstance(report.emulated, Emulated):
        return _emulated(report.emulated, less)
    if not where.hip:
        told = f"Not a ROCm torch: {tried}; it says nothing about what is claimed for PyTorch on ROCm"
        return ("failed", f"✗ {told}; these fail: {less}") if less else ("no-report", f"? {told}")
    if less:
        return "failed", f"✗ Less than claimed: {less}; {tried}"
    if where.device != "cuda":
        return "no-report", f"? Not tried on a GPU: {tried}; this shows only that its libraries are present"
    claims = [row.outcome for row in report.dtypes] + [row.outcome for row in report.libraries]
    unseen = (
        f"; {claims.count('open')} of {len(claims)} claims could not be shown" if "open" in claims else ""
    )
    return "passed", f"✓ Nothing is less than claimed: {tried}{unseen}"


def _emulated(by: Emulated, less: str) -> tuple[str, str]:
    """The headline of a probe on an emulated GPU, which is no proof of a GPU, whatever it showed."""
    if not by.dispatches:
        return "failed", f"✗ Nothing was executed on the emulated {by.target}: {by.told()}"
    told = f"on an emulated {by.target}, not on a GPU ({by.told()})"
    if less:
        doubt = "the emulator may be wrong: rocwright test calibrate"
        return "failed", f"✗ Less than claimed: {less}; {told}; {doubt}"
    return "no-report", f"? Nothing is less than claimed {told}"


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
        ("emulated by", report.emulated.told() if isinstance(report.emulated, Emulated) else ""),
        ("took", f"{report.seconds:.1f} s"),
    ]


def _tiles(report: Probe) -> str:
    working = sum(row.found == "works" and not row.partly for row in report.dtypes)
    partly = sum(row.partly for row in report.dtypes)
    shown = sum(row.outcome == "as claimed" for row in report.libraries)
    calls = sum(row.found == "works" for row in report.calls)
    counted = [
        (f"{working} / {len(report.dtypes)}", "data types work", ""),
        (str(partly), "data types in part", "no-report" if partly else ""),
        (f"{shown} / {len(report.libraries)}", "libraries as claimed", ""),
        (f"{calls} / {len(report.calls)}", "groups of functions work", ""),
        (str(len(report.failed)), "less than claimed", "NEW" if report.failed else ""),
        (str(report.restarts), "processes lost", "NEW" if report.restarts else ""),
    ]
    if not report.environment.hip:
        del counted[2]
    return page.tiles(counted)


def _outcome(outcome: Outcome, found: str) -> str:
    mark, kind = _OUTCOMES[outcome]
    more = {"less": ", less than claimed", "more": ", more than claimed"}.get(outcome, "")
    return f'<td class="state {kind}">{mark} {found}{more}</td>'


def _cells(*texts: str) -> str:
    return "".join(f"<td>{text}</td>" for text in texts)


def _steps(steps: Iterable[Step]) -> str:
    """Each step with its mark."""
    shown = (one for one in steps if one.name != "kernels")
    return ", ".join(f"{_STEPS[one.state]}&nbsp;{escape(one.name)}" for one in shown)


def _dtypes(report: Probe) -> str:
    """A column for each step, in the order in which most of them were tried."""
    tried = sorted((row.steps for row in report.dtypes), key=len, reverse=True)
    names = list(dict.fromkeys(one.name for steps in tried for one in steps))
    rocm = bool(report.environment.hip)
    # What is less than claimed stands first, then what works in part.
    ordered = sorted(report.dtypes, key=lambda row: (row.outcome != "less", not row.partly))
    rows = "".join(_dtype(row, names, rocm=rocm) for row in ordered)
    head = heads(("Data type", "Result", "Claimed of ROCm", *map(escape, names), "Why"))
    others = report.environment.further_dtypes
    more = (
        f"<p class='quiet'>Further data types of this torch: {escape(', '.join(others))}.</p>\n"
        if others
        else ""
    )
    told = (
        "<p class='quiet'>In part: torch can store and convert its values, but not compute with them. "
        "Limited: claimed for torch.compile only.</p>\n"
    )
    shown = f'<div class="steps">{table(head, rows, "Data types")}</div>'
    return f"<h2>Data types ({len(report.dtypes)})</h2>\n{told}{shown}{more}"


def _dtype(row: DtypeResult, names: Sequence[str], *, rocm: bool) -> str:
    mark, kind = ("~", "no-report") if row.partly else _OUTCOMES[row.outcome]
    more = {"less": ", less than claimed", "more": ", more than claimed"}.get(row.outcome, "") if rocm else ""
    result = f"{mark} {'in part' if row.partly else row.found}{more}"
    steps = {one.name: one for one in row.steps}
    marks = "".join(_step(steps.get(name)) for name in names)
    why = "<br>".join(map(escape, filter(None, (row.detail, *row.beyond))))
    name = _code(" = ".join((row.name, *row.also)))
    return (
        f'<tr><td>{name}</td><td class="state {kind}">{result}</td><td>{row.claim}</td>{marks}'
        f'<td class="why">{why}</td></tr>\n'
    )


def _step(step: Step | None) -> str:
    if step is None:
        return "<td></td>"
    kind = {"ok": "passed", "failed": "failed"}.get(step.state, "quiet")
    return f'<td class="{kind}">{_STEPS[step.state]}</td>'


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _libraries(report: Probe) -> str:
    count = len(report.libraries)
    if not report.environment.hip:
        return (
            "<h2>ROCm libraries</h2>\n<p>This torch is not built for ROCm: none of the "
            f"{count} libraries that PyTorch on ROCm uses is expected in it.</p>\n"
        )
    rows = "".join(
        f"<tr><td>{escape(row.name)}</td>{_outcome(row.outcome, row.found)}{_cells(row.claim)}"
        f'{_cells(escape(", ".join(row.exercises)))}<td class="why">{_seen(row)}</td></tr>\n'
        for row in report.libraries
    )
    head = heads(("Library", "Result", "Claimed", "Functions", "Seen"))
    return f"<h2>ROCm libraries ({count})</h2>\n{table(head, rows, 'ROCm libraries')}"


def _seen(row: LibraryResult) -> str:
    told = [escape(row.detail)] if row.detail else []
    told += [f"{_code(path)} since {escape(row.since)}" for path in row.files]
    told += [f"needed by {_code(', '.join(row.needed_by))}"] if row.needed_by else []
    told += [f"kernel {_code(name)}" for name in row.kernels[:3]]
    return "<br>".join(told)


def _calls(calls: Sequence[CallResult]) -> str:
    rows = "".join(map(_call, sorted(calls, key=lambda row: row.found in _GOOD)))
    head = heads(("Group", "Result", "Functions", "Steps", "Why", "Took"), numbers=(5,))
    return f"<h2>Functions</h2>\n{table(head, rows, 'Functions')}"


def _call(row: CallResult) -> str:
    mark, kind = {"works": ("✓", "passed"), "not for this device": ("–", "quiet")}.get(
        row.found, ("✗", "failed")
    )
    more = "".join(f"<li>{_code(name)}</li>" for name in row.kernels)
    kernels = (
        f"<details><summary>{len(row.kernels)} kernels</summary><ul>{more}</ul></details>" if more else ""
    )
    brought = [f"brought in {_code(posixpath.basename(path))}" for path in row.mapped]
    why = "<br>".join(filter(None, (escape(row.detail), *brought)))
    return (
        f'<tr><td>{escape(row.name)}</td><td class="state {kind}">{mark} {row.found}</td>'
        f'<td class="why quiet">{escape(", ".join(row.calls))}</td><td class="why">{_steps(row.steps)}</td>'
        f'<td class="why">{why}{kernels}</td><td class="number">{row.seconds:.1f} s</td></tr>\n'
    )


def _flags(flags: Sequence[FlagResult]) -> str:
    rows = "".join(
        f"<tr>{_cells(_code(row.name), escape(row.value), row.found, escape(row.issue))}"
        f'<td class="why">{escape(row.detail or _off(row.off))}</td></tr>\n'
        for row in flags
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
    return f"<h2>What this torch contains ({len(held)})</h2>\n{table(head, rows, 'Libraries of torch')}"


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
