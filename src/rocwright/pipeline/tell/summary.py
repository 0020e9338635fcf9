"""Summaries in Markdown: what one cell tells people, and on the first page what the run is going to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rocwright.errors import Interrupted
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.carry import PACKAGES
from rocwright.pipeline.define.kinds import BUILD_EXTENSION
from rocwright.pipeline.records import Record
from rocwright.pipeline.tell.reproduce import MINIATURE, Tested, pip_install, test_report, wanted
from rocwright.pipeline.tell.results import (
    Checks,
    Ends,
    Gate,
    Promoted,
    Staged,
    Suite,
    Tests,
    Uploaded,
    gate_of,
    read,
)
from rocwright.pipeline.tell.state import publishing
from rocwright.system.workflow import cell as text
from rocwright.system.workflow import code, cut, link, table

_FAILURES = 20
# Of a long list in a cell of a table.
_NAMED = 12


def summary_of(cell: Cell, record: Record, plan: Plan, *, carried: bool = False) -> tuple[str, ...]:
    """Lines of Markdown; none for a step of which nobody needs more than its line in the log.

    `carried`: what was uploaded travels as artifacts of the run, and nobody else reaches where it is.
    """
    if record.state == "failed":
        return cut([f"### ❌ {code(cell.id)} failed", "", text(record.why or record.summary), ""])
    if record.state == "skipped":
        return (f"⏭️ {code(cell.id)} was left out: {text(record.why or cell.skip)}", "")
    if record.state == "dry":
        return (f"🔍 {code(cell.id)} is a dry run: {text(record.why or record.summary)}", "")
    if carried and cell.kind in ("upload-rocm", "upload-pytorch"):
        return cut(_artifacts(cell, record, plan))
    if carried and _TOLD.get(cell.kind) is _tests:
        return cut(_tests(cell, record, plan, (PACKAGES,)))
    told = _TOLD.get(cell.kind)
    return cut(told(cell, record, plan)) if told else ()


def failure_lines(name: str, problem: BaseException, told: str) -> tuple[str, ...]:
    """Why a job of a workflow ended before its steps could say how they went; `told` is the error's text."""
    if isinstance(problem, (KeyboardInterrupt, Interrupted)):
        return (f"### 🚫 {code(name)} was cancelled", "", "Run the workflow's job again to go on.", "")
    what, *more = told.splitlines() or [type(problem).__name__]
    return cut([f"### ❌ {code(name)} failed", "", text(what), "", *(f"* {text(line)}" for line in more), ""])


def _upload(cell: Cell, record: Record, plan: Plan) -> list[str]:
    uploaded = read(record, Uploaded)
    pytorch = cell.kind == "upload-pytorch"
    pages = pages_of(uploaded)
    line = pip_install(wanted(uploaded.files), cell.platform, find_links=pages, pre=True)
    mini = [MINIATURE, ""] if pytorch and plan.sources == "miniature" else []
    return [
        f"### {link('PyTorch packages' if pytorch else 'ROCm packages', uploaded.find_links)}",
        "",
        f"{len(uploaded.files)} files in {code(uploaded.prefix)}.",
        "",
        *mini,
        f"```{'bat' if cell.platform == 'windows' else 'bash'}",
        *line.split("\n"),
        "```",
        "",
    ]


def _artifacts(cell: Cell, record: Record, plan: Plan) -> list[str]:
    uploaded = read(record, Uploaded)
    pytorch = cell.kind == "upload-pytorch"
    line = pip_install(wanted(uploaded.files), cell.platform, find_links=(PACKAGES,), pre=True)
    where = f"artifacts {code(f'rocwright.{cell.group}.*')} of this run"
    return [
        f"### {'PyTorch packages' if pytorch else 'ROCm packages'}",
        "",
        f"{len(uploaded.files)} files, in the {where}. With all of these unpacked in one folder:",
        "",
        *([MINIATURE, ""] if pytorch and plan.sources == "miniature" else []),
        f"```{'bat' if cell.platform == 'windows' else 'bash'}",
        *line.split("\n"),
        "```",
        "",
    ]


def pages_of(uploaded: Uploaded) -> tuple[str, ...]:
    """Pages with all that an upload needs: wheels of PyTorch need the ROCm packages besides."""
    page = uploaded.find_links
    base = page.partition(uploaded.prefix)[0] if uploaded.prefix else ""
    if not base or not uploaded.rocm or uploaded.rocm == uploaded.prefix:
        return (page,)
    return (page, f"{base}{uploaded.rocm}{page.rpartition('/')[2]}")


