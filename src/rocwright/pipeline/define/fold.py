"""A plan from afar: jobs of one name on a platform as one, where they write, what is left out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocwright.model.channels import Channels
from rocwright.model.plan import Cell, Changes, Job, Plan
from rocwright.store.layout import Kind, channel_prefix, run_prefix

# What the cells that upload call their packages in the store.
_PACKAGES: dict[str, Kind] = {"upload-rocm": "python", "upload-pytorch": "pytorch"}


@dataclass(frozen=True)
class Folded:
    """Jobs of one name on one platform: how many, their steps in order, whose results they wait for."""

    name: str
    platform: str
    jobs: tuple[str, ...]
    skipped: int
    steps: int
    kinds: tuple[str, ...]
    needs: tuple[str, ...]
    changes: Changes


@dataclass(frozen=True)
class Destination:
    """A place in the store that a cell writes to; `held` says why it does not."""

    cell: str
    place: str
    held: str = ""


def folded(plan: Plan) -> tuple[Folded, ...]:
    """Each name of a job once for each platform, in the order of the plan."""
    cells = {cell.id: cell for cell in plan.cells}
    names = {job.id: job.name for job in plan.jobs}
    places: dict[tuple[str, str], list[Job]] = {}
    for job in plan.jobs:
        places.setdefault((job.platform, job.name), []).append(job)
    found = []
    for (platform, name), jobs in sorted(places.items(), key=lambda place: _platform_order(place[0][0])):
        held = [cells[id_] for job in jobs for id_ in job.cells]
        needs = dict.fromkeys(names[need] for job in jobs for need in job.needs if need in names)
        found.append(
            Folded(
                name=name,
                platform=platform,
                jobs=tuple(job.id for job in jobs),
                skipped=sum(bool(job.skip) for job in jobs),
                steps=len(held),
                kinds=tuple(dict.fromkeys(cell.kind for cell in held)),
                needs=tuple(needs),
                changes=_changes(held),
            )
        )
    return tuple(found)


def _platform_order(platform: str) -> tuple[bool, str]:
    """What is on no platform stands last: it waits for all."""
    return (platform == "", platform)


def _changes(cells: Sequence[Cell]) -> Changes:
    order: tuple[Changes, ...] = ("nothing", "run", "channel")
    return max((cell.changes for cell in cells), key=order.index)


def destinations(plan: Plan, channels: Channels) -> tuple[Destination, ...]:
    """Where each cell that changes something writes, or why it does not.

    Raises `InvalidInput` for a channel that is none.
    """
    publication = plan.publication
    found = []
    for cell in plan.cells:
        if cell.kind in _PACKAGES and cell.changes == "run":
            place = run_prefix(plan.run_id, cell.platform, _PACKAGES[cell.kind], cell.group)
            found.append(Destination(cell.id, place, "" if publication.upload else publication.why))
        elif cell.changes == "channel":
            channel = channels.named(cell.settings["channel"])
            place = channel_prefix(channel.prefix, cell.group)
            found.append(Destination(cell.id, place, "" if publication.channels else publication.why))
    return tuple(found)


def left_out(plan: Plan) -> dict[str, int]:
    """How many cells are skipped, by the reason."""
    found: dict[str, int] = {}
    for cell in plan.cells:
        if cell.skip:
            found[cell.skip] = found.get(cell.skip, 0) + 1
    return found
