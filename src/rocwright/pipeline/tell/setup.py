"""What a run is going to do, for its first page: why it began, what is built, tested, for which PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.tell.state import publishing
from rocwright.system.markdown import cell as text
from rocwright.system.markdown import code, cut, link, table

# Of a long list in a cell of a table.
_NAMED = 12


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
        lines += ["Nothing is to be done.", ""]
    lines += _builds(plan) + _tests(plan) + _pytorch(plan)
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
            text(_rocm(plan)),
            _reason(cell) or "✅ yes",
        )
        for cell in packages
    ]
    head = ("Platform", "Group", "Targets", "ROCm", "Built")
    return ["### ROCm packages", "", *table(head, rows)] if rows else []


def _rocm(plan: Plan) -> str:
    rocm = plan.rocm
    if rocm.kind == "distribution":
        return "of the distribution"
    of = f" of {rocm.repository}" if rocm.repository else ""
    if rocm.kind == "prefix":
        return f"prefix {rocm.at}"
    return f"{rocm.kind} of run {rocm.at}{of}"


def _tests(plan: Plan) -> list[str]:
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
        rows.append((platform, code(family), " ".join(map(code, runners)) or "none", scope))
    return ["### Tests on GPUs", "", *table(("Platform", "Family", "Runner", "Scope"), rows)] if rows else []


def _pytorch(plan: Plan) -> list[str]:
    built: dict[tuple[str, str, str], dict[str, None]] = {}
    projects: dict[tuple[str, str, str], dict[str, None]] = {}
    for cell in plan.cells:
        kind, _, project = cell.kind.partition("-")
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
