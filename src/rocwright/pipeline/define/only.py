"""A part of a plan: the cells whose ids fit a pattern. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from rocwright.model.plan import Plan, unknown_step

# Ids that a note names.
_FEW = 8


def chosen(plan: Plan, globs: Sequence[str]) -> Plan:
    """The plan with those cells only whose id, or whose job's, fits one of `globs`.

    They keep their needs; what is needed and not chosen is taken from the records of the run, and a note says
    so. Raises `InvalidInput` naming near ids for a pattern that nothing fits.
    """
    held: set[str] = set()
    for glob in globs:
        fits = {cell.id for cell in plan.cells if fnmatchcase(cell.id, glob)}
        fits |= {id_ for job in plan.jobs if fnmatchcase(job.id, glob) for id_ in job.cells}
        if not fits:
            kinds = dict.fromkeys(f"{cell.kind}/*" for cell in plan.cells)
            raise unknown_step(glob, [*kinds, *(cell.id for cell in plan.cells)])
        held |= fits
    cells = tuple(cell for cell in plan.cells if cell.id in held)
    jobs = tuple(
        msgspec.structs.replace(job, cells=kept)
        for job in plan.jobs
        if (kept := tuple(id_ for id_ in job.cells if id_ in held))
    )
    taken = dict.fromkeys(need for cell in cells for need in cell.needs if need not in held)
    notes = plan.notes
    if taken:
        few = " ".join(list(taken)[:_FEW])
        more = f" and {len(taken) - _FEW} more" if len(taken) > _FEW else ""
        notes = (*notes, f"taken from the records of the run, not done: {few}{more}")
    return msgspec.structs.replace(plan, cells=cells, jobs=jobs, notes=notes)
