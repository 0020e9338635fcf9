"""A plan from afar: jobs of one name as one, where they write, what is left out, a Mermaid chart. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rocwright.model.channels import Channels
from rocwright.model.plan import Cell, Changes, Job, Plan
from rocwright.store.layout import Kind, channel_prefix, run_prefix

# What the cells that upload call their packages in the store.
_PACKAGES: dict[str, Kind] = {"upload-rocm": "python", "upload-pytorch": "pytorch"}
# More jobs than this are drawn as one for each name and platform.
_MANY = 40
_SHAPES: dict[Changes, tuple[str, str]] = {
    "nothing": ("[", "]"),
    "run": ("([", "])"),
    "channel": ("{{", "}}"),
}


class Folded(msgspec.Struct, frozen=True):
    """Jobs of one name on one platform: how many, their steps in order, whose results they wait for."""

    name: str
    platform: str
    jobs: tuple[str, ...]
    skipped: int
    steps: int
    kinds: tuple[str, ...]
    needs: tuple[str, ...]
    changes: Changes


class Destination(msgspec.Struct, frozen=True):
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


class _Node(msgspec.Struct, frozen=True):
    id: str
    platform: str
    lines: tuple[str, ...]
    changes: Changes
    skipped: bool
    needs: tuple[str, ...]


def mermaid(plan: Plan) -> str:
    """Jobs as boxes, one frame for each platform; lines that others imply are left out.

    Rounded boxes upload to the run's folder, hexagons change a channel, dashed boxes are left out.
    """
    nodes = _jobs(plan) if len(plan.jobs) <= _MANY else _names(plan)
    words = {node.id: f"n{number}" for number, node in enumerate(nodes)}
    text = ["flowchart LR"]
    for platform in dict.fromkeys(node.platform for node in nodes):
        inside = [node for node in nodes if node.platform == platform]
        if not platform:
            text += [f"  {_box(node, words[node.id])}" for node in inside]
            continue
        text.append(f'  subgraph {platform}["{platform}"]')
        text += [f"    {_box(node, words[node.id])}" for node in inside]
        text.append("  end")
    needs = _without_implied({node.id: node.needs for node in nodes})
    text += [f"  {words[need]} --> {words[id_]}" for id_, held in needs.items() for need in held]
    if skipped := [words[node.id] for node in nodes if node.skipped]:
        text += ["  classDef out stroke-dasharray: 4 4", f"  class {','.join(skipped)} out"]
    return "\n".join(text) + "\n"


def _jobs(plan: Plan) -> list[_Node]:
    cells = {cell.id: cell for cell in plan.cells}
    ids = {job.id for job in plan.jobs}
    return [
        _Node(
            id=job.id,
            platform=job.platform,
            lines=(job.name, *_place(job.id), *((job.skip,) if job.skip else ())),
            changes=_changes([cells[id_] for id_ in job.cells]),
            skipped=bool(job.skip),
            needs=tuple(need for need in job.needs if need in ids),
        )
        for job in plan.jobs
    ]


def _place(id_: str) -> tuple[str, ...]:
    """What stands in an id behind the job and the platform, which the frame says."""
    words = id_.split("/")[2:]
    return (" / ".join(words),) if words else ()


def _names(plan: Plan) -> list[_Node]:
    """One box for each name and platform, with the number of its jobs."""
    found = folded(plan)
    of_job = {id_: f"{one.platform}/{one.name}" for one in found for id_ in one.jobs}
    needs: dict[str, dict[str, None]] = {}
    for job in plan.jobs:
        own = of_job[job.id]
        held = needs.setdefault(own, {})
        held.update(dict.fromkeys(of_job[need] for need in job.needs if of_job.get(need, own) != own))
    return [
        _Node(
            id=f"{one.platform}/{one.name}",
            platform=one.platform,
            lines=(one.name, *_count(len(one.jobs), one.skipped)),
            changes=one.changes,
            skipped=one.skipped == len(one.jobs),
            needs=tuple(needs[f"{one.platform}/{one.name}"]),
        )
        for one in found
    ]


def _count(jobs: int, skipped: int) -> tuple[str, ...]:
    if jobs == 1:
        return ("left out",) if skipped else ()
    return (f"{jobs} jobs, {skipped} left out" if skipped else f"{jobs} jobs",)


def _box(node: _Node, word: str) -> str:
    opening, closing = _SHAPES[node.changes]
    return f'{word}{opening}"{"<br/>".join(map(_escaped, node.lines))}"{closing}'


def _escaped(text: str) -> str:
    """As Mermaid has it: any character by its number, between # and ;."""
    return "".join(char if char.isalnum() or char in " _-./+,:" else f"#{ord(char)};" for char in text)


def _without_implied(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Without the needs that other needs have anyway."""
    above: dict[str, set[str]] = {}

    def before(id_: str) -> set[str]:
        if id_ not in above:
            above[id_] = set()
            for need in needs[id_]:
                above[id_] |= {need, *before(need)}
        return above[id_]

    return {
        id_: [need for need in held if not any(need in before(other) for other in held if other != need)]
        for id_, held in needs.items()
    }