def _check(cell: Cell, record: Record, plan: Plan) -> list[str]:
    found = read(record, Checks)
    head = (
        f"### {'✅' if not found.errors else '❌'} Checks of {'ROCm' if cell.kind == 'check-rocm' else 'all'}"
    )
    lines = [f"{head} packages", "", f"{text(record.summary)}.", ""]
    if found.findings:
        lines += ["<details><summary>Findings</summary>", ""]
        lines += [f"* {text(one)}" for one in found.findings]
        lines += ["", "</details>", ""]
    return lines


def _tests(cell: Cell, record: Record, plan: Plan, pages: tuple[str, ...] = ()) -> list[str]:
    """`pages` are where people find the packages, if not where the tests did."""
    tests = read(record, Tests)
    lines = [f"### {code(cell.id)}", ""]
    if tests.find_links and "torch" in tests.installed:
        about = Tested(
            torch=tests.installed["torch"],
            python=cell.python,
            family=cell.family or cell.group,
            ref=cell.ref,
            platform=cell.platform,
            find_links=pages or tuple(filter(None, (tests.find_links, tests.rocm))),
            miniature=plan.sources == "miniature",
        )
        lines = test_report(about)
    suites = tests.every()
    lines += table(("", "Suite", "On", "Passed", "Failed", "Skipped"), map(_suite, suites)) if suites else []
    lines += [f"{text(record.summary)}.", ""]
    lines += [f"* {text(one.suite)}: {text(one.none)}" for one in suites if one.none]
    failures = [name for one in suites for name in one.verdicts.failures]
    lines += [f"* {code(name)}" for name in failures[:_FAILURES]]
    return lines + ([f"* {len(failures) - _FAILURES} more"] if len(failures) > _FAILURES else [])


def _suite(one: Suite) -> tuple[str, ...]:
    found = one.verdicts
    mark = (
        "⏭️ none to run"
        if one.none
        else "❌ failed"
        if found.failed
        else "✅ passed"
        if found.passed
        else "⏭️ skipped"
    )
    numbers = (str(found.passed), str(found.failed), str(found.skipped))
    return (mark if one.complete else "⚠️ no report", text(one.suite), text(one.where) or "host", *numbers)


def _stage(cell: Cell, record: Record, plan: Plan) -> list[str]:
    staged = read(record, Staged)
    if staged.why:
        return [f"### Set {code(staged.set_id[:12])} is not staged", "", f"{text(staged.why)}.", ""]
    name = link(f"Set {staged.set_id[:12]} in staging", staged.index_url)
    return [f"### {name}", "", f"{text(record.summary)}.", ""]


def _gate(cell: Cell, record: Record, plan: Plan) -> list[str]:
    return gate_lines(gate_of(record))


def gate_lines(gate: Gate) -> list[str]:
    """The decision and what each rule found."""
    head = "✅ The gate is open" if gate.promote else "⛔ The gate stays closed"
    rows = [("✅" if one.passed else "⛔", code(one.rule), text(one.reason)) for one in gate.rulings]
    return [
        f"### {head}: {text(gate.rule)}",
        "",
        text(gate.reason),
        "",
        *(table(("", "Rule", "Says"), rows) if rows else []),
    ]


def _promote(cell: Cell, record: Record, plan: Plan) -> list[str]:
    promoted = read(record, Promoted)
    if promoted.why:
        return [f"### Set {code(promoted.set_id[:12])} is not released", "", f"{text(promoted.why)}.", ""]
    mini = [MINIATURE, ""] if plan.sources == "miniature" else []
    name = link(f"Set {promoted.set_id[:12]} is released", promoted.index_url)
    return [f"### {name}", "", *mini, "```bash", promoted.pip_line, "```", ""]


def _ends(cell: Cell, record: Record, plan: Plan) -> list[str]:
    ends = read(record, Ends)
    meant = {one.id for one in plan.cells if plan.left_out(one)}
    # What was left out because something before it failed is no good end.
    bad = sum(
        end.state in ("failed", "missing", "blocked") or (end.state == "skipped" and id_ not in meant)
        for id_, end in ends.cells.items()
    )
    total = sum(ends.counts.values()) or len(ends.cells)
    head = f"❌ {bad} of {total} steps did not end well" if bad else "✅ The run is complete"
    rows = [
        (f"{_MARKS.get(end.state, '')} {end.state}", code(id_), text(end.why or end.summary))
        for id_, end in sorted(ends.cells.items(), key=lambda item: _ORDER.find(item[1].state))
    ]
    mini = [MINIATURE, ""] if plan.sources == "miniature" else []
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(ends.counts.items()))
    mini += [f"{counts}.", ""] if counts else []
    if not plan.publication.channels:
        mini += [f"Publishing: {text(publishing(plan))}.", ""]
    mini += [f"Compiler cache: {text(ends.caches)}.", ""] if ends.caches else []
    return [f"## {head}", "", *mini, *table(("", "Step", "Result"), rows)]


