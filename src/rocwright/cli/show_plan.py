"""A plan, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.model.channels import Channels
from rocwright.model.plan import Plan
from rocwright.pipeline.define.overview import Destination, destinations, folded, left_out
from rocwright.system import console

# Places that are listed one by one.
_FEW = 12


def show_plan(plan: Plan, channels: Channels) -> None:
    """Jobs by name and platform, what is left out and why, what would be uploaded and published."""
    rows = [
        (
            one.name,
            one.platform,
            str(len(one.jobs)),
            str(one.steps),
            " ".join(one.kinds),
            " ".join(one.needs),
        )
        for one in folded(plan)
    ]
    title = f"Run {plan.run_id} of the profile {plan.profile}: {_count(len(plan.cells), 'step')}"
    title += f" in {_count(len(plan.jobs), 'job')}"
    head = ("job", "platform", "jobs", "steps", "what it does, in order", "after")
    console.table(title, head, rows, right=(2, 3))
    for note in plan.notes:
        console.out(f"note: {note}")
    skipped = left_out(plan)
    if skipped:
        console.out("")
        out = [(str(count), why) for why, count in skipped.items()]
        console.table("Left out", ("steps", "why"), out, right=(0,))
    console.out("")
    _show_destinations(destinations(plan, channels))


def _show_destinations(found: Sequence[Destination]) -> None:
    writes = [one for one in found if not one.held]
    held: dict[str, list[Destination]] = {}
    for one in found:
        if one.held:
            held.setdefault(one.held, []).append(one)
    if writes:
        console.table("What would be written", ("place in the store", "by"), _places(writes))
    for why, kept in held.items():
        if writes:
            console.out("")
        console.out(f"Not written: {why}")
        console.table("", ("place in the store", "by"), _places(kept))
    if not found:
        console.out("Nothing is uploaded or published.")


def _places(found: Sequence[Destination]) -> list[tuple[str, str]]:
    if len(found) <= _FEW:
        return [(one.place, one.cell) for one in found]
    # All groups of a kind of package, or of a channel, in one line.
    groups: dict[tuple[str, str], list[str]] = {}
    for one in found:
        folder, _, group = one.place.rstrip("/").rpartition("/")
        groups.setdefault((f"{folder}/GROUP/", one.cell.split("/")[0]), []).append(group)
    return [
        (place, f"{kind}: {_count(len(held), 'step')} for {_count(len(set(held)), 'group')}")
        for (place, kind), held in groups.items()
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
