"""What a cell would do and change, without doing it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

import msgspec

from rocwright.engine.graph import Step
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.cells.inputs import inputs_digest
from rocwright.pipeline.records.values import SCHEMA, Machine, Record
from rocwright.pipeline.records.written import done_key
from rocwright.store.layout import run_folder


def dry_record(
    plan: Plan, cell: Cell, machine: Machine, steps: Sequence[Step], needs: Mapping[str, Record]
) -> Record:
    """A record that goes nowhere: `summary` says what would be done, `why` why it was not."""
    why = "only shown (--dry-run)" if machine.dry_run else plan.publication.why
    inputs = _inputs(plan, cell, machine, steps, needs)
    known = bool(inputs) and machine.store.exists(done_key(plan.run_id, cell.id, inputs))
    return Record(
        schema=SCHEMA,
        cell=cell.id,
        inputs=inputs,
        state="dry",
        value=msgspec.Raw(b"null"),
        outputs=(),
        summary="nothing: its result is there" if known else would(plan, cell, machine, steps),
        wall_s=0.0,
        by=f"{platform.node()}, process {os.getpid()}",
        why=why,
    )


def would(plan: Plan, cell: Cell, machine: Machine, steps: Sequence[Step]) -> str:
    """In a line: its steps, and what it would change outside of this machine."""
    line = f"would run {', '.join(step.id for step in steps)}"
    if cell.changes == "run":
        kind = "python" if cell.kind == "upload-rocm" else "pytorch"
        folder = run_folder(plan.run_id, cell.platform or "linux")
        line += f"; would upload to {machine.store.url(f'{folder}{kind}/{cell.group}/')}"
    elif cell.changes == "channel":
        channel = cell.settings.get("channel", "")
        allowed = plan.publication.channels
        line += f"; would list in the channel {channel}" if allowed else f"; not in the channel {channel}"
        line += "" if allowed else f" ({plan.publication.why})"
    return line


def _inputs(
    plan: Plan, cell: Cell, machine: Machine, steps: Sequence[Step], needs: Mapping[str, Record]
) -> str:
    """The digest of what decides the result, where that is known; else empty."""
    if not cell.last and any(id_ not in needs or needs[id_].state != "done" for id_ in cell.needs):
        return ""
    return inputs_digest(cell, plan, steps, needs, machine)
