"""The last step of a run: how all of its cells ended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.records import ENDED, NeedEnd, Record, run_records
from rocwright.pipeline.tell.results import caches_of, failed_tests


class RunSummary(msgspec.Struct, frozen=True):
    """How a run ended; `good` when nothing failed, is missing, or was left out because something else failed.

    `cells` are those that nothing waits for and those that did not end well, by id; `counts` is over all.
    `caches` is what compiler caches did, for people.
    """

    good: bool
    cells: dict[str, NeedEnd]
    counts: dict[str, int] = {}
    caches: str = ""


def summary_step(options: RunOptions, plan: Plan) -> Step:
    """`summary`: reads every record of the run, whatever became of it; changes nothing and never fails."""

    @cache
    def records() -> dict[str, Record]:
        return run_records(options.store, plan.run_id)

    @cache
    def ends() -> dict[str, NeedEnd]:
        return ends_of(plan, records())

    def act(inputs: Inputs, note: Note) -> RunSummary:
        told = caches_of(record for id_, record in records().items() if id_ in ends())
        return msgspec.structs.replace(summarized(plan, ends()), caches=told.line)

    return Step(
        id="summary",
        result=RunSummary,
        act=act,
        needs=(ENDED,),
        # The record of a cell that is done again is new, and how it ended may be the same.
        facts=lambda: {id_: [end.state, end.why] for id_, end in ends().items()},
        summary=_summary,
    )


def ends_of(plan: Plan, found: Mapping[str, Record]) -> dict[str, NeedEnd]:
    """How every cell but the summary ended, by id. Tests that did not pass are a failure."""
    ends: dict[str, NeedEnd] = {}
    for cell in plan.cells:
        if cell.kind != "summary":
            ends[cell.id] = _end(plan, cell, found.get(cell.id))
    return ends


def _end(plan: Plan, cell: Cell, record: Record | None) -> NeedEnd:
    if record is None:
        why = plan.left_out(cell)
        return NeedEnd("skipped", why=why) if why else NeedEnd("missing")
    if tests := failed_tests(record):
        return NeedEnd("failed", record.summary, tests)
    return NeedEnd(record.state, record.summary, "" if record.state == "done" else record.why)


def summarized(plan: Plan, ends: Mapping[str, NeedEnd]) -> RunSummary:
    """Count, and keep what people need to see."""
    waited = {need for cell in plan.cells if cell.kind != "summary" for need in cell.needs}
    meant = {cell.id for cell in plan.cells if plan.left_out(cell)}
    counts: dict[str, int] = {}
    shown: dict[str, NeedEnd] = {}
    good = True
    for id_, end in ends.items():
        end = _weighed(end, meant=id_ in meant, spare=id_ in plan.spare)
        counts[end.state] = counts.get(end.state, 0) + 1
        bad = end.state in ("failed", "missing", "blocked")
        good = good and not bad
        if bad or end.state == "tolerated" or id_ not in waited:
            shown[id_] = end
    return RunSummary(good, shown, counts)


def _weighed(end: NeedEnd, *, meant: bool, spare: bool) -> NeedEnd:
    """A cell's end for the run: it was `meant` to be left out, or the run does without it (`spare`)."""
    blocked = end.state == "skipped" and not meant
    if spare and (blocked or end.state == "failed"):
        return msgspec.structs.replace(end, state="tolerated")
    return msgspec.structs.replace(end, state="blocked") if blocked else end


def _summary(value: RunSummary) -> str:
    told = ", ".join(f"{count} {state}" for state, count in sorted(value.counts.items())) or "nothing to tell"
    return f"{told}; compiler cache: {value.caches}" if value.caches else told