_ORDER = "failed missing blocked tolerated dry skipped done"
_MARKS = {
    "failed": "❌",
    "missing": "⚠️",
    "blocked": "⛔",
    "tolerated": "⚠️",
    "dry": "🔍",
    "skipped": "⏭️",
    "done": "✅",
}
_TOLD: dict[str, Callable[[Cell, Record, Plan], list[str]]] = {
    "check": _check,
    "check-rocm": _check,
    "gate": _gate,
    "promote": _promote,
    "stage": _stage,
    "summary": _ends,
    "test-emulated": _tests,
    "test-pip": _tests,
    "test-pytorch": _tests,
    "test-units": _tests,
    "test-rocm": _tests,
    "test-uv": _tests,
    "upload-pytorch": _upload,
    "upload-rocm": _upload,
}


# -- what a run is going to do: why it began, what is built, tested, for which PyTorch


def setup_summary(
    plan: Plan,
    *,
    trigger: str = "",
    highlights: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
) -> tuple[str, ...]:
    """Markdown: `trigger` in a line, `highlights` that differ from the profile, tables, `links` by name."""
    jobs = sum(not job.skip for job in plan.jobs)
    lines = [
        f"## {text(plan.profile)}: {jobs:,} jobs, {len(plan.cells):,} steps",
        "",
        *([text(trigger), ""] if trigger else []),
        *(f"* {text(one)}" for one in highlights),
        *([""] if highlights else []),
    ]
    if plan.sources == "miniature":
        lines += ["It builds the miniature family: stand-ins under the real names, not PyTorch.", ""]
    if not jobs:
        lines += ["There is nothing to do.", ""]
    lines += _builds(plan) + _tested(plan) + _pytorch(plan)
    lines += [f"Publishing: {text(publishing(plan))}.", ""]
    if plan.notes:
        lines += ["### Left out", "", *(f"* {text(note)}" for note in plan.notes), ""]
    if links:
        lines += [" · ".join(link(name, url) for name, url in links), ""]
    return cut(lines)


def _builds(plan: Plan) -> list[str]:
    packages = [cell for cell in plan.cells if cell.kind == "rocm-packages"]
    rows = [
        (
            cell.platform,
            code(cell.group),
            _some(plan.group(cell.group).targets),
            text(plan.rocm.told),
            _reason(cell) or "✅ yes",
        )
        for cell in packages
    ]
    head = ("Platform", "Group", "Targets", "ROCm", "Built")
    return ["### ROCm packages", "", *table(head, rows)] if rows else []


def _tested(plan: Plan) -> list[str]:
    tests: dict[tuple[str, str], list[Cell]] = {}
    for cell in plan.cells:
        if cell.family and cell.kind.startswith("test-"):
            tests.setdefault((cell.platform, cell.family), []).append(cell)
    rows = []
    for (platform, family), cells in tests.items():
        runners = dict.fromkeys(cell.runner for cell in cells if cell.runner)
        kinds = dict.fromkeys(cell.kind for cell in cells if not cell.skip)
        counted = [f"{kind} ({sum(cell.kind == kind and not cell.skip for cell in cells)})" for kind in kinds]
        why = next((cell.skip for cell in cells if cell.skip), "")
        scope = text(", ".join(counted)) if counted else f"⏭️ {text(why)}"
        on = "emulated" if "test-emulated" in kinds else "none"
        rows.append((platform, code(family), " ".join(map(code, runners)) or on, scope))
    return ["### Tests on GPUs", "", *table(("Platform", "Family", "Runner", "Scope"), rows)] if rows else []


def _pytorch(plan: Plan) -> list[str]:
    built: dict[tuple[str, str, str], dict[str, None]] = {}
    projects: dict[tuple[str, str, str], dict[str, None]] = {}
    for cell in plan.cells:
        kind, _, project = cell.kind.partition("-")
        if cell.kind.startswith(BUILD_EXTENSION):
            project = cell.settings["extension"]
        if kind == "build" and cell.ref:
            place = (cell.platform, cell.python, cell.ref)
            built.setdefault(place, {})[cell.group] = None
            projects.setdefault(place, {})[project] = None
    rows = [
        (platform, python, code(ref), _some(groups), text(" ".join(projects[platform, python, ref])))
        for (platform, python, ref), groups in built.items()
    ]
    head = ("Platform", "Python", "PyTorch ref", "Families", "Components")
    return ["### PyTorch", "", *table(head, rows)] if rows else []


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return " ".join(map(code, listed[:_NAMED])) + more


def _reason(cell: Cell) -> str:
    return f"⏭️ {text(cell.skip)}" if cell.skip else ""
