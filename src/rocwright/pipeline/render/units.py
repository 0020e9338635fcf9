"""What one script or target stands for: a cell, or a job. Those that are left out of the run have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from rocwright.errors import UsageError
from rocwright.model.plan import Cell, Job, Plan

PLAN_FILE = "plan.json"


@dataclass(frozen=True)
class Unit:
    """`needs` are ids of units, each before this one; `last` runs also after what failed."""

    id: str
    needs: tuple[str, ...]
    cells: tuple[str, ...]
    last: bool
    gpu: bool


def units(plan: Plan, each: Literal["cell", "job"]) -> tuple[Unit, ...]:
    """In the plan's order. What needs a skipped one waits for what that one needs instead.

    Raises `UsageError` for cells of Windows, which neither a cluster nor make runs, and for an empty run.
    """
    there: Sequence[Cell | Job] = plan.cells if each == "cell" else plan.jobs
    if any(one.platform == "windows" and not one.skip for one in there):
        raise UsageError(
            "the run has steps of Windows, which run neither here nor on a cluster",
            next_step="plan it with --platforms linux; rocwright pipeline render --to github has both",
        )
    needs: dict[str, tuple[str, ...]] = {}
    skipped = {one.id for one in there if one.skip}
    for one in there:
        needs[one.id] = _present(one.needs, skipped, needs)
    found = tuple(
        Unit(
            id=one.id,
            needs=needs[one.id],
            cells=(one.id,) if isinstance(one, Cell) else _kept(plan, one),
            last=one.last,
            gpu=bool(one.runner),
        )
        for one in there
        if not one.skip
    )
    if not found:
        raise UsageError("the run has nothing to do", next_step="rocwright pipeline plan says why")
    return found


def _present(
    needs: Sequence[str], skipped: set[str], before: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Needs with those of skipped ones in their place."""
    return tuple(
        dict.fromkeys(
            each for need in needs for each in (before[need] if need in skipped else (need,)) if each
        )
    )


def _kept(plan: Plan, job: Job) -> tuple[str, ...]:
    return tuple(cell.id for cell in plan.cells_of(job.id) if not cell.skip)


def plan_text(plan: Plan) -> str:
    """The plan as the rendered commands read it."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1).decode() + "\n"
