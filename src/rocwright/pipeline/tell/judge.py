"""Whether a run went well: tests that did not pass, and causes rather than consequences. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rocwright.errors import NotReady, RocwrightError, SuiteFailed
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.records import Record
from rocwright.pipeline.tell.results import Ends, Suite, Tests, read

_TESTS = "test-"
_FEW = 3
_BAD = ("failed", "blocked", "missing")


def failed_tests(record: Record) -> str:
    """What did not pass in a step of tests that came to its end, in a line; empty where all of it did.

    A suite of which nothing passed proves nothing, and one without a report has not ended.
    """
    if record.state != "done" or not record.cell.startswith(_TESTS):
        return ""
    return "; ".join(_told(suite) for suite in read(record, Tests).every() if not _good(suite))


def _good(suite: Suite) -> bool:
    return suite.complete and suite.verdicts.passed > 0 and suite.verdicts.failed == 0


def _told(suite: Suite) -> str:
    name = f"{suite.suite} on {suite.target}" if suite.target else suite.suite
    if not suite.complete:
        return f"{name} gave no report"
    if not suite.verdicts.failed:
        return f"{name}: nothing passed"
    first = suite.verdicts.failures[:1]
    return f"{name}: {suite.verdicts.failed} failed{f' ({first[0]})' if first else ''}"


def problems_of(
    plan: Plan, records: Mapping[str, Record], raised: Mapping[str, BaseException]
) -> dict[str, BaseException]:
    """What went wrong, by cell in the order of the plan: errors that were `raised`, and tests.

    A cell that was left out because of another one, and a summary that says so, count only where nothing else
    does: they are consequences.
    """
    causes: dict[str, BaseException] = {}
    others: dict[str, BaseException] = {}
    for cell in plan.cells:
        record = records.get(cell.id)
        if cell.id in raised:
            causes[cell.id] = raised[cell.id]
        elif record is not None and (tests := failed_tests(record)):
            causes[cell.id] = SuiteFailed(
                f"{cell.id}: tests did not pass: {tests}",
                next_step="see the reports and the log of that step",
            )
        elif record is not None and (problem := _consequence(cell, record)) is not None:
            others[cell.id] = problem
    return causes or others


def _consequence(cell: Cell, record: Record) -> RocwrightError | None:
    if record.state == "skipped" and not cell.skip:
        return NotReady(f"{cell.id} was not done: {record.why}", next_step="do that one again, then this one")
    ends = read(record, Ends) if cell.kind == "summary" and record.state == "done" else Ends()
    if ends.good:
        return None
    bad = [f"{id_} ({end.state})" for id_, end in ends.cells.items() if end.state in _BAD]
    more = f" and {len(bad) - _FEW} more" if len(bad) > _FEW else ""
    return RocwrightError(
        f"{len(bad)} steps of the run did not end well: {', '.join(bad[:_FEW])}{more}",
        next_step="rocwright pipeline show says how each of them ended",
    )
