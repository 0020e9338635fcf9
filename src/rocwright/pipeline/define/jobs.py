"""From cells to jobs: what one machine does, one cell after the other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter

from rocwright.errors import InvalidInput
from rocwright.model.plan import Cell, Job
from rocwright.pipeline.define.cells import cell_id
from rocwright.pipeline.define.kinds import AXES

_PLACE = attrgetter("job", *AXES)


def make_jobs(cells: Sequence[Cell]) -> tuple[Job, ...]:
    """Cells of one job and place together, each job after those it needs.

    Raises `InvalidInput` where two jobs have one id, and where jobs would wait for each other.
    """
    places: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        places.setdefault(_PLACE(cell), []).append(cell)
    ids = {place: cell_id(place[0], dict(zip(AXES, place[1:], strict=True))) for place in places}
    job_of = {cell.id: ids[place] for place, held in places.items() for cell in held}
    jobs: dict[str, Job] = {}
    for place, held in places.items():
        if ids[place] in jobs:
            raise InvalidInput(f"two jobs of this run are called {ids[place]}")
        jobs[ids[place]] = _job(ids[place], held, job_of)
    return _in_order(jobs)


def _job(id_: str, held: Sequence[Cell], job_of: Mapping[str, str]) -> Job:
    first = held[0]
    needs = dict.fromkeys(job_of[need] for cell in held for need in cell.needs)
    needs.pop(id_, None)
    return Job(
        id=id_,
        name=first.job,
        platform=first.platform,
        group=first.group,
        python=first.python,
        ref=first.ref,
        part=first.part,
        family=first.family,
        cells=tuple(cell.id for cell in held),
        needs=tuple(needs),
        last=any(cell.last for cell in held),
        runner=next((cell.runner for cell in held if cell.runner), ""),
        skip=first.skip if all(cell.skip for cell in held) else "",
    )


def _in_order(jobs: Mapping[str, Job]) -> tuple[Job, ...]:
    order = TopologicalSorter({id_: job.needs for id_, job in jobs.items()})
    try:
        return tuple(jobs[id_] for id_ in order.static_order())
    except CycleError as error:
        raise InvalidInput(
            f"these jobs wait for each other: {' -> '.join(error.args[1])}",
            next_step="give kinds of steps that stand between others a job of their own",
        ) from None
